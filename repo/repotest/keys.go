package repotest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
)

func keyTests() []test {
	return []test{
		on("Find", testFind),
		on("WithAnID", testKeyWithID),
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
		on("ImportOfATakenKey", testImportOfTakenKey),
		on("ImportOfADeletedSession", testImportOfDeletedSession),
		on("DeletedID", testDeletedID),
		on("FindDeleted", testFindDeleted),
	}
}

// find returns the id of the session with a key.
func find(t *testing.T, s repo.Sessions, key repo.SessionKey) repo.ID {
	t.Helper()
	id, err := s.Find(t.Context(), key)
	return must(t, id, err)
}

// wantNoKey checks the error of an operation that found no session with a key.
func wantNoKey(t *testing.T, err error, key repo.SessionKey) {
	t.Helper()
	if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); ok {
		wantEqual(t, got, repo.NotFoundError{Kind: "session", Name: key.Key, Namespace: cmp.Or(key.Namespace, repo.DefaultNamespace)})
	}
}

func newKey(of any) repo.SessionKey {
	key := repo.SessionKey{Namespace: spaceOf(of), Key: repo.JoinKey("tenant/1", "app", "user~1", "a")}
	if _, is := of.(spaced); is { // others have the same namespace
		key.Key += randomName()
	}
	return key
}

// One key names two sessions in two namespaces. A session that is made again under its key has
// another id.
func testFind(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	other := repo.SessionKey{Namespace: randomName(), Key: key.Key}
	local := repo.SessionKey{Key: randomName()}
	ids := map[repo.ID]bool{}
	for range 2 {
		for _, key := range []repo.SessionKey{key, other, local} {
			_, err := s.Find(t.Context(), key)
			wantNoKey(t, err, key)
			created := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key})
			if created.Key != key.Key || ids[created.ID] {
				t.Errorf("created %+v, want the key %+v and a new id", created, key)
			}
			ids[created.ID] = true
			for range 2 {
				wantEqual(t, ptr(find(t, s, key)), created.ID)
			}
			wantSession(t, get(t, s, created.ID), created)
		}
		for _, key := range []repo.SessionKey{key, other, local} {
			remove(t, s, find(t, s, key))
		}
	}
	for field, key := range map[string]repo.SessionKey{
		"key": {}, "key ": {Key: "\xff"}, "key  ": {Key: "x\x00"}, "key   ": {Key: strings.Repeat("x", repo.MaxKeyBytes+1)},
		"namespace": {Namespace: "\xff", Key: "x"},
	} {
		_, err := s.Find(t.Context(), key)
		wantInvalid(t, err, strings.TrimSpace(field))
	}
}

// A session may be given an id and a key. Either leads to it, and no other session gets one of
// them.
func testKeyWithID(t *testing.T, s repo.Sessions) {
	key, id := newKey(s), repo.NewID()
	given := repo.NewSession{ID: id, Namespace: key.Namespace, Key: key.Key}
	created := wantCreated(t, s, given, false)
	if created.ID != id || created.Key != key.Key || find(t, s, key) != id {
		t.Errorf("created %+v", created)
	}
	wantSession(t, wantCreated(t, s, given, true), created)
	wantSession(t, wantCreated(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key}, true), created)

	// Another id.
	another := given
	another.ID = repo.NewID()
	_, err := s.Create(t.Context(), another)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Field: "id"})
	another.Existing = repo.ExistingNone
	_, err = s.Create(t.Context(), another)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id})
	another.Existing = repo.ExistingAny
	wantSession(t, wantCreated(t, s, another, true), created)
	_, err = s.Get(t.Context(), another.ID)
	wantNotFound(t, err, "session", another.ID)
	// The id that was refused was not used up.
	wantCreated(t, s, repo.NewSession{ID: another.ID}, false)

	// Another key.
	for _, mode := range []repo.Existing{repo.ExistingSame, repo.ExistingAny} {
		renamed := given
		renamed.Key, renamed.Existing = "other", mode
		_, err = s.Create(t.Context(), renamed)
		wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Field: "key"})
		renamed.Key, renamed.Namespace = given.Key, randomName()
		_, err = s.Create(t.Context(), renamed)
		wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Field: "namespace"})
	}
	// The id of one session and the key of another.
	second := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: "second"})
	both := repo.NewSession{ID: id, Namespace: key.Namespace, Key: "second"}
	_, err = s.Create(t.Context(), both)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Field: "key"})
	both.Existing = repo.ExistingAny
	wantSession(t, wantCreated(t, s, both, true), second)
}

// Keys and owners come back as they were given, up to the longest.
func testKeyValues(t *testing.T, s repo.Sessions) {
	given := append(texts(), strings.Repeat("é", repo.MaxKeyBytes/2), strings.Repeat("x", repo.MaxKeyBytes), repo.JoinKey("", "~", "/", ""))
	for _, text := range given {
		new := repo.NewSession{Namespace: spaceOf(s), Key: text, Owner: text + strings.Repeat("x", limits.MaxUserIDBytes-len(text))}
		created := createAs(t, s, new)
		if created.Key != new.Key || created.Owner != new.Owner {
			t.Errorf("%q came back as the key %q and the owner %q", text, created.Key, created.Owner)
		}
		wantSession(t, get(t, s, find(t, s, repo.SessionKey{Namespace: new.Namespace, Key: text})), created)
		wantList(t, walk(t, s, repo.SessionFilter{Namespace: new.Namespace, Owner: new.Owner}, 10), []repo.Session{created})
	}
}

// A key never leads to a session that does not have it.
func testKeyTaken(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	created := createAs(t, s, repo.NewSession{Namespace: key.Namespace})
	for _, mode := range []repo.Existing{repo.ExistingSame, repo.ExistingAny} {
		_, err := s.Create(t.Context(), repo.NewSession{ID: created.ID, Namespace: key.Namespace, Key: key.Key, Existing: mode})
		wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: created.ID, Field: "key"})
	}
	wantSession(t, get(t, s, created.ID), created)
	_, err := s.Find(t.Context(), key)
	wantNoKey(t, err, key)
}

// wantCreated checks the result of a creation, and returns the session.
func wantCreated(t *testing.T, s repo.Sessions, new repo.NewSession, existed bool) repo.Session {
	t.Helper()
	created, err := s.Create(t.Context(), new)
	if must(t, created, err).Existed != existed {
		t.Errorf("Existed is %t, want %t", created.Existed, existed)
	}
	created.Existed = false
	return created
}

func testCreateMustBeNew(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	given.ID, given.Existing = repo.ID{}, repo.ExistingNone
	first := wantCreated(t, s, given, false)
	_, err := s.Create(t.Context(), given)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: first.ID})
	wantSession(t, get(t, s, first.ID), first)
	remove(t, s, first.ID)
	if second := wantCreated(t, s, given, false); second.ID == first.ID {
		t.Errorf("two sessions have the id %s", first.ID)
	}

	withID := repo.NewSession{ID: repo.NewID(), Existing: repo.ExistingNone}
	wantCreated(t, s, withID, false)
	_, err = s.Create(t.Context(), withID)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: withID.ID})
	// Without an id each session is a new one.
	without := repo.NewSession{Existing: repo.ExistingNone}
	if first, second := wantCreated(t, s, without, false), wantCreated(t, s, without, false); first.ID == second.ID {
		t.Errorf("two sessions have the id %s", first.ID)
	}
}

func testCreateWhateverIsThere(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
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
	given := fullSession(s)
	first := wantCreated(t, s, given, false)
	wantSession(t, wantCreated(t, s, given, true), first)
	given.Existing = repo.ExistingSame
	wantSession(t, wantCreated(t, s, given, true), first)
	given.Owner = secret
	_, err := s.Create(t.Context(), given)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: given.ID, Field: "owner"})
	given.Existing = secret
	_, err = s.Create(t.Context(), given)
	wantInvalid(t, err, "existing")
}

func testByKey(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	id := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key}).ID
	named := bykey.Of(s, key)
	stored, err := named.Append(t.Context(), user("a"), user("b"))
	wantStored(t, id, 0, []repo.NewMessage{user("a"), user("b")}, must(t, stored, err))
	stored, err = appendAt(t.Context(), s, id, 2, user("c"))
	wantStored(t, id, 2, []repo.NewMessage{user("c")}, must(t, stored, err))
	session, err := named.Get(t.Context())
	wantSession(t, must(t, session, err), get(t, s, id))
	wantCount(t, s, id, 3)

	// Other errors are those of the operations.
	_, err = appendAt(t.Context(), s, id, 7, user("x"))
	wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: 7, Next: 3})
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
	for _, key := range []repo.SessionKey{newKey(s), {Key: "no such \"session\""}} {
		named := bykey.Of(s, key)
		for name, run := range map[string]func() error{
			"Get":    func() error { _, err := named.Get(t.Context()); return err },
			"Read":   func() error { _, _, err := named.Read(t.Context(), 1); return err },
			"Append": func() error { _, err := named.Append(t.Context(), user(secret)); return err },
			"Delete": func() error { _, err := named.Delete(t.Context()); return err },
		} {
			err := run()
			wantNoKey(t, err, key)
			if name == "Get" && key.Namespace == "" && err.Error() != `session "no such \"session\"" in namespace "local" not found` {
				t.Errorf("the error says %q", err)
			}
		}
	}
}

// Read has all of the messages that are asked for, also if they are too large, or too many,
// for one read.
func testByKeyRead(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	id := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key}).ID
	named := bykey.Of(s, key)
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
	large := repo.NewMessage{Role: repo.RoleUser, Payload: make([]byte, limits.MaxReadBytes/2)}
	added, err := named.AppendTurn(t.Context(), repo.Turn{
		Messages: []repo.NewMessage{large, large, large, large}, State: []repo.StateChange{{Key: "k", Value: []byte(`1`)}, {Scope: scope, Key: "k", Value: []byte(`2`)}},
	})
	must(t, added, err)
	wantRead(0, 0, 4)
	wantRead(3, 1, 4)
	wantRead(9, 0, 4)
	many := make([]repo.NewMessage, limits.MaxReadMessages)
	for i := range many {
		many[i] = user("x")
	}
	stored, err := s.Append(t.Context(), id, many...)
	must(t, stored, err)
	const all = limits.MaxReadMessages + 4
	wantRead(1, all-1, all)
	wantRead(limits.MaxReadMessages, 4, all)
	wantRead(limits.MaxReadMessages+1, 3, all)
	wantRead(0, 0, all)
	_, _, err = named.Read(t.Context(), -1)
	wantInvalid(t, err, "last")
}

// meanwhile reads one message of a session at once, as if the others were too large, and calls
// a function before it streams those.
type meanwhile struct {
	repo.Sessions
	streams func(id repo.ID)
}

func (s meanwhile) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	snapshot, err := s.Sessions.Read(ctx, read)
	for _, found := range snapshot.Sessions {
		if found != nil && len(found.Messages) > 1 {
			found.Messages, found.Cut = found.Messages[len(found.Messages)-1:], true
		}
	}
	return snapshot, err
}

func (s meanwhile) Messages(ctx context.Context, id repo.ID, from int64) iter.Seq2[repo.Message, error] {
	s.streams(id)
	return s.Sessions.Messages(ctx, id, from)
}

// A session that is deleted between the reads of it is not mixed with the one that is made under
// its key.
// Guarantee: Sessions: A read by key is of one session, also if that is made again meanwhile.
func testByKeyReadDeleted(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	session := repo.NewSession{Namespace: key.Namespace, Key: key.Key}
	for _, count := range []int{0, 1, 2, 5} { // messages of the second session
		createAs(t, s, session)
		appendTo(t, s, find(t, s, key), users(3)...)
		streams := 0
		read, _, err := bykey.Of(meanwhile{s, func(id repo.ID) {
			if streams++; streams > 1 {
				return
			}
			remove(t, s, id)
			if count > 0 {
				createAs(t, s, session)
				appendTo(t, s, find(t, s, key), slices.Repeat([]repo.NewMessage{user("second")}, count)...)
			}
		}}, key).Read(t.Context(), 0)
		if count == 0 {
			wantNoKey(t, err, key)
			continue
		}
		if must(t, read, err); read.Session.MessageCount != int64(count) || len(read.Messages) != count || read.Cut {
			t.Errorf("%d messages of %d, want %d", len(read.Messages), read.Session.MessageCount, count)
		}
		for i, message := range read.Messages {
			if message.Content != "second" || message.Sequence != int64(i) {
				t.Errorf("message %d is %q", message.Sequence, message.Content)
			}
		}
		remove(t, s, read.Session.ID)
	}
}

func testAppendOrCreate(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	named := bykey.Of(s, key)
	given := fullSession(s)
	for round := range 2 {
		for sequence := range int64(2) {
			message := fullMessage()
			for range 2 { // the second time it is stored
				stored, err := named.AppendOrCreate(t.Context(), given, message)
				wantStored(t, find(t, s, key), sequence, []repo.NewMessage{message}, must(t, stored, err))
			}
			given.Actor, given.Owner = "later", "later" // which changes nothing
		}
		session := get(t, s, find(t, s, key))
		if session.Key != key.Key || session.Namespace != key.Namespace || session.MessageCount != 2 ||
			round == 0 && session.Owner != fullSession(s).Owner || string(session.Metadata) != string(given.Metadata) {
			t.Errorf("created %+v", session)
		}
		remove(t, s, session.ID) // it is created again
	}

	_, err := named.AppendOrCreate(t.Context(), given, repo.NewMessage{Role: repo.RoleUser, Content: "\xff"})
	wantInvalid(t, err, "messages[0].content")
	invalid := given
	invalid.Actor = "\xff"
	_, err = named.AppendOrCreate(t.Context(), invalid, user("x"))
	wantInvalid(t, err, "create.actor")
	_, err = s.Find(t.Context(), key)
	wantNoKey(t, err, key)
	for _, text := range []string{"", secret + "\x00", strings.Repeat("x", repo.MaxKeyBytes+1)} {
		_, err := bykey.Of(s, repo.SessionKey{Key: text}).AppendOrCreate(t.Context(), repo.NewSession{}, user("x"))
		wantInvalid(t, err, "create.key")
		_, err = bykey.Of(s, repo.SessionKey{Key: text}).Append(t.Context(), user("x"))
		wantInvalid(t, err, "key")
	}
}

// A list by owner has the owner's sessions, whatever the other filters and the size of
// its pages.
func testListOwners(t *testing.T, s repo.Sessions) {
	namespace := spaceOf(s)
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
	for _, other := range []repo.SessionFilter{{AnyOwner: true, Namespace: namespace}, {Namespace: namespace, Owner: "b"}, {AnyOwner: true, Namespace: namespace, Actor: "a"}} {
		_, err := s.List(t.Context(), other, repo.Page{After: first.Next})
		wantInvalid(t, err, "page.after")
	}
	remove(t, s, first.Items[0].ID)
	wantList(t, walk(t, s, filter, 10), slices.DeleteFunc(slices.Clone(all), func(session repo.Session) bool {
		return session.Owner != "a" || session.ID == first.Items[0].ID
	}))
}

// An imported session is in its owner's list; one without an owner is in none.
func testOwnerOfImport(t *testing.T, s repo.Sessions) {
	given := fullSession(s)
	createAs(t, s, given)
	wantRoundTrip(t, s, given.ID)
	filter := repo.SessionFilter{Namespace: given.Namespace, Owner: given.Owner}
	wantList(t, walk(t, s, filter, 10), []repo.Session{get(t, s, given.ID)})
	without := createAs(t, s, repo.NewSession{Namespace: given.Namespace})
	wantRoundTrip(t, s, without.ID)
	wantList(t, walk(t, s, filter, 10), []repo.Session{get(t, s, given.ID)})
}

// A document is refused if another session has its key.
func testImportOfTakenKey(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	session := repo.NewSession{Namespace: key.Namespace, Key: key.Key}
	first := createAs(t, s, session)
	document := export(t, s, first.ID)
	remove(t, s, first.ID)
	second := createAs(t, s, session)
	for _, restore := range []bool{false, true} {
		_, err := s.Import(t.Context(), bytes.NewReader(document), restore)
		if got, ok := wantError[*repo.ImportError](t, err, repo.ErrImport); ok && got.Field != "session.key" {
			t.Errorf("the error is about %s: %v", got.Field, got)
		}
		wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: second.ID, Field: "id"})
	}
	_, err := s.Get(t.Context(), first.ID)
	wantNotFound(t, err, "session", first.ID)
	remove(t, s, second.ID)
	importFrom(t, s, bytes.NewReader(document))
	if id := find(t, s, key); id != first.ID {
		t.Errorf("the key leads to %s, want %s", id, first.ID)
	}
}

// A document of a session that was deleted is imported only by a call that says that it restores it.
func testImportOfDeletedSession(t *testing.T, s repo.Sessions) {
	id := used(t, s)
	document, messages := export(t, s, id), readAll(t, s, id)
	remove(t, s, id)
	for range 2 {
		_, err := s.Import(t.Context(), bytes.NewReader(document), false)
		wantImportError(t, err)
		wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Gone: true})
		_, err = s.Get(t.Context(), id)
		wantNotFound(t, err, "session", id)
	}
	for range 2 {
		session, err := s.Import(t.Context(), bytes.NewReader(document), true)
		must(t, session, err)
		wantMessages(t, readAll(t, s, id), messages)
		wantCreated(t, s, repo.NewSession{ID: id, Existing: repo.ExistingAny}, true)
		remove(t, s, id)
	}
	_, err := s.Create(t.Context(), repo.NewSession{ID: id})
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Gone: true})
}

// The id of a session that was deleted is not given again, also if a caller chose it.
func testDeletedID(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	for name, session := range map[string]repo.NewSession{
		"given": {ID: repo.NewID()}, "made": {}, "with a key": {Namespace: key.Namespace, Key: key.Key},
		"imported": {ID: repo.NewID(), Actor: "imported"},
	} {
		id := createAs(t, s, session).ID
		if session.Actor != "" {
			wantRoundTrip(t, s, id)
		}
		remove(t, s, id)
		deleted := repo.ExistsError{Kind: "session", ID: id, Gone: true}
		for _, mode := range []repo.Existing{repo.ExistingSame, repo.ExistingNone, repo.ExistingAny} {
			again := session
			again.ID, again.Existing = id, mode
			_, err := s.Create(t.Context(), again)
			wantSessionConflict(t, err, deleted)
		}
		turn := repo.Turn{Messages: users(1), Create: &repo.NewSession{Namespace: session.Namespace, Key: session.Key}}
		_, err := s.AppendTurn(t.Context(), inSession(id, turn))
		wantSessionConflict(t, err, deleted)
		if _, err := s.Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Once an operation has found that a session was deleted, its key does not lead to it any more.
func testFindDeleted(t *testing.T, s repo.Sessions) {
	key := newKey(s)
	named := bykey.Of(s, key)
	for name, do := range map[string]func() error{
		"Get":    func() error { _, err := named.Get(t.Context()); return err },
		"Read":   func() error { _, _, err := named.Read(t.Context(), 1); return err },
		"Append": func() error { _, err := named.Append(t.Context(), user("x")); return err },
		"AppendTurn": func() error {
			_, err := named.AppendTurn(t.Context(), repo.Turn{ID: "turn", Messages: users(1)})
			return err
		},
		"AppendOrCreate": func() error {
			_, err := named.AppendOrCreate(t.Context(), repo.NewSession{}, user("x"))
			return err
		},
		"Delete": func() error { _, err := named.Delete(t.Context()); return err },
	} {
		first := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key}).ID
		if find(t, s, key) != first {
			t.Fatalf("%s: found another session", name)
		}
		remove(t, s, first)
		second := createAs(t, s, repo.NewSession{Namespace: key.Namespace, Key: key.Key}).ID
		if err := do(); err != nil {
			t.Errorf("%s of the second session: %v", name, err)
		}
		if name == "Delete" {
			_, err := s.Get(t.Context(), second)
			wantNotFound(t, err, "session", second)
			continue
		}
		remove(t, s, second)
	}
}
