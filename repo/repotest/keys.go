package repotest

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func keyTests() []test {
	return []test{
		on("FixesTheID", testKeyFixesID),
		on("WithAnotherID", testKeyWithAnotherID),
		on("Values", testKeyValues),
		on("Taken", testKeyTaken),
		on("MustBeNew", testCreateMustBeNew),
		on("WhateverIsThere", testCreateWhateverIsThere),
		on("SameAgain", testCreateSameAgain),
		on("ByKey", testByKey),
		on("ByKeyMissing", testByKeyMissing),
		on("ByKeyReadDeleted", testByKeyReadDeleted),
		on("AppendOrCreate", testAppendOrCreate),
		on("Owners", testListOwners),
		on("OwnerOfAnImport", testOwnerOfImport),
		on("ImportWithAnotherKey", testImportWithAnotherKey),
	}
}

func newKey() repo.SessionKey {
	return repo.SessionKey{Namespace: randomName(), Key: repo.JoinKey("tenant/1", "app", "user~1", "a")}
}

// A session with a key has the key's id. One key names two sessions in two namespaces.
func testKeyFixesID(t *testing.T, s repo.Sessions) {
	key := newKey()
	other := repo.SessionKey{Namespace: randomName(), Key: key.Key}
	for _, key := range []repo.SessionKey{key, other} {
		created := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key})
		if created.ID != key.ID() || created.Key != key.Key || created.Namespace != key.Namespace {
			t.Errorf("created %+v, want the key %+v and the id %s", created, key, key.ID())
		}
		wantSession(t, get(t, s, key.ID()), created)
	}
	if key.ID() == other.ID() {
		t.Error("one key has the same id in two namespaces")
	}
	local := repo.SessionKey{Key: randomName()}
	created := createAs(t, s, repo.NewSession{ID: local.ID(), Key: local.Key})
	if created.ID != local.ID() || created.Namespace != repo.DefaultNamespace {
		t.Errorf("created %+v, want the id %s in the default namespace", created, local.ID())
	}
}

func testKeyWithAnotherID(t *testing.T, s repo.Sessions) {
	key, id := newKey(), repo.NewID()
	_, err := s.Create(t.Context(), repo.NewSession{ID: id, Namespace: key.Namespace, Key: key.Key})
	wantInvalid(t, err, "id")
	for _, id := range []repo.ID{id, key.ID()} {
		_, err = s.Get(t.Context(), id)
		wantNotFound(t, err, "session", id)
	}
}

// Keys and owners come back as they were given, up to the longest.
func testKeyValues(t *testing.T, s repo.Sessions) {
	given := append(texts(), strings.Repeat("é", repo.MaxKeyBytes/2), strings.Repeat("x", repo.MaxKeyBytes), repo.JoinKey("", "~", "/", ""))
	for _, text := range given {
		new := repo.NewSession{Namespace: randomName(), Key: text, Owner: text + strings.Repeat("x", repo.MaxUserIDBytes-len(text))}
		created := createAs(t, s, new)
		if created.Key != new.Key || created.Owner != new.Owner {
			t.Errorf("%q came back as the key %q and the owner %q", text, created.Key, created.Owner)
		}
		wantSession(t, get(t, s, repo.SessionKey{Namespace: new.Namespace, Key: text}.ID()), created)
		wantList(t, walk(t, s, repo.SessionFilter{Namespace: new.Namespace, Owner: new.Owner}, 10), []repo.Session{created})
	}
}

// A key never leads to a session that does not have it.
func testKeyTaken(t *testing.T, s repo.Sessions) {
	key := newKey()
	created := createAs(t, s, repo.NewSession{ID: key.ID(), Namespace: key.Namespace})
	for _, mode := range []repo.Existing{repo.ExistingSame, repo.ExistingAny} {
		_, err := s.Create(t.Context(), repo.NewSession{Namespace: key.Namespace, Key: key.Key, Existing: mode})
		wantSessionConflict(t, err, repo.SessionConflictError{ID: key.ID(), Field: "key"})
	}
	wantSession(t, get(t, s, key.ID()), created)

	elsewhere := newKey()
	createAs(t, s, repo.NewSession{ID: elsewhere.ID(), Namespace: randomName()})
	_, err := s.Create(t.Context(), repo.NewSession{Namespace: elsewhere.Namespace, Key: elsewhere.Key, Existing: repo.ExistingAny})
	wantSessionConflict(t, err, repo.SessionConflictError{ID: elsewhere.ID(), Field: "namespace"})
}

// wantCreated checks the result of a creation, and returns the session.
func wantCreated(t *testing.T, s repo.Sessions, new repo.NewSession, existed bool) repo.Session {
	t.Helper()
	created, err := s.Create(t.Context(), new)
	if must(t, created, err).Existed != existed {
		t.Errorf("Existed is %t, want %t", created.Existed, existed)
	}
	return created.Session
}

func testCreateMustBeNew(t *testing.T, s repo.Sessions) {
	withKey, withID := fullSession(), fullSession()
	withID.Key = ""
	for _, given := range []repo.NewSession{withKey, withID} {
		given.Existing = repo.ExistingNone
		created := wantCreated(t, s, given, false)
		_, err := s.Create(t.Context(), given)
		wantSessionConflict(t, err, repo.SessionConflictError{ID: given.ID})
		wantSession(t, get(t, s, given.ID), created)
		remove(t, s, given.ID)
		wantCreated(t, s, given, false)
	}
	// Without an id each session is a new one.
	without := repo.NewSession{Existing: repo.ExistingNone}
	if first, second := wantCreated(t, s, without, false), wantCreated(t, s, without, false); first.ID == second.ID {
		t.Errorf("two sessions have the id %s", first.ID)
	}
}

func testCreateWhateverIsThere(t *testing.T, s repo.Sessions) {
	given := fullSession()
	given.Existing = repo.ExistingAny
	wantCreated(t, s, given, false)
	appendTo(t, s, given.ID, user("x"))
	stored := get(t, s, given.ID)
	other := given
	other.Owner, other.Actor, other.AutomationProfile = "other", "other", ""
	other.Metadata, other.Budget = json.RawMessage(`{"other":1}`), nil
	wantSession(t, wantCreated(t, s, other, true), stored)
	// By its id alone, with another namespace too.
	wantSession(t, wantCreated(t, s, repo.NewSession{ID: given.ID, Namespace: randomName(), Existing: repo.ExistingAny}, true), stored)
	wantSession(t, get(t, s, given.ID), stored)

	other.Actor = secret + "\x00"
	_, err := s.Create(t.Context(), other)
	wantInvalid(t, err, "actor")
}

func testCreateSameAgain(t *testing.T, s repo.Sessions) {
	given := fullSession()
	first := wantCreated(t, s, given, false)
	wantSession(t, wantCreated(t, s, given, true), first)
	given.Existing = repo.ExistingSame
	wantSession(t, wantCreated(t, s, given, true), first)
	given.Owner = secret
	_, err := s.Create(t.Context(), given)
	wantSessionConflict(t, err, repo.SessionConflictError{ID: given.ID, Field: "owner"})
	given.Existing = secret
	_, err = s.Create(t.Context(), given)
	wantInvalid(t, err, "existing")
}

func testByKey(t *testing.T, s repo.Sessions) {
	key := newKey()
	id := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key}).ID
	named := repo.ByKey(s, key)
	stored, err := named.Append(t.Context(), user("a"), user("b"))
	wantStored(t, id, 0, []repo.NewMessage{user("a"), user("b")}, must(t, stored, err))
	stored, err = named.AppendAt(t.Context(), 2, user("c"))
	wantStored(t, id, 2, []repo.NewMessage{user("c")}, must(t, stored, err))
	session, err := named.Get(t.Context())
	wantSession(t, must(t, session, err), get(t, s, id))
	wantCount(t, s, id, 3)

	// Other errors are those of the operations.
	_, err = named.AppendAt(t.Context(), 7, user("x"))
	wantSequenceConflict(t, err, repo.SequenceConflictError{SessionID: id, Expected: 7, Next: 3})
	_, err = named.Append(t.Context())
	wantInvalid(t, err, "messages")

	deleted, err := named.Delete(t.Context())
	if must(t, deleted, err).Messages != 3 {
		t.Errorf("deleted %d messages, want 3", deleted.Messages)
	}
	_, err = s.Get(t.Context(), id)
	wantNotFound(t, err, "session", id)
}

// The error for a missing session has the key, in its text too.
func testByKeyMissing(t *testing.T, s repo.Sessions) {
	for _, key := range []repo.SessionKey{newKey(), {Key: "no such \"session\""}} {
		named := repo.ByKey(s, key)
		for name, run := range map[string]func() error{
			"Get":      func() error { _, err := named.Get(t.Context()); return err },
			"Read":     func() error { _, _, err := named.Read(t.Context(), 1); return err },
			"Append":   func() error { _, err := named.Append(t.Context(), user(secret)); return err },
			"AppendAt": func() error { _, err := named.AppendAt(t.Context(), 0, user(secret)); return err },
			"Delete":   func() error { _, err := named.Delete(t.Context()); return err },
		} {
			got, ok := wantError[*repo.NotFoundError](t, run(), repo.ErrNotFound)
			if !ok {
				continue
			}
			wantEqual(t, got, repo.NotFoundError{Kind: "session", ID: key.ID(), Key: key})
			if name == "Get" && key.Namespace == "" && got.Error() != `session with the key "no such \"session\"" in namespace "local" not found` {
				t.Errorf("the error says %q", got)
			}
		}
	}
}

// Read has all of the messages that are asked for, also if they are too large, or too many,
// for one read.
func testByKeyRead(t *testing.T, s repo.Sessions) {
	key := newKey()
	id := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key}).ID
	named := repo.ByKey(s, key)
	scope := repo.Scope{Name: randomName()}
	wantRead := func(last int, first, count int64) {
		t.Helper()
		read, scopes, err := named.Read(t.Context(), last, scope.Name)
		if must(t, read, err); read.Session.MessageCount != count || int64(len(read.Messages)) != count-first || read.Cut {
			t.Fatalf("the last %d of %d: %d messages, cut %v", last, read.Session.MessageCount, len(read.Messages), read.Cut)
		}
		for i, message := range read.Messages {
			if message.Sequence != first+int64(i) {
				t.Fatalf("the last %d: sequence %d after %d messages", last, message.Sequence, i)
			}
		}
		if len(scopes) != 1 || scopes[0].Scope != scope || (count > 0) != (len(read.State.Values) == 1 && len(scopes[0].Values) == 1) {
			t.Errorf("state %+v, shared %+v", read.State, scopes)
		}
	}
	wantRead(0, 0, 0)
	large := repo.NewMessage{Role: repo.RoleUser, Payload: make([]byte, repo.MaxReadBytes/2)}
	added, err := named.AppendTurn(t.Context(), repo.Turn{
		Messages: []repo.NewMessage{large, large, large, large}, State: []repo.StateChange{{Key: "k", Value: []byte(`1`)}, {Scope: scope, Key: "k", Value: []byte(`2`)}},
	})
	must(t, added, err)
	wantRead(0, 0, 4)
	wantRead(3, 1, 4)
	wantRead(9, 0, 4)
	many := make([]repo.NewMessage, repo.MaxReadMessages)
	for i := range many {
		many[i] = user("x")
	}
	stored, err := s.Append(t.Context(), id, many...)
	must(t, stored, err)
	const all = repo.MaxReadMessages + 4
	wantRead(1, all-1, all)
	wantRead(repo.MaxReadMessages, 4, all)
	wantRead(repo.MaxReadMessages+1, 3, all)
	wantRead(0, 0, all)
	_, _, err = named.Read(t.Context(), -1)
	wantInvalid(t, err, "last")
}

// redirected reads one message of a session at once, as if the others were too large, and
// streams the session that a function returns for the one that is asked for.
type redirected struct {
	repo.Sessions
	of func(id repo.ID) repo.ID
}

func (s redirected) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	snapshot, err := s.Sessions.Read(ctx, read)
	for _, found := range snapshot.Sessions {
		if found != nil && len(found.Messages) > 1 {
			found.Messages, found.Cut = found.Messages[len(found.Messages)-1:], true
		}
	}
	return snapshot, err
}

func (s redirected) Stream(ctx context.Context, id repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return s.Sessions.Stream(ctx, s.of(id), from)
}

// A session that is deleted between the reads of it is not mixed with another one.
func testByKeyReadDeleted(t *testing.T, s repo.Sessions) {
	key := newKey()
	session := repo.NewSession{Namespace: key.Namespace, Key: key.Key}
	first, second := user("first"), user("second")
	made := func(id repo.ID, messages ...repo.NewMessage) repo.ID {
		createAs(t, s, session)
		appendTo(t, s, id, messages...)
		return id
	}
	for _, test := range []struct {
		name  string
		of    func(id repo.ID) repo.ID
		count int64
	}{
		{"shorter", func(id repo.ID) repo.ID { remove(t, s, id); return made(id, second) }, 1},
		{"longer", func(id repo.ID) repo.ID { remove(t, s, id); return made(id, second, second, second, second) }, 4},
		{"another", func(id repo.ID) repo.ID { restore(t, s, id, "second"); return id }, 3},
		{"gone", func(id repo.ID) repo.ID { remove(t, s, id); return id }, 0},
		{"again and again", func(repo.ID) repo.ID { return repo.NewID() }, 0},
	} {
		id := made(key.ID(), first, first, first)
		reads := 0
		read, _, err := repo.ByKey(redirected{s, func(id repo.ID) repo.ID {
			if reads++; reads > 1 && test.count > 0 {
				return id
			}
			return test.of(id)
		}}, key).Read(t.Context(), 0)
		if test.count == 0 {
			if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); ok {
				wantEqual(t, got, repo.NotFoundError{Kind: "session", ID: id, Key: key})
			}
			continue
		}
		if must(t, read, err); read.Session.MessageCount != test.count || int64(len(read.Messages)) != test.count || read.Cut {
			t.Errorf("%s: %d messages of %d", test.name, len(read.Messages), read.Session.MessageCount)
		}
		for i, message := range read.Messages {
			if message.Content != "second" || message.Sequence != int64(i) {
				t.Errorf("%s: message %d is %q", test.name, message.Sequence, message.Content)
			}
		}
		remove(t, s, id)
	}
}

func testAppendOrCreate(t *testing.T, s repo.Sessions) {
	key := newKey()
	named := repo.ByKey(s, key)
	given := fullSession()
	for round := range 2 {
		for sequence := range int64(2) {
			message := fullMessage()
			for range 2 { // the second time it is stored
				stored, err := named.AppendOrCreate(t.Context(), given, message)
				wantStored(t, key.ID(), sequence, []repo.NewMessage{message}, must(t, stored, err))
			}
			given.Actor, given.Owner = "later", "later" // which changes nothing
		}
		session := get(t, s, key.ID())
		if session.Key != key.Key || session.Namespace != key.Namespace || session.MessageCount != 2 ||
			round == 0 && session.Owner != fullSession().Owner || string(session.Metadata) != string(given.Metadata) {
			t.Errorf("created %+v", session)
		}
		remove(t, s, key.ID()) // it is created again
	}

	_, err := named.AppendOrCreate(t.Context(), given, repo.NewMessage{Role: repo.RoleUser, Content: "\xff"})
	wantInvalid(t, err, "messages[0].content")
	invalid := given
	invalid.Actor = "\xff"
	_, err = named.AppendOrCreate(t.Context(), invalid, user("x"))
	wantInvalid(t, err, "actor")
	_, err = s.Get(t.Context(), key.ID())
	wantNotFound(t, err, "session", key.ID())
	for text, field := range map[string]string{"": "key", secret + "\x00": "create.key", strings.Repeat("x", repo.MaxKeyBytes+1): "create.key"} {
		_, err := repo.ByKey(s, repo.SessionKey{Key: text}).AppendOrCreate(t.Context(), repo.NewSession{}, user("x"))
		wantInvalid(t, err, "key")
		_, err = repo.ByKey(s, repo.SessionKey{Key: text}).AppendTurn(t.Context(), repo.Turn{Create: &repo.NewSession{}, Messages: []repo.NewMessage{user("x")}})
		wantInvalid(t, err, field)
	}
}

// A list by owner has the owner's sessions, whatever the other filters and the size of
// its pages.
func testListOwners(t *testing.T, s repo.Sessions) {
	namespace := randomName()
	var all []repo.Session
	for i, owner := range []string{"a", "b", "a", "", "A", "a", "a"} {
		all = append(all, createAs(t, s, repo.NewSession{Namespace: namespace, Owner: owner, Actor: []string{"x", "y"}[i%2]}))
		tick()
	}
	createAs(t, s, repo.NewSession{Namespace: randomName(), Owner: "a"})
	slices.SortFunc(all, newestFirst)
	for _, filter := range []repo.SessionFilter{
		{Owner: "a"},
		{Owner: "A"},
		{Owner: "c"},
		{Owner: "a", Actor: "x"},
		{Owner: "a", Actor: "z"},
		{Owner: "a", CreatedFrom: all[1].CreatedAt},
		{Owner: "a", CreatedBefore: all[1].CreatedAt},
		{Owner: "a", Actor: "y", CreatedFrom: all[5].CreatedAt, CreatedBefore: all[0].CreatedAt},
	} {
		filter.Namespace = namespace
		want := slices.DeleteFunc(slices.Clone(all), func(session repo.Session) bool {
			return session.Owner != filter.Owner || filter.Actor != "" && session.Actor != filter.Actor ||
				session.CreatedAt.Before(filter.CreatedFrom) ||
				!filter.CreatedBefore.IsZero() && !session.CreatedAt.Before(filter.CreatedBefore)
		})
		for _, limit := range []int{1, 2, 1000} {
			wantList(t, walk(t, s, filter, limit), want)
		}
	}
	filter := repo.SessionFilter{Namespace: namespace, Owner: "a"}
	first, err := s.List(t.Context(), filter, repo.Page{Limit: 1})
	must(t, first, err)
	for _, other := range []repo.SessionFilter{{Namespace: namespace}, {Namespace: namespace, Owner: "b"}, {Namespace: namespace, Actor: "a"}} {
		_, err := s.List(t.Context(), other, repo.Page{After: first.Next})
		wantInvalid(t, err, "page.after")
	}
	remove(t, s, first.Sessions[0].ID)
	wantList(t, walk(t, s, filter, 10), slices.DeleteFunc(slices.Clone(all), func(session repo.Session) bool {
		return session.Owner != "a" || session.ID == first.Sessions[0].ID
	}))
}

// An imported session is in its owner's list; one without an owner is in none.
func testOwnerOfImport(t *testing.T, s repo.Sessions) {
	given := fullSession()
	createAs(t, s, given)
	wantRoundTrip(t, s, given.ID)
	filter := repo.SessionFilter{Namespace: given.Namespace, Owner: given.Owner}
	wantList(t, walk(t, s, filter, 10), []repo.Session{get(t, s, given.ID)})
	without := createAs(t, s, repo.NewSession{Namespace: given.Namespace})
	wantRoundTrip(t, s, without.ID)
	wantList(t, walk(t, s, filter, 10), []repo.Session{get(t, s, given.ID)})
}

// A document whose key is not that of its id is refused.
func testImportWithAnotherKey(t *testing.T, s repo.Sessions) {
	key := repo.SessionKey{Namespace: randomName(), Key: "key"}
	createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key})
	document := string(export(t, s, key.ID()))
	remove(t, s, key.ID())
	other := strings.Replace(document, `"key":"key"`, `"key":"`+secret+`"`, 1)
	if other == document {
		t.Fatal("the document has no key")
	}
	_, err := s.Import(t.Context(), strings.NewReader(other))
	if got, ok := wantError[*repo.ImportError](t, err, repo.ErrImport); ok && got.Field != "session.id" {
		t.Errorf("the error is about %s: %v", got.Field, got)
	}
	_, err = s.Get(t.Context(), key.ID())
	wantNotFound(t, err, "session", key.ID())
	importFrom(t, s, strings.NewReader(document))
}
