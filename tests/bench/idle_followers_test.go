package bench

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// BenchmarkIdleFollowers has 10,000 followers of as many sessions without writers, and reports what each costs in
// memory, with its goroutine, what all cost of a processor core, without the server, and the connections beside
// the pool's. An iteration is ten seconds of idling: -benchtime 1x.
func BenchmarkIdleFollowers(b *testing.B) {
	const count = 10_000
	store := pgtest.NewStore(b, agentstore.Options{})
	pgtest.Exec(b, store.Pool(), `WITH made AS (INSERT INTO sessions (id) SELECT gen_random_uuid() FROM generate_series(1, $1) RETURNING id)
		INSERT INTO session_counters (session_id) SELECT id FROM made`, count)
	rows, _ := store.Pool().Query(b.Context(), "SELECT id FROM sessions") // whose error CollectRows returns
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil || len(ids) != count {
		b.Fatalf("%d sessions, %v", len(ids), err)
	}
	before := memory()
	following, stop := context.WithCancel(b.Context())
	var followers sync.WaitGroup
	for _, id := range ids {
		followers.Go(func() {
			for _, err := range store.Sessions().Follow(following, repo.ID(id), 0) {
				if following.Err() == nil {
					b.Errorf("an idle follower got a message, or %v", err)
				}
				return
			}
		})
	}
	defer followers.Wait()
	defer stop()
	time.Sleep(5 * time.Second) // until all wait
	each := float64(memory()-before) / count
	var connections int
	if err := store.Pool().QueryRow(b.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").Scan(&connections); err != nil {
		b.Fatal(err)
	}
	connections -= int(store.Pool().Stat().TotalConns())
	used, begun := processor(b), time.Now()
	for b.Loop() {
		time.Sleep(10 * time.Second)
	}
	b.ReportMetric(100*float64(processor(b)-used)/float64(time.Since(begun)), "%core")
	b.ReportMetric(each, "B/follower")
	b.ReportMetric(float64(connections), "connections")
}

// memory returns the bytes of the heap and of stacks that are in use.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// processor returns the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
