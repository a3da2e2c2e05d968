package usage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/usage"
	"github.com/seed-df90f812/agentstore/usage/usagetest"
)

func open(t *testing.T) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), "memory://"+repo.NewID().String(), agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestInMemory(t *testing.T) {
	t.Parallel()
	usagetest.Run(t, func(t *testing.T) repo.Store { return open(t) })
}

// A view has counters of its own, the default one's are the store's, and an erasure takes those of a person's view.
func TestViews(t *testing.T) {
	t.Parallel()
	store := open(t)
	use := usage.Use{Day: "2026-03-31", Model: "m", Usage: repo.Usage{Cost: 5}}
	for i, view := range []repo.Store{store, store.In("one"), store.In("one"), store.In("two"), store.In(repo.DefaultNamespace)} {
		turn := repo.Turn{Create: &repo.NewSession{Key: "k", Owner: "ann"}, ID: fmt.Sprint(i)}
		if err := usage.Count(&turn, use); err != nil {
			t.Fatal(err)
		}
		if _, err := view.Sessions().AppendTurn(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	want := func(view repo.Store, cost repo.Cost) {
		t.Helper()
		rows, err := usage.Report(t.Context(), view.State(), usage.Query{From: use.Day, To: use.Day})
		if err != nil || len(rows) > 0 != (cost > 0) || cost > 0 && rows[0].Cost != cost {
			t.Errorf("%+v, %v; want %s", rows, err, cost)
		}
	}
	want(store, 10)
	want(store.In("one"), 10)
	want(store.In("two"), 5)
	scopes, err := usage.Scopes(use.Day, use.Day)
	if err != nil {
		t.Fatal(err)
	}
	request := erase.Request{Owner: "ann", Namespaces: []string{"one"}, Scopes: scopes, RequestedBy: "officer", Reason: "request 17", Key: []byte("sixteen bytes or")}
	if receipt, err := erase.Subject(t.Context(), store, request); err != nil || receipt.StateKeys == 0 {
		t.Errorf("%+v, %v", receipt, err)
	}
	want(store, 10)
	want(store.In("one"), 0)
	want(store.In("two"), 5)
}

// A day is that of its zone, also where the clocks change.
func TestDayOf(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		at   string
		zone *time.Location
		want usage.Day
	}{
		{"2026-03-31T23:30:00Z", nil, "2026-03-31"},
		{"2026-03-31T23:30:00Z", time.UTC, "2026-03-31"},
		{"2026-03-31T23:30:00Z", berlin, "2026-04-01"},
		{"2026-03-28T22:59:59Z", berlin, "2026-03-28"},
		{"2026-03-28T23:00:00Z", berlin, "2026-03-29"},
		{"2026-03-29T22:00:00Z", berlin, "2026-03-30"},
		{"2026-12-31T23:00:00Z", berlin, "2027-01-01"},
		{"2028-02-29T01:00:00+02:00", time.UTC, "2028-02-28"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := usage.DayOf(at, c.zone); got != c.want {
			t.Errorf("%s in %v: %s, want %s", c.at, c.zone, got, c.want)
		}
	}
}

func Example() {
	ctx := context.Background()
	store, _ := agentstore.Open(ctx, "memory://usage", agentstore.Options{})
	defer store.Close()

	began := time.Date(2026, 3, 31, 23, 59, 0, 0, time.UTC) // time.Now(), once for all attempts
	used := repo.Usage{InputTokens: 1200, OutputTokens: 80, Cost: 4_200_000}
	turn := repo.Turn{
		Create: &repo.NewSession{Key: "conversation 1", Owner: "ann"}, ID: "request 1",
		Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "Hello"}},
	}
	err := usage.Count(&turn, usage.Use{Day: usage.DayOf(began, time.UTC), Model: "openai/gpt", Labels: [2]string{"acme"}, Usage: used})
	for range 2 { // the second attempt is not counted
		if err == nil {
			_, err = store.Sessions().AppendTurn(ctx, turn)
		}
	}
	if err != nil {
		fmt.Println(err)
	}

	query := usage.Query{From: "2026-03-01", To: "2026-03-31", By: []usage.Dimension{usage.ByDay, usage.ByModel, usage.ByLabel1}}
	rows, err := usage.Report(ctx, store.State(), query)
	for _, row := range rows {
		fmt.Println(row.Day, row.Model, row.Labels[0], row.Uses, row.InputTokens, row.OutputTokens, row.Cost)
	}
	fmt.Println(err)
	// Output:
	// 2026-03-31 openai/gpt acme 1 1200 80 0.0042
	// <nil>
}
