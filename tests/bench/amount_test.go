package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// appendTimes has writers append for a while, each to one of the sessions after the other, and returns
// how many appends were made a second, and what half of them took at most.
func appendTimes(b *testing.B, store *agentstore.Store, sessions []repo.ID, writers int) (perSecond float64, half time.Duration) {
	b.Helper()
	const during = 10 * time.Second
	ctx, stop := context.WithTimeout(b.Context(), during)
	defer stop()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			var times []time.Duration
			for n := w; ctx.Err() == nil; n += writers {
				began := time.Now()
				if _, err := store.Sessions().Append(ctx, sessions[n%len(sessions)], message()); err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						b.Error(err)
					}
					break
				}
				times = append(times, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
		})
	}
	group.Wait()
	slices.Sort(all)
	return float64(len(all)) / during.Seconds(), all[len(all)/2]
}

// BenchmarkAmongMany measures appends to 1,000 sessions of an empty store, and to 1,000 of one that is full:
// AGENTSTORE_BENCH_MESSAGES is how many messages it has. It also prints sizes, and how long a vacuum takes.
func BenchmarkAmongMany(b *testing.B) {
	messages := removalMessages(b)
	for _, full := range []bool{false, true} {
		store, name := pgtest.NewStore(b, agentstore.Options{MaxConns: 16}), "empty"
		var sessions []repo.ID
		if full {
			name = "full"
			began := time.Now()
			fillRemoval(b, store, messages)
			b.Logf("filled in %v", time.Since(began).Round(time.Second))
			for _, id := range pgtest.Value[[][16]byte](b, store.Pool(), "SELECT array_agg(id) FROM (SELECT id FROM sessions ORDER BY id LIMIT 1000) s") {
				sessions = append(sessions, id)
			}
		} else {
			sessions = newSessions(b, store, 1000)
		}
		appendTimes(b, store, sessions, 16) // the pages are read
		for writers, unit := range map[int]string{1: "-1-writer", 64: "-64-writers"} {
			perSecond, half := appendTimes(b, store, sessions, writers)
			b.ReportMetric(perSecond, name+unit+"-appends/s")
			b.ReportMetric(float64(half.Microseconds()), name+unit+"-p50-µs")
		}
		if !full {
			continue
		}
		for _, table := range []string{"messages", "session_counters", "session_activity", "sessions"} {
			b.Logf("%s: %s with indexes %s", table, pgtest.Value[string](b, store.Pool(), "SELECT pg_size_pretty(pg_relation_size($1::text::regclass))", table),
				pgtest.Value[string](b, store.Pool(), "SELECT pg_size_pretty(pg_indexes_size($1::text::regclass))", table))
		}
		began := time.Now()
		pgtest.Exec(b, store.Pool(), "VACUUM messages, session_counters, session_activity, sessions")
		b.Logf("a vacuum after the appends: %v", time.Since(began).Round(time.Millisecond))
	}
}
