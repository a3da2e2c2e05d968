package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A view looks a session's namespace up once. Both ways take turns, so that what else the machine does
// is the same for both; the result is the ratio of their times.
func BenchmarkAppendInView(b *testing.B) {
	const sessions, round = 1000, 1000
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			whole := pgtest.NewStore(b, agentstore.Options{})
			view := whole.In("tenant")
			stores := []repo.Store{whole, view}
			ids := [][]repo.ID{newSessions(b, whole, sessions), newSessions(b, view, sessions)}
			var took [2]time.Duration
			b.ResetTimer()
			for done := 0; done < b.N; done += round {
				for turn := range 2 {
					way := (turn + done/round) % 2
					begin := time.Now()
					var all sync.WaitGroup
					for w := range writers {
						all.Go(func() {
							for i := w; i < round; i += writers {
								if _, err := stores[way].Sessions().Append(b.Context(), ids[way][i%sessions], message()); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					all.Wait()
					took[way] += time.Since(begin)
				}
			}
			b.ReportMetric(float64(took[1])/float64(took[0]), "viewed/whole")
		})
	}
}
