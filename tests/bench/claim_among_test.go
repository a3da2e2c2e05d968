package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A claim takes as long among many plans, finished and queued, as among few. What was
// claimed is queued again, so that there are as many for each claim.
func BenchmarkClaimAmong(b *testing.B) {
	for _, among := range []struct{ finished, queued int }{{1_000, 1_000}, {1_000_000, 100_000}} {
		b.Run(fmt.Sprintf("finished=%d,queued=%d", among.finished, among.queued), func(b *testing.B) {
			p := newPlans(b).(plans)
			pgtest.Exec(b, p.store.Pool(), `INSERT INTO plans (id, namespace, action_name, root_id, phase, state)
				SELECT m.id, $1, 'local/work', m.id, 'apply', 'applied' FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $2::integer)) AS m`,
				repo.DefaultNamespace, among.finished)
			p.fill(b, among.queued)
			b.Run("claim", func(b *testing.B) {
				var times []time.Duration
				for range b.N {
					begun := time.Now()
					claimed, err := p.store.Plans().Claim(b.Context(), repo.Claim{Owner: "worker", Limit: 1})
					times = append(times, time.Since(begun))
					if err != nil || len(claimed) != 1 {
						b.Fatalf("claimed %d, %v", len(claimed), err)
					}
					plan := claimed[0].Plan.ID
					for _, transition := range []repo.Transition{repo.TransitionFail, repo.TransitionResume} {
						cause := repo.Cause{Actor: "worker", Reason: "again", Fence: claimed[0].Lease.Fence}
						if _, err := p.store.Plans().Transition(b.Context(), plan, transition, cause); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.StopTimer()
				reportTimes(b, "", times)
			})
		})
	}
}
