package approvaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

func testLife(t *testing.T, w *world) {
	request := w.request()
	asked := w.ask(request)
	again := w.ask(func() approval.NewRequest { r := request; r.Until = r.Until.Add(time.Hour); return r }())
	if asked.Status != approval.Open || !again.Until.Equal(asked.Until) || asked.Text != "Pay 100?" || len(asked.ArgumentsHash) != 64 {
		t.Errorf("%+v, again %+v", asked, again)
	}
	other := request
	other.Arguments = []byte(`{"amount":1000}`)
	err := w.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := w.approvals.Ask(ctx, tx, other)
		return err
	})
	if exists, is := errors.AsType[*repo.ExistsError](err); !is || exists.Kind != "approval" {
		t.Error(err)
	}
	w.wantListed("bob", request.ID)
	w.wantListed("anna")
	wantNotPermitted(t, w.use(request.Ref, pay), approval.Open, "")
	decided := w.approve("bob", request.Ref)
	if decided[0].Status != approval.Approved || len(decided[0].Votes) != 1 || decided[0].Votes[0].By != "bob" {
		t.Errorf("%+v", decided)
	}
	w.wantListed("bob")
	for differs, act := range map[string]approval.Act{
		"arguments": {Kind: pay.Kind, Subject: pay.Subject, Arguments: []byte(`{"amount":1000}`)},
		"subject":   {Kind: pay.Kind, Arguments: pay.Arguments}, "kind": {Kind: "refund", Subject: pay.Subject, Arguments: pay.Arguments},
	} {
		wantNotPermitted(t, w.use(request.Ref, act), "", differs)
	}
	failed := errors.New("the act failed")
	if err := w.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		w.must(w.approvals.Use(ctx, tx, request.Ref, pay))
		return failed
	}); !errors.Is(err, failed) {
		t.Error(err)
	}
	w.must(w.use(request.Ref, pay))
	wantNotPermitted(t, w.use(request.Ref, pay), approval.Used, "")
	w.wantStatus(request.Ref, approval.Used)
	if again := w.approve("bob", request.Ref); again[0].Status != approval.Used { // a retry
		t.Errorf("%+v", again)
	}
	if got := w.entries(w.session); got != "approved by bob, used by " {
		t.Error(got)
	}
}

func testInvalid(t *testing.T, w *world) {
	for field, change := range map[string]func(*approval.NewRequest){
		"id": func(r *approval.NewRequest) { r.ID = "" }, "session_id": func(r *approval.NewRequest) { r.SessionID = repo.ID{} },
		"kind": func(r *approval.NewRequest) { r.Kind = "" }, "by": func(r *approval.NewRequest) { r.By = "" },
		"subject": func(r *approval.NewRequest) { r.Subject = strings.Repeat("x", 256) },
		"text":    func(r *approval.NewRequest) { r.Text = "a\x00" }, "until": func(r *approval.NewRequest) { r.Until = time.Time{} },
		"deciders": func(r *approval.NewRequest) { r.Deciders = nil }, "quorum": func(r *approval.NewRequest) { r.Quorum = 2 },
	} {
		request := w.request()
		change(&request)
		_, err := w.approvals.InTurn(request)
		if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, deciders := range [][]string{{""}, {"bob", "bob"}, strings.Split(strings.Repeat("x,", 21), ","), {"\xff"}} {
		request := w.request()
		request.Deciders = deciders
		if _, err := w.approvals.InTurn(request); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%q: %v", deciders, err)
		}
	}
	request := w.request()
	w.ask(request)
	for _, answers := range [][]approval.Answer{
		nil,
		{{Ref: request.Ref, Verdict: "yes"}},
		{{Ref: request.Ref}},
		{{Verdict: approval.Approve}},
		{{Ref: request.Ref, Verdict: approval.Approve}, {Ref: request.Ref, Verdict: approval.Deny}},
		make([]approval.Answer, approval.MaxAnswers+1),
	} {
		if _, err := w.approvals.Decide(t.Context(), "bob", answers...); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%+v: %v", answers, err)
		}
	}
	if _, err := w.decide("", approval.Approve, request.Ref); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	if _, err := w.approvals.List(t.Context(), "", repo.Page{}); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	if _, _, err := w.approvals.Count(t.Context(), "", 0); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	w.wantStatus(request.Ref, approval.Open)
}

// Only people decide that are named, byte by byte, or that the caller admits; the asker decides only if allowed to.
func testWho(t *testing.T, w *world) {
	request := w.request()
	request.Deciders = []string{"bob", "anna", "group:ops"}
	w.ask(request)
	for _, name := range []string{"anna", "Bob", "bob ", "group", "carl"} {
		for _, verdict := range []approval.Verdict{approval.Approve, approval.Deny} {
			_, err := w.decide(name, verdict, request.Ref)
			wantForbidden(t, err)
		}
	}
	_, err := w.decide("bob", approval.Withdraw, request.Ref)
	wantForbidden(t, err)
	a := w.open(approval.Options{MayDecide: func(_ context.Context, r approval.Request, by string) (bool, error) {
		if by == "broken" {
			return true, errors.New("no directory")
		}
		return r.Deciders[2] == "group:ops" && (by == "carl" || by == "anna"), nil
	}})
	approve := approval.Answer{Ref: request.Ref, Verdict: approval.Approve}
	for _, name := range []string{"anna", "broken", "dora"} {
		if _, err := a.Decide(t.Context(), name, approve); err == nil {
			t.Errorf("%s may", name)
		}
	}
	w.wantStatus(request.Ref, approval.Open)
	if _, err := a.Decide(t.Context(), "carl", approve); err != nil {
		t.Error(err)
	}
	self := w.request()
	self.Deciders, self.SelfApproval = []string{"anna"}, true
	w.ask(self)
	w.approve("anna", self.Ref)
}

func testQuorum(t *testing.T, w *world) {
	request := w.request()
	request.Deciders, request.Quorum = []string{"dora", "bob", "carl"}, 2
	w.ask(request)
	if r := w.approve("bob", request.Ref); r[0].Status != approval.Open || len(r[0].Votes) != 1 {
		t.Errorf("%+v", r)
	}
	if r := w.approve("bob", request.Ref); r[0].Status != approval.Open || len(r[0].Votes) != 1 { // once a person
		t.Errorf("%+v", r)
	}
	w.wantListed("bob")
	w.wantListed("carl", request.ID)
	wantNotPermitted(t, w.use(request.Ref, pay), approval.Open, "")
	if r := w.approve("carl", request.Ref); r[0].Status != approval.Approved {
		t.Errorf("%+v", r)
	}
	w.wantListed("dora")
	_, err := w.decide("dora", approval.Deny, request.Ref)
	wantDecided(t, err, approval.Approved, "bob", "carl")
	if got := w.entries(w.session); got != "open by bob, approved by carl" {
		t.Error(got)
	}
	w.must(w.use(request.Ref, pay))

	denied := w.request()
	denied.Deciders, denied.Quorum = []string{"bob", "carl"}, 2
	w.ask(denied)
	w.approve("bob", denied.Ref)
	if r, err := w.decide("bob", approval.Deny, denied.Ref); err != nil || r[0].Status != approval.Denied { // another mind
		t.Errorf("%+v, %v", r, err)
	}
	_, err = w.decide("carl", approval.Approve, denied.Ref)
	wantDecided(t, err, approval.Denied, "bob")
	wantNotPermitted(t, w.use(denied.Ref, pay), approval.Denied, "")
}

func testLate(t *testing.T, w *world) {
	request := w.request()
	request.Deciders = []string{"bob", "carl"}
	w.ask(request)
	if _, err := w.decide("bob", approval.Deny, request.Ref); err != nil {
		t.Fatal(err)
	}
	for name, verdict := range map[string]approval.Verdict{"carl": approval.Deny, "bob": approval.Approve} {
		_, err := w.decide(name, verdict, request.Ref)
		wantDecided(t, err, approval.Denied, "bob")
	}
	if _, err := w.decide("bob", approval.Deny, request.Ref); err != nil { // a retry
		t.Error(err)
	}
	_, err := w.decide("anna", approval.Withdraw, request.Ref)
	wantDecided(t, err, approval.Denied, "bob")
}

// Several answers are one commit. One that is late does not keep the others from counting; one that is not allowed does.
func testSeveral(t *testing.T, w *world) {
	var refs []approval.Ref
	for i := range 5 {
		request := w.request()
		request.Deciders = []string{"bob", "carl"}
		if i%2 == 1 {
			request.SessionID = w.newSession()
		}
		if w.ask(request); i == 4 {
			request.ID, request.Deciders = "only", []string{"carl"}
			w.ask(request)
		}
		refs = append(refs, request.Ref)
	}
	w.approve("carl", refs[1])
	for _, not := range []approval.Ref{refs[4], {SessionID: w.session, ID: "none"}, {SessionID: repo.NewID(), ID: "none"}} {
		if _, err := w.decide("bob", approval.Approve, refs[0], not); err == nil {
			t.Errorf("%v", not)
		}
		w.wantStatus(refs[0], approval.Open)
	}
	requests, err := w.approvals.Decide(t.Context(), "bob", approval.Answer{Ref: refs[0], Verdict: approval.Approve}, approval.Answer{Ref: refs[1], Verdict: approval.Deny},
		approval.Answer{Ref: refs[2], Verdict: approval.Deny}, approval.Answer{Ref: refs[3], Verdict: approval.Approve})
	wantDecided(t, err, approval.Approved, "carl")
	var got []approval.Status
	for _, r := range requests {
		got = append(got, r.Status)
	}
	if fmt.Sprint(got) != "[approved approved denied approved]" {
		t.Error(got)
	}
}

func testWithdraw(t *testing.T, w *world) {
	request := w.request()
	w.ask(request)
	if _, err := w.decide("anna", approval.Withdraw, request.Ref); err != nil {
		t.Fatal(err)
	}
	w.wantListed("bob")
	_, err := w.decide("bob", approval.Approve, request.Ref)
	wantDecided(t, err, approval.Withdrawn, "anna")
	wantNotPermitted(t, w.use(request.Ref, pay), approval.Withdrawn, "")
}

func testPages(t *testing.T, w *world) {
	var ids []string
	for i := range 7 {
		request := w.request()
		request.Deciders = []string{"bob", "group/ops", "2024"}
		request.Until, request.ID = request.Until.Add(-time.Duration(i)*time.Minute), fmt.Sprintf("a/%d", i)
		w.ask(request)
		ids = append([]string{request.ID}, ids...) // what expires first comes first
	}
	w.wantListed("bob", ids...)
	w.wantListed("group/ops", ids...)
	w.wantListed("2024", ids...)
	w.wantListed("group")
	if _, err := w.approvals.List(t.Context(), "bob", repo.Page{Limit: -1}); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.approvals.List(ctx, "bob", repo.Page{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ref := approval.Ref{SessionID: w.session, ID: ids[0]}
	if _, err := w.approvals.Decide(ctx, "bob", approval.Answer{Ref: ref, Verdict: approval.Approve}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.wantStatus(ref, approval.Open)
}

// What is asked in a tenant is found by no name, and by no id, in another one.
func testTenants(t *testing.T, w *world) {
	request := w.request()
	w.ask(request)
	for _, namespace := range []string{"other-" + w.namespace, ""} {
		other, err := approval.New(w.whole, namespace, approval.Options{MayDecide: func(context.Context, approval.Request, string) (bool, error) { return true, nil }})
		w.must(err)
		for _, name := range []string{"bob", w.namespace + "\x00bob", w.namespace + "/bob", "anna"} {
			if list, err := other.List(t.Context(), name, repo.Page{}); len(list.Items) > 0 || err != nil && !errors.Is(err, repo.ErrInvalid) {
				t.Errorf("%q: %+v, %v", name, list, err)
			}
			if count, _, _ := other.Count(t.Context(), name, 0); count != 0 {
				t.Errorf("%q: %d", name, count)
			}
		}
		if _, err := other.Get(t.Context(), request.Ref); !errors.Is(err, repo.ErrNotFound) {
			t.Error(err)
		}
		for _, verdict := range []approval.Verdict{approval.Approve, approval.Deny, approval.Withdraw} {
			if _, err := other.Decide(t.Context(), "bob", approval.Answer{Ref: request.Ref, Verdict: verdict}); !errors.Is(err, repo.ErrNotFound) {
				t.Error(err)
			}
		}
		view := w.whole.In(namespace)
		if namespace == "" {
			view = w.whole.In(repo.DefaultNamespace)
		}
		if err := view.InTx(t.Context(), other.Permit(request.Ref, pay)); !errors.Is(err, repo.ErrNotFound) {
			t.Error(err)
		}
		// Nor by the transaction of the whole store.
		if err := w.whole.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			_, err := other.Ask(ctx, tx, request)
			return err
		}); !errors.Is(err, repo.ErrNotFound) {
			t.Error(err)
		}
		if expired, err := other.Expire(t.Context(), 0); expired != 0 || err != nil {
			t.Error(expired, err)
		}
	}
	w.wantStatus(request.Ref, approval.Open)
	w.wantListed("bob", request.ID)
}

// A writer of the session's state, such as a tool, can neither approve by that, nor have another text approved.
func testChanged(t *testing.T, w *world) {
	own := repo.Scope{SessionID: w.session}
	for from, to := range map[string]string{
		`"status":"open"`: `"status":"approved"`, `Pay 100`: `Pay 1`, `"deciders":["bob"]`: `"deciders":["mallory"]`,
		`"by":"anna"`: `"by":"bob"`, `{"kind"`: `["kind"`,
	} {
		request := w.request()
		w.ask(request)
		value, err := w.store.State().Get(t.Context(), own, "approval/"+request.ID)
		w.must(err)
		forged := strings.Replace(string(value.Value), from, to, 1)
		if strings.HasPrefix(to, "[") {
			forged = "17"
		}
		if forged == string(value.Value) {
			t.Fatalf("%s has no %s", forged, from)
		}
		_, err = w.store.State().Change(t.Context(), []repo.StateChange{{Scope: own, Key: value.Key, Value: []byte(forged)}})
		w.must(err)
		wantForeign(t, w.use(request.Ref, pay))
		for _, name := range []string{"bob", "mallory"} {
			_, err = w.decide(name, approval.Approve, request.Ref)
			wantForeign(t, err)
			if list, err := w.approvals.List(t.Context(), name, repo.Page{}); err != nil || len(list.Items) > 0 {
				t.Errorf("%+v, %v", list, err)
			}
		}
	}
}
