package repotest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func claimTests() []test {
	return []test{
		onPlans("Claim", testClaim),
		onPlans("Order", testClaimOrder),
		onPlans("Filters", testClaimFilters),
		onPlans("Ends", testClaimEnds),
		onPlans("Expires", testClaimExpires),
		onPlans("Fence", testClaimFence),
		onPlans("LastAttempt", testClaimLastAttempt),
		onPlans("OthersExpired", testClaimOthersExpired),
		onPlans("Started", testClaimStarted),
		onPlans("LeaseHeld", testClaimLeaseHeld),
		onPlans("LeaseByHand", testClaimLeaseByHand),
		onPlans("AcquiredAgain", testClaimAcquiredAgain),
		onPlans("Cancelled", testClaimCancelled),
		onPlans("Fair", testClaimFair),
		onPlans("UseAgain", testClaimUseAgain),
		onPlans("Invalid", testClaimInvalid),
		onPlans("Bytes", testClaimBytes),
		onPlans("Due", testClaimDue),
		onPlans("Limit", testClaimLimit),
		onPlans("ActionLimit", testClaimActionLimit),
		onPlans("LimitBehind", testClaimLimitBehind(false)),
		onPlans("ActionLimitBehind", testClaimLimitBehind(true)),
		onPlans("LimitLowered", testClaimLimitLowered(false)),
		onPlans("ActionLimitLowered", testClaimLimitLowered(true)),
		onPlans("ManyLimits", testClaimManyLimits),
		onPlans("AllNamespaces", testClaimAllNamespaces),
		onPlans("OwnActions", testClaimOwnActions),
		onPlans("Priority", testClaimPriority),
		onPlans("Retry", testClaimRetry),
		onPlans("Snooze", testClaimSnooze),
	}
}

// queue has plans of one action in a namespace of its own.
type queue struct {
	t         *testing.T
	r         repo.Repositories
	namespace string
	action    string
	// last is when the last plan was added.
	last *time.Time
}

func newQueue(t *testing.T, r repo.Repositories) queue {
	t.Helper()
	action := createAction(t, r, repo.ActionDefinition{Reusable: true, MaxAttempts: 1000})
	return queue{t, r, spaceOf(r), action, new(time.Time{})}
}

// add queues plans, each later than the one before, also if the server's clock steps back.
func (q queue) add(count int) (ids []repo.ID) {
	q.t.Helper()
	for range count {
		plan := usePlan(q.t, q.r, q.action, repo.UseAction{Namespace: q.namespace})
		for !plan.CreatedAt.After(*q.last) {
			_, err := q.r.Plans().Transition(q.t.Context(), plan.ID, repo.TransitionCancel, repo.Cause{Reason: "too early"})
			if err != nil {
				q.t.Fatal(err)
			}
			passes(q.t, 20*time.Millisecond)
			plan = usePlan(q.t, q.r, q.action, repo.UseAction{Namespace: q.namespace})
		}
		*q.last = plan.CreatedAt
		ids = append(ids, plan.ID)
		tick()
	}
	return ids
}

// claim asks for one plan of the queue, for a new owner, and an hour.
func (q queue) claim() repo.Claim {
	return repo.Claim{Owner: randomName(), Namespaces: []string{q.namespace}, TTL: time.Hour}
}

func (q queue) take(claim repo.Claim) []repo.ClaimedPlan {
	q.t.Helper()
	claimed, err := q.r.Plans().Claim(q.t.Context(), claim)
	must(q.t, claimed, err)
	if len(claimed) > max(1, claim.Limit) {
		q.t.Errorf("%d plans were claimed, the limit is %d", len(claimed), claim.Limit)
	}
	return claimed
}

// takeOne claims one plan.
func (q queue) takeOne() repo.ClaimedPlan {
	q.t.Helper()
	claimed := q.take(q.claim())
	if len(claimed) != 1 {
		q.t.Fatalf("%d plans were claimed, want 1", len(claimed))
	}
	return claimed[0]
}

func idsOf(claimed []repo.ClaimedPlan) []repo.ID {
	ids := []repo.ID{}
	for _, c := range claimed {
		ids = append(ids, c.Plan.ID)
	}
	return ids
}

func wantClaimed(t *testing.T, claimed []repo.ClaimedPlan, want ...repo.ID) {
	t.Helper()
	if got := idsOf(claimed); !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
}

// wantSteps checks the last events of a plan, their entries in the audit trail, and that
// the history has no gap.
func wantSteps(t *testing.T, r repo.Repositories, plan repo.Plan, actor string, steps ...repo.Transition) {
	t.Helper()
	events := history(t, r, plan.ID)
	if int64(len(events)) != plan.Version || len(events) <= len(steps) {
		t.Fatalf("%d events, version %d", len(events), plan.Version)
	}
	page, err := r.Audit().List(t.Context(), repo.AuditFilter{PlanID: plan.ID, OldestFirst: true}, repo.Page{})
	if must(t, page, err); len(page.Items) != len(events) {
		t.Fatalf("%d entries, %d events", len(page.Items), len(events))
	}
	for i := len(events) - len(steps); i < len(events); i++ {
		event, step := events[i], steps[i-len(events)+len(steps)]
		if event.Transition != step || event.Actor != actor || event.From != events[i-1].To || event.Version != int64(i)+1 ||
			(event.Reason != "") != (step == repo.TransitionExpire) {
			t.Errorf("event %d is %+v, want %s by %s", i, event, step, actor)
		}
		details := rules.Details(event.Transition, event.From, event.To, event.Version)
		// The order of entries is that of times: the server's clock may step back.
		if !slices.ContainsFunc(page.Items, func(entry repo.AuditEntry) bool {
			return entry.Type == rules.Event(event.Transition, event.To) && entry.Actor == actor && string(entry.Details) == string(details)
		}) {
			t.Errorf("no entry is of the event %+v: %+v", event, page.Items)
		}
	}
	if last := events[len(events)-1].To; last != plan.Stage {
		t.Errorf("the history ends at %v, the plan is at %v", last, plan.Stage)
	}
}

func testClaim(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	full := fullPlan(t, r)
	ids := append([]repo.ID{full.ID}, q.add(1)...)
	claim := repo.Claim{Owner: randomName(), Namespaces: []string{full.Namespace, q.namespace, q.namespace}, Limit: 9, TTL: time.Hour / 2}
	begun := time.Now()
	claimed := q.take(claim)
	slices.SortFunc(claimed, func(a, b repo.ClaimedPlan) int { return slices.Index(ids, a.Plan.ID) - slices.Index(ids, b.Plan.ID) })
	wantClaimed(t, claimed, ids...)
	for _, c := range claimed {
		stored := getPlan(t, r, c.Plan.ID)
		wantPlan(t, c.Plan, stored)
		if stored.State != repo.PlanProcessing || stored.Version != 2 || stored.UpdatedAt.Before(stored.CreatedAt) {
			t.Errorf("claimed as %+v", stored)
		}
		wantSteps(t, r, stored, claim.Owner, repo.TransitionStart)
		if c.Lease.Key != repo.PlanLease(c.Plan.ID) || c.Lease.Owner != claim.Owner || c.Lease.Fence < 1 {
			t.Errorf("the lease is %+v", c.Lease)
		}
		wantLife(t, c.Lease, begun, claim.TTL)
		wantSame(t, "lease", listLeases(t, r, repo.LeaseFilter{Kind: repo.LeaseOfPlan, Name: c.Lease.Key.Name}, 0), []repo.Lease{c.Lease})
	}
	if again := q.take(claim); again == nil || len(again) > 0 {
		t.Errorf("claimed again: %v", again)
	}
	// The same owner may acquire its lease again, as Hold does.
	held := acquire(t, r, repo.NewLease{Key: claimed[0].Lease.Key, Owner: claim.Owner, TTL: time.Hour})
	if held.Fence != claimed[0].Lease.Fence {
		t.Errorf("the token is %d, then %d", claimed[0].Lease.Fence, held.Fence)
	}
	_, err := r.Leases().Acquire(t.Context(), repo.NewLease{Key: claimed[0].Lease.Key, Owner: randomName()})
	wantLeaseConflict(t, err, held)
}

// Plans come in the order in which they were queued, whatever their ids and phases.
func testClaimOrder(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	ids := q.add(5)
	move(t, r, ids[0], repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute)
	tick()
	move(t, r, ids[2], repo.TransitionStart, repo.TransitionFail, repo.TransitionResume)
	if first, second := getPlan(t, r, ids[0]).UpdatedAt, getPlan(t, r, ids[2]).UpdatedAt; !first.After(*q.last) || !second.After(first) {
		testClaimOrder(t, r) // the server's clock has stepped back meanwhile
		return
	}
	claim := q.claim()
	claim.Limit = 2
	wantClaimed(t, q.take(claim), ids[1], ids[3])
	claim.Limit = 100
	wantClaimed(t, q.take(claim), ids[4], ids[0], ids[2])
}

func testClaimFilters(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	other := plain(t, r)
	executed := q.add(1)[0]
	move(t, r, executed, repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute)
	first := q.add(1)[0]
	ofOther := usePlan(t, r, other, repo.UseAction{Namespace: q.namespace}).ID
	for _, step := range []struct {
		change func(*repo.Claim)
		want   []repo.ID
	}{
		{func(c *repo.Claim) { c.Namespaces = []string{randomName()} }, nil},
		{func(c *repo.Claim) { c.Namespaces = nil; c.Actions = []string{q.action, other} }, nil},
		{func(c *repo.Claim) { c.Actions = []string{plain(t, r)} }, nil},
		{func(c *repo.Claim) { c.Phases = []repo.Phase{repo.PhaseApply} }, nil},
		{func(c *repo.Claim) { c.Actions, c.Phases = []string{other}, []repo.Phase{repo.PhaseExecute} }, nil},
		{func(c *repo.Claim) { c.Actions = []string{other, other} }, []repo.ID{ofOther}},
		{func(c *repo.Claim) { c.Phases = []repo.Phase{repo.PhaseStrategize} }, []repo.ID{first}},
		{func(c *repo.Claim) {
			c.Actions, c.Phases = []string{q.action, other}, []repo.Phase{repo.PhaseExecute, repo.PhaseApply}
		}, []repo.ID{executed}},
		{func(*repo.Claim) {}, nil},
	} {
		claim := q.claim()
		claim.Limit = 10
		step.change(&claim)
		wantClaimed(t, q.take(claim), step.want...)
	}
	local := usePlan(t, r, other, repo.UseAction{Namespace: repo.DefaultNamespace}).ID
	wantClaimed(t, q.take(repo.Claim{Owner: randomName(), Actions: []string{other}}), local)
}

// Whatever takes a plan out of processing releases its lease.
func testClaimEnds(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	for _, transition := range []repo.Transition{
		repo.TransitionComplete, repo.TransitionFail, repo.TransitionCancel, repo.TransitionRevert, repo.TransitionConstrain,
	} {
		id := q.add(1)[0]
		if transition == repo.TransitionRevert || transition == repo.TransitionConstrain {
			move(t, r, id, routes()[repo.Stage{Phase: repo.PhaseApply, State: repo.PlanQueued}]...)
		}
		c := q.takeOne()
		step := int64(1)
		if _, err := r.Plans().Progress(t.Context(), id, repo.Progress{CompletedStep: &step}); err != nil {
			t.Fatal(err)
		}
		cause := causeOf(transition)
		cause.Version = c.Plan.Version // which progress does not change
		moved, err := r.Plans().Transition(t.Context(), id, transition, cause)
		must(t, moved, err)
		if left := listLeases(t, r, repo.LeaseFilter{Owner: c.Lease.Owner}, 0); len(left) > 0 {
			t.Errorf("%s leaves %+v", transition, left)
		}
		_, err = r.Leases().Renew(t.Context(), c.Lease, 0)
		wantLeaseLost(t, err, c.Lease)
		again := q.take(q.claim())
		if transition == repo.TransitionRevert {
			wantClaimed(t, again, id)
			if again[0].Plan.Attempt != 1 || again[0].Lease.Fence <= c.Lease.Fence {
				t.Errorf("claimed again as %+v with %+v", again[0].Plan, again[0].Lease)
			}
			continue
		}
		wantClaimed(t, again)
	}
}

// A claim whose lease has ended is over: the plan is queued and claimed again, which the
// history shows, and the one before cannot go on.
func testClaimExpires(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	id := q.add(1)[0]
	waiting := q.add(1)[0]
	last := q.takeOne()
	wantClaimed(t, []repo.ClaimedPlan{last}, id)
	for attempt := 2; attempt <= 4; attempt++ {
		release(t, r, last.Lease)
		claim := q.claim()
		got := q.take(claim)
		wantClaimed(t, got, id) // before the other one, which was queued before
		c := got[0]
		wantPlan(t, c.Plan, getPlan(t, r, id))
		if c.Plan.Attempt != attempt || c.Plan.Version != last.Plan.Version+2 || c.Plan.State != repo.PlanProcessing ||
			c.Lease.Fence <= last.Lease.Fence || c.Lease.Owner != claim.Owner {
			t.Errorf("claimed again as %+v with %+v", c.Plan, c.Lease)
		}
		wantSteps(t, r, c.Plan, claim.Owner, repo.TransitionExpire, repo.TransitionStart)
		_, err := r.Plans().Transition(t.Context(), id, repo.TransitionComplete, repo.Cause{Version: last.Plan.Version})
		wantTransitionConflict(t, err, repo.TransitionConflictError{
			PlanID: id, Transition: repo.TransitionComplete, Stage: c.Plan.Stage, Version: c.Plan.Version,
			Expected: last.Plan.Version,
		})
		release(t, r, last.Lease) // of the claim before: no effect
		last = c
	}
	wantClaimed(t, q.take(q.claim()), waiting)
	wantClaimed(t, q.take(q.claim()))
}

// The token of a claim that is over is refused, that of the one after it is not.
func testClaimFence(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	id := q.add(1)[0]
	first := q.takeOne()
	release(t, r, first.Lease)
	second := q.takeOne()
	fenced := repo.FencedError{Key: first.Lease.Key, Fence: first.Lease.Fence, Latest: second.Lease.Fence}
	_, err := r.Plans().Transition(t.Context(), id, repo.TransitionComplete, repo.Cause{Fence: first.Lease.Fence})
	wantFenced(t, err, fenced)
	_, err = r.Plans().Progress(t.Context(), id, repo.Progress{CompletedStep: new(int64(1)), Fence: first.Lease.Fence})
	wantFenced(t, err, fenced)
	working, err := r.Plans().Progress(t.Context(), id, repo.Progress{CompletedStep: new(int64(1)), Fence: second.Lease.Fence})
	must(t, working, err)
	completed, err := r.Plans().Transition(t.Context(), id, repo.TransitionComplete, repo.Cause{Fence: second.Lease.Fence})
	must(t, completed, err)
}

// After the last attempt the plan is errored, with the reason.
func testClaimLastAttempt(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	q.action = createAction(t, r, repo.ActionDefinition{Reusable: true, MaxAttempts: 2})
	id := q.add(1)[0]
	claim := q.claim()
	for range 2 {
		wantClaimed(t, q.take(claim), id)
		release(t, r, listLeases(t, r, repo.LeaseFilter{Owner: claim.Owner}, 0)[0])
	}
	other := q.claim()
	wantClaimed(t, q.take(other))
	errored := getPlan(t, r, id)
	want := "the claim expired in attempt 2 of 2"
	if errored.State != repo.PlanErrored || errored.ErrorMessage != want || errored.ErrorDetails != nil || errored.Attempt != 2 {
		t.Errorf("after the last attempt: %+v, want the error %q", errored, want)
	}
	wantSteps(t, r, errored, other.Owner, repo.TransitionExpire)
	wantClaimed(t, q.take(claim))
	// Resumed, it has one more attempt.
	move(t, r, id, repo.TransitionResume)
	wantClaimed(t, q.take(claim), id)
	release(t, r, listLeases(t, r, repo.LeaseFilter{Owner: claim.Owner}, 0)[0])
	next := q.add(1)[0]
	wantClaimed(t, q.take(claim), next) // which the one that is errored does not keep away
	if got := getPlan(t, r, id); got.State != repo.PlanErrored {
		t.Errorf("the plan is at %v", got.Stage)
	}
}

// A claim leaves those alone that it does not ask for, and ends at its limit.
func testClaimOthersExpired(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	q.add(3)
	claim := q.claim()
	claim.Limit = 3
	claimed := q.take(claim)
	for _, c := range claimed {
		release(t, r, c.Lease)
	}
	other := q.claim()
	other.Actions = []string{plain(t, r)}
	wantClaimed(t, q.take(other))
	other = q.claim()
	other.Phases = []repo.Phase{repo.PhaseApply}
	wantClaimed(t, q.take(other))
	for _, c := range claimed {
		wantPlan(t, getPlan(t, r, c.Plan.ID), c.Plan)
	}
	var again []repo.ID
	for range 3 {
		again = append(again, q.takeOne().Plan.ID)
	}
	ids := idsOf(claimed)
	slices.SortFunc(ids, repo.ID.Compare)
	slices.SortFunc(again, repo.ID.Compare)
	wantSame(t, "plans", again, ids)
	wantClaimed(t, q.take(q.claim()))
}

// A plan that was started without a claim never expires, also if it has a lease.
func testClaimStarted(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	ids := q.add(2)
	move(t, r, ids[0], repo.TransitionStart)
	move(t, r, ids[1], repo.TransitionStart)
	release(t, r, acquire(t, r, repo.NewLease{Key: repo.PlanLease(ids[1]), Owner: randomName()}))
	wantClaimed(t, q.take(q.claim()))
}

// A queued plan whose lease is held is left out, and keeps its place.
func testClaimLeaseHeld(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	ids := q.add(3)
	held := acquire(t, r, repo.NewLease{Key: repo.PlanLease(ids[0]), Owner: randomName()})
	wantClaimed(t, q.take(q.claim()), ids[1])
	release(t, r, held)
	c := q.takeOne()
	wantClaimed(t, []repo.ClaimedPlan{c}, ids[0])
	if c.Lease.Fence <= held.Fence {
		t.Errorf("the token is %d after %d", c.Lease.Fence, held.Fence)
	}
}

// No plan of a cancelled tree is claimed.
func testClaimCancelled(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	root := q.add(1)[0]
	move(t, r, root, repo.TransitionStart)
	child := usePlan(t, r, q.action, repo.UseAction{ParentID: root}).ID
	grandchild := usePlan(t, r, q.action, repo.UseAction{ParentID: child}).ID
	claimed := q.takeOne()
	wantClaimed(t, []repo.ClaimedPlan{claimed}, child)
	move(t, r, root, repo.TransitionCancel)
	wantClaimed(t, q.take(q.claim()))
	_, err := r.Leases().Renew(t.Context(), claimed.Lease, 0)
	wantLeaseLost(t, err, claimed.Lease)
	if got := getPlan(t, r, grandchild); got.State != repo.PlanCancelled {
		t.Errorf("a plan of the tree is at %v", got.Stage)
	}
}

// A namespace with many older plans does not keep another one's waiting.
func testClaimFair(t *testing.T, r repo.Repositories) {
	long, short := newQueue(t, r), newQueue(t, r)
	long.add(80)
	ids := short.add(5)
	claim := long.claim()
	claim.Namespaces = append(claim.Namespaces, short.namespace)
	claim.Limit = 6 // they take turns
	first := long.take(claim)
	if got := slices.DeleteFunc(idsOf(first), func(id repo.ID) bool { return !slices.Contains(ids, id) }); !slices.Equal(got, ids[:3]) {
		t.Errorf("a claim of 6 plans has %v of the short queue", got)
	}
	claim.Limit = 1 // each has the same chance
	for i := 0; ; i++ {
		got := long.take(claim)
		if len(got) == 1 && got[0].Plan.ID == ids[3] {
			return
		}
		if i == 70 { // which happens once in 2^70 times
			t.Fatal("the short queue was not served")
		}
	}
}

// A use is repeated although the attempt has grown.
func testClaimUseAgain(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	use := repo.UseAction{Key: "k", Namespace: q.namespace, Attempt: 3}
	id := usePlan(t, r, q.action, use).ID
	release(t, r, q.takeOne().Lease)
	if again := q.takeOne(); again.Plan.Attempt != 4 {
		t.Errorf("claimed as %+v", again.Plan)
	}
	wantPlan(t, usePlan(t, r, q.action, use), getPlan(t, r, id))
	use.Attempt = 5
	_, err := r.Plans().Use(t.Context(), q.action, use)
	wantPlanConflict(t, err, repo.ExistsError{Kind: "plan", ID: id, Field: "attempt"})
}

func testClaimInvalid(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	id := q.add(1)[0]
	many := make([]string, limits.MaxClaimLanes+1)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	for field, changes := range map[string][]func(*repo.Claim){
		"owner": {
			func(c *repo.Claim) { c.Owner = "" }, func(c *repo.Claim) { c.Owner = tooLong() },
			func(c *repo.Claim) { c.Owner = secret + "\x00" },
		},
		"namespaces[1]": {
			func(c *repo.Claim) { c.Namespaces = append(c.Namespaces, "") },
			func(c *repo.Claim) { c.Namespaces = append(c.Namespaces, secret+"\xff") },
		},
		"namespaces": {
			func(c *repo.Claim) { c.Namespaces = many },
			func(c *repo.Claim) { c.Namespaces, c.Actions = many[:40], many[:40] },
		},
		"actions":           {func(c *repo.Claim) { c.Actions = many }},
		"actions[0].action": {func(c *repo.Claim) { c.Actions = []string{secret + "/"} }},
		"phases[1]":         {func(c *repo.Claim) { c.Phases = []repo.Phase{repo.PhaseApply, secret} }},
		"ttl":               {func(c *repo.Claim) { c.TTL = repo.MinLeaseTTL - 1 }, func(c *repo.Claim) { c.TTL = -1 }}, // short: refused
		"limit":             {func(c *repo.Claim) { c.Limit = -1 }, func(c *repo.Claim) { c.Limit = limits.MaxClaimedPlans + 1 }},
	} {
		for _, change := range changes {
			claim := q.claim()
			change(&claim)
			_, err := r.Plans().Claim(t.Context(), claim)
			wantInvalid(t, err, field)
		}
	}
	// Only a claim makes this transition.
	move(t, r, id, repo.TransitionStart)
	_, err := r.Plans().Transition(t.Context(), id, repo.TransitionExpire, repo.Cause{})
	wantInvalid(t, err, "transition")
}
