package repotest

import (
	"math"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func usageTests() []test {
	return []test{
		on("Adds", testUsageAdds),
		on("Budget", testUsageBudget),
		on("NoBudget", testUsageNoBudget),
		on("Negative", testUsageNegative),
		on("Missing", testUsageMissing),
		on("Repeated", testUsageRepeated),
		on("Conflict", testUsageConflict),
		on("RepeatedAtBudget", testUsageRepeatedAtBudget),
		on("IDsGoWithSession", testUsageIDsGoWithSession),
	}
}

func testUsageAdds(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	before := get(t, s, id)
	tick()
	total := repo.Usage{}
	for _, add := range []repo.NewUsage{
		{InputTokens: 1, OutputTokens: 20, Cost: 300}, {}, {OutputTokens: 4}, {Cost: 1}, {InputTokens: 1 << 40},
	} {
		total.InputTokens += add.InputTokens
		total.OutputTokens += add.OutputTokens
		total.Cost += add.Cost
		got, err := s.AddUsage(t.Context(), id, add)
		if err != nil || got != total {
			t.Errorf("the totals are %+v, %v, want %+v", got, err, total)
		}
	}
	got := get(t, s, id)
	before.Usage = total
	wantSession(t, got, before) // with its UpdatedAt and Version
}

// If the budget would be exceeded, nothing is added, not even tokens. It can be
// used up exactly.
func testUsageBudget(t *testing.T, s repo.Sessions) {
	id := createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(10))}).ID
	for _, step := range []struct {
		cost repo.Cost
		fits bool
		sum  repo.Cost
	}{{4, true, 4}, {7, false, 4}, {6, true, 10}, {0, true, 10}, {1, false, 10}, {math.MaxInt64, false, 10}} {
		got, err := s.AddUsage(t.Context(), id, repo.NewUsage{InputTokens: 1, Cost: step.cost})
		if !step.fits {
			wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: id, Limit: 10, Current: int64(step.sum), Requested: int64(step.cost)})
		} else if err != nil || got.Cost != step.sum {
			t.Errorf("adding %d gave %+v, %v", step.cost, got, err)
		}
	}
	if got := get(t, s, id).Usage; got != (repo.Usage{InputTokens: 3, Cost: 10}) {
		t.Errorf("the usage is %+v", got)
	}
	none := createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(0))}).ID
	_, err := s.AddUsage(t.Context(), none, repo.NewUsage{Cost: 1})
	wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: none, Requested: 1})
}

func testUsageNoBudget(t *testing.T, s repo.Sessions) {
	id := createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(1))}).ID
	update(t, s, id, repo.SessionUpdate{RemoveBudget: true})
	if got, err := s.AddUsage(t.Context(), id, repo.NewUsage{Cost: math.MaxInt64}); err != nil || got.Cost != math.MaxInt64 {
		t.Errorf("the largest cost gave %+v, %v", got, err)
	}
}

// Totals that do not fit into 63 bits are refused, and nothing is added. This is
// not tested in a transaction, where the database's error aborts it.
func testUsageOverflow(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for _, add := range []repo.NewUsage{{InputTokens: math.MaxInt64}, {OutputTokens: math.MaxInt64}, {Cost: math.MaxInt64}} {
		id := create(t, s)
		if _, err := s.AddUsage(t.Context(), id, repo.NewUsage{InputTokens: 1, OutputTokens: 1, Cost: 1}); err != nil {
			t.Fatal(err)
		}
		_, err := s.AddUsage(t.Context(), id, add)
		wantInvalid(t, err, "usage")
		if got := get(t, s, id).Usage; got != (repo.Usage{InputTokens: 1, OutputTokens: 1, Cost: 1}) {
			t.Errorf("the usage is %+v", got)
		}
	}
}

func testUsageNegative(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	for field, add := range map[string]repo.NewUsage{
		"input_tokens": {InputTokens: -1}, "output_tokens": {OutputTokens: math.MinInt64, Cost: 1}, "cost": {InputTokens: 1, Cost: -1},
	} {
		_, err := s.AddUsage(t.Context(), id, add)
		wantInvalid(t, err, field)
	}
	if got := get(t, s, id).Usage; got != (repo.Usage{}) {
		t.Errorf("the usage is %+v", got)
	}
}

func testUsageMissing(t *testing.T, s repo.Sessions) {
	id := repo.NewID()
	_, err := s.AddUsage(t.Context(), id, repo.NewUsage{Cost: 1})
	wantNotFound(t, err, "session", id)
}
