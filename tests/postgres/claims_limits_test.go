package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// However many plans wait in namespaces that are at their limit, or behind an action that is, a claim
// reads a few blocks, and so do counts for a dashboard.
// Guarantee: Claims: Plans that a limit keeps waiting cost other claims nothing.
func TestPlansAtTheirLimitCostNothing(t *testing.T) {
	t.Parallel()
	waiting := pgtest.Choose(1_000_000, 8_000)
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	for _, namespace := range numbered("capped", 20) {
		queueMany(t, conn, namespace, 10)
	}
	queueMany(t, conn, "capped0", waiting)
	queueMany(t, conn, "small", 1)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	for _, namespace := range numbered("capped", 20) {
		if err := store.Plans().SetLimit(t.Context(), repo.PlanLimit{Namespace: namespace}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "free", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	queueMany(t, conn, "mixed", 1_500)
	if err := store.Plans().SetLimit(t.Context(), repo.PlanLimit{Namespace: "mixed", Action: "claimed"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Plans().Use(t.Context(), "free", repo.UseAction{Namespace: "mixed"}); err != nil {
		t.Fatal(err)
	}
	for _, statistics := range []string{"none", "current"} {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			pool := pgtest.NewPool(t, databaseURL, planMode(mode))
			for name, test := range map[string]struct {
				claim repo.Claim
				most  int64
			}{
				"all":   {repo.Claim{AllNamespaces: true, Limit: 2}, 700},
				"mixed": {repo.Claim{Namespaces: []string{"mixed"}}, 700},
				"named": {repo.Claim{Namespaces: []string{"capped0", "idle", "mixed"}, Actions: []string{"claimed", "other"}}, 1000},
			} {
				test.claim.Owner = "worker"
				got := claimedBlocks(t, pool, func(tx pgx.Tx) error {
					claimed, err := postgres.Bind(tx).Plans().Claim(t.Context(), test.claim)
					if err == nil && len(claimed) > 2 {
						t.Errorf("%s: claimed %d", name, len(claimed))
					}
					return err
				})
				if got > test.most {
					t.Errorf("statistics %s, %s: a claim of %s reads %d blocks, more than %d", statistics, mode, name, got, test.most)
				}
			}
		}
		pgtest.Exec(t, conn, "ANALYZE")
	}
	claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", AllNamespaces: true, Limit: 9})
	if err != nil || len(claimed) != 2 {
		t.Errorf("claimed %d plans, %v", len(claimed), err)
	}
	pgtest.Exec(t, conn, "VACUUM plans, plan_queue") // as autovacuum does: what is counted is then not looked up in the table
	for name, ask := range map[string]func(r repo.Repositories) error{
		"counts": func(r repo.Repositories) error {
			counts, err := r.Plans().Counts(t.Context(), "", repo.Page{})
			if err != nil || len(counts.Items) < 22 {
				t.Errorf("%d counts, %v", len(counts.Items), err)
			}
			for _, c := range counts.Items {
				if c.Namespace == "capped0" && (c.Count != min(waiting+10, 10_001) || c.Oldest.IsZero()) {
					t.Errorf("the count is %+v", c)
				}
			}
			return err
		},
		"list":           listing(t, repo.PlanFilter{Namespace: "capped0"}),
		"list by state":  listing(t, repo.PlanFilter{Namespace: "capped0", State: repo.PlanQueued}),
		"list by action": listing(t, repo.PlanFilter{Action: "claimed", State: repo.PlanQueued}),
		"limits":         func(r repo.Repositories) error { return second(r.Plans().Limits(t.Context(), repo.Page{})) },
	} {
		if err := ask(store); err != nil {
			t.Fatal(err)
		}
		got := claimedBlocks(t, pgtest.NewPool(t, databaseURL, planMode("auto")), func(tx pgx.Tx) error { return ask(postgres.Bind(tx)) })
		if got > 5_000 {
			t.Errorf("%s reads %d blocks", name, got)
		}
	}
}

// A claim of all namespaces finds the one whose action is not at its limit, at once.
func TestActionLimitsOfManyNamespaces(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	for _, namespace := range numbered("n", 300) {
		queueMany(t, conn, namespace, 1)
	}
	pgtest.Exec(t, conn, "INSERT INTO plan_limits (namespace, action_name, at_once) SELECT DISTINCT namespace, 'local/claimed', 0 FROM plan_queue")
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	for _, actions := range [][]string{nil, {"claimed"}} {
		queueMany(t, conn, "z", 1)
		claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", AllNamespaces: true, Actions: actions})
		if err != nil || len(claimed) != 1 {
			t.Errorf("of %v: %d plans, %v", actions, len(claimed), err)
		}
	}
}

// What stands first and is locked takes no place of a limit, however far the first look reads.
func TestLimitBehindWhatIsLocked(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	const locked, free = 600, 3
	queueMany(t, store.Pool(), "queue", locked)
	tx := beginOn(t, store.Pool())
	pgtest.Exec(t, tx, lockThem)
	queueMany(t, store.Pool(), "queue", free)
	for _, limit := range []repo.PlanLimit{{Namespace: "queue", AtOnce: 2}, {Namespace: "queue", Action: "claimed", AtOnce: 3}} {
		if err := store.Plans().SetLimit(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Limit: 9})
		if want := map[string]int{"": 2, "claimed": 1}[limit.Action]; err != nil || len(claimed) != want { // of those that are free
			t.Errorf("%+v: claimed %d plans, %v", limit, len(claimed), err)
		}
		if err := store.Plans().SetLimit(t.Context(), repo.PlanLimit{Namespace: "queue", AtOnce: -1}); err != nil {
			t.Fatal(err)
		}
	}
}

// A claim that waits for a place of a limit gets that of a plan that is cancelled, without a poll.
func TestCancelWakesClaims(t *testing.T) {
	t.Parallel()
	tracer := newClaimTracer()
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	queueMany(t, store.Pool(), "queue", 51)
	if err := store.Plans().SetLimit(t.Context(), repo.PlanLimit{Namespace: "queue", AtOnce: 1}); err != nil {
		t.Fatal(err)
	}
	claim := repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Wait: true}
	claimed, err := store.Plans().Claim(t.Context(), claim)
	withoutPoll(t, &tracer.polls, func() {
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d plans, %v", len(claimed), err)
		}
		held, done, begun := claimed[0].Plan.ID, make(chan struct{}), writesOf(store).Begun
		go func() {
			defer close(done)
			claimed, err = store.Plans().Claim(t.Context(), claim)
		}()
		awaitClaimsWait(t, store, 1, begun)
		if _, err := store.Plans().Transition(t.Context(), held, repo.TransitionCancel, repo.Cause{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		<-done
	})
}

// listing asks for a page of plans.
func listing(t *testing.T, filter repo.PlanFilter) func(repo.Repositories) error {
	return func(r repo.Repositories) error {
		list, err := r.Plans().List(t.Context(), filter, repo.Page{Limit: 100})
		if err != nil || len(list.Items) != 100 {
			t.Errorf("%d plans of %+v, %v", len(list.Items), filter, err)
		}
		return err
	}
}

// However many plans another namespace has, a namespace with a few waits for two of those at most.
func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	const few = 10
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	queueMany(t, conn, "large", pgtest.Choose(100_000, 5_000))
	queueMany(t, conn, "small", few)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	others, found := 0, 0
	for found < few && !t.Failed() {
		claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", AllNamespaces: true})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d plans, %v", len(claimed), err)
		}
		if claimed[0].Plan.Namespace == "small" {
			found, others = found+1, 0
		} else if others++; others > 2 {
			t.Errorf("%d plans of the large namespace come before one of the small", others)
		}
	}
	// By the order in which they were queued the small one would come last.
	if first := pgtest.Value[string](t, conn, "SELECT namespace FROM plan_queue ORDER BY since, plan_id LIMIT 1"); first != "large" {
		t.Errorf("the first one is of %s", first)
	}
}

// A statement of a dashboard reads by the indexes.
func TestPlanCountsByIndex(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t), planMode("force_generic_plan"))
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	for n := range 200 {
		queueMany(t, pool, fmt.Sprint("n", n), 20)
	}
	pgtest.Exec(t, pool, "ANALYZE")
	if _, err := store.Plans().Counts(t.Context(), "n7", repo.Page{}); err != nil {
		t.Fatal(err)
	}
	wantNoScan(t, explainGeneric(t, pool, "PlanCounts"))
	for _, filter := range []repo.PlanFilter{{Action: "claimed"}, {Action: "claimed", Namespace: "n1"}} {
		if list, err := store.Plans().List(t.Context(), filter, repo.Page{Limit: 5}); err != nil || len(list.Items) != 5 {
			t.Fatalf("%d plans, %v", len(list.Items), err)
		}
	}
	wantNoScan(t, explainGeneric(t, pool, "PlanListByAction"))
	if _, err := store.Plans().Sweep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"PlanExpire", "PlanDeleteKept"} {
		wantNoScan(t, explainGeneric(t, pool, name))
	}
	if _, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", AllNamespaces: true}); err != nil {
		t.Fatal(err)
	}
	wantNoScan(t, explainGeneric(t, pool, "PlanLanes"))
}

func wantNoScan(t *testing.T, plan []string) {
	t.Helper()
	for _, line := range plan {
		if strings.Contains(line, "Seq Scan on") {
			t.Errorf("reads a table as a whole: %s", line)
		}
	}
}
