package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Claims that ask for the same while one is under way are one statement. Each owner gets the
// leases, the history and as many plans as it asked for, and no plan goes to two.
func TestClaimsShareStatements(t *testing.T) {
	t.Parallel()
	const workers, limit = 40, 3
	tracer := newClaimTracer()
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer, c.MaxConns = tracer, 4 })
	attempt := 0
	await.For(t, "claims meet, and share statements", func() bool {
		attempt++
		namespace := fmt.Sprint("queue", attempt)
		queueMany(t, store.Pool(), namespace, workers*limit)
		before := tracer.claims.count.Load()
		var mu sync.Mutex
		seen := map[repo.ID]bool{}
		var running sync.WaitGroup
		for n := range workers {
			running.Go(func() {
				owner := fmt.Sprint("worker ", n)
				var claimed []repo.ClaimedPlan
				for len(claimed) < limit && t.Context().Err() == nil { // what others have locked is passed over
					more, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: owner, Namespaces: []string{namespace}, Limit: limit - len(claimed)})
					if err != nil {
						t.Errorf("%s has %d plans, %v", owner, len(claimed), err)
						return
					}
					claimed = append(claimed, more...)
				}
				for _, c := range claimed {
					history, err := store.Plans().History(t.Context(), c.Plan.ID, 1, 10)
					if err != nil || len(history) != 2 || history[1].Actor != owner || c.Lease.Owner != owner {
						t.Errorf("history of the plan of %s: %+v, %v", owner, history, err)
					}
					lease, err := store.Leases().Renew(t.Context(), c.Lease, time.Minute)
					if err != nil || lease.Owner != owner || lease.Fence != c.Lease.Fence {
						t.Errorf("lease of %s: %+v, %v", owner, lease, err)
					}
					mu.Lock()
					if seen[c.Plan.ID] {
						t.Errorf("%v was claimed twice", c.Plan.ID)
					}
					seen[c.Plan.ID] = true
					mu.Unlock()
				}
			})
		}
		running.Wait()
		return t.Failed() || tracer.claims.count.Load()-before < workers/2
	})
}

// If there are fewer plans than claims that share a statement, the first that asked have
// them, and the others none: no claim fails, and no plan is left out.
func TestClaimsShareWhatIsThere(t *testing.T) {
	t.Parallel()
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.MaxConns = 2 })
	const workers, plans = 20, 7
	queueMany(t, store.Pool(), "queue", plans)
	counts := make([]int, workers)
	var running sync.WaitGroup
	for n := range workers {
		running.Go(func() {
			claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Limit: 1})
			if err != nil {
				t.Error(err)
			}
			counts[n] = len(claimed)
		})
	}
	running.Wait()
	slices.Sort(counts)
	if counts[workers-1] != 1 || counts[workers-plans] != 1 || counts[workers-plans-1] != 0 {
		t.Errorf("the workers have %v plans", counts)
	}
}

// A plan whose lease is not to be had, as one that was just acquired, leaves a claim without, which looks again: no claim has more plans
// than it asked for, and none has another's. The database leaves out every third lease.
func TestClaimsBesideLostLeases(t *testing.T) {
	t.Parallel()
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.MaxConns = 2 })
	pgtest.Exec(t, store.Pool(), "CREATE SEQUENCE leases_made")
	pgtest.Exec(t, store.Pool(), `CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RETURN CASE WHEN nextval('public.leases_made') % 3 > 0 THEN NEW END;
	END $$`)
	pgtest.Exec(t, store.Pool(), "CREATE TRIGGER leave_out BEFORE INSERT ON leases FOR EACH ROW EXECUTE FUNCTION leave_out()")
	const workers, rounds = 20, 5
	queueMany(t, store.Pool(), "queue", workers*rounds)
	var running sync.WaitGroup
	for n := range workers {
		owner := fmt.Sprint("worker ", n)
		running.Go(func() {
			for range rounds {
				claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: owner, Namespaces: []string{"queue"}, Limit: 1})
				if err != nil || len(claimed) > 1 {
					t.Errorf("%s has %d plans, %v", owner, len(claimed), err)
				}
				for _, one := range claimed {
					if _, err := store.Leases().Renew(t.Context(), one.Lease, time.Minute); err != nil {
						t.Errorf("%s: %v", owner, err)
					}
				}
			}
		})
	}
	running.Wait()
}

// A caller that gives up while others wait for the same statement takes nothing from them.
func TestClaimsGoOnWithoutOne(t *testing.T) {
	t.Parallel()
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.MaxConns = 2 })
	const rounds = 20
	for n := range rounds {
		namespace := fmt.Sprint("queue", n)
		queueMany(t, store.Pool(), namespace, 6)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for n := range 6 {
			running.Go(func() {
				of := t.Context()
				if n%2 > 0 {
					of = ctx
				}
				claimed, err := store.Plans().Claim(of, repo.Claim{Owner: "worker", Namespaces: []string{namespace}})
				if of != ctx && (err != nil || len(claimed) != 1) {
					t.Errorf("claimed %d, %v", len(claimed), err)
				}
				if of == ctx && err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("gave up with %v", err)
				}
			})
		}
		running.Go(cancel)
		running.Wait()
	}
}
