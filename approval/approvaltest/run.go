// Package approvaltest tests package approval on a store: each store passes the same tests.
package approvaltest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
)

// Store is a whole store.
type Store interface {
	repo.Store
	In(namespace string) repo.Store
}

// Run runs the tests. advance moves the store's clock. Nil: it cannot be moved, and tests that need it are left out.
func Run(t *testing.T, store Store, advance func(time.Duration)) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *world){
		"Life": testLife, "Invalid": testInvalid, "Who": testWho, "Quorum": testQuorum, "Late": testLate, "Several": testSeveral, "Withdraw": testWithdraw,
		"Pages": testPages, "Tenants": testTenants, "Changed": testChanged, "Turn": testTurn, "Ended": testEnded,
		"ManyDecide": testManyDecide, "TwoDecide": testTwoDecide, "Naive": testNaive, "ManyUse": testManyUse, "Quorums": testQuorums, "Crossed": testCrossed,
		"PlanProcessing": testPlanProcessing, "PlanComplete": testPlanComplete, "PlanQueued": testPlanQueued, "Hook": testHook,
		"Passed": testPassed, "Sweep": testSweep, "Fork": testFork, "Restored": testRestored, "Rewind": testRewind,
		"MadeAgain": testMadeAgain, "HookConflict": testHookConflict, "Sizes": testSizes, "Zero": testZero, "AskExpired": testAskExpired,
		"Predicate": testPredicate, "TwoRequests": testTwoRequests, "SweepHead": testSweepHead, "Shown": testShown, "ForeignPlan": testForeignPlan,
	} {
		t.Run(name, func(t *testing.T) {
			namespace := "n-" + repo.NewID().String() // what a test lists and counts is its own
			w := &world{T: t, store: store.In(namespace), whole: store, namespace: namespace, advance: advance}
			w.approvals = w.open(approval.Options{})
			w.session = w.newSession()
			test(t, w)
		})
	}
}

// world is a namespace with a session.
type world struct {
	*testing.T

	store     repo.Store
	whole     Store
	namespace string
	advance   func(time.Duration)
	approvals *approval.Approvals
	session   repo.ID
}

func (w *world) open(options approval.Options) *approval.Approvals {
	w.Helper()
	a, err := approval.New(w.whole, w.namespace, options)
	w.must(err)
	return a
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) newSession() repo.ID {
	w.Helper()
	session, err := w.store.Sessions().Create(w.Context(), repo.NewSession{})
	w.must(err)
	return session.ID
}

var pay = approval.Act{Kind: "pay", Subject: "invoice 7", Arguments: []byte(`{"amount":100}`)}

// request is one for bob, which anna asks.
func (w *world) request() approval.NewRequest {
	return approval.NewRequest{
		Ref: approval.Ref{SessionID: w.session, ID: repo.NewID().String()}, Act: pay, Text: "Pay 100?", By: "anna",
		Deciders: []string{"bob"}, Until: w.now().Add(time.Hour),
	}
}

// now is the store's time.
func (w *world) now() time.Time {
	w.Helper()
	scope := repo.Scope{Name: "clock"}
	_, err := w.store.State().Change(w.Context(), []repo.StateChange{{Scope: scope, Key: "now", Value: []byte("1")}})
	w.must(err)
	value, err := w.store.State().Get(w.Context(), scope, "now")
	w.must(err)
	return value.UpdatedAt
}

func (w *world) ask(request approval.NewRequest) approval.Request {
	w.Helper()
	var asked approval.Request
	w.must(w.store.InTx(w.Context(), func(ctx context.Context, tx repo.Repositories) (err error) {
		asked, err = w.approvals.Ask(ctx, tx, request)
		return err
	}))
	return asked
}

// askExpired asks for what expires at once.
func (w *world) askExpired(request approval.NewRequest) {
	w.Helper()
	request.Until = w.now().Add(-time.Second)
	changes, err := w.approvals.InTurn(request)
	w.must(err)
	_, err = w.store.Sessions().AppendTurn(w.Context(), repo.Turn{SessionID: request.SessionID, ID: request.ID, State: changes})
	w.must(err)
}

func (w *world) use(ref approval.Ref, act approval.Act) error {
	return w.store.InTx(w.Context(), w.approvals.Permit(ref, act))
}

func (w *world) decide(by string, verdict approval.Verdict, refs ...approval.Ref) ([]approval.Request, error) {
	answers := make([]approval.Answer, len(refs))
	for i, ref := range refs {
		answers[i] = approval.Answer{Ref: ref, Verdict: verdict}
	}
	return w.approvals.Decide(w.Context(), by, answers...)
}

func (w *world) approve(by string, refs ...approval.Ref) []approval.Request {
	w.Helper()
	requests, err := w.decide(by, approval.Approve, refs...)
	w.must(err)
	return requests
}

func (w *world) wantStatus(ref approval.Ref, want approval.Status) {
	w.Helper()
	if r, err := w.approvals.Get(w.Context(), ref); err != nil || r.Status != want {
		w.Errorf("%+v, %v; want %s", r, err, want)
	}
}

// wantListed wants a person's list, and count.
func (w *world) wantListed(name string, ids ...string) {
	w.Helper()
	var listed []string
	for page := (repo.Page{Limit: 2}); ; {
		list, err := w.approvals.List(w.Context(), name, page)
		w.must(err)
		for _, r := range list.Items {
			listed = append(listed, r.ID)
		}
		if page.After = list.Next; page.After == "" {
			break
		}
	}
	count, more, err := w.approvals.Count(w.Context(), name, 0)
	if !slices.Equal(listed, ids) || err != nil || more || count != len(ids) {
		w.Errorf("%s: %s, %d, %v; want %s", name, listed, count, err, ids)
	}
}

// entries are the audit entries about approvals, by status, oldest first.
func (w *world) entries(session repo.ID) string {
	w.Helper()
	list, err := w.store.Audit().List(w.Context(), repo.AuditFilter{SessionID: session, OldestFirst: true}, repo.Page{})
	w.must(err)
	var all []string
	for _, e := range list.Items {
		if e.Type == audit.EventUserApproval {
			_, status, _ := strings.Cut(string(e.Details), `"status":`)
			all = append(all, strings.Trim(status, ` "}`)+" by "+e.User)
		}
	}
	return strings.Join(all, ", ")
}

func wantNotPermitted(t *testing.T, err error, status approval.Status, differs string) {
	t.Helper()
	if refused, is := errors.AsType[*approval.StatusError](err); !is || refused.Differs != differs || differs == "" && refused.Status != status || !errors.Is(err, repo.ErrConflict) {
		t.Errorf("%v; want %s, %q", err, status, differs)
	}
}

func wantDecided(t *testing.T, err error, status approval.Status, by ...string) {
	t.Helper()
	if late, is := errors.AsType[*approval.StatusError](err); !is || late.Status != status || !slices.Equal(late.By, by) || !errors.Is(err, repo.ErrConflict) {
		t.Errorf("%v; want %s by %s", err, status, by)
	}
}

func wantForbidden(t *testing.T, err error) {
	t.Helper()
	if _, is := errors.AsType[*approval.ForbiddenError](err); !is || !errors.Is(err, repo.ErrConflict) {
		t.Errorf("%v; want it to be forbidden", err)
	}
}

func wantForeign(t *testing.T, err error) {
	t.Helper()
	if _, is := errors.AsType[*approval.ForeignError](err); !is || !errors.Is(err, repo.ErrConflict) {
		t.Errorf("%v; want it to be foreign", err)
	}
}
