package repotest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func wantUsageConflict(t *testing.T, err error, want repo.ExistsError) {
	t.Helper()
	if got, ok := wantError[*repo.ExistsError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, want)
	}
}

func addUsage(t *testing.T, s repo.Sessions, id repo.ID, add repo.NewUsage) repo.Usage {
	t.Helper()
	got, err := s.AddUsage(t.Context(), id, add)
	return must(t, got, err)
}

// A usage with an id counts once. Adding it again returns the present totals.
func testUsageRepeated(t *testing.T, s repo.Sessions) {
	id, other := create(t, s), create(t, s)
	once := repo.NewUsage{ID: repo.NewID(), InputTokens: 1, OutputTokens: 20, Cost: 300}
	want := repo.Usage{InputTokens: 1, OutputTokens: 20, Cost: 300}
	for range 3 {
		if got := addUsage(t, s, id, once); got != want {
			t.Errorf("the totals are %+v, want %+v", got, want)
		}
	}
	updated := get(t, s, id).UpdatedAt
	tick()
	addUsage(t, s, id, once)
	if got := get(t, s, id); got.Usage != want || !got.UpdatedAt.Equal(updated) {
		t.Errorf("repeated, the usage is %+v, updated at %v; before at %v", got.Usage, got.UpdatedAt, updated)
	}
	addUsage(t, s, id, repo.NewUsage{Cost: 5})
	want.Cost += 5
	if got := addUsage(t, s, id, once); got != want {
		t.Errorf("the totals are %+v, want %+v", got, want)
	}
	// The same id in another session is another usage.
	if got := addUsage(t, s, other, once); got.Cost != 300 || get(t, s, id).Usage != want {
		t.Errorf("in another session the totals are %+v", got)
	}
	// A usage of zero has an id, too.
	nothing := repo.NewUsage{ID: repo.NewID()}
	addUsage(t, s, id, nothing)
	if got := addUsage(t, s, id, nothing); got != want {
		t.Errorf("the totals are %+v, want %+v", got, want)
	}
}

func testUsageConflict(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	once := repo.NewUsage{ID: repo.NewID(), InputTokens: 1, OutputTokens: 2, Cost: 3}
	addUsage(t, s, id, once)
	for field, change := range map[string]func(*repo.NewUsage){
		"input_tokens":  func(u *repo.NewUsage) { u.InputTokens++ },
		"output_tokens": func(u *repo.NewUsage) { u.OutputTokens = 0 },
		"cost":          func(u *repo.NewUsage) { u.Cost++ },
	} {
		differs := once
		change(&differs)
		_, err := s.AddUsage(t.Context(), id, differs)
		wantUsageConflict(t, err, repo.ExistsError{Kind: "usage", SessionID: id, ID: once.ID, Field: field})
	}
	if got := get(t, s, id).Usage; got != (repo.Usage{InputTokens: 1, OutputTokens: 2, Cost: 3}) {
		t.Errorf("the usage is %+v", got)
	}
}

// What was added remains added, whatever the budget is at the repetition; what was
// refused does not take the id.
func testUsageRepeatedAtBudget(t *testing.T, s repo.Sessions) {
	id := createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(10))}).ID
	once := repo.NewUsage{ID: repo.NewID(), Cost: 7}
	refused := repo.NewUsage{ID: repo.NewID(), Cost: 4}
	addUsage(t, s, id, once)
	for range 2 {
		_, err := s.AddUsage(t.Context(), id, refused)
		wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: id, Limit: 10, Current: 7, Requested: 4})
	}
	if got := addUsage(t, s, id, once); got.Cost != 7 { // 7 and 7 would pass it
		t.Errorf("repeated, the cost is %d", got.Cost)
	}
	update(t, s, id, repo.SessionUpdate{Budget: ptr(repo.Cost(11))})
	for range 2 {
		if got := addUsage(t, s, id, refused); got.Cost != 11 {
			t.Errorf("with more budget the cost is %d, want 11", got.Cost)
		}
	}
	if got := addUsage(t, s, id, once); got.Cost != 11 {
		t.Errorf("repeated, the cost is %d", got.Cost)
	}
}

// The ids are deleted with the session, and its document does not contain them.
func testUsageIDsGoWithSession(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	once := repo.NewUsage{ID: repo.NewID(), Cost: 7}
	addUsage(t, s, id, once)
	document := export(t, s, id)
	remove(t, s, id)
	_, err := s.AddUsage(t.Context(), id, once)
	wantNotFound(t, err, "session", id)
	importFrom(t, s, bytes.NewReader(document))
	if got := addUsage(t, s, id, once); got.Cost != 14 {
		t.Errorf("after an import the cost is %d, want 14", got.Cost)
	}
	if got := addUsage(t, s, create(t, s), once); got.Cost != 7 {
		t.Errorf("in a new session the cost is %d, want 7", got.Cost)
	}
}

// A transaction that is rolled back has added no usage.
func testUsageTxRollback(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	kept, once := repo.NewUsage{ID: repo.NewID(), Cost: 1}, repo.NewUsage{ID: repo.NewID(), Cost: 7}
	addUsage(t, s, id, kept)
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		for range 2 {
			if got, err := tx.Sessions().AddUsage(ctx, id, once); err != nil || got.Cost != 8 {
				t.Errorf("in the transaction the cost is %d, %v", got.Cost, err)
			}
		}
		if got, err := tx.Sessions().AddUsage(ctx, id, kept); err != nil || got.Cost != 8 {
			t.Errorf("in the transaction the cost is %d, %v", got.Cost, err)
		}
		return errBroken
	})
	if !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	for range 2 {
		if got := addUsage(t, s, id, once); got.Cost != 8 {
			t.Errorf("after the rollback the cost is %d, want 8", got.Cost)
		}
	}
}

// Callers that add one usage concurrently all get an answer, and it counts once:
// alone, beside others, and if the budget has room for it only once.
func testConcurrentUsageID(t *testing.T, store repo.Store) {
	s := store.Sessions()
	for round := range 10 {
		const budget = 100
		id := createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(budget))}).ID
		once := repo.NewUsage{ID: repo.NewID(), InputTokens: 3, Cost: budget - 10}
		var others counter
		together(workers, func(worker int) {
			if round%2 == 0 && worker%4 == 0 {
				if _, err := s.AddUsage(t.Context(), id, repo.NewUsage{Cost: 1}); err == nil {
					others.add()
				} else {
					_, _ = wantError[*repo.LimitExceededError](t, err, repo.ErrLimit)
				}
				return
			}
			got, err := s.AddUsage(t.Context(), id, once)
			if err != nil || got.InputTokens != 3 {
				t.Errorf("adding gave %+v, %v", got, err)
			}
		})
		want := repo.Usage{InputTokens: 3, Cost: budget - 10 + repo.Cost(others.get())}
		if got := get(t, s, id).Usage; got != want {
			t.Errorf("the usage is %+v, want %+v", got, want)
		}
	}
}
