//go:build !race

package usage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/usage"
)

// The counters of ten million turns, of 30 days, 10 tenants and 4 models, which were made by fewer increments, are summed
// exactly. It logs how long a report takes.
func TestAmountReport(t *testing.T) {
	t.Parallel()
	const days, tenants, models, parts, per = 30, 10, 4, 4, 2084 // which is 10,003,200
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{})
	first := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var want usage.Row
	wantByAll := map[[3]string]usage.Row{}
	for day := range days {
		changes := map[string][]repo.StateChange{}
		for tenant := range tenants {
			for model := range models {
				use := usage.Use{
					Day: usage.DayOf(first.AddDate(0, 0, day), nil), Model: fmt.Sprint("provider/model-", model), Labels: [2]string{fmt.Sprint("tenant ", tenant)},
					Usage: repo.Usage{InputTokens: int64(1000 + day), OutputTokens: int64(100 + tenant), Cost: repo.Cost(1_000_000 + model)},
				}
				spread := map[string]bool{}
				for i := 0; len(spread) < parts; i++ {
					turn := repo.Turn{ID: fmt.Sprint(i)}
					if err := usage.Count(&turn, use); err != nil {
						t.Fatal(err)
					}
					scope := turn.State[0].Scope.Name
					if spread[scope] {
						continue
					}
					spread[scope] = true
					for _, c := range turn.State {
						c.By *= per
						changes[scope] = append(changes[scope], c)
					}
				}
				row := usage.Row{Uses: per * parts, Usage: repo.Usage{InputTokens: use.InputTokens * per * parts, OutputTokens: use.OutputTokens * per * parts, Cost: use.Cost * per * parts}}
				wantByAll[[3]string{string(use.Day), use.Model, use.Labels[0]}] = row
				want.Uses, want.InputTokens, want.OutputTokens, want.Cost = want.Uses+row.Uses, want.InputTokens+row.InputTokens, want.OutputTokens+row.OutputTokens, want.Cost+row.Cost
			}
		}
		for _, c := range changes {
			if _, err := store.State().Change(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	query := usage.Query{From: "2026-03-01", To: "2026-03-30"}
	if rows, err := usage.Report(t.Context(), store.State(), query); err != nil || !slices.Equal(rows, []usage.Row{want}) {
		t.Errorf("%+v, %v; want %+v", rows, err, want)
	}
	t.Logf("%d turns", want.Uses)
	query.By = []usage.Dimension{usage.ByDay, usage.ByModel, usage.ByLabel1}
	for _, folded := range []bool{false, true} {
		if folded { // but for the last day
			if err := usage.Fold(t.Context(), store.State(), "2026-03-01", "2026-03-29"); err != nil {
				t.Fatal(err)
			}
		}
		measure(t, store.State(), query, wantByAll, folded)
	}
}

func measure(t *testing.T, state repo.State, query usage.Query, want map[[3]string]usage.Row, folded bool) {
	t.Helper()
	var took []time.Duration
	for range 20 {
		began := time.Now()
		rows, err := usage.Report(t.Context(), state, query)
		if took = append(took, time.Since(began)); err != nil || len(rows) != len(want) {
			t.Fatal(len(rows), err)
		}
		for _, row := range rows {
			sum := want[[3]string{string(row.Day), row.Model, row.Labels[0]}]
			if row.Uses != sum.Uses || row.Usage != sum.Usage {
				t.Fatalf("%+v, want %+v", row, sum)
			}
		}
	}
	slices.Sort(took)
	t.Logf("folded %t: a report of %d rows takes %v (median of %d), %v at least, %v at most", folded, len(want), took[len(took)/2],
		len(took), took[0], took[len(took)-1])
}
