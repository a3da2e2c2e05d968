package repotest

import (
	"encoding/json"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func updateTests() []test {
	return []test{
		on("EachField", testUpdateEachField),
		on("Nothing", testUpdateNothing),
		on("Removes", testUpdateRemoves),
		on("Budget", testUpdateBudget),
		on("Invalid", testUpdateInvalid),
		on("Missing", testUpdateMissing),
	}
}

func update(t *testing.T, s repo.Sessions, id repo.ID, change repo.SessionUpdate) repo.Session {
	t.Helper()
	session, err := s.Update(t.Context(), id, change)
	return must(t, session, err)
}

// A field that is set changes, and nothing else does but UpdatedAt.
func testUpdateEachField(t *testing.T, s repo.Sessions) {
	id := createAs(t, s, fullSession()).ID
	appendTo(t, s, id, users(2)...)
	for _, test := range []struct {
		name   string
		change repo.SessionUpdate
		apply  func(*repo.Session)
	}{
		{"actor", repo.SessionUpdate{Actor: ptr("other")}, func(s *repo.Session) { s.Actor = "other" }},
		{"profile", repo.SessionUpdate{AutomationProfile: ptr("other")}, func(s *repo.Session) { s.AutomationProfile = "other" }},
		{"metadata", repo.SessionUpdate{Metadata: json.RawMessage(`{ "z" : 1.00 }`)}, func(s *repo.Session) {
			s.Metadata = json.RawMessage(`{ "z" : 1.00 }`)
		}},
		{"budget", repo.SessionUpdate{Budget: ptr(repo.Cost(9))}, func(s *repo.Session) { s.Budget = ptr(repo.Cost(9)) }},
		{"all", repo.SessionUpdate{
			Actor: ptr("a"), AutomationProfile: ptr("b"), Metadata: json.RawMessage(`{}`), Budget: ptr(repo.Cost(8)),
		}, func(s *repo.Session) {
			s.Actor, s.AutomationProfile, s.Metadata, s.Budget = "a", "b", json.RawMessage(`{}`), ptr(repo.Cost(8))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := get(t, s, id)
			tick()
			got := update(t, s, id, test.change)
			if !got.UpdatedAt.After(want.UpdatedAt) {
				t.Errorf("updated at %v, before at %v", got.UpdatedAt, want.UpdatedAt)
			}
			test.apply(&want)
			want.UpdatedAt = got.UpdatedAt
			wantSession(t, got, want)
			wantSession(t, get(t, s, id), want)
		})
	}
}

func testUpdateNothing(t *testing.T, s repo.Sessions) {
	before := createAs(t, s, fullSession())
	got := update(t, s, before.ID, repo.SessionUpdate{})
	before.UpdatedAt = got.UpdatedAt
	wantSession(t, got, before)
}

func testUpdateRemoves(t *testing.T, s repo.Sessions) {
	id := createAs(t, s, fullSession()).ID
	got := update(t, s, id, repo.SessionUpdate{Actor: ptr(""), AutomationProfile: ptr(""), RemoveBudget: true})
	if got.Actor != "" || got.AutomationProfile != "" || got.Budget != nil {
		t.Errorf("actor %q, profile %q and budget %v are left", got.Actor, got.AutomationProfile, got.Budget)
	}
	wantSession(t, get(t, s, id), got)
}

func testUpdateBudget(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	if _, err := s.AddUsage(t.Context(), id, repo.NewUsage{Cost: 5}); err != nil {
		t.Fatal(err)
	}
	before := get(t, s, id)
	_, err := s.Update(t.Context(), id, repo.SessionUpdate{Budget: ptr(repo.Cost(4)), Actor: ptr("x")})
	wantBudgetExceeded(t, err, repo.BudgetExceeded{SessionID: id, Budget: 4, Cost: 5})
	wantSession(t, get(t, s, id), before)
	if got := update(t, s, id, repo.SessionUpdate{Budget: ptr(repo.Cost(5))}); *got.Budget != 5 {
		t.Errorf("the budget is %s", got.Budget)
	}
}

func testUpdateInvalid(t *testing.T, s repo.Sessions) {
	before := createAs(t, s, fullSession())
	for field, changes := range map[string][]repo.SessionUpdate{
		"actor":              {{Actor: ptr(secret + "\x00")}, {Actor: ptr(secret + "\xff")}, {Actor: ptr(tooLong())}},
		"automation_profile": {{AutomationProfile: ptr("\x00")}, {AutomationProfile: ptr(tooLong())}},
		"metadata":           {{Metadata: json.RawMessage(`[]`)}, {Metadata: json.RawMessage(secret)}, {Metadata: json.RawMessage{}}},
		"budget":             {{Budget: ptr(repo.Cost(-1))}, {Budget: ptr(repo.Cost(1)), RemoveBudget: true}},
	} {
		for _, change := range changes {
			_, err := s.Update(t.Context(), before.ID, change)
			wantInvalid(t, err, field)
		}
	}
	wantSession(t, get(t, s, before.ID), before)
}

func testUpdateMissing(t *testing.T, s repo.Sessions) {
	id := repo.NewID()
	_, err := s.Update(t.Context(), id, repo.SessionUpdate{Actor: ptr("x")})
	wantNotFound(t, err, "session", id)
	_, err = s.Update(t.Context(), id, repo.SessionUpdate{Budget: ptr(repo.Cost(1))})
	wantNotFound(t, err, "session", id)
}
