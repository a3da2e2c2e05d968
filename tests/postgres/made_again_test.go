package postgres

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A turn that is found stored is not answered with the messages of another session, which
// has the id by the time that they are read.
func TestRepeatedTurnOfSessionMadeAgain(t *testing.T) {
	t.Parallel()
	turn := repo.Turn{ID: repo.NewID(), Messages: []repo.NewMessage{user("a"), user("b")}}
	other := repo.Turn{ID: turn.ID, Messages: []repo.NewMessage{user("c"), user("d")}}
	creating := turn
	creating.Create = &repo.NewSession{}
	for _, test := range []struct {
		name   string
		again  func(s repo.Sessions, id repo.ID) error
		turn   repo.Turn
		stored bool
	}{
		{"with messages", func(s repo.Sessions, id repo.ID) error {
			_, err := s.Append(t.Context(), id, user("c"), user("d"), user("e"))
			return err
		}, turn, false},
		{"with another turn", func(s repo.Sessions, id repo.ID) error { _, err := s.AppendTurn(t.Context(), id, other); return err }, turn, false},
		{"with the same turn", func(s repo.Sessions, id repo.ID) error {
			if _, err := s.Append(t.Context(), id, user("c")); err != nil {
				return err
			}
			_, err := s.AppendTurn(t.Context(), id, turn)
			return err
		}, turn, true},
		{"with nothing, and to be created", func(repo.Sessions, repo.ID) error { return nil }, creating, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			id := pgtest.NewSession(t, store)
			if _, err := store.Sessions().AppendTurn(t.Context(), id, turn); err != nil {
				t.Fatal(err)
			}
			tracer := &beforeStatement{name: "TurnListMessages", run: func() {
				makeAgain(t, store, id)
				if err := test.again(store.Sessions(), id); err != nil {
					t.Error(err)
				}
			}}
			traced := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "traced"), agentstore.Options{Tracer: tracer})
			added, err := traced.Sessions().AppendTurn(t.Context(), id, test.turn)
			if !test.stored {
				if _, ok := errors.AsType[*repo.NotFoundError](err); !ok {
					t.Errorf("%+v, %v, want a NotFoundError", added.Messages, err)
				}
				return
			}
			if err != nil || len(added.Messages) != 2 || added.Messages[0].Content != "a" || added.Messages[1].Content != "b" {
				t.Errorf("%+v, %v", added.Messages, err)
			}
		})
	}
}

func makeAgain(t *testing.T, store *agentstore.Store, id repo.ID) {
	t.Helper()
	if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := store.Sessions().Create(t.Context(), repo.NewSession{ID: id}); err != nil {
		t.Error(err)
	}
}

// A session from before version 22 has no incarnation. It is streamed and followed as others,
// and told apart from one that is imported in its place.
func TestSessionWithoutIncarnation(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	const count = 100 + 200 // two chunks that are full
	id := pgtest.NewSession(t, store)
	messages := make([]repo.NewMessage, count)
	for i := range messages {
		messages[i] = user("x")
	}
	if _, err := store.Sessions().Append(t.Context(), id, messages...); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, store.Pool(), "UPDATE sessions SET incarnation = NULL")
	var document bytes.Buffer
	if err := store.Sessions().Export(t.Context(), id, &document); err != nil {
		t.Fatal(err)
	}
	read := func(during func()) (read int, err error) {
		for message, err := range store.Sessions().Stream(t.Context(), id, 0) {
			if err != nil {
				return read, err
			}
			if message.Sequence == 0 {
				during()
			}
			read++
		}
		return read, nil
	}
	if read, err := read(func() {}); read != count || err != nil {
		t.Fatalf("%d messages, %v", read, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := follow(t, store, id, 0)
	for sequence := range int64(count) {
		f.wants(t, sequence)
	}
	if read, err := read(func() {
		if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, err := store.Sessions().Import(t.Context(), &document); err != nil {
			t.Error(err)
		}
	}); read != 100 || !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("of the session that was deleted: %d messages, %v", read, err)
	}
	select {
	case err := <-f.ended:
		if _, ok := errors.AsType[*repo.SessionDeletedError](err); !ok {
			t.Errorf("Follow ended with %v", err)
		}
	case <-ctx.Done():
		t.Error("Follow did not end")
	}
}
