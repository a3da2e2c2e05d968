package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// occupy takes all connections of a store until the returned function is called.
func occupy(t *testing.T, store *agentstore.Store) (release func()) {
	t.Helper()
	taken, free, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- store.InTx(t.Context(), func(context.Context, repo.Repositories) error {
			close(taken)
			<-free
			return nil
		})
	}()
	<-taken
	return func() {
		close(free)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A caller that leaves while the group waits for a connection is told that nothing was sent,
// whatever the write is, and nothing of it is made when there is a connection. Others of the
// group are served.
func TestGivenUpBeforeSent(t *testing.T) {
	t.Parallel()
	store, _ := openNarrow(t)
	ctx := t.Context()
	sessions := []repo.ID{pgtest.NewSession(t, store), pgtest.NewSession(t, store), pgtest.NewSession(t, store)}
	stream, err := store.Streams().Open(ctx, repo.NewStream{Key: "a", Owner: "writer"})
	if err != nil {
		t.Fatal(err)
	}
	name := "act"
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	plan, err := store.Plans().Use(ctx, name, repo.UseAction{})
	if err != nil {
		t.Fatal(err)
	}
	turn := repo.Turn{Messages: []repo.NewMessage{user("no")}, State: []repo.StateChange{
		{Scope: repo.Scope{SessionID: sessions[0]}, Key: "a", Value: []byte(`1`)},
	}}
	writes := map[string]func(ctx context.Context, session repo.ID) error{
		"an append": func(ctx context.Context, session repo.ID) error {
			_, err := store.Sessions().Append(ctx, session, user("no"))
			return err
		},
		"a turn": func(ctx context.Context, session repo.ID) error {
			turn := turn
			turn.State[0].Scope.SessionID = session
			_, err := store.Sessions().AppendTurn(ctx, inSession(session, turn))
			return err
		},
		"parts": func(ctx context.Context, _ repo.ID) error {
			_, err := store.Streams().Append(ctx, stream, []byte("no"))
			return err
		},
		"a claim": func(ctx context.Context, _ repo.ID) error {
			_, err := store.Plans().Claim(ctx, repo.Claim{Owner: "worker"})
			return err
		},
		"a transition": func(ctx context.Context, _ repo.ID) error {
			_, err := store.Plans().Transition(ctx, plan.ID, repo.TransitionStart, repo.Cause{})
			return err
		},
	}
	// begins waits until a group waits for a connection, and so many writes for a group.
	begins := func(writes int) {
		await.For(t, fmt.Sprintf("a group, and %d writes", writes), func() bool {
			now := writesOf(store)
			return now.Groups == 1 && now.Waiting == writes
		})
	}
	for name, write := range writes {
		release := occupy(t, store)
		each, leave := context.WithCancel(ctx)
		result := make(chan error, 1)
		go func() { result <- write(each, sessions[0]) }()
		begins(0)
		leave()
		if err := <-result; !errors.Is(err, context.Canceled) || errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("%s: %v", name, err)
		}
		release()
	}

	// The first has a group of its own. The other two are in the next one, whose connection the
	// first of them does not wait for.
	release := occupy(t, store)
	var results [3]chan error
	var leave [3]context.CancelFunc
	for i, session := range sessions {
		results[i] = make(chan error, 1)
		var each context.Context
		each, leave[i] = context.WithCancel(ctx)
		defer leave[i]()
		go func() {
			_, err := store.Sessions().Append(each, session, user([]string{"no", "no", "yes"}[i]))
			results[i] <- err
		}()
		begins(i)
	}
	for i := range 2 {
		leave[i]()
		if err := <-results[i]; !errors.Is(err, context.Canceled) || errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("append %d: %v", i, err)
		}
		begins(0)
	}
	release()
	if err := <-results[2]; err != nil {
		t.Error(err)
	}
	for i, session := range sessions {
		messages, err := store.Sessions().MessagesFrom(ctx, session, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if want := i / 2; len(messages) != want {
			t.Errorf("session %d has %d messages", i, len(messages))
		}
	}
	if next, err := store.Streams().Append(ctx, stream, []byte("first")); err != nil || next != 1 {
		t.Errorf("parts: %d, %v", next, err)
	}
	if stored, err := store.Plans().Get(ctx, plan.ID); err != nil || stored.Version != plan.Version {
		t.Errorf("the plan is at version %d, %v", stored.Version, err)
	}
}
