//go:build !race

package approval

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// fill asks one person, in sessions of 100 requests each. A change has as many as there is room for.
func fill(t *testing.T, store repo.Store, approvals *approval.Approvals, requests int) {
	t.Helper()
	var changes []repo.StateChange
	until, session := time.Now().Add(24*time.Hour), repo.ID{}
	for i := range requests {
		if i%100 == 0 {
			session = pgtest.NewSession(t, store)
		}
		more, err := approvals.InTurn(approval.NewRequest{
			Ref: approval.Ref{SessionID: session, ID: fmt.Sprintf("call-%d", i)}, Act: pay, Text: "Pay?", By: "anna", Deciders: []string{"bob"},
			Until: until.Add(time.Duration(i*7919%requests) * time.Millisecond),
		})
		if err != nil {
			t.Fatal(err)
		}
		more[0].Scope.SessionID = session
		if changes = append(changes, more...); len(changes) > 990 || i == requests-1 {
			if _, err := store.State().Change(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
			changes = nil
		}
	}
}

// A page of what waits for a person, and a decision, take no longer with a million that wait.
func TestAmountOpen(t *testing.T) {
	store := pgtest.NewStore(t, agentstore.Options{})
	approvals, err := approval.New(store, "", approval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	amount := pgtest.Choose(1_000_000, 11_000)
	fill(t, store, approvals, amount)
	var pages, decisions, counts []time.Duration
	page := repo.Page{}
	for i := range pgtest.Choose(2000, 100) {
		if i%100 == 0 {
			page.After = "" // and on from there
		}
		began := time.Now()
		list, err := approvals.List(t.Context(), "bob", page)
		pages = append(pages, time.Since(began))
		if err != nil || len(list.Items) != 20 {
			t.Fatal(len(list.Items), err)
		}
		if page.After = list.Next; i%10 == 0 {
			began := time.Now()
			_, err := approvals.Decide(t.Context(), "bob", approval.Answer{Ref: list.Items[7].Ref, Verdict: approval.Approve})
			decisions = append(decisions, time.Since(began))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 {
		began := time.Now()
		count, more, err := approvals.Count(t.Context(), "bob", 0)
		counts = append(counts, time.Since(began))
		if err != nil || count != 1000 || !more {
			t.Fatal(count, err)
		}
	}
	for name, took := range map[string][]time.Duration{"a page": pages, "a decision": decisions, "a count": counts} {
		slices.Sort(took)
		t.Logf("%d open requests: %s takes p50 %v, p99 %v (%d)", amount, name, took[len(took)/2], took[len(took)*99/100], len(took))
	}
	if expired, err := approvals.Expire(t.Context(), 0); expired != 0 || err != nil {
		t.Error(expired, err)
	}
}
