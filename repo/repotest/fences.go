package repotest

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func fenceTests() []test {
	return []test{
		onPlans("Sessions", testFenceSession),
		onPlans("Repeats", testFenceRepeats),
		onPlans("Order", testFenceOrder),
		onPlans("Plans", testFencePlan),
		onPlans("PlanTrees", testFencePlanTree),
		onPlans("MadeLater", testFenceMadeLater),
		onPlans("Restored", testFenceRestored),
		onPlans("OtherTokens", testFenceOtherTokens),
		onPlans("Only", testFencedOnly),
		onPlans("OnlyUpdate", testFencedOnlyUpdate),
		onPlans("Invalid", testFenceInvalid),
	}
}

func leaseOf(t *testing.T, r repo.Repositories, key repo.LeaseKey) repo.Lease {
	t.Helper()
	return acquire(t, r, repo.NewLease{Key: key, Owner: randomName()})
}

// overtake ends a lease, and gives it to another owner.
func overtake(t *testing.T, r repo.Repositories, lease repo.Lease) repo.Lease {
	t.Helper()
	release(t, r, lease)
	return leaseOf(t, r, lease.Key)
}

func wantFenced(t *testing.T, err error, want repo.FencedError) {
	t.Helper()
	if got, ok := wantError[*repo.FencedError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, want)
	}
}

// fencedTurns are turns of each kind.
func fencedTurns(fence int64) map[string]repo.Turn {
	return map[string]repo.Turn{
		"message":  {Messages: users(1), Fence: fence},
		"messages": {Messages: withIDs(users(2)), Fence: fence},
		"call":     {Messages: []repo.NewMessage{{Role: repo.RoleTool, Content: "x", CallID: "c"}}, Fence: fence},
		"id":       {ID: randomName(), Messages: users(1), Fence: fence},
		"own":      {State: []repo.StateChange{set(repo.Scope{}, "a", `1`)}, Fence: fence},
		"shared":   {Messages: users(1), State: []repo.StateChange{set(shared(), "a", `1`)}, Fence: fence},
		"usage":    {Usage: &repo.NewUsage{Cost: 1}, Fence: fence},
	}
}

// A turn is refused if a later fence than its own was given for the session. One without a
// fence is not.
func testFenceSession(t *testing.T, r repo.Repositories) {
	id := create(t, r.Sessions())
	first := leaseOf(t, r, repo.SessionLease(id))
	for _, turn := range fencedTurns(first.Fence) {
		addTurn(t, r, id, turn)
	}
	at := int64(len(readAll(t, r.Sessions(), id)))
	addTurn(t, r, id, repo.Turn{Messages: users(1), Expected: &at, Fence: first.Fence})
	second := overtake(t, r, first)
	before := recordedState(t, r, id)
	for kind, turn := range fencedTurns(first.Fence) {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		if err == nil {
			t.Errorf("%s: accepted", kind)
			continue
		}
		wantFenced(t, err, repo.FencedError{Key: first.Key, Fence: first.Fence, Latest: second.Fence})
	}
	at++
	_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Expected: &at, Fence: first.Fence})
	wantFenced(t, err, repo.FencedError{Key: first.Key, Fence: first.Fence, Latest: second.Fence})
	wantSame(t, "session", recordedState(t, r, id), before)
	release(t, r, second)
	// The last one that had the lease may still write, until another one has it.
	for _, fence := range []int64{second.Fence, 0} {
		for _, turn := range fencedTurns(fence) {
			addTurn(t, r, id, turn)
		}
	}
	appendTo(t, r.Sessions(), id, users(2)...)
}

// What is stored already is returned, whatever the fence is by now: nothing is written.
func testFenceRepeats(t *testing.T, r repo.Repositories) {
	id := create(t, r.Sessions())
	first := leaseOf(t, r, repo.SessionLease(id))
	turn := repo.Turn{ID: randomName(), Messages: users(1), State: []repo.StateChange{set(repo.Scope{}, "a", `1`)}, Fence: first.Fence}
	messages := repo.Turn{Messages: withIDs(users(2)), Fence: first.Fence}
	added := []repo.AppendedTurn{addTurn(t, r, id, turn), addTurn(t, r, id, messages)}
	second := overtake(t, r, first)
	for i, again := range []repo.Turn{turn, messages} {
		for _, again.Fence = range []int64{first.Fence, 0, second.Fence} {
			got := addTurn(t, r, id, again)
			if !got.Repeated {
				t.Errorf("not repeated: %+v", got)
			}
			wantMessages(t, got.Messages, added[i].Messages)
		}
	}
	stored := wantCount(t, r.Sessions(), id, 3)
	_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{
		SessionID: id,
		Messages:  []repo.NewMessage{{ID: stored[1].ID, Role: repo.RoleUser, Content: "another"}}, Fence: first.Fence,
	})
	wantMessageConflict(t, err, id, stored[1].ID, "content")
}

// A session that does not exist is found first, the fence before other conditions.
func testFenceOrder(t *testing.T, r repo.Repositories) {
	id, missing := create(t, r.Sessions()), repo.NewID()
	first := leaseOf(t, r, repo.SessionLease(id))
	second := overtake(t, r, first)
	late := repo.FencedError{Key: first.Key, Fence: first.Fence, Latest: second.Fence}
	for _, turn := range []repo.Turn{
		{Messages: users(1), Expected: ptr(int64(7)), Fence: first.Fence},
		{Messages: users(1), IfScopes: []repo.ScopeVersion{{Scope: shared(), Version: 7}}, Fence: first.Fence},
	} {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		wantFenced(t, err, late)
		_, err = r.Sessions().AppendTurn(t.Context(), inSession(missing, turn))
		wantNotFound(t, err, "session", missing)
	}
	_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Expected: ptr(int64(7)), Fence: second.Fence})
	wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: 7})
	_, err = r.Plans().Progress(t.Context(), missing, repo.Progress{Fence: first.Fence})
	wantNotFound(t, err, "plan", missing)
	for _, transition := range []repo.Transition{repo.TransitionStart, repo.TransitionCancel} {
		_, err = r.Plans().Transition(t.Context(), missing, transition, repo.Cause{Reason: "r", Fence: first.Fence})
		wantNotFound(t, err, "plan", missing)
	}
}

// A transition and a progress are refused if a later fence was given for the plan.
func testFencePlan(t *testing.T, r repo.Repositories) {
	plan := usePlan(t, r, plain(t, r), repo.UseAction{})
	first := leaseOf(t, r, repo.PlanLease(plan.ID))
	move := func(transition repo.Transition, fence int64) (repo.Plan, error) {
		cause := repo.Cause{Fence: fence}
		if transition == repo.TransitionFail || transition == repo.TransitionCancel {
			cause.Reason = "reason"
		}
		return r.Plans().Transition(t.Context(), plan.ID, transition, cause)
	}
	moves := func(transition repo.Transition, fence int64) {
		t.Helper()
		moved, err := move(transition, fence)
		must(t, moved, err)
	}
	progress := func(step, fence int64) error {
		_, err := r.Plans().Progress(t.Context(), plan.ID, repo.Progress{CompletedStep: &step, Fence: fence})
		return err
	}
	moves(repo.TransitionStart, first.Fence)
	if err := progress(1, first.Fence); err != nil {
		t.Error(err)
	}
	second := overtake(t, r, first)
	late := repo.FencedError{Key: first.Key, Fence: first.Fence, Latest: second.Fence}
	before := getPlan(t, r, plan.ID)
	for _, transition := range []repo.Transition{
		repo.TransitionComplete, repo.TransitionFail, repo.TransitionCancel,
		repo.TransitionStart, repo.TransitionResume, // which its stage does not allow either
	} {
		_, err := move(transition, first.Fence)
		wantFenced(t, err, late)
	}
	wantFenced(t, progress(2, first.Fence), late)
	wantSame(t, "plan", getPlan(t, r, plan.ID), before)
	if err := progress(3, second.Fence); err != nil {
		t.Error(err)
	}
	moves(repo.TransitionComplete, second.Fence)
	wantFenced(t, progress(4, first.Fence), late)
	_, _ = wantError[*repo.TransitionConflictError](t, progress(4, second.Fence), repo.ErrConflict)
	moves(repo.TransitionExecute, 0)
	moves(repo.TransitionExecute, first.Fence) // it is there already: nothing is written
	moves(repo.TransitionCancel, second.Fence)
}

// A cancellation needs the fence of the plan alone, not those of its descendants.
func testFencePlanTree(t *testing.T, r repo.Repositories) {
	action := plain(t, r)
	root := usePlan(t, r, action, repo.UseAction{})
	child := usePlan(t, r, action, repo.UseAction{ParentID: root.ID})
	first, below := leaseOf(t, r, repo.PlanLease(root.ID)), leaseOf(t, r, repo.PlanLease(child.ID))
	second := overtake(t, r, first)
	cancel := func(fence int64) error {
		_, err := r.Plans().Transition(t.Context(), root.ID, repo.TransitionCancel, repo.Cause{Reason: "r", Fence: fence})
		return err
	}
	for _, fence := range []int64{first.Fence, below.Fence} {
		wantFenced(t, cancel(fence), repo.FencedError{Key: first.Key, Fence: fence, Latest: second.Fence})
	}
	if err := cancel(second.Fence); err != nil || getPlan(t, r, child.ID).Live() {
		t.Errorf("cancelled, %v; the child is at %v", err, getPlan(t, r, child.ID).Stage)
	}
	again, err := r.Plans().Transition(t.Context(), root.ID, repo.TransitionStart, repo.Cause{Fence: second.Fence})
	if err == nil {
		t.Errorf("started %+v", again.Stage)
	}
}

// A lease may be older than what it names.
func testFenceMadeLater(t *testing.T, r repo.Repositories) {
	ids := make([]repo.ID, 6)
	leases := make([]repo.Lease, len(ids))
	for i := range ids {
		ids[i] = repo.NewID()
		leases[i] = leaseOf(t, r, repo.SessionLease(ids[i]))
		createdBy := map[bool]*repo.NewSession{true: {}}[i%2 == 0]
		if createdBy == nil {
			createAs(t, r.Sessions(), repo.NewSession{ID: ids[i]})
		}
		turn := []repo.Turn{
			{Messages: users(1)},
			{Messages: withIDs(users(2))},
			{ID: randomName(), Messages: users(1)},
			{State: []repo.StateChange{set(shared(), "a", `1`)}},
			{State: []repo.StateChange{set(repo.Scope{}, "a", `1`)}},
			{Messages: users(1)},
		}[i]
		turn.Create, turn.Fence = createdBy, leases[i].Fence
		if i == 5 {
			addTurns(t, r, inSession(ids[i], turn), repo.Turn{SessionID: ids[0], Messages: users(1), Fence: leases[0].Fence})
		} else {
			addTurn(t, r, ids[i], turn)
		}
	}
	for i, id := range ids {
		second := overtake(t, r, leases[i])
		_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Fence: leases[i].Fence})
		wantFenced(t, err, repo.FencedError{Key: second.Key, Fence: leases[i].Fence, Latest: second.Fence})
	}
	// The same owner has the lease again: the same fence.
	id := repo.NewID()
	asked := repo.NewLease{Key: repo.SessionLease(id), Owner: randomName()}
	first := acquire(t, r, asked)
	createAs(t, r.Sessions(), repo.NewSession{ID: id})
	acquire(t, r, asked)
	release(t, r, first)
	addTurn(t, r, id, repo.Turn{Messages: users(1), Fence: first.Fence})
	wantPlanFenced(t, r)
}

// wantPlanFenced wants what writes to a plan to learn of fences that were given before the plan knew of one.
func wantPlanFenced(t *testing.T, r repo.Repositories) {
	t.Helper()
	action := plain(t, r)
	for _, write := range []func(id repo.ID, fence int64) error{
		func(id repo.ID, fence int64) error {
			_, err := r.Plans().Transition(t.Context(), id, repo.TransitionStart, repo.Cause{Fence: fence})
			return err
		},
		func(id repo.ID, fence int64) error {
			_, err := r.Plans().Transition(t.Context(), id, repo.TransitionCancel, repo.Cause{Reason: "r", Fence: fence})
			return err
		},
		func(id repo.ID, fence int64) error {
			_, err := r.Plans().Transition(t.Context(), id, repo.TransitionStart, repo.Cause{})
			if err == nil {
				_, err = r.Plans().Progress(t.Context(), id, repo.Progress{CheckpointID: ptr("c"), Fence: fence})
			}
			return err
		},
	} {
		id := usePlan(t, r, action, repo.UseAction{}).ID // knows no fence
		first := leaseOf(t, r, repo.PlanLease(id))
		second := overtake(t, r, first)
		_, err := r.Plans().Transition(t.Context(), id, repo.TransitionStart, repo.Cause{Fence: first.Fence})
		wantFenced(t, err, repo.FencedError{Key: second.Key, Fence: first.Fence, Latest: second.Fence})
		if err := write(id, second.Fence); err != nil {
			t.Error(err)
		}
	}
}

// A session that was deleted and restored knows no fence. It asks the lease.
func testFenceRestored(t *testing.T, r repo.Repositories) {
	id := create(t, r.Sessions())
	first := leaseOf(t, r, repo.SessionLease(id))
	second := overtake(t, r, first)
	addTurn(t, r, id, repo.Turn{Messages: users(1), Fence: second.Fence})
	wantRoundTrip(t, r.Sessions(), id)
	for _, turn := range fencedTurns(first.Fence) {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		wantFenced(t, err, repo.FencedError{Key: first.Key, Fence: first.Fence, Latest: second.Fence})
	}
	addTurn(t, r, id, repo.Turn{Messages: users(1), Fence: second.Fence})
}

// A fence of another key, of no lease, or of a lease that ended before the session was
// made, is refused, although it is larger than any that the session knows.
func testFenceOtherTokens(t *testing.T, r repo.Repositories) {
	id, later := create(t, r.Sessions()), repo.NewID()
	plan := usePlan(t, r, plain(t, r), repo.UseAction{})
	held, planned := leaseOf(t, r, repo.SessionLease(id)), leaseOf(t, r, repo.PlanLease(plan.ID))
	ended := leaseOf(t, r, repo.SessionLease(later))
	release(t, r, ended)
	createAs(t, r.Sessions(), repo.NewSession{ID: later})
	other := leaseOf(t, r, newLease().Key)
	for _, wrong := range []int64{other.Fence, 1<<63 - 1} {
		for _, turn := range fencedTurns(wrong) {
			_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
			wantFenced(t, err, repo.FencedError{Key: held.Key, Fence: wrong, Latest: held.Fence})
		}
		_, err := r.Plans().Transition(t.Context(), plan.ID, repo.TransitionStart, repo.Cause{Fence: wrong})
		wantFenced(t, err, repo.FencedError{Key: planned.Key, Fence: wrong, Latest: planned.Fence})
		_, err = r.Plans().Progress(t.Context(), plan.ID, repo.Progress{Fence: wrong})
		wantFenced(t, err, repo.FencedError{Key: planned.Key, Fence: wrong, Latest: planned.Fence})
	}
	for _, turn := range fencedTurns(ended.Fence) {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(later, turn))
		wantFenced(t, err, repo.FencedError{Key: ended.Key, Fence: ended.Fence})
	}
	addTurn(t, r, id, repo.Turn{Messages: users(1), Fence: held.Fence})
}

// A session may take only writes that have a fence.
func testFencedOnly(t *testing.T, r repo.Repositories) {
	session := createAs(t, r.Sessions(), repo.NewSession{FencedOnly: true})
	id := session.ID
	wantRefused := func(latest int64) {
		t.Helper()
		want := repo.FencedError{Key: repo.SessionLease(id), Latest: latest}
		_, err := r.Sessions().Append(t.Context(), id, users(1)...)
		wantFenced(t, err, want)
		_, err = r.Sessions().Append(t.Context(), id, withIDs(users(2))...)
		wantFenced(t, err, want)
		_, err = appendAt(t.Context(), r.Sessions(), id, 0, users(1)...)
		wantFenced(t, err, want)
		for _, turn := range fencedTurns(0) {
			_, err = r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
			wantFenced(t, err, want)
		}
	}
	wantRefused(0)
	lease := leaseOf(t, r, repo.SessionLease(id))
	wantRefused(lease.Fence)
	stored := withIDs(users(1))
	addTurn(t, r, id, repo.Turn{Messages: stored, Fence: lease.Fence})
	wantMessages(t, appendTo(t, r.Sessions(), id, stored...), wantCount(t, r.Sessions(), id, 1)) // a repeat
	turn := repo.NewID()
	_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: turn, Messages: users(1), Create: &repo.NewSession{FencedOnly: true}})
	wantFenced(t, err, repo.FencedError{Key: repo.SessionLease(turn)})
	_, err = r.Sessions().Get(t.Context(), turn)
	wantNotFound(t, err, "session", turn)

	if !session.FencedOnly || !get(t, r.Sessions(), id).FencedOnly {
		t.Errorf("created %+v", session)
	}
	read, err := r.Sessions().Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{id, create(t, r.Sessions())}})
	if must(t, read, err); !read.Sessions[0].Session.FencedOnly || read.Sessions[1].Session.FencedOnly {
		t.Errorf("read %+v", read.Sessions)
	}
	_, err = r.Sessions().Create(t.Context(), repo.NewSession{ID: id})
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Field: "fenced_only"})
	again, err := r.Sessions().Create(t.Context(), repo.NewSession{ID: id, FencedOnly: true})
	if must(t, again, err); !again.Existed {
		t.Error("created again")
	}
}

// An update changes whether writes need a fence, and with it the version.
func testFencedOnlyUpdate(t *testing.T, r repo.Repositories) {
	namespace, owner := spaceOf(r), randomName()
	id := createAs(t, r.Sessions(), repo.NewSession{Namespace: namespace, Owner: owner}).ID
	update := func(update repo.SessionUpdate, only bool, version int64) {
		t.Helper()
		updated, err := r.Sessions().Update(t.Context(), id, update)
		must(t, updated, err)
		wantSession(t, get(t, r.Sessions(), id), updated)
		if updated.FencedOnly != only || updated.Version != version {
			t.Errorf("updated to %+v", updated)
		}
		for _, filter := range []repo.SessionFilter{{AnyOwner: true}, {Owner: owner}, {AnyOwner: true, ByActivity: true}} {
			filter.Namespace = namespace
			listed, err := r.Sessions().List(t.Context(), filter, repo.Page{})
			if must(t, listed, err); len(listed.Items) != 1 || listed.Items[0].FencedOnly != only {
				t.Errorf("listed %+v", listed.Items)
			}
		}
		_, err = r.Sessions().Append(t.Context(), id, users(1)...)
		if only {
			wantFenced(t, err, repo.FencedError{Key: repo.SessionLease(id)})
		} else if err != nil {
			t.Error(err)
		}
	}
	update(repo.SessionUpdate{FencedOnly: ptr(true)}, true, 2)
	update(repo.SessionUpdate{Actor: ptr("a")}, true, 3)
	update(repo.SessionUpdate{FencedOnly: ptr(false), MetadataPatch: []byte(`{"a":1}`), IfVersion: ptr(int64(3))}, false, 4)
	update(repo.SessionUpdate{FencedOnly: ptr(true), Budget: ptr(repo.Cost(7))}, true, 5)
	_, err := r.Sessions().Update(t.Context(), id, repo.SessionUpdate{FencedOnly: ptr(false), IfVersion: ptr(int64(1))})
	if _, ok := wantError[*repo.VersionConflictError](t, err, repo.ErrConflict); ok && !get(t, r.Sessions(), id).FencedOnly {
		t.Error("changed by an update that was refused")
	}
	missing := repo.NewID()
	_, err = r.Sessions().Update(t.Context(), missing, repo.SessionUpdate{FencedOnly: ptr(false)})
	wantNotFound(t, err, "session", missing)
}

func testFenceInvalid(t *testing.T, r repo.Repositories) {
	id := repo.NewID()
	_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Fence: -1})
	wantInvalid(t, err, "fence")
	_, err = r.Plans().Transition(t.Context(), id, repo.TransitionStart, repo.Cause{Fence: -1})
	wantInvalid(t, err, "fence")
	_, err = r.Plans().Progress(t.Context(), id, repo.Progress{Fence: -1})
	wantInvalid(t, err, "fence")
}
