package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// removalMessages is how many messages there are, 100 in each session: AGENTSTORE_BENCH_MESSAGES.
func removalMessages(b *testing.B) int {
	b.Helper()
	n, err := strconv.Atoi(os.Getenv("AGENTSTORE_BENCH_MESSAGES"))
	if err != nil {
		return 100_000
	}
	return n
}

// fillRemoval makes sessions with 100 messages each. The even ones are of the namespace old and were idle for a year; the owner of
// about 1,000 of them is the person.
func fillRemoval(b *testing.B, store *agentstore.Store, messages int) (owned int) {
	b.Helper()
	pgtest.Exec(b, store.Pool(), `INSERT INTO sessions (id, namespace, owner, created_at, updated_at)
		SELECT gen_random_uuid(), CASE n % 2 WHEN 0 THEN 'old' ELSE 'new' END, CASE WHEN n % greatest($1::int / 1000, 2) = 1 THEN 'person' ELSE 'owner/' || n % 1000 END,
			now() - interval '1 year', now() - interval '1 year' FROM generate_series(1, $1::int) n`, messages/100)
	pgtest.Exec(b, store.Pool(), "INSERT INTO session_counters (session_id, next_sequence, updated_at) SELECT id, 100, updated_at FROM sessions")
	pgtest.Exec(b, store.Pool(), "INSERT INTO session_activity (session_id, namespace, owner, active_at) SELECT id, namespace, owner, updated_at FROM sessions")
	pgtest.Exec(b, store.Pool(), `INSERT INTO messages (session_id, sequence, id, role, content)
		SELECT s.id, n, gen_random_uuid(), 'user', repeat('x', 200) FROM sessions s, generate_series(0, 99) n`)
	pgtest.Exec(b, store.Pool(), "VACUUM ANALYZE")
	return pgtest.Value[int](b, store.Pool(), "SELECT count(*) FROM sessions WHERE owner = 'person'")
}

// BenchmarkRetention measures appends of 16 writers with 100 followers for 30 s before a run of retention, and during it, and
// prints the sizes after a vacuum.
func BenchmarkRetention(b *testing.B) {
	store := pgtest.NewStore(b, agentstore.Options{MaxConns: 32})
	messages := removalMessages(b)
	fillRemoval(b, store, messages)
	busy := newSessions(b, store, 16)
	ctx, stop := context.WithCancel(b.Context())
	var ends sync.WaitGroup
	for i := range 100 {
		ends.Go(func() {
			for _, err := range store.Sessions().Follow(ctx, busy[i%len(busy)], 0) {
				if err != nil {
					return
				}
			}
		})
	}
	var mu sync.Mutex
	var times []time.Duration
	var appends atomic.Int64
	for i := range busy {
		ends.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if _, err := store.Sessions().Append(ctx, busy[i], message()); err != nil {
					if !errors.Is(err, context.Canceled) && ctx.Err() == nil {
						b.Error(err)
					}
					return
				}
				appends.Add(1)
				mu.Lock()
				times = append(times, time.Since(began))
				mu.Unlock()
			}
		})
	}
	phase := func(what string, do func()) {
		mu.Lock()
		times = nil
		mu.Unlock()
		began, before := time.Now(), appends.Load()
		do()
		took := time.Since(began)
		mu.Lock()
		sorted := slices.Clone(times)
		mu.Unlock()
		slices.Sort(sorted)
		b.ReportMetric(float64(appends.Load()-before)/took.Seconds(), what+"-appends/s")
		b.ReportMetric(float64(sorted[len(sorted)*99/100])/1e6, what+"-p99-ms")
	}
	phase("before", func() { time.Sleep(30 * time.Second) })
	phase("during", func() {
		began := time.Now()
		report, err := retention.Run(b.Context(), store, retention.Policy{Sessions: map[string]time.Duration{"old": 24 * time.Hour}})
		if err != nil || report.Messages != int64(messages/200*100) {
			b.Errorf("%+v, %v", report, err)
		}
		b.ReportMetric(float64(report.Messages)/time.Since(began).Seconds(), "removed-messages/s")
	})
	stop()
	ends.Wait()
	for _, when := range []string{"before a vacuum", "after it"} {
		b.Logf("%s: messages %s with indexes %s", when, pgtest.Value[string](b, store.Pool(), "SELECT pg_size_pretty(pg_relation_size('messages'))"),
			pgtest.Value[string](b, store.Pool(), "SELECT pg_size_pretty(pg_indexes_size('messages'))"))
		pgtest.Exec(b, store.Pool(), "VACUUM messages")
	}
}

// BenchmarkErasure measures the erasure of an owner with up to 1,000 sessions.
func BenchmarkErasure(b *testing.B) {
	store := pgtest.NewStore(b, agentstore.Options{})
	owned := fillRemoval(b, store, removalMessages(b))
	b.ResetTimer()
	receipt, err := erase.Subject(b.Context(), store, erase.Request{Owner: "person", Actors: []string{"person"}, Key: []byte("sixteen bytes or")})
	b.StopTimer()
	if err != nil || receipt.Sessions != int64(owned) || receipt.Messages != int64(owned)*100 {
		b.Errorf("%d sessions: %+v, %v", owned, receipt, err)
	}
	b.ReportMetric(float64(receipt.Sessions), "sessions")
}
