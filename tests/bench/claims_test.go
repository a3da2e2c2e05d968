package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// backlog is how many plans, or jobs, wait beside those that are worked on.
const backlog = 100_000

// worked is one that a worker has got, and when.
type worked struct {
	id any
	at time.Time
}

// queue is a queue of work that does nothing.
type queue interface {
	// fill queues this many.
	fill(b *testing.B, count int)
	// add queues one as another process would, and returns its id.
	add(b *testing.B) any
	// work starts workers, which call done for each that they have got and completed, until
	// the function that it returns is called.
	work(b *testing.B, workers int, done func(worked)) (stop func())
}

// queues are the store, with a claim for each worker and with one loop of repo.Work for all, the same rows written by hand, and River as it comes and with the shortest pause between fetches,
// which it does not have by itself: by default it fetches ten times a second at most.
var queues = []struct {
	way string
	new func(b *testing.B) queue
}{
	{"agentstore", newPlans},
	{"agentstore-work", func(b *testing.B) queue { return loop{newPlans(b).(plans)} }},
	{"by-hand", func(b *testing.B) queue { return byHand{newPlans(b).(plans)} }},
	{"river", func(b *testing.B) queue { return newRiver(b, 0) }},
	{"river-1ms", func(b *testing.B) queue { return newRiver(b, time.Millisecond) }},
}

// Workers claim and complete what is queued.
func BenchmarkClaims(b *testing.B) {
	for _, q := range queues {
		b.Run(q.way, func(b *testing.B) {
			queue := q.new(b)
			queue.fill(b, backlog)
			for _, workers := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) { claimAll(b, queue, workers) })
			}
		})
	}
}

// claimAll queues b.N more, and has workers do as many.
func claimAll(b *testing.B, queue queue, workers int) {
	b.Helper()
	queue.fill(b, b.N)
	var count atomic.Int64
	all := make(chan struct{})
	b.ResetTimer()
	stop := queue.work(b, workers, func(worked) {
		if count.Add(1) == int64(b.N) {
			close(all)
		}
	})
	<-all
	b.StopTimer()
	stop()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "plans/s")
}

// An idle worker gets what is queued elsewhere: the time from when that call has returned,
// and beside it that of the call.
func BenchmarkIdleWorker(b *testing.B) {
	for _, q := range queues {
		if q.way == "by-hand" {
			continue // it would poll without a pause
		}
		b.Run(q.way, func(b *testing.B) {
			queue := q.new(b)
			got := make(chan worked, 1)
			defer queue.work(b, 1, func(w worked) { got <- w })()
			b.Run("idle", func(b *testing.B) {
				var times, adding []time.Duration
				for range b.N {
					time.Sleep(20 * time.Millisecond) // idle again
					begun := time.Now()
					id := queue.add(b)
					added := time.Now()
					w := <-got
					if w.id != id {
						b.Fatalf("got %v, want %v", w.id, id)
					}
					times, adding = append(times, max(0, w.at.Sub(added))), append(adding, added.Sub(begun))
				}
				b.StopTimer()
				reportTimes(b, "", times)
				reportTimes(b, "add-", adding)
			})
		})
	}
}

// plans is the queue that plans are, of the default namespace, or of so many others.
type plans struct {
	store, elsewhere *agentstore.Store
	namespaces       int
}

// Claims of all namespaces with a limit on each, which is not reached, beside those without limits.
func BenchmarkClaimsUnderLimits(b *testing.B) {
	for _, namespaces := range []int{1, 100, 10_000} {
		for _, limited := range []bool{false, true} {
			b.Run(fmt.Sprintf("namespaces=%d,limited=%t", namespaces, limited), func(b *testing.B) {
				p := newPlans(b).(plans)
				p.namespaces = namespaces
				p.fill(b, backlog)
				if limited {
					pgtest.Exec(b, p.store.Pool(), `INSERT INTO plan_limits (namespace, action_name, at_once)
						SELECT 'n' || n, '', 1000 FROM generate_series(0, $1::integer - 1) AS n`, namespaces)
					pgtest.Exec(b, p.store.Pool(), "ANALYZE plan_limits")
				}
				for _, workers := range []int{1, 16, 64} {
					b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) { claimAll(b, p, workers) })
				}
			})
		}
	}
}

func newPlans(b *testing.B) queue {
	b.Helper()
	databaseURL := pgtest.NewDatabase(b)
	// Another name makes it a separate pool.
	elsewhere := pgtest.OpenStore(b, pgtest.WithParameter(databaseURL, "application_name", "elsewhere"), agentstore.Options{})
	if _, err := elsewhere.Actions().Create(b.Context(), repo.NewAction{Name: "work", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		b.Fatal(err)
	}
	return plans{pgtest.OpenStore(b, databaseURL, agentstore.Options{}), elsewhere, 0}
}

func (p plans) fill(b *testing.B, count int) {
	b.Helper()
	pgtest.Exec(b, p.store.Pool(), `WITH made AS (
		INSERT INTO plans (id, namespace, action_name, root_id, phase, state)
		SELECT m.id, CASE $3::integer WHEN 0 THEN $1 ELSE 'n' || m.n % $3::integer END, 'local/work', m.id, 'strategize', 'queued'
		FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, $2::integer) AS n) AS m
		RETURNING id
	) INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state) SELECT id, 1, 'use', 'strategize', 'queued' FROM made`, repo.DefaultNamespace, count, p.namespaces)
	pgtest.Exec(b, p.store.Pool(), "ANALYZE plans, plan_queue")
}

func (p plans) add(b *testing.B) any {
	b.Helper()
	plan, err := p.elsewhere.Plans().Use(b.Context(), "work", repo.UseAction{Namespace: repo.DefaultNamespace})
	if err != nil {
		b.Fatal(err)
	}
	return plan.ID
}

func (p plans) work(b *testing.B, workers int, done func(worked)) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var working sync.WaitGroup
	for n := range workers {
		working.Go(func() {
			claim := repo.Claim{Owner: fmt.Sprint("worker ", n), Wait: true, AllNamespaces: p.namespaces > 0}
			for ctx.Err() == nil {
				claimed, err := p.store.Plans().Claim(ctx, claim)
				at := time.Now()
				for _, c := range claimed {
					cause := repo.Cause{Actor: claim.Owner, Fence: c.Lease.Fence}
					if _, err = p.store.Plans().Transition(context.WithoutCancel(ctx), c.Plan.ID, repo.TransitionComplete, cause); err != nil {
						break
					}
					done(worked{c.Plan.ID, at})
				}
				if err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
	}
}

// loop does plans by one call of repo.Work.
type loop struct{ plans }

func (l loop) work(b *testing.B, workers int, done func(worked)) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- repo.Work(ctx, l.store, repo.Claim{Owner: "worker", Limit: workers}, func(_ context.Context, claimed repo.ClaimedPlan) error {
			done(worked{claimed.Plan.ID, time.Now()})
			return nil
		})
	}()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	}
}
