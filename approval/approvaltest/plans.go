package approvaltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

func (w *world) plan(use repo.UseAction, phases ...repo.Phase) repo.Plan {
	w.Helper()
	name := w.namespace + "/a" + repo.NewID().String()
	_, err := w.store.Actions().Create(w.Context(), repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true, Phases: phases}})
	w.must(err)
	use.SessionID = w.session
	plan, err := w.store.Plans().Use(w.Context(), name, use)
	w.must(err)
	return plan
}

func (w *world) claim() []repo.ClaimedPlan {
	w.Helper()
	claimed, err := w.store.Plans().Claim(w.Context(), repo.Claim{Owner: "worker", Namespaces: []string{w.namespace}, Limit: 10, TTL: time.Hour})
	w.must(err)
	return claimed
}

func (w *world) wantStage(id repo.ID, want string) {
	w.Helper()
	plan, err := w.store.Plans().Get(w.Context(), id)
	if got := fmt.Sprintf("%s/%s", plan.Phase, plan.State); err != nil || got != want {
		w.Errorf("%s, %v; want %s", got, err, want)
	}
}

// A plan that asks while it is processed is claimed only after the decision, whatever that is. Its attempt stays.
func testPlanProcessing(t *testing.T, w *world) {
	for _, verdict := range []approval.Verdict{approval.Approve, approval.Deny, approval.Withdraw} {
		plan := w.plan(repo.UseAction{}, repo.PhaseExecute)
		claimed := w.claim()
		if len(claimed) != 1 {
			t.Fatal(claimed)
		}
		request := w.request()
		request.PlanID, request.Fence = plan.ID, claimed[0].Lease.Fence
		w.ask(request)
		if again := w.claim(); len(again) > 0 {
			t.Fatalf("%+v", again)
		}
		w.wantStage(plan.ID, "execute/queued")
		w.ask(request) // of a process that does not know
		by := map[bool]string{true: "anna", false: "bob"}[verdict == approval.Withdraw]
		if _, err := w.decide(by, verdict, request.Ref); err != nil {
			t.Fatal(err)
		}
		again := w.claim()
		if len(again) != 1 || again[0].Plan.ID != plan.ID || again[0].Plan.Attempt != 1 {
			t.Fatalf("%+v", again)
		}
		request.Fence = again[0].Lease.Fence
		if r := w.ask(request); r.Status == approval.Open {
			t.Errorf("%+v", r)
		}
		w.wantStage(plan.ID, "execute/processing")
		_, err := w.store.Plans().Transition(t.Context(), plan.ID, repo.TransitionComplete, repo.Cause{Fence: request.Fence})
		w.must(err)
	}
}

// A worker that has lost the plan cannot ask for it, and a plan that has to be asked for again waits again.
func testPlanQueued(t *testing.T, w *world) {
	ask := func(request approval.NewRequest) error {
		return w.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			_, err := w.approvals.Ask(ctx, tx, request)
			return err
		})
	}
	request := w.request()
	plan := w.plan(repo.UseAction{}, repo.PhaseExecute)
	request.PlanID = plan.ID
	if _, refused := errors.AsType[*repo.RefusedError](ask(request)); !refused {
		t.Error("a plan that is due was made to wait")
	}
	if _, err := w.approvals.Get(t.Context(), request.Ref); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	first := w.claim()[0]
	_, err := w.store.Plans().Transition(t.Context(), plan.ID, repo.TransitionSnooze, repo.Cause{})
	w.must(err)
	w.claim()
	request.Fence = first.Lease.Fence
	if _, fenced := errors.AsType[*repo.FencedError](ask(request)); !fenced {
		t.Error("an old worker has asked")
	}
	later := w.plan(repo.UseAction{NotBefore: request.Until}, repo.PhaseExecute)
	request.PlanID, request.Fence = later.ID, 0
	w.ask(request)
	w.approve("bob", request.Ref)
	if claimed := w.claim(); len(claimed) != 1 || claimed[0].Plan.ID != later.ID {
		t.Errorf("%+v", claimed)
	}
	two := w.request()
	two.PlanID = later.ID
	w.ask(two)
	w.wantStage(later.ID, "execute/queued")
	_, err = w.store.Plans().Transition(t.Context(), later.ID, repo.TransitionCancel, repo.Cause{Reason: "enough"})
	w.must(err)
	w.approve("bob", two.Ref) // what is cancelled stays so
	w.wantStage(later.ID, "execute/cancelled")
	three := w.request()
	three.PlanID = later.ID
	if _, refused := errors.AsType[*repo.RefusedError](ask(three)); !refused {
		t.Error("a plan that has ended was made to wait")
	}
	three.PlanID = repo.NewID()
	if err := ask(three); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
}

// A plan between two phases goes on with an approval, and is cancelled without.
func testPlanComplete(t *testing.T, w *world) {
	for _, phases := range [][]repo.Phase{nil, {repo.PhaseStrategize, repo.PhaseExecute}, {repo.PhaseStrategize, repo.PhaseApply}, {repo.PhaseExecute, repo.PhaseApply}} {
		for verdict, state := range map[approval.Verdict]string{approval.Approve: "queued", approval.Deny: "cancelled"} {
			plan := w.plan(repo.UseAction{}, phases...)
			for _, to := range []repo.Transition{repo.TransitionStart, repo.TransitionComplete} {
				_, err := w.store.Plans().Transition(t.Context(), plan.ID, to, repo.Cause{})
				w.must(err)
			}
			request := w.request()
			request.PlanID = plan.ID
			w.ask(request)
			_, err := w.decide("bob", verdict, request.Ref)
			w.must(err)
			at, next := plan.Phase, repo.PhaseExecute
			if len(phases) > 0 {
				at, next = phases[0], phases[1]
			}
			if verdict == approval.Deny {
				next = at
			}
			w.wantStage(plan.ID, string(next)+"/"+state)
		}
	}
}

// The caller's part of a decision is in its commit, and undoes it.
func testHook(t *testing.T, w *world) {
	fails, calls := errors.New("no"), 0
	w.approvals = w.open(approval.Options{Decided: func(ctx context.Context, tx repo.Repositories, r approval.Request) error {
		_, err := tx.Sessions().Append(ctx, r.SessionID, repo.NewMessage{Role: repo.RoleTool, Content: string(r.Status)})
		if calls++; calls == 1 {
			return fails
		}
		return err
	}})
	request := w.request()
	w.ask(request)
	if _, err := w.decide("bob", approval.Deny, request.Ref); !errors.Is(err, fails) {
		t.Error(err)
	}
	w.wantStatus(request.Ref, approval.Open)
	w.approve("bob", request.Ref)
	w.approve("bob", request.Ref)
	messages, err := w.store.Sessions().LastMessages(t.Context(), w.session, 10)
	if err != nil || len(messages) != 1 || messages[0].Content != "approved" {
		t.Errorf("%+v, %v", messages, err)
	}
}

// A turn asks, once.
func testTurn(t *testing.T, w *world) {
	request := w.request()
	changes, err := w.approvals.InTurn(request)
	w.must(err)
	turn := repo.Turn{SessionID: w.session, ID: "turn", State: changes, Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "May I?"}}}
	for range 2 {
		_, err := w.store.Sessions().AppendTurn(t.Context(), turn)
		w.must(err)
	}
	w.wantListed("bob", request.ID)
	w.approve("bob", request.Ref)
	turn.ID = "another"
	_, err = w.store.Sessions().AppendTurn(t.Context(), turn)
	if _, conflict := errors.AsType[*repo.VersionConflictError](err); !conflict {
		t.Error(err)
	}
	w.must(w.use(request.Ref, pay))
	created := repo.NewID()
	first := w.request()
	first.SessionID = created
	changes, err = w.approvals.InTurn(first)
	w.must(err)
	_, err = w.store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: created, Create: &repo.NewSession{ID: created}, ID: "turn", State: changes})
	w.must(err)
	w.approve("bob", first.Ref)
}
