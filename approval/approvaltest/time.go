package approvaltest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

// A decision after the expiry is refused, and so is a use.
func testEnded(t *testing.T, w *world) {
	request, in := w.request(), w.request()
	w.askExpired(request)
	w.ask(in)
	requests, err := w.decide("bob", approval.Approve, request.Ref, in.Ref)
	wantDecided(t, err, approval.Expired)
	if len(requests) != 2 || requests[0].Status != approval.Expired || len(requests[0].Votes) != 0 || requests[1].Status != approval.Approved {
		t.Errorf("%+v", requests)
	}
	w.wantStatus(request.Ref, approval.Expired)
	w.wantListed("bob")
	_, err = w.decide("bob", approval.Approve, request.Ref)
	wantDecided(t, err, approval.Expired)
	wantNotPermitted(t, w.use(request.Ref, pay), approval.Expired, "")
	late := w.request()
	late.Until = w.now().Add(-time.Second)
	err = w.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := w.approvals.Ask(ctx, tx, late)
		return err
	})
	if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != "until" {
		t.Error(err)
	}
}

// An unused approval expires, too; and a plan that waits is due by itself.
func testPassed(t *testing.T, w *world) {
	if w.advance == nil {
		t.Skip("the clock cannot be moved")
	}
	request, quorum := w.request(), w.request()
	quorum.Deciders, quorum.Quorum = []string{"bob", "carl"}, 2
	w.ask(request)
	w.ask(quorum)
	w.approve("bob", request.Ref, quorum.Ref)
	w.plan(repo.UseAction{}, repo.PhaseExecute)
	waits := w.request()
	claimed := w.claim()[0]
	waits.PlanID, waits.Fence = claimed.Plan.ID, claimed.Lease.Fence
	w.ask(waits)
	if again := w.claim(); len(again) > 0 {
		t.Errorf("%+v", again)
	}
	w.advance(2 * time.Hour)
	wantNotPermitted(t, w.use(request.Ref, pay), approval.Expired, "")
	_, err := w.decide("carl", approval.Approve, quorum.Ref)
	wantDecided(t, err, approval.Expired)
	_, err = w.decide("bob", approval.Approve, quorum.Ref)
	wantDecided(t, err, approval.Expired)
	if again := w.claim(); len(again) != 1 || again[0].Plan.ID != claimed.Plan.ID {
		t.Errorf("%+v", again)
	} else if r := w.ask(func() approval.NewRequest { r := waits; r.Fence = again[0].Lease.Fence; return r }()); r.Status != approval.Expired {
		t.Errorf("%+v", r)
	}
	w.wantStage(claimed.Plan.ID, "execute/processing")
	w.wantStatus(waits.Ref, approval.Expired)
	if expired, err := w.approvals.Expire(t.Context(), 0); expired != 1 || err != nil { // request, whose use was undone
		t.Error(expired, err)
	}
	w.wantStatus(request.Ref, approval.Expired)
}

// A sweep ends what has expired, in small steps, and removes what deleted sessions have left.
func testSweep(t *testing.T, w *world) {
	kept := w.request()
	kept.Deciders = []string{"bob", "carl"}
	w.ask(kept)
	gone := w.newSession()
	for i := range 5 {
		request := w.request()
		request.SessionID = []repo.ID{w.session, gone}[i%2]
		request.Deciders = []string{"bob", "carl"}
		w.askExpired(request)
	}
	_, err := w.store.Sessions().Delete(t.Context(), gone)
	w.must(err)
	if list, err := w.approvals.List(t.Context(), "bob", repo.Page{}); err != nil || len(list.Items) != 4 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, want := range []int{2, 2, 1, 0} {
		if expired, err := w.approvals.Expire(t.Context(), 2); expired != want || err != nil {
			t.Errorf("%d, %v; want %d", expired, err, want)
		}
	}
	w.wantListed("bob", kept.ID)
	w.wantListed("carl", kept.ID)
	if got := w.entries(w.session); got != "expired by , expired by , expired by " {
		t.Error(got)
	}
	plan := w.plan(repo.UseAction{})
	for _, to := range []repo.Transition{repo.TransitionStart, repo.TransitionComplete} {
		_, err := w.store.Plans().Transition(t.Context(), plan.ID, to, repo.Cause{})
		w.must(err)
	}
	request := w.request()
	request.PlanID = plan.ID
	w.askExpired(request)
	_, err = w.approvals.Expire(t.Context(), 0)
	w.must(err)
	w.wantStage(plan.ID, "strategize/cancelled")
	for range 3 {
		broken, fine := w.request(), w.request()
		w.askExpired(broken)
		w.askExpired(fine)
		fails := errors.New("no")
		w.approvals = w.open(approval.Options{Decided: func(_ context.Context, _ repo.Repositories, r approval.Request) error {
			if r.ID == broken.ID {
				return fails
			}
			return nil
		}})
		if expired, err := w.approvals.Expire(t.Context(), 0); expired != 1 || !errors.Is(err, fails) {
			t.Errorf("%d, %v", expired, err)
		}
		w.wantStatus(fine.Ref, approval.Expired)
		w.wantStatus(broken.Ref, approval.Open)
		w.approvals = w.open(approval.Options{})
		if expired, err := w.approvals.Expire(t.Context(), 0); expired != 1 || err != nil {
			t.Errorf("%d, %v", expired, err)
		}
	}
}

// A fork has no approval of the session's.
func testFork(t *testing.T, w *world) {
	_, err := w.store.Sessions().Append(t.Context(), w.session, repo.NewMessage{Role: repo.RoleUser, Content: "q"})
	w.must(err)
	request := w.request()
	w.ask(request)
	w.approve("bob", request.Ref)
	fork, err := w.store.Sessions().Fork(t.Context(), w.session, 0, repo.NewSession{})
	w.must(err)
	other := approval.Ref{SessionID: fork.ID, ID: request.ID}
	if err := w.use(other, pay); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	if _, err := w.decide("bob", approval.Approve, other); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	w.must(w.use(request.Ref, pay))
}

func (w *world) exported() *bytes.Buffer {
	w.Helper()
	var document bytes.Buffer
	w.must(w.store.Sessions().Export(w.Context(), w.session, &document))
	return &document
}

// What was used stays so, also if the session is restored as it was before; what was not can be used after it.
func testRestored(t *testing.T, w *world) {
	open, approved, used := w.request(), w.request(), w.request()
	w.ask(open)
	w.ask(approved)
	w.ask(used)
	w.approve("bob", approved.Ref, used.Ref)
	before := w.exported()
	if _, err := w.store.Sessions().Import(t.Context(), bytes.NewReader(before.Bytes()), false); !errors.Is(err, repo.ErrImport) { // beside the original
		t.Error(err)
	}
	w.must(w.use(used.Ref, pay))
	_, err := w.store.Sessions().Delete(t.Context(), w.session)
	w.must(err)
	if err := w.use(approved.Ref, pay); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	_, err = w.store.Sessions().Import(t.Context(), before, true)
	w.must(err)
	wantForeign(t, w.use(used.Ref, pay))
	w.must(w.use(approved.Ref, pay))
	wantNotPermitted(t, w.use(approved.Ref, pay), approval.Used, "")
	w.approve("bob", open.Ref)
	w.must(w.use(open.Ref, pay))
}

// State stays as it is when a session is rewound: what was asked is asked, and what was used is used.
func testRewind(t *testing.T, w *world) {
	_, err := w.store.Sessions().Append(t.Context(), w.session, repo.NewMessage{Role: repo.RoleUser, Content: "q"}, repo.NewMessage{Role: repo.RoleUser, Content: "r"})
	w.must(err)
	request := w.request()
	w.ask(request)
	w.approve("bob", request.Ref)
	w.must(w.use(request.Ref, pay))
	_, err = w.store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: w.session, After: new(int64), Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "s"}}})
	w.must(err)
	if r := w.ask(request); r.Status != approval.Used {
		t.Errorf("%+v", r)
	}
	wantNotPermitted(t, w.use(request.Ref, pay), approval.Used, "")
}
