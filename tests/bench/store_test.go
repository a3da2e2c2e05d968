package bench

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// message returns a message of a typical size, 300 bytes.
func message() repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: strings.Repeat("ten bytes.", 30)}
}

func newSessions(b *testing.B, store repo.Repositories, count int) []repo.ID {
	b.Helper()
	ids := make([]repo.ID, count)
	for i := range ids {
		ids[i] = pgtest.NewSession(b, store)
	}
	return ids
}

// newLongSession makes a session with this many messages.
func newLongSession(b *testing.B, store *agentstore.Store, length int) repo.ID {
	b.Helper()
	id := newSessions(b, store, 1)[0]
	for _, sql := range []string{
		`INSERT INTO messages (session_id, sequence, id, role, content)
			SELECT $1, n, gen_random_uuid(), 'user', repeat('ten bytes.', 30) FROM generate_series(0, $2::bigint - 1) n`,
		`UPDATE session_counters SET next_sequence = $2 WHERE session_id = $1`,
	} {
		if _, err := store.Pool().Exec(b.Context(), sql, pgtype.UUID{Bytes: id, Valid: true}, length); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := store.Pool().Exec(b.Context(), "VACUUM ANALYZE messages"); err != nil {
		b.Fatal(err)
	}
	return id
}

// together calls do b.N times, divided among writers.
func together(b *testing.B, writers int, do func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	var all sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		all.Go(func() {
			for i := w; i < b.N; i += writers {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}

// reportTimes reports the median and the 99th percentile.
func reportTimes(b *testing.B, what string, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	milliseconds := func(quantile float64) float64 {
		return float64(times[int(float64(len(times)-1)*quantile)].Microseconds()) / 1000
	}
	b.ReportMetric(milliseconds(0.5), what+"p50-ms")
	b.ReportMetric(milliseconds(0.99), what+"p99-ms")
}
