package postgres

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A turn that is found stored is not answered with the messages of another session, which
// has the key by the time that they are read.
func TestRepeatedTurnOfSessionMadeAgain(t *testing.T) {
	t.Parallel()
	key := repo.SessionKey{Key: "k"}
	turn := repo.Turn{ID: "turn", Messages: []repo.NewMessage{user("a"), user("b")}}
	creating := turn
	creating.Create = &repo.NewSession{}
	for _, test := range []struct {
		name   string
		again  func(s bykey.Session) error // in the second session
		turn   repo.Turn
		byKey  bool
		first  int64 // sequence
		exists bool  // the turn, in the second session
	}{
		{"by its id", func(s bykey.Session) error { _, err := s.AppendTurn(t.Context(), turn); return err }, turn, false, 0, false},
		{"by its key", func(s bykey.Session) error { _, err := s.Append(t.Context(), user("c")); return err }, turn, true, 1, false},
		{"by its key, and stored", func(s bykey.Session) error { _, err := s.AppendTurn(t.Context(), turn); return err }, turn, true, 0, true},
		{"by its key, and to be created", func(bykey.Session) error { return nil }, creating, true, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			named := bykey.Of(store.Sessions(), key)
			first, err := named.AppendTurn(t.Context(), creating)
			if err != nil {
				t.Fatal(err)
			}
			tracer := &beforeStatement{name: "MessageListOwn", run: func() {
				_, err := named.Delete(t.Context())
				if err == nil {
					_, err = store.Sessions().Create(t.Context(), repo.NewSession{Key: key.Key})
				}
				if err == nil {
					err = test.again(named)
				}
				if err != nil {
					t.Error(err)
				}
			}}
			traced := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "traced"), agentstore.Options{Tracer: tracer}).Sessions()
			if !test.byKey {
				added, err := traced.AppendTurn(t.Context(), inSession(first.SessionID, test.turn))
				if missing, ok := errors.AsType[*repo.NotFoundError](err); !ok || missing.ID != first.SessionID {
					t.Errorf("%+v, %v, want a NotFoundError", added.Messages, err)
				}
				return
			}
			added, err := bykey.Of(traced, key).AppendTurn(t.Context(), test.turn)
			if err != nil || added.SessionID == first.SessionID || len(added.Messages) != 2 || added.Messages[0].Sequence != test.first || added.Repeated != test.exists {
				t.Errorf("%+v, %v", added, err)
			}
		})
	}
}
