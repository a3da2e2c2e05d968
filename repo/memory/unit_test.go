package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// What the conformance suite cannot say: who waits for a unit of work, for how
// long, and what is left of one that was rolled back.

func user(content string) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: content}
}

func newSession(t testing.TB, store *Store) repo.ID {
	t.Helper()
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	return session.ID
}

func count(t *testing.T, sessions repo.Sessions, id repo.ID) int64 {
	t.Helper()
	session, err := sessions.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return session.MessageCount
}

// While a unit of work is open, in the same goroutine, and with a context that
// does not come from it: reads of the store see what was committed, and its writes
// wait until their context ends.
func TestStoreWithinUnit(t *testing.T) {
	store := New()
	id := newSession(t, store)
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Append(ctx, id, user("in the unit")); err != nil {
			return err
		}
		if n := count(t, store.Sessions(), id); n != 0 {
			t.Errorf("outside there are %d messages before the commit", n)
		}
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := store.Sessions().Append(short, id, user("through the store")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write through the store: %v", err)
		}
		if err := store.InTx(short, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a unit of work within another: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, store.Sessions(), id); n != 1 {
		t.Errorf("there are %d messages, want 1", n)
	}
}

// A unit of work writes behind the end of the committed messages, into the
// same array and index. After a rollback they hold nothing of it.
func TestRollbackLeavesTheIndexClean(t *testing.T) {
	store := New()
	id := newSession(t, store)
	given := user("first")
	given.ID = repo.NewID()
	for range 3 { // so that the array has room
		if _, err := store.Sessions().Append(t.Context(), id, user("committed")); err != nil {
			t.Fatal(err)
		}
	}
	failed := errors.New("failed")
	for _, end := range []func(context.Context, repo.Sessions) error{
		func(context.Context, repo.Sessions) error { return failed },
		func(ctx context.Context, tx repo.Sessions) error {
			if _, err := tx.Delete(ctx, id); err != nil {
				return err
			}
			return failed
		},
		func(ctx context.Context, tx repo.Sessions) error {
			if _, err := tx.Delete(ctx, id); err != nil {
				return err
			}
			if _, err := tx.Create(ctx, repo.NewSession{ID: id}); err != nil {
				return err
			}
			if _, err := tx.Append(ctx, id, given); err != nil {
				return err
			}
			return failed
		},
	} {
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			if _, err := tx.Sessions().Append(ctx, id, given, user("second")); err != nil {
				return err
			}
			if _, err := store.Sessions().Message(t.Context(), id, given.ID); !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("outside the message is found before the commit: %v", err)
			}
			return end(ctx, tx.Sessions())
		})
		if !errors.Is(err, failed) {
			t.Fatal(err)
		}
		if n := len(store.tables.sessions[id].byID); n != 3 {
			t.Fatalf("the index has %d entries, want 3", n)
		}
	}
	given.Content = "other"
	appended, err := store.Sessions().Append(t.Context(), id, given)
	if err != nil || appended[0].Sequence != 3 {
		t.Errorf("appended after the rollbacks: %+v, %v", appended, err)
	}
}

// Writers who wait for a unit of work come in when it ends, and Close after
// them.
func TestCloseWaitsForTheQueue(t *testing.T) {
	store := New()
	id := newSession(t, store)
	inside, finish := make(chan struct{}), make(chan struct{})
	unit := make(chan error, 1)
	go func() {
		unit <- store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			close(inside)
			<-finish
			_, err := tx.Sessions().Append(ctx, id, user("unit"))
			return err
		})
	}()
	<-inside
	appended := make(chan error, 1)
	go func() {
		messages, err := store.Sessions().Append(t.Context(), id, user("waiter"))
		if err == nil && messages[0].Sequence != 1 {
			err = errors.New("the waiter was not second")
		}
		appended <- err
	}()
	time.Sleep(20 * time.Millisecond) // until the waiter is in the queue
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	for {
		if _, err := store.Sessions().Get(t.Context(), id); errors.Is(err, repo.ErrClosed) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-closed:
		t.Errorf("Close did not wait for the unit of work: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(finish)
	for what, result := range map[string]chan error{"unit": unit, "waiter": appended, "close": closed} {
		if err := <-result; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(store.tables.sessions) != 0 {
		t.Error("a closed store holds data")
	}
}

// The repositories of a unit of work that has ended refuse everything.
func TestUnitAfterItsEnd(t *testing.T) {
	store := New()
	id := newSession(t, store)
	var kept repo.Sessions
	if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		kept = tx.Sessions()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Append(t.Context(), id, user("late")); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if _, err := kept.Get(t.Context(), id); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if n := count(t, store.Sessions(), id); n != 0 {
		t.Errorf("%d messages were written", n)
	}
}
