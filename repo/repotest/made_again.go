package repotest

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
)

// A session that is deleted and made again under its key is another one: by the first one's
// id nothing of the second one is found, anywhere.
func madeAgainTests() []test {
	return []test{
		onPlans("Read", testMadeAgainRead),
		onPlans("Stream", testMadeAgainStream),
		onPlans("Follow", testMadeAgainFollow),
		onPlans("Write", testMadeAgainWrite),
		onPlans("Lease", testMadeAgainLease),
		onPlans("Turn", testMadeAgainTurn),
	}
}

// again is a session that is made again under its key.
type again struct {
	key    repo.SessionKey
	first  repo.ID
	second repo.ID
}

// made makes the first session, with messages.
func made(t *testing.T, s repo.Sessions, messages int) *again {
	t.Helper()
	a := &again{key: newKey(s)}
	a.first = a.make(t, s, messages)
	return a
}

func (a *again) make(t *testing.T, s repo.Sessions, messages int) repo.ID {
	t.Helper()
	id := createAs(t, s, repo.NewSession{Namespace: a.key.Namespace, Key: a.key.Key}).ID
	if messages > 0 {
		appendTo(t, s, id, users(messages)...)
	}
	return id
}

// remake deletes the first session, and makes the second one, which is longer.
func (a *again) remake(t *testing.T, s repo.Sessions, messages int) {
	t.Helper()
	remove(t, s, a.first)
	if a.second = a.make(t, s, messages); a.second == a.first {
		t.Fatalf("the second session has the id %s, too", a.first)
	}
}

// A turn that made the session, and is repeated after the deletion, does not make it again if it gives the id, chosen or found. With
// the key alone it does.
// Guarantee: Deletion: A late turn with the session's id does not make it again.
func testMadeAgainTurn(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	key := newKey(s)
	turn := repo.Turn{ID: "first", Messages: users(1), Create: &repo.NewSession{Namespace: key.Namespace, Key: key.Key}}
	for _, chosen := range []repo.ID{repo.NewID(), {}} {
		turn.SessionID = chosen
		made, err := s.AppendTurn(t.Context(), turn)
		wantSame(t, "created", must(t, made, err).Created, true)
		turn.SessionID = made.SessionID
		again, err := s.AppendTurn(t.Context(), turn)
		wantSame(t, "repeated", must(t, again, err).Repeated, true)
		remove(t, s, made.SessionID)
		for range 2 {
			_, err = s.AppendTurn(t.Context(), turn)
			wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: made.SessionID, Gone: true})
			_, err = s.Find(t.Context(), key)
			if !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("the key leads to a session: %v", err)
			}
		}
	}
	turn.SessionID = repo.ID{}
	made, err := s.AppendTurn(t.Context(), turn)
	wantSame(t, "made again by the key alone", must(t, made, err).Created, true)
}

func testMadeAgainRead(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	a := made(t, s, 5)
	page, err := s.MessagesFrom(t.Context(), a.first, 0, 2)
	must(t, page, err)
	a.remake(t, s, 50)
	for name, read := range map[string]func() error{
		"Get":            func() error { _, err := s.Get(t.Context(), a.first); return err },
		"MessagesFrom":   func() error { _, err := s.MessagesFrom(t.Context(), a.first, page[1].Sequence+1, 2); return err },
		"MessagesBefore": func() error { _, err := s.MessagesBefore(t.Context(), a.first, 3, 2); return err },
		"LastMessages":   func() error { _, err := s.LastMessages(t.Context(), a.first, 2); return err },
		"Message":        func() error { _, err := s.Message(t.Context(), a.first, page[0].ID); return err },
		"Stream":         func() error { return wantOneError(t, s.Messages(t.Context(), a.first, 2)) },
		"Follow":         func() error { return wantOneError(t, s.Follow(t.Context(), a.first, 2)) },
		"State":          func() error { _, err := r.State().Get(t.Context(), repo.Scope{SessionID: a.first}, "k"); return err },
	} {
		t.Log(name)
		wantNotFound(t, read(), "session", a.first)
	}
	snapshot, err := s.Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{a.first, a.second}, Last: 1})
	if must(t, snapshot, err); snapshot.Sessions[0] != nil || snapshot.Sessions[1] == nil {
		t.Errorf("read %+v", snapshot.Sessions)
	}
}

func testMadeAgainStream(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	a := made(t, s, 600)
	all := readAll(t, s, a.first)
	got, failure := 0, error(nil)
	for message, err := range s.Messages(t.Context(), a.first, 0) {
		if failure = err; err != nil {
			break
		}
		wantMessage(t, message, all[got])
		if got++; got == 1 {
			a.remake(t, s, 1000)
		}
	}
	wantNotFound(t, failure, "session", a.first)
}

func testMadeAgainFollow(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	a := made(t, s, 3)
	waiting, beyond := follow(t, s, a.first, 0), follow(t, s, a.first, 10)
	waiting.wants(readAll(t, s, a.first)...)
	byKey, keyed := 0, error(nil)
	for _, err := range bykey.Of(s, a.key).Follow(t.Context(), 1) {
		if keyed = err; err != nil {
			break
		}
		if byKey++; byKey == 2 {
			a.remake(t, s, 30)
		}
	}
	wantDeleted(t, keyed, a.first)
	wantDeleted(t, waiting.end(), a.first)
	wantDeletedOrMissing(t, beyond.end(), a.first)
	second := follow(t, s, a.second, 0)
	second.wants(readAll(t, s, a.second)...)
}

// What was written in the first session is not found in the second one, and what is written with
// the first one's id is written nowhere.
// Guarantee: Sessions: A session that is made again under its key is another one.
func testMadeAgainWrite(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	a := made(t, s, 2)
	turn := repo.Turn{ID: "turn", Messages: users(2), State: []repo.StateChange{set(repo.Scope{}, "k", `1`)}, Usage: &repo.NewUsage{ID: repo.NewID(), Cost: 1}}
	addTurn(t, r, a.first, turn)
	message := withIDs(users(1))[0]
	appendTo(t, s, a.first, message)
	a.remake(t, s, 2)
	before := recordedState(t, r, a.second)
	for name, write := range map[string]func() error{
		"Append":     func() error { _, err := s.Append(t.Context(), a.first, message); return err },
		"AppendAt":   func() error { _, err := appendAt(t.Context(), s, a.first, 2, user("x")); return err },
		"AppendTurn": func() error { _, err := s.AppendTurn(t.Context(), inSession(a.first, turn)); return err },
		"AddUsage":   func() error { _, err := s.AddUsage(t.Context(), a.first, *turn.Usage); return err },
		"Update": func() error {
			_, err := s.Update(t.Context(), a.first, repo.SessionUpdate{Actor: ptr("x")})
			return err
		},
		"Change": func() error {
			_, err := r.State().Change(t.Context(), []repo.StateChange{set(repo.Scope{SessionID: a.first}, "k", `2`)})
			return err
		},
		"Delete": func() error { _, err := s.Delete(t.Context(), a.first); return err },
	} {
		t.Log(name)
		wantNotFound(t, write(), "session", a.first)
	}
	wantSame(t, "state", recordedState(t, r, a.second), before)
	// In the second session the turn is a new one.
	added, err := bykey.Of(s, a.key).AppendTurn(t.Context(), turn)
	if must(t, added, err); added.Repeated || added.SessionID != a.second || added.Messages[0].Sequence != 2 {
		t.Errorf("added %+v", added)
	}
}

// The answer of a worker that had the first one's lease is not accepted in the second one.
func testMadeAgainLease(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	a := made(t, s, 2)
	lease := leaseOf(t, r, repo.SessionLease(a.first))
	addTurn(t, r, a.first, repo.Turn{Messages: users(1), Fence: lease.Fence})
	a.remake(t, s, 2)
	for kind, turn := range fencedTurns(lease.Fence) {
		_, err := s.AppendTurn(t.Context(), inSession(a.first, turn))
		wantNotFound(t, err, "session", a.first)
		for _, create := range []*repo.NewSession{nil, {}} {
			turn.Create = create
			_, err = bykey.Of(s, a.key).AppendTurn(t.Context(), turn)
			if _, refused := errors.AsType[*repo.FencedError](err); !refused {
				t.Errorf("%s by its key: %v", kind, err)
			}
		}
	}
	wantCount(t, s, a.second, 2)
}
