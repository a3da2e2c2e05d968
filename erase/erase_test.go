package erase_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
)

const marker = "canary@example.com"

var key = []byte("a key that is kept elsewhere")

func open(t *testing.T) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), "memory://"+repo.NewID().String(), agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// fill stores what an owner may have, with the owner's name in all texts.
func fill(t *testing.T, store repo.Store, owner string) repo.ID {
	t.Helper()
	text := json.RawMessage(`{"by":"` + owner + `"}`)
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{Key: owner, Owner: owner, Metadata: text})
	if err != nil {
		t.Fatal(err)
	}
	turn := repo.Turn{
		SessionID: session.ID, ID: owner, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: owner, Metadata: text, Payload: []byte(owner), CallID: owner}},
		State: []repo.StateChange{{Key: owner, Value: text}, {Scope: repo.Scope{Name: "user:" + owner}, Key: owner, Value: text}},
	}
	if _, err := store.Sessions().AppendTurn(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Fork(t.Context(), session.ID, 0, repo.NewSession{Owner: owner}); err != nil {
		t.Fatal(err)
	}
	stream, err := store.Streams().Open(t.Context(), repo.NewStream{Key: owner, Owner: "worker", Session: session.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Streams().Append(t.Context(), stream, []byte(owner)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "session", Name: session.ID.String()}, Owner: owner}); err != nil {
		t.Fatal(err)
	}
	return session.ID
}

// Guarantee: Deletion: After an erasure no call finds the person's data; others' are unchanged.
func TestSubject(t *testing.T) {
	t.Parallel()
	store := open(t)
	id := fill(t, store, marker)
	other := fill(t, store, "somebody else")
	export := func() string {
		var document bytes.Buffer
		if err := store.Sessions().Export(t.Context(), other, &document); err != nil {
			t.Fatal(err)
		}
		return document.String()
	}
	before := export()
	request := erase.Request{Owner: marker, Scopes: []string{"user:" + marker}, Reason: "asked for", RequestedBy: "officer", Key: key}
	receipt, err := erase.Subject(t.Context(), store, request)
	if err != nil || receipt.Sessions != 2 || receipt.Messages != 1 || receipt.StateKeys != 2 || receipt.Leases != 1 || receipt.Texts != 0 {
		t.Errorf("%+v, %v", receipt, err)
	}
	if _, err := store.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	if _, err := store.Streams().Get(t.Context(), marker); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	if after := export(); after != before {
		t.Errorf("the other person's session is now %s", after)
	}
	entry, err := store.Audit().Entry(t.Context(), receipt.ID)
	if text := string(entry.Details); err != nil || strings.Contains(text, marker) || !strings.Contains(text, "asked for") {
		t.Errorf("%s, %v", text, err)
	}
	again, err := erase.Subject(t.Context(), store, request)
	if err != nil || again.Sessions != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// Guarantee: Deletion: A hold wins over an erasure, which then removes nothing.
func TestHeld(t *testing.T) {
	t.Parallel()
	store := open(t)
	id := fill(t, store, marker)
	for _, hold := range []repo.LegalHold{
		{SessionID: id, Reason: "x"}, {Namespace: repo.DefaultNamespace, Owner: marker, Reason: "x"}, {Namespace: repo.DefaultNamespace, Reason: "x"},
	} {
		if err := store.Sessions().AddHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
		receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: marker, Scopes: []string{"user:" + marker}, Key: key})
		if refused, is := errors.AsType[*repo.RefusedError](err); !is || refused.Kind != "hold" || receipt.Sessions+receipt.StateKeys+receipt.Leases != 0 {
			t.Errorf("%+v: %+v, %v", hold, receipt, err)
		}
		if err := store.Sessions().RemoveHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
}

// A backup is restored that is older than an erasure: the receipt is enough to erase the person again.
func TestReplay(t *testing.T) {
	t.Parallel()
	store := open(t)
	fill(t, store, marker)
	receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: marker, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	restored := open(t)
	id, other := fill(t, restored, marker), fill(t, restored, "somebody else")
	if done, err := erase.Replay(t.Context(), restored, erase.Request{Key: []byte("another key, which finds none")}, receipt); err != nil || len(done) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	done, err := erase.Replay(t.Context(), restored, erase.Request{Key: key}, receipt)
	if err != nil || len(done) != 1 || done[0].Sessions != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := restored.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	if _, err := restored.Sessions().Get(t.Context(), other); err != nil {
		t.Error(err)
	}
}

// A namespace whose sessions are gone, for example because an erasure before was interrupted, may still have scopes and leases.
func TestNamespaceWithoutSessions(t *testing.T) {
	t.Parallel()
	store := open(t)
	tenant := store.In("tenant")
	scope := repo.Scope{Name: "user:" + marker}
	if _, err := tenant.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "k", Value: json.RawMessage("1")}}); err != nil {
		t.Fatal(err)
	}
	lease := repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: "n"}, Owner: marker}
	if _, err := store.In("another").Leases().Acquire(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: marker, Scopes: []string{scope.Name}, Key: key})
	if err != nil || receipt.StateKeys != 1 || receipt.Leases != 1 {
		t.Errorf("%+v, %v", receipt, err)
	}
	if _, err := tenant.State().Get(t.Context(), scope, "k"); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
}

// The backup has sessions of the person in a namespace that had none when they were erased, and it is erased twice.
func TestReplayInAnotherNamespace(t *testing.T) {
	t.Parallel()
	receipt, err := erase.Subject(t.Context(), open(t), erase.Request{Owner: marker, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	only, err := erase.Subject(t.Context(), open(t), erase.Request{Owner: marker, Namespaces: []string{"here"}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	restored := open(t)
	for _, namespace := range []string{"here", "there"} {
		if _, err := restored.Sessions().Create(t.Context(), repo.NewSession{Namespace: namespace, Owner: marker}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		receipt  erase.Receipt
		sessions int64
	}{{only, 1}, {receipt, 1}} {
		if done, err := erase.Replay(t.Context(), restored, erase.Request{Key: key}, step.receipt); err != nil || len(done) != 1 || done[0].Sessions != step.sessions {
			t.Errorf("%+v, %v", done, err)
		}
	}
	if done, err := erase.Replay(t.Context(), restored, erase.Request{Key: key}, receipt, only); err != nil || len(done) > 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// Names that are longer than what an actor or a lease can have, that contain each other, or that look like something else.
func TestOddNames(t *testing.T) {
	t.Parallel()
	store := open(t)
	names := []string{strings.Repeat("ö", 512), "jane", "jane doe", "Jane", "jan%", "j_ne", `"jane"`, "jane\u0301", "jane\\", "<jane>", " jane", "\u202ejane", "*"}
	ids := map[string]repo.ID{}
	for _, name := range names {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{Owner: name})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = session.ID
	}
	for i, name := range names {
		receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Actors: []string{name}, Scopes: []string{"user:jane"}, Key: key})
		if err != nil || receipt.Sessions != 1 {
			t.Errorf("%q: %+v, %v", name, receipt, err)
		}
		for j, other := range names {
			if _, err := store.Sessions().Get(t.Context(), ids[other]); (err == nil) != (j > i) {
				t.Errorf("after the erasure of %q the session of %q: %v", name, other, err)
			}
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	store := open(t)
	fill(t, store, "x")
	for _, request := range []erase.Request{
		{Key: key}, {Owner: "x", Key: []byte("short")}, {Owner: "x", Actors: []string{""}, Key: key}, {Owner: "x", Scopes: []string{"", "user:x"}, Key: key},
	} {
		if receipt, err := erase.Subject(t.Context(), store, request); !errors.Is(err, repo.ErrInvalid) || receipt.Sessions > 0 {
			t.Errorf("%+v: %+v, %v", request, receipt, err)
		}
	}
	if _, err := erase.Replay(t.Context(), store, erase.Request{Key: []byte("short")}, erase.Receipt{Names: []string{"x"}}); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
}
