package approvaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

const many = 100

// together calls a function many times at once.
func together(call func(i int) error) []error {
	errs, begin := make([]error, many), make(chan struct{})
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			<-begin
			errs[i] = call(i)
		})
	}
	close(begin)
	group.Wait()
	return errs
}

func anybody(context.Context, approval.Request, string) (bool, error) { return true, nil }

// If 100 people decide at once in different ways, one decides, and the others learn how.
func testManyDecide(t *testing.T, w *world) {
	w.approvals = w.open(approval.Options{MayDecide: anybody})
	request := w.request()
	request.Deciders = []string{"group"}
	w.ask(request)
	errs := together(func(i int) error {
		verdict := approval.Approve
		if i%2 == 0 {
			verdict = approval.Deny
		}
		_, err := w.decide(fmt.Sprint("person ", i), verdict, request.Ref)
		return err
	})
	r, err := w.approvals.Get(t.Context(), request.Ref)
	w.must(err)
	winners := 0
	for i, err := range errs {
		if err == nil {
			winners++
			if want := fmt.Sprint("person ", i); len(r.Votes) != 1 || r.Votes[0].By != want {
				t.Errorf("%s has won: %+v", want, r)
			}
			continue
		}
		wantDecided(t, err, r.Status, r.Votes[0].By)
	}
	if winners != 1 {
		t.Errorf("%d have decided", winners)
	}
	if want := fmt.Sprintf("%s by %s", r.Status, r.Votes[0].By); w.entries(w.session) != want {
		t.Errorf("%s; want %s", w.entries(w.session), want)
	}
}

// Two people that have both seen an open request decide in different ways: one decides. With the naive way both do.
func testTwoDecide(t *testing.T, w *world) {
	var both, done sync.WaitGroup
	both.Add(2)
	seen := map[string]*sync.Once{"carl": {}, "dora": {}}
	w.approvals = w.open(approval.Options{MayDecide: func(_ context.Context, _ approval.Request, by string) (bool, error) {
		seen[by].Do(func() { both.Done(); both.Wait() })
		return true, nil
	}})
	request := w.request()
	w.ask(request)
	errs, verdicts := map[string]error{}, map[string]approval.Verdict{"carl": approval.Approve, "dora": approval.Deny}
	var mu sync.Mutex
	for name, verdict := range verdicts {
		done.Go(func() {
			_, err := w.decide(name, verdict, request.Ref)
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	done.Wait()
	r, err := w.approvals.Get(t.Context(), request.Ref)
	if err != nil || len(r.Votes) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, err := range errs {
		if name == r.Votes[0].By {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		wantDecided(t, err, r.Status, r.Votes[0].By)
	}
}

// naive decides by what it has read: it loads, checks and saves. read is called in between.
func naive(ctx context.Context, state repo.State, scope repo.Scope, verdict string, read func()) error {
	value, err := state.Get(ctx, scope, "request")
	if err != nil {
		return err
	}
	read()
	if string(value.Value) != `"open"` {
		return errors.New("it is decided")
	}
	text, err := json.Marshal(verdict)
	if err == nil {
		_, err = state.Change(ctx, []repo.StateChange{{Scope: scope, Key: "request", Value: text}})
	}
	return err
}

// The naive way has as many outcomes as there are deciders at once.
func testNaive(t *testing.T, w *world) {
	scope := repo.Scope{SessionID: w.session}
	_, err := w.store.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "request", Value: []byte(`"open"`)}})
	w.must(err)
	var both, done sync.WaitGroup
	both.Add(2)
	errs := make([]error, 2)
	for i, verdict := range []string{"approve", "deny"} {
		done.Go(func() {
			errs[i] = naive(t.Context(), w.store.State(), scope, verdict, func() { both.Done(); both.Wait() })
		})
	}
	done.Wait()
	if errs[0] != nil || errs[1] != nil {
		t.Errorf("the naive way, of which both were to win: %v", errs)
	}
}

// Of 100 transactions that use an approval at once one has done what it permits.
func testManyUse(t *testing.T, w *world) {
	request := w.request()
	w.ask(request)
	w.approve("bob", request.Ref)
	errs := together(func(i int) error {
		return w.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			if i%2 == 0 { // what it permits comes first, or last
				if err := w.approvals.Use(ctx, tx, request.Ref, pay); err != nil {
					return err
				}
			}
			_, err := tx.Sessions().Append(ctx, w.session, repo.NewMessage{Role: repo.RoleTool, Content: "paid"})
			if err == nil && i%2 == 1 {
				err = w.approvals.Use(ctx, tx, request.Ref, pay)
			}
			return err
		})
	})
	winners := 0
	for _, err := range errs {
		if err == nil {
			winners++
			continue
		}
		wantNotPermitted(t, err, approval.Used, "")
	}
	session, err := w.store.Sessions().Get(t.Context(), w.session)
	if err != nil || winners != 1 || session.MessageCount != 1 {
		t.Errorf("%d have used it, %d messages, %v", winners, session.MessageCount, err)
	}
}

// No vote of many at once is lost, and none counts twice.
func testQuorums(t *testing.T, w *world) {
	w.approvals = w.open(approval.Options{MayDecide: anybody})
	request := w.request()
	request.Deciders, request.Quorum = []string{"group"}, many/4
	w.ask(request)
	errs := together(func(i int) error {
		_, err := w.decide(fmt.Sprint("person ", i/2), approval.Approve, request.Ref) // each of 50 twice
		return err
	})
	r, err := w.approvals.Get(t.Context(), request.Ref)
	voted := map[string]bool{}
	for _, v := range r.Votes {
		voted[v.By] = true
	}
	if err != nil || r.Status != approval.Approved || len(r.Votes) != many/4 || len(voted) != many/4 {
		t.Errorf("%+v, %v", r, err)
	}
	for i, err := range errs {
		if (err == nil) != voted[fmt.Sprint("person ", i/2)] {
			t.Errorf("person %d: %v", i/2, err)
		}
	}
}

// Callers that answer the same requests in other orders all get a result.
func testCrossed(t *testing.T, w *world) {
	w.approvals = w.open(approval.Options{MayDecide: anybody})
	var refs []approval.Ref
	for range 8 {
		request := w.request()
		request.SessionID, request.Deciders = w.newSession(), []string{"x", "y"}
		w.ask(request)
		refs = append(refs, request.Ref)
	}
	errs := together(func(i int) error {
		mine := append(append([]approval.Ref{}, refs[i%8:]...), refs[:i%8]...)
		_, err := w.decide(fmt.Sprint("person ", i), approval.Approve, mine...)
		return err
	})
	winners := 0
	for _, err := range errs {
		if err == nil {
			winners++
		} else if _, late := errors.AsType[*approval.StatusError](err); !late {
			t.Error(err)
		}
	}
	if winners != 1 {
		t.Errorf("%d have decided all", winners)
	}
}
