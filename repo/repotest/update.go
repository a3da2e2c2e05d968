package repotest

import (
	"encoding/json"
	"strings"
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
		on("Patch", testUpdatePatch),
		on("PatchTooLarge", testUpdatePatchTooLarge),
		on("IfVersion", testUpdateIfVersion),
	}
}

func update(t *testing.T, s repo.Sessions, id repo.ID, change repo.SessionUpdate) repo.Session {
	t.Helper()
	session, err := s.Update(t.Context(), id, change)
	return must(t, session, err)
}

// Setting a field changes only that field and Version: UpdatedAt is that of appends.
func testUpdateEachField(t *testing.T, s repo.Sessions) {
	id := createAs(t, s, fullSession(s)).ID
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
		{"patch", repo.SessionUpdate{MetadataPatch: json.RawMessage(`{"y":2}`)}, func(s *repo.Session) {
			s.Metadata = json.RawMessage(`{ "z" : 1.00,"y":2 }`)
		}},
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
			test.apply(&want)
			want.Version++
			wantSession(t, got, want)
			wantSession(t, get(t, s, id), want)
		})
	}
}

func testUpdateNothing(t *testing.T, s repo.Sessions) {
	before := createAs(t, s, fullSession(s))
	got := update(t, s, before.ID, repo.SessionUpdate{})
	before.Version++
	wantSession(t, got, before)
}

func testUpdateRemoves(t *testing.T, s repo.Sessions) {
	id := createAs(t, s, fullSession(s)).ID
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
	wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: id, Limit: 4, Current: 5})
	wantSession(t, get(t, s, id), before)
	if got := update(t, s, id, repo.SessionUpdate{Budget: ptr(repo.Cost(5))}); *got.Budget != 5 {
		t.Errorf("the budget is %s", got.Budget)
	}
}

func testUpdateInvalid(t *testing.T, s repo.Sessions) {
	before := createAs(t, s, fullSession(s))
	for field, changes := range map[string][]repo.SessionUpdate{
		"actor":              {{Actor: ptr(secret + "\x00")}, {Actor: ptr(secret + "\xff")}, {Actor: ptr(tooLong())}},
		"automation_profile": {{AutomationProfile: ptr("\x00")}, {AutomationProfile: ptr(tooLong())}},
		"metadata":           {{Metadata: json.RawMessage(`[]`)}, {Metadata: json.RawMessage(secret)}, {Metadata: json.RawMessage{}}},
		"metadata_patch": {
			{MetadataPatch: json.RawMessage(`[]`)},
			{MetadataPatch: json.RawMessage(secret)},
			{MetadataPatch: json.RawMessage{}},
			{MetadataPatch: json.RawMessage(`{"a":1}`), Metadata: json.RawMessage(`{}`)},
			{MetadataPatch: json.RawMessage(`{"` + secret + `":1,"` + secret + `":1}`)},
		},
		"if_version": {{IfVersion: ptr(int64(0))}, {IfVersion: ptr(int64(-1)), Actor: ptr("x")}},
		"budget":     {{Budget: ptr(repo.Cost(-1))}, {Budget: ptr(repo.Cost(1)), RemoveBudget: true}},
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
	_, err = s.Update(t.Context(), id, repo.SessionUpdate{MetadataPatch: json.RawMessage(`{}`), IfVersion: ptr(int64(1))})
	wantNotFound(t, err, "session", id)
}

// A patch changes what it names. Everything else keeps its text and its place.
func testUpdatePatch(t *testing.T, s repo.Sessions) {
	const stored = "{ \"b\" : 1.0 ,\n \"a\":{\"x\": 12345678901234567890.123e400,\"y\":[ 1 ]}, \"\\u0063\": null }"
	id := createAs(t, s, repo.NewSession{Metadata: json.RawMessage(stored)}).ID
	for _, step := range []struct{ patch, want string }{
		{`{}`, stored},
		{`{"d":null}`, stored},
		{`{"b":2.50}`, "{ \"b\" : 2.50 ,\n \"a\":{\"x\": 12345678901234567890.123e400,\"y\":[ 1 ]}, \"\\u0063\": null }"},
		{`{"a":{"y":null,"z":{"deep":null}},"c":null}`, "{ \"b\" : 2.50 ,\n \"a\":{\"x\": 12345678901234567890.123e400,\"z\":{}} }"},
		{`{"a":[],"e":"é"}`, "{ \"b\" : 2.50 ,\n \"a\":[],\"e\":\"é\" }"},
		{`{"a":null,"b":null,"e":null}`, `{ }`},
	} {
		got := update(t, s, id, repo.SessionUpdate{MetadataPatch: json.RawMessage(step.patch)})
		if string(got.Metadata) != step.want {
			t.Errorf("patched with %s it is %s, want %s", step.patch, got.Metadata, step.want)
		}
		wantSession(t, get(t, s, id), got)
	}
}

// Each of two patches may be stored, but not both together.
func testUpdatePatchTooLarge(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	half := func(name string) json.RawMessage {
		return json.RawMessage(`{"` + name + `":"` + strings.Repeat("x", repo.MaxMetadataBytes*2/3) + `"}`)
	}
	before := update(t, s, id, repo.SessionUpdate{MetadataPatch: half("a")})
	_, err := s.Update(t.Context(), id, repo.SessionUpdate{MetadataPatch: half("b"), Actor: ptr("x")})
	wantInvalid(t, err, "metadata_patch")
	wantSession(t, get(t, s, id), before)
	update(t, s, id, repo.SessionUpdate{MetadataPatch: json.RawMessage(`{"a":null}`)})
	update(t, s, id, repo.SessionUpdate{MetadataPatch: half("b")})
}

// An update that expects another version changes nothing, and says which one it is.
func testUpdateIfVersion(t *testing.T, s repo.Sessions) {
	before := createAs(t, s, fullSession(s))
	id := before.ID
	for _, change := range []repo.SessionUpdate{
		{Actor: ptr("x")}, {MetadataPatch: json.RawMessage(`{"x":1}`)}, {Budget: ptr(repo.Cost(0))}, {},
	} {
		change.IfVersion = ptr(before.Version)
		got := update(t, s, id, change)
		if got.Version != before.Version+1 {
			t.Errorf("after %+v it is version %d, before %d", change, got.Version, before.Version)
		}
		for _, stale := range []int64{before.Version, got.Version + 1} {
			change.IfVersion = &stale
			_, err := s.Update(t.Context(), id, change)
			if found, ok := wantError[*repo.VersionConflictError](t, err, repo.ErrConflict); ok {
				wantEqual(t, found, repo.VersionConflictError{Kind: "session", ID: id, Expected: stale, Actual: got.Version})
			}
		}
		wantSession(t, get(t, s, id), got)
		before = got
	}
	// Appends and usage are no updates.
	appendTo(t, s, id, user("x"))
	addUsage(t, s, id, repo.NewUsage{InputTokens: 1})
	if got := get(t, s, id); got.Version != before.Version {
		t.Errorf("an append and usage made version %d of %d", got.Version, before.Version)
	}
}
