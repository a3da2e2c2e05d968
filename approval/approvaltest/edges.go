package approvaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

func (w *world) tryAsk(request approval.NewRequest) (asked approval.Request, err error) {
	return asked, w.store.InTx(w.Context(), func(ctx context.Context, tx repo.Repositories) (err error) {
		asked, err = w.approvals.Ask(ctx, tx, request)
		return err
	})
}

// A session is restored as it was before it asked, and asks again with the same id: what was left of the first request
// expires, and the new one does not.
func testMadeAgain(t *testing.T, w *world) {
	before := w.exported()
	request := w.request()
	request.Deciders = []string{"bob", "carl"}
	w.askExpired(request)
	_, err := w.store.Sessions().Delete(t.Context(), w.session)
	w.must(err)
	_, err = w.store.Sessions().Import(t.Context(), before, true)
	w.must(err)
	request.Deciders = []string{"bob"}
	w.ask(request)
	w.approve("bob", request.Ref)
	for _, want := range []int{1, 0} {
		if expired, err := w.approvals.Expire(t.Context(), 0); expired != want || err != nil {
			t.Errorf("%d, %v; want %d", expired, err, want)
		}
	}
	w.wantListed("carl")
	w.must(w.use(request.Ref, pay))
}

// An error of the caller's is told, also one that looks as if another writer was first.
func testHookConflict(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // it would go on for ever
	defer cancel()
	scope := repo.Scope{SessionID: w.session}
	_, err := w.store.State().Change(ctx, []repo.StateChange{{Scope: scope, Key: "there", Value: []byte("1")}})
	w.must(err)
	w.approvals = w.open(approval.Options{Decided: func(ctx context.Context, tx repo.Repositories, r approval.Request) error {
		_, err := tx.State().Change(ctx, []repo.StateChange{{Scope: scope, Key: "there", Value: []byte("2"), IfVersion: new(int64)}})
		return err
	}})
	request, expired := w.request(), w.request()
	w.ask(request)
	w.askExpired(expired)
	_, err = w.approvals.Decide(ctx, "bob", approval.Answer{Ref: request.Ref, Verdict: approval.Approve})
	if _, conflict := errors.AsType[*repo.VersionConflictError](err); !conflict {
		t.Error(err)
	}
	w.wantStatus(request.Ref, approval.Open)
	n, err := w.approvals.Expire(ctx, 0)
	if _, conflict := errors.AsType[*repo.VersionConflictError](err); !conflict || n != 0 {
		t.Error(n, err)
	}
}

// What is of the greatest size can be asked, decided and used. So many votes are of one store: each writes them all.
func testSizes(t *testing.T, w *world) {
	w.approvals = w.open(approval.Options{MayDecide: anybody})
	wide := func(n, most int) string {
		return strings.Repeat("\x01", most-4) + fmt.Sprintf("%04d", n)
	}
	request := w.request()
	plan := w.plan(repo.UseAction{}, repo.PhaseExecute)
	claimed := w.claim()[0]
	request.PlanID, request.Fence = plan.ID, claimed.Lease.Fence
	request.ID, request.Kind, request.Subject, request.By = wide(1, 255), wide(2, 255), wide(3, 255), wide(4, 255)
	if request.Quorum = 2; w.advance != nil {
		request.Quorum = approval.MaxQuorum
	}
	request.Deciders, request.Text = nil, strings.Repeat("\x01", approval.MaxText)
	request.Until = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.FixedZone("", -1))
	if _, err := w.approvals.InTurn(request); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	request.Until = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	for i := range approval.MaxDeciders {
		request.Deciders = append(request.Deciders, wide(i, 255))
	}
	w.ask(request)
	for i := range request.Quorum {
		_, err := w.approvals.Decide(t.Context(), wide(i+100, 255),
			approval.Answer{Ref: request.Ref, Verdict: approval.Approve, Reason: wide(i, approval.MaxReason)})
		if err != nil {
			t.Fatalf("vote %d: %v", i, err)
		}
	}
	if again := w.claim(); len(again) != 1 {
		t.Errorf("%+v", again)
	}
	w.must(w.use(request.Ref, approval.Act{Kind: request.Kind, Subject: request.Subject, Arguments: request.Arguments}))
}

// A quorum below zero, or of too many, is not one; nor is a name that cannot be stored.
func testZero(t *testing.T, w *world) {
	w.approvals = w.open(approval.Options{MayDecide: anybody})
	for _, quorum := range []int{-1, approval.MaxQuorum + 1} {
		request := w.request()
		request.Quorum = quorum
		if _, err := w.approvals.InTurn(request); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%d: %v", quorum, err)
		}
	}
	if _, err := w.approvals.Get(t.Context(), approval.Ref{}); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	for _, id := range []string{"a\x00", "\xff", strings.Repeat("x", 3000)} {
		ref := approval.Ref{SessionID: w.session, ID: id}
		if _, err := w.approvals.Get(t.Context(), ref); !errors.Is(err, repo.ErrInvalid) {
			t.Error(err)
		}
		if err := w.use(ref, pay); !errors.Is(err, repo.ErrInvalid) {
			t.Error(err)
		}
		if _, err := w.decide("bob", approval.Approve, ref); !errors.Is(err, repo.ErrInvalid) {
			t.Error(err)
		}
	}
}

// Asking again after the expiry reports it, also without a plan.
func testAskExpired(t *testing.T, w *world) {
	request := w.request()
	w.askExpired(request)
	if asked, err := w.tryAsk(request); asked.Status != approval.Expired || err != nil {
		t.Errorf("%+v, %v", asked, err)
	}
	w.wantStatus(request.Ref, approval.Expired)
}

// A predicate may do what it likes with the request that it is given.
func testPredicate(t *testing.T, w *world) {
	w.approvals = w.open(approval.Options{MayDecide: func(_ context.Context, r approval.Request, by string) (bool, error) {
		groups := slices.DeleteFunc(r.Deciders, func(name string) bool { return !strings.HasPrefix(name, "group:") })
		return len(groups) == 1 && by == "carl", nil
	}})
	request := w.request()
	request.Deciders = []string{"bob", "group:ops"}
	w.ask(request)
	if r := w.approve("carl", request.Ref); !slices.Equal(r[0].Deciders, []string{"bob", "group:ops"}) {
		t.Errorf("%+v", r)
	}
	w.wantListed("bob")
	w.ask(request)
}

// A plan asks for two acts in one transaction, each with a time of its own.
func testTwoRequests(t *testing.T, w *world) {
	plan := w.plan(repo.UseAction{}, repo.PhaseExecute)
	claimed := w.claim()[0]
	one, two := w.request(), w.request()
	one.PlanID, one.Fence, two.PlanID, two.Fence = plan.ID, claimed.Lease.Fence, plan.ID, claimed.Lease.Fence
	two.Until = two.Until.Add(time.Second)
	w.must(w.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := w.approvals.Ask(ctx, tx, one); err != nil {
			return err
		}
		_, err := w.approvals.Ask(ctx, tx, two)
		return err
	}))
	w.approve("bob", two.Ref)
	if again := w.claim(); len(again) != 1 {
		t.Errorf("%+v", again)
	}
}

// What stands first and fails does not keep those behind it from expiring, however low the limit is.
func testSweepHead(t *testing.T, w *world) {
	fails := errors.New("no")
	w.approvals = w.open(approval.Options{Decided: func(_ context.Context, _ repo.Repositories, r approval.Request) error {
		if strings.HasPrefix(r.ID, "broken") {
			return fails
		}
		return nil
	}})
	for i, id := range []string{"broken 1", "broken 2", "fine 1", "fine 2"} {
		request := w.request()
		request.ID = id
		request.Until = w.now().Add(time.Duration(i)*time.Second - time.Minute)
		changes, err := w.approvals.InTurn(request)
		w.must(err)
		_, err = w.store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: w.session, ID: id, State: changes})
		w.must(err)
	}
	for range 2 {
		if expired, err := w.approvals.Expire(t.Context(), 1); expired != 1 || !errors.Is(err, fails) {
			t.Errorf("%d, %v", expired, err)
		}
	}
}

// A plan of another tenant does not wait for a request of this one, nor by a transaction of the whole store.
func testForeignPlan(t *testing.T, w *world) {
	plan := w.plan(repo.UseAction{}, repo.PhaseExecute)
	claimed := w.claim()[0]
	own, err := w.whole.Sessions().Create(t.Context(), repo.NewSession{})
	w.must(err)
	request := w.request()
	request.SessionID, request.PlanID, request.Fence = own.ID, plan.ID, claimed.Lease.Fence
	local, err := approval.New(w.whole, "", approval.Options{})
	w.must(err)
	if err := w.whole.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := local.Ask(ctx, tx, request)
		return err
	}); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	w.wantStage(plan.ID, "execute/processing")
}

// An answer is about the request that was shown, and not about another one that was asked under its id meanwhile.
func testShown(t *testing.T, w *world) {
	before := w.exported()
	first := w.ask(w.request())
	_, err := w.store.Sessions().Delete(t.Context(), w.session)
	w.must(err)
	_, err = w.store.Sessions().Import(t.Context(), before, true)
	w.must(err)
	second := w.request()
	second.ID, second.Text, second.Arguments = first.ID, "Pay 1000?", []byte(`{"amount":1000}`)
	asked := w.ask(second)
	_, err = w.approvals.Decide(t.Context(), "bob", approval.Answer{Ref: first.Ref, Verdict: approval.Approve, Sum: first.Sum()})
	wantNotPermitted(t, err, "", "sum")
	w.wantStatus(first.Ref, approval.Open)
	for range 2 { // and again
		_, err = w.approvals.Decide(t.Context(), "bob", approval.Answer{Ref: asked.Ref, Verdict: approval.Approve, Sum: asked.Sum()})
		w.must(err)
	}
}
