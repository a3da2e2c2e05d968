package approval_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/retention"
)

const text = "s3cret text"

// ask asks bob about a session of jane's, which has no plan unless one is given.
func ask(t *testing.T, store *agentstore.Store, until time.Time, plan bool) approval.NewRequest {
	t.Helper()
	session := mustBe[repo.Session](t)(store.Sessions().Create(t.Context(), repo.NewSession{Owner: "jane"}))
	request := approval.NewRequest{
		Ref: approval.Ref{SessionID: session.ID, ID: "call"}, Act: approval.Act{Kind: "pay", Arguments: []byte("s3cret arguments")}, Text: text,
		By: "agent", Deciders: []string{"bob"}, Until: until,
	}
	if plan {
		_, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "pay", ActionDefinition: repo.ActionDefinition{Reusable: true, Phases: []repo.Phase{repo.PhaseExecute}}})
		if err != nil {
			t.Fatal(err)
		}
		request.PlanID = mustBe[repo.Plan](t)(store.Plans().Use(t.Context(), "pay", repo.UseAction{SessionID: session.ID})).ID
		request.Fence = mustBe[[]repo.ClaimedPlan](t)(store.Plans().Claim(t.Context(), repo.Claim{Owner: "w"}))[0].Lease.Fence
	}
	approvals := mustBe[*approval.Approvals](t)(approval.New(store, "", approval.Options{}))
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := approvals.Ask(ctx, tx, request)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return request
}

func mustBe[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A request goes with its session, and stays while that is held, or in use for the plan that waits.
func TestRetention(t *testing.T) {
	t.Parallel()
	store, clock := open(t)
	until := time.Now().Add(1000 * time.Hour)
	gone, held, waits := ask(t, store, until, false), ask(t, store, until, false), ask(t, store, until, true)
	if err := store.Sessions().AddHold(t.Context(), repo.LegalHold{SessionID: held.SessionID, Reason: "case"}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(24 * time.Hour)
	report := mustBe[retention.Report](t)(retention.Run(t.Context(), store, retention.Policy{Sessions: map[string]time.Duration{repo.DefaultNamespace: time.Hour}}))
	if report.Sessions != 1 || report.Held != 1 || report.InUse != 1 {
		t.Errorf("%+v", report)
	}
	approvals := mustBe[*approval.Approvals](t)(approval.New(store, "", approval.Options{}))
	for request, want := range map[*approval.NewRequest]error{&gone: repo.ErrNotFound, &held: nil, &waits: nil} {
		if _, err := approvals.Get(t.Context(), request.Ref); !errors.Is(err, want) {
			t.Errorf("%v: %v", request.Ref, err)
		}
	}
	if list := mustBe[repo.List[approval.Request]](t)(approvals.List(t.Context(), "bob", repo.Page{})); len(list.Items) != 2 {
		t.Errorf("%+v", list)
	}
	clock.Advance(2000 * time.Hour)
	if expired := mustBe[int](t)(approvals.Expire(t.Context(), 0)); expired != 3 {
		t.Errorf("%d have expired", expired)
	}
	if count, _, err := approvals.Count(t.Context(), "bob", 0); count != 0 || err != nil {
		t.Error(count, err)
	}
}

// Nothing of a request, in whatever place, is left of an erased person: neither the owner of the session nor a decider.
func TestErasure(t *testing.T) {
	t.Parallel()
	store, _ := open(t)
	request := ask(t, store, time.Now().Add(time.Hour), false)
	approvals := mustBe[*approval.Approvals](t)(approval.New(store, "", approval.Options{}))
	bobs := repo.Scope{Name: approval.ScopeOf("bob")}
	key := []byte("the key of the test's receipts")
	shared := func() string {
		all := []repo.Scope{bobs}
		for _, n := range "0123456789abcdef" {
			all = append(all, repo.Scope{Name: "approval/ledger/" + string(n)})
		}
		return scopesText(mustBe[[]repo.ScopeState](t)(store.State().Read(t.Context(), all...)))
	}
	if all := shared(); strings.Contains(all, "s3cret") || !strings.Contains(all, request.SessionID.String()) {
		t.Errorf("what is shared: %s", all)
	}
	mustBe[erase.Receipt](t)(erase.Subject(t.Context(), store, erase.Request{Owner: "jane", Key: key, RequestedBy: "officer"}))
	if _, err := approvals.Get(t.Context(), request.Ref); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	if list, err := approvals.List(t.Context(), "bob", repo.Page{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	mustBe[erase.Receipt](t)(erase.Subject(t.Context(), store, erase.Request{Owner: "bob", Scopes: []string{bobs.Name}, Key: key, RequestedBy: "officer"}))
	if page := mustBe[repo.StatePage](t)(store.State().List(t.Context(), bobs, "", repo.Page{})); len(page.Values) > 0 {
		t.Errorf("%+v", page)
	}
	other := ask(t, store, time.Now().Add(time.Hour), false)
	mustBe[erase.Receipt](t)(erase.Subject(t.Context(), store, erase.Request{Owner: "bob", Scopes: []string{bobs.Name}, Key: key, RequestedBy: "officer"}))
	mustBe[[]approval.Request](t)(approvals.Decide(t.Context(), "bob", approval.Answer{Ref: other.Ref, Verdict: approval.Approve})) // what is not listed can be decided
}

// An import into another store has nothing that could be decided or used there.
func TestImportedElsewhere(t *testing.T) {
	t.Parallel()
	store, _ := open(t)
	elsewhere, _ := open(t)
	request := ask(t, store, time.Now().Add(time.Hour), false)
	var document strings.Builder
	if err := store.Sessions().Export(t.Context(), request.SessionID, &document); err != nil || !strings.Contains(document.String(), text) {
		t.Fatal(document.String(), err)
	}
	mustBe[repo.Session](t)(elsewhere.Sessions().Import(t.Context(), strings.NewReader(document.String()), false))
	approvals := mustBe[*approval.Approvals](t)(approval.New(elsewhere, "", approval.Options{}))
	for _, verdict := range []approval.Verdict{approval.Approve, approval.Deny, approval.Withdraw} {
		_, err := approvals.Decide(t.Context(), map[bool]string{true: "agent", false: "bob"}[verdict == approval.Withdraw], approval.Answer{Ref: request.Ref, Verdict: verdict})
		if _, foreign := errors.AsType[*approval.ForeignError](err); !foreign {
			t.Errorf("%s: %v", verdict, err)
		}
	}
	if err := elsewhere.InTx(t.Context(), approvals.Permit(request.Ref, request.Act)); !errors.Is(err, repo.ErrConflict) {
		t.Error(err)
	}
}

func scopesText(scopes []repo.ScopeState) string {
	var all strings.Builder
	for _, s := range scopes {
		for _, v := range s.Values {
			fmt.Fprintf(&all, "%s %s %s\n", s.Scope.Name, v.Key, v.Value)
		}
	}
	return all.String()
}
