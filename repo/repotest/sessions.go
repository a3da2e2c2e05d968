package repotest

import (
	"encoding/json"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func sessionTests() []test {
	return []test{
		on("CreateZeroValue", testCreateZeroValue),
		on("CreateEveryField", testCreateEveryField),
		on("Copies", testSessionCopies),
		on("CreateWithoutID", testCreateWithoutID),
		on("CreateAgain", testCreateAgain),
		on("CreateAgainAfterUse", testCreateAgainAfterUse),
		on("CreateConflicts", testCreateConflicts),
		on("CreateConflictAfterUpdate", testCreateConflictAfterUpdate),
		on("GetMissing", testGetMissing),
		on("Delete", testDelete),
		on("DeleteMissing", testDeleteMissing),
	}
}

// fullSession sets every field.
func fullSession(of any) repo.NewSession {
	key := newKey(of)
	return repo.NewSession{
		ID:                repo.NewID(),
		Namespace:         key.Namespace,
		Key:               key.Key,
		Owner:             "user/1@example.com",
		Existing:          repo.ExistingSame,
		Actor:             "openai/gpt",
		AutomationProfile: "nightly",
		Metadata:          json.RawMessage(`{"a":1,"b":{"c":[true,null,"é"],"d":2.50}}`),
		Budget:            ptr(5 * repo.CostUnit),
	}
}

// The store shares no memory with its caller.
func testSessionCopies(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	created := createAs(t, s, given)
	want := clone(get(t, s, given.ID))
	update := repo.SessionUpdate{Metadata: json.RawMessage(`{"updated":1}`), Budget: ptr(repo.Cost(7))}
	change := func(metadata json.RawMessage, budget *repo.Cost) { metadata[2], *budget = 'x', 1 }
	change(given.Metadata, given.Budget)
	change(created.Metadata, created.Budget)
	for range 2 {
		got := get(t, s, given.ID)
		wantSession(t, got, want)
		change(got.Metadata, got.Budget)
		listed := walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: given.Namespace}, 10)
		wantList(t, listed, []repo.Session{want})
		change(listed[0].Metadata, listed[0].Budget)
	}
	updated, err := s.Update(t.Context(), given.ID, update)
	want = clone(must(t, updated, err))
	change(update.Metadata, update.Budget)
	change(updated.Metadata, updated.Budget)
	wantSession(t, get(t, s, given.ID), want)
}

func testCreateZeroValue(t *testing.T, s repo.Sessions) {
	created := createAs(t, s, repo.NewSession{})
	if created.ID.IsZero() {
		t.Error("the session has no id")
	}
	if created.CreatedAt.IsZero() || created.UpdatedAt.Before(created.CreatedAt) {
		t.Errorf("created at %v, updated at %v", created.CreatedAt, created.UpdatedAt)
	}
	want := repo.Session{
		ID: created.ID, Namespace: repo.DefaultNamespace, Metadata: json.RawMessage(`{}`), Version: 1,
		CreatedAt: created.CreatedAt, UpdatedAt: created.UpdatedAt,
	}
	wantSession(t, created, want)
	wantSession(t, get(t, s, created.ID), want)
}

func testCreateEveryField(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	created := createAs(t, s, given)
	want := repo.Session{
		ID: given.ID, Namespace: given.Namespace, Key: given.Key, Owner: given.Owner, Actor: given.Actor, AutomationProfile: given.AutomationProfile,
		Metadata: given.Metadata, Budget: given.Budget, Version: 1, CreatedAt: created.CreatedAt, UpdatedAt: created.UpdatedAt,
	}
	wantSession(t, created, want)
	wantSession(t, get(t, s, given.ID), want)
}

func testCreateWithoutID(t *testing.T, s repo.Sessions) {
	if first, second := create(t, s), create(t, s); first == second {
		t.Errorf("two sessions have the id %s", first)
	}
}

func testCreateAgain(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	first := createAs(t, s, given)
	wantSession(t, createAs(t, s, given), first)

	// The same JSON value in another spelling. The first spelling is kept.
	otherwise := given
	otherwise.Metadata = json.RawMessage("{ \"b\":{\"d\":2.50, \"c\":[true,null,\"\\u00e9\"]},\n\"a\":1 }")
	wantSession(t, createAs(t, s, otherwise), first)
	wantSession(t, get(t, s, given.ID), first)

	// An omitted value equals its default.
	id := repo.NewID()
	first = createAs(t, s, repo.NewSession{ID: id})
	wantSession(t, createAs(t, s, repo.NewSession{
		ID: id, Namespace: repo.DefaultNamespace, Metadata: json.RawMessage(`{}`),
	}), first)
}

func testCreateAgainAfterUse(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	createAs(t, s, given)
	appendTo(t, s, given.ID, users(3)...)
	if _, err := s.AddUsage(t.Context(), given.ID, repo.NewUsage{InputTokens: 7, Cost: 1}); err != nil {
		t.Fatal(err)
	}
	used := get(t, s, given.ID)
	again := createAs(t, s, given)
	wantSession(t, again, used)
	if again.MessageCount != 3 || again.Usage.InputTokens != 7 {
		t.Errorf("creating again gave %d messages and %d tokens, want 3 and 7", again.MessageCount, again.Usage.InputTokens)
	}
	wantSession(t, get(t, s, given.ID), used)
}

func testCreateConflicts(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	given.ID, given.Key = repo.NewID(), "" // a key would fix the namespace
	created := createAs(t, s, given)
	for _, test := range []struct {
		name, field string
		change      func(*repo.NewSession)
	}{
		{"another namespace", "namespace", func(n *repo.NewSession) { n.Namespace = secret }},
		{"the default namespace", "namespace", func(n *repo.NewSession) { n.Namespace = "" }},
		{"another owner", "owner", func(n *repo.NewSession) { n.Owner = secret }},
		{"no owner", "owner", func(n *repo.NewSession) { n.Owner = "" }},
		{"another actor", "actor", func(n *repo.NewSession) { n.Actor = secret }},
		{"an actor in other case", "actor", func(n *repo.NewSession) { n.Actor = "OpenAI/gpt" }},
		{"no actor", "actor", func(n *repo.NewSession) { n.Actor = "" }},
		{"another profile", "automation_profile", func(n *repo.NewSession) { n.AutomationProfile = secret }},
		{"no profile", "automation_profile", func(n *repo.NewSession) { n.AutomationProfile = "" }},
		{"no metadata", "metadata", func(n *repo.NewSession) { n.Metadata = nil }},
		{"another member", "metadata", func(n *repo.NewSession) { n.Metadata = json.RawMessage(`{"a":1,"` + secret + `":2}`) }},
		{"an array in other order", "metadata", func(n *repo.NewSession) {
			n.Metadata = json.RawMessage(`{"a":1,"b":{"c":[null,true,"é"],"d":2.50}}`)
		}},
		{"another budget", "budget", func(n *repo.NewSession) { n.Budget = ptr(*n.Budget + 1) }},
		{"no budget", "budget", func(n *repo.NewSession) { n.Budget = nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			other := given
			test.change(&other)
			_, err := s.Create(t.Context(), other)
			wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: given.ID, Field: test.field})
		})
	}
	wantSession(t, get(t, s, given.ID), created)

	withKey := fullSession(s)
	createAs(t, s, withKey)
	without := withKey
	without.Key = ""
	_, err := s.Create(t.Context(), without)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: withKey.ID, Field: "key"})
}

func testCreateConflictAfterUpdate(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	createAs(t, s, given)
	_, err := s.Update(t.Context(), given.ID, repo.SessionUpdate{Actor: ptr("other")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), given)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: given.ID, Field: "actor"})
}

func testGetMissing(t *testing.T, s repo.Sessions) {
	for _, id := range []repo.ID{repo.NewID(), {}} {
		_, err := s.Get(t.Context(), id)
		wantNotFound(t, err, "session", id)
	}
}

func testDelete(t *testing.T, s repo.Sessions) {
	id, other, empty := create(t, s), create(t, s), create(t, s)
	stored := appendTo(t, s, id, users(7)...)
	kept := appendTo(t, s, other, users(2)...)

	deleted, err := s.Delete(t.Context(), id)
	if err != nil || deleted.Messages != 7 {
		t.Errorf("deleted %d messages, %v, want 7", deleted.Messages, err)
	}
	_, err = s.Get(t.Context(), id)
	wantNotFound(t, err, "session", id)
	_, err = s.Message(t.Context(), id, stored[0].ID)
	wantNotFound(t, err, "session", id)
	wantMessages(t, wantCount(t, s, other, 2), kept)

	deleted, err = s.Delete(t.Context(), empty)
	if err != nil || deleted.Messages != 0 {
		t.Errorf("deleted %d messages, %v, want none", deleted.Messages, err)
	}
}

func testDeleteMissing(t *testing.T, s repo.Sessions) {
	id := repo.NewID()
	_, err := s.Delete(t.Context(), id)
	wantNotFound(t, err, "session", id)

	id = create(t, s)
	if _, err := s.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err = s.Delete(t.Context(), id)
	wantNotFound(t, err, "session", id)
}
