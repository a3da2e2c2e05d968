package repotest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

func setLimit(t *testing.T, r repo.Repositories, namespace, action string, atOnce int) {
	t.Helper()
	if err := r.Plans().SetLimit(t.Context(), repo.PlanLimit{Namespace: namespace, Action: action, AtOnce: atOnce}); err != nil {
		t.Fatal(err)
	}
}

func complete(t *testing.T, r repo.Repositories, c repo.ClaimedPlan) {
	t.Helper()
	_, err := r.Plans().Transition(t.Context(), c.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: c.Lease.Fence})
	must(t, c, err)
}

// limitOf returns a limit as the list has it.
func limitOf(t *testing.T, r repo.Repositories, namespace, action string) (found repo.PlanLimit, exists bool) {
	t.Helper()
	for page := (repo.Page{Limit: 3}); ; {
		list, err := r.Plans().Limits(t.Context(), page)
		must(t, list, err)
		if i := slices.IndexFunc(list.Items, func(l repo.PlanLimit) bool { return l.Namespace == namespace && l.Action == action }); i >= 0 {
			return list.Items[i], true
		}
		if page.After = list.Next; page.After == "" {
			return found, false
		}
	}
}

// No more plans are claimed at once than the limit of their namespace allows.
// Guarantee: Claims: No more plans are claimed at once than a limit allows.
func testClaimLimit(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	ids := q.add(6)
	setLimit(t, r, q.namespace, "", 2)
	claim := q.claim()
	claim.Limit = 9
	first := q.take(claim)
	wantClaimed(t, first, ids[:2]...)
	wantClaimed(t, q.take(q.claim()))
	if got, _ := limitOf(t, r, q.namespace, ""); got != (repo.PlanLimit{Namespace: q.namespace, AtOnce: 2, Claimed: 2}) {
		t.Errorf("the limit is %+v", got)
	}
	complete(t, r, first[0])
	third := q.take(claim)
	wantClaimed(t, third, ids[2])
	release(t, r, third[0].Lease) // it counts until it is taken over
	wantClaimed(t, q.take(claim), ids[2])
	wantClaimed(t, q.take(claim))
	setLimit(t, r, q.namespace, "", 1) // which ends none
	wantClaimed(t, q.take(claim))
	complete(t, r, first[1])
	wantClaimed(t, q.take(claim))
	setLimit(t, r, q.namespace, "", -1)
	wantClaimed(t, q.take(claim), ids[3:]...)
	if got, exists := limitOf(t, r, q.namespace, ""); exists {
		t.Errorf("the limit is %+v, although it was removed", got)
	}
	other := newQueue(t, r)
	other.add(1)
	setLimit(t, r, other.namespace, "", 0)
	wantClaimed(t, other.take(other.claim()))
	for field, limit := range map[string]repo.PlanLimit{
		"at_once": {Namespace: q.namespace, AtOnce: limits.MaxAtOnce + 1}, "namespace": {Namespace: secret + "\xff"}, "action": {Namespace: q.namespace, Action: secret + "/"},
	} {
		wantInvalid(t, r.Plans().SetLimit(t.Context(), limit), field)
	}
}

// The limit of an action leaves the others of its namespace alone, also those that wait behind it.
func testClaimActionLimit(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	ids := q.add(30)
	setLimit(t, r, q.namespace, q.action, 2)
	other := q
	other.action = plain(t, r)
	behind := other.add(2)
	claim := q.claim()
	claim.Limit = 5
	claimed := q.take(claim)
	got := idsOf(claimed)
	for _, id := range append(behind, ids[:2]...) {
		if !slices.Contains(got, id) {
			t.Errorf("claimed %v, without %v", got, id)
		}
	}
	if len(got) != 4 {
		t.Errorf("claimed %d plans", len(got))
	}
	wantClaimed(t, q.take(claim))
	claim.Actions = []string{q.action}
	wantClaimed(t, q.take(claim))
	setLimit(t, r, q.namespace, "", 5) // of which 4 are claimed
	setLimit(t, r, q.namespace, q.action, 9)
	wantClaimed(t, q.take(claim), ids[2])
	claim.Actions, claim.Namespaces, claim.AllNamespaces = []string{q.action, other.action}, nil, true
	wantClaimed(t, q.take(claim))
}

// What stands first and cannot be claimed takes no place of a limit.
func testClaimLimitBehind(ofAction bool) func(*testing.T, repo.Repositories) {
	return func(t *testing.T, r repo.Repositories) {
		q := newQueue(t, r)
		ids := q.add(5)
		q.limit(ofAction, 2)
		for _, id := range ids[:2] {
			acquire(t, r, repo.NewLease{Key: repo.PlanLease(id), Owner: "by hand"})
		}
		claim := q.claim()
		claim.Limit = 9
		wantClaimed(t, q.take(claim), ids[2:4]...)
	}
}

// limit sets the limit of the queue's namespace or, in it, of its action.
func (q queue) limit(ofAction bool, atOnce int) {
	q.t.Helper()
	action := ""
	if ofAction {
		action = q.action
	}
	setLimit(q.t, q.r, q.namespace, action, atOnce)
}

// A claim that has expired is not taken over if the limit was lowered, unless that errors the plan.
func testClaimLimitLowered(ofAction bool) func(*testing.T, repo.Repositories) {
	return func(t *testing.T, r repo.Repositories) {
		q := newQueue(t, r)
		ids := q.add(2)
		q.action = plain(t, r)
		last := q.add(1)[0]
		claim := q.claim()
		claim.Limit = 3
		claimed := q.take(claim)
		q.limit(ofAction, 0)
		setLimit(t, r, q.namespace, claimed[0].Plan.Action.String(), 1) // of which there are two
		release(t, r, claimed[0].Lease)
		wantClaimed(t, q.take(claim))
		q.limit(ofAction, -1)
		setLimit(t, r, q.namespace, claimed[0].Plan.Action.String(), -1)
		wantClaimed(t, q.take(claim), ids[0])
		q.limit(ofAction, 0)
		release(t, r, claimed[2].Lease)
		wantClaimed(t, q.take(claim))
		if plan := getPlan(t, r, last); plan.State != repo.PlanErrored {
			t.Errorf("after its last attempt it is %s", plan.State)
		}
	}
}

// Of many limits each counts.
func testClaimManyLimits(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	for n := range 1001 {
		setLimit(t, r, q.namespace, fmt.Sprint("a", n), 1)
	}
	name := "z" + randomName()
	action, err := r.Actions().Create(t.Context(), repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true}})
	q.action = must(t, action, err).Name.String()
	q.add(2)
	q.limit(true, 1)
	claim := q.claim()
	claim.Limit = 2
	if claimed := q.take(claim); len(claimed) != 1 {
		t.Errorf("claimed %d plans", len(claimed))
	}
}

// A claim of all namespaces is served from each in turn, however many plans the others have.
// Guarantee: Claims: In a claim of all namespaces none waits for more than two plans of another.
func testClaimAllNamespaces(t *testing.T, r repo.Repositories) {
	busy := newQueue(t, r)
	small, capped := busy, busy
	small.namespace, capped.namespace = "a/"+randomName(), "z/"+randomName()
	busy.add(12)
	capped.add(30)
	setLimit(t, r, capped.namespace, "", 0)
	few := small.add(3)
	claim := repo.Claim{Owner: randomName(), AllNamespaces: true, Actions: []string{busy.action}}
	for range 6 {
		claimed := busy.take(claim)
		if len(claimed) != 1 {
			t.Fatalf("%d plans were claimed", len(claimed))
		}
		few = slices.DeleteFunc(few, func(id repo.ID) bool { return id == claimed[0].Plan.ID })
	}
	if len(few) > 0 {
		t.Errorf("after 6 claims %d of the 3 plans of the small namespace are queued", len(few))
	}
	claim.Limit = 20
	left := busy.take(claim)
	if len(left) != 9 {
		t.Errorf("%d plans were left", len(left))
	}
	release(t, r, left[0].Lease)
	wantClaimed(t, busy.take(claim), left[0].Plan.ID) // wherever it has expired
	claim.Namespaces = []string{busy.namespace}
	_, err := r.Plans().Claim(t.Context(), claim)
	wantInvalid(t, err, "namespaces")
}

// A bare name in a claim of all namespaces is the action of DefaultNamespace and that of the plan's own, and no other.
// Guarantee: Claims: One claim of all namespaces serves each tenant's own action of a name.
func testClaimOwnActions(t *testing.T, r repo.Repositories) {
	q, name := newQueue(t, r), randomName()
	create := func(namespace, name string) string {
		action := namespace + "/" + name
		_, err := r.Actions().Create(t.Context(), repo.NewAction{Name: action, ActionDefinition: repo.ActionDefinition{Reusable: true}})
		return must(t, action, err)
	}
	use := func(action, namespace string) repo.ID {
		return usePlan(t, r, action, repo.UseAction{Namespace: namespace}).ID
	}
	one, other := randomName(), randomName()
	ones := create(one, name)
	wanted := []repo.ID{use(ones, one), use(create(other, name), other), use(create(repo.DefaultNamespace, name), other)}
	use(ones, other)                // another tenant's
	use(create(one, name+"2"), one) // another name
	claim := repo.Claim{Owner: randomName(), AllNamespaces: true, Actions: []string{name}, Limit: 10}
	claimed := q.take(claim)
	slices.SortFunc(claimed, func(a, b repo.ClaimedPlan) int { return a.Plan.ID.Compare(b.Plan.ID) })
	slices.SortFunc(wanted, repo.ID.Compare)
	wantClaimed(t, claimed, wanted...)
	for _, c := range claimed {
		release(t, r, c.Lease)
		use(c.Plan.Action.String(), c.Plan.Namespace)
	}
	if again := q.take(claim); len(again) < 3 { // those whose claims have expired, or those that are queued
		t.Errorf("%d were claimed again", len(again))
	}
	q.namespace = one
	q.action = name // of DefaultNamespace, as ever
	wantClaimed(t, q.take(repo.Claim{Owner: claim.Owner, Namespaces: []string{one}, Actions: []string{name}}))
}

// Claims that run into each other stay within the limit, and do not get in each other's way.
func testRaceLimits(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(40)
	const atOnce = 3
	setLimit(t, store, q.namespace, "", atOnce)
	var seen taken
	var holding atomic.Int64
	together(workers, func(worker int) {
		claim := q.claim()
		if worker%2 == 0 {
			claim.Namespaces, claim.AllNamespaces, claim.Actions = nil, true, []string{q.action}
		}
		for seen.len() < len(ids) && !t.Failed() {
			claimed, err := store.Plans().Claim(t.Context(), claim)
			if err != nil {
				t.Error(err)
			}
			for _, c := range claimed {
				if now := holding.Add(1); now > atOnce {
					t.Errorf("%d plans are claimed at once", now)
				}
				seen.add(c)
				holding.Add(-1)
				complete(t, store, c)
			}
			tick()
		}
	})
	seen.wantOnce(t, ids)
}
