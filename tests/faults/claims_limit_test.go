package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

var limitedActions = []string{"work", "other"}

// claimedAfterCounting has limit+1 workers keep to a limit in the naive way: each counts what is claimed and then
// claims, and all have counted before one claims. It returns how many plans are claimed.
func claimedAfterCounting(t *testing.T, limit int) (claimed int) {
	t.Helper()
	const namespace = "naive"
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{})
	makeAction(t, store, "work", 1)
	count := func() int {
		return pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM plan_claims WHERE namespace = $1", namespace)
	}
	var free []string
	for n := range limit + 1 {
		if _, err := store.Plans().Use(t.Context(), "work", repo.UseAction{Namespace: namespace}); err != nil {
			t.Fatal(err)
		}
		if count() < limit {
			free = append(free, fmt.Sprint("worker", n))
		}
	}
	for _, owner := range free {
		if _, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: owner, Namespaces: []string{namespace}, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	return count()
}

// mostClaimed has processes of workers do plans of two namespaces, and kills some of them. It returns how
// many plans of one namespace were claimed at once, at most.
func mostClaimed(t *testing.T, task workTask, limit, plans, processes, kills int) (most int) {
	t.Helper()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	for _, action := range limitedActions {
		makeAction(t, store, action, 1000)
	}
	pgtest.Exec(t, store.Pool(), "CREATE TABLE accepted (plan uuid, fence bigint)") // what workers wrote as they completed a plan
	task.Namespace = "one"
	for _, namespace := range []string{"one", "two"} {
		if err := store.Plans().SetLimit(t.Context(), repo.PlanLimit{Namespace: namespace, AtOnce: limit}); err != nil {
			t.Fatal(err)
		}
		for n := range plans {
			if namespace == "one" || n%2 == 0 {
				if _, err := store.Plans().Use(t.Context(), limitedActions[n/2%2], repo.UseAction{Namespace: namespace}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	workers := startCrew(t, databaseURL, workTaskVariable, processes, func(databaseURL, name string) any {
		task.DatabaseURL, task.Process = databaseURL, name
		return task
	})
	// A statement sees what was committed at one moment.
	sampled := make(chan int, 1)
	sampling, stop := context.WithCancel(t.Context())
	conn := pgtest.Connect(t, databaseURL)
	go func() {
		found := 0
		for sampling.Err() == nil {
			var now int
			err := conn.QueryRow(t.Context(), "SELECT coalesce(max(c.n), 0) FROM (SELECT count(*) AS n FROM plan_claims GROUP BY namespace) AS c").Scan(&now)
			if err != nil {
				t.Error(err)
				break
			}
			found = max(found, now)
			time.Sleep(time.Millisecond) // pace: the workers work
		}
		sampled <- found
	}()
	left := func() int {
		return pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM plans WHERE state <> 'complete'")
	}
	for range kills {
		workers.replace(t, rand.N(processes), func() bool { return left() == 0 })
	}
	await.For(t, "all plans are complete", func() bool { return left() == 0 })
	stop()
	if lost := pgtest.Value[int](t, store.Pool(), `SELECT count(*) FROM (
			SELECT p.id FROM plans p LEFT JOIN accepted a ON a.plan = p.id GROUP BY p.id, p.fence HAVING count(a.fence) <> 1 OR min(a.fence) <> p.fence
		) AS p`); lost > 0 {
		t.Errorf("%d plans were not done by one worker, the last one", lost)
	}
	for _, id := range pgtest.Value[[]pgtype.UUID](t, store.Pool(), "SELECT array_agg(id) FROM plans") {
		checkClaimed(t, store, id.Bytes)
	}
	return <-sampled
}

// Processes of workers are killed while they hold plans. At no moment are more plans of a namespace claimed
// than its limit allows; none is lost, and none is done by two whose writes were both accepted. The naive
// way, which counts, and then claims, exceeds it.
// Guarantee: Claims: Killed workers exceed no limit; their places are free with their leases.
func TestLimitsOfKilledWorkers(t *testing.T) {
	const limit = 3
	plans, processes, kills := pgtest.Choose(2000, 40), pgtest.Choose(32, 4), pgtest.Choose(20, 2)
	task := workTask{Workers: 4, Work: 5 * time.Millisecond, Anywhere: true}
	if most := mostClaimed(t, task, limit, plans, processes, kills); most > limit || most == 0 {
		t.Errorf("%d plans were claimed at once, the limit is %d", most, limit)
	}
	if most := claimedAfterCounting(t, limit); most <= limit {
		t.Errorf("workers that count first have claimed %d at once, which is not more than %d", most, limit)
	}
}
