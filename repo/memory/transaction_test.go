package memory

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// These tests cover what the conformance suite cannot: which calls wait for a
// transaction, for how long, and what remains of one that was rolled back.

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

// While a transaction is open, calls of the store in the same goroutine, with a
// context that is not the transaction's, read what was committed, and their writes
// wait until their context ends.
func TestStoreWithinUnit(t *testing.T) { synctest.Test(t, testStoreWithinUnit) }

func testStoreWithinUnit(t *testing.T) {
	store := New()
	id := newSession(t, store)
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Append(ctx, id, user("in the transaction")); err != nil {
			return err
		}
		if n := count(t, store.Sessions(), id); n != 0 {
			t.Errorf("outside there are %d messages before the commit", n)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := store.Sessions().Append(short, id, user("through the store")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write through the store: %v", err)
		}
		if err := store.InTx(short, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a transaction within another: %v", err)
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

// A transaction writes after the end of the committed messages, into the same array
// and index. After a rollback neither contains anything of it.
func TestRollbackLeavesTheIndexClean(t *testing.T) {
	store := New()
	id := newSession(t, store)
	given := user("first")
	given.ID = repo.NewID()
	for range 3 { // until the array has room
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
			other, err := tx.Create(ctx, repo.NewSession{})
			if err != nil {
				return err
			}
			if _, err := tx.Append(ctx, other.ID, given); err != nil {
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
		if n := len(store.tables.sessions.get(id).byID.rows); n != 3 {
			t.Fatalf("the index has %d entries, want 3", n)
		}
	}
	given.Content = "other"
	appended, err := store.Sessions().Append(t.Context(), id, given)
	if err != nil || appended[0].Sequence != 3 {
		t.Errorf("appended after the rollbacks: %+v, %v", appended, err)
	}
}

// Writers that wait for a transaction continue when it ends, and Close after them.
func TestCloseWaitsForTheQueue(t *testing.T) { synctest.Test(t, testCloseWaitsForTheQueue) }

func testCloseWaitsForTheQueue(t *testing.T) {
	store := New()
	id := newSession(t, store)
	inside, finish := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			close(inside)
			<-finish
			_, err := tx.Sessions().Append(ctx, id, user("transaction"))
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
	synctest.Wait() // until the waiter is in the queue
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	synctest.Wait()
	if _, err := store.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Close has begun, and a read gives %v", err)
	}
	select {
	case err := <-closed:
		t.Errorf("Close did not wait for the transaction: %v", err)
	default:
	}
	close(finish)
	for what, result := range map[string]chan error{"transaction": result, "waiter": appended, "close": closed} {
		if err := <-result; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(store.tables.sessions.rows) != 0 {
		t.Error("a closed store has data")
	}
}

// A store that is shared after Close is closed, too.
func TestShareAfterClose(t *testing.T) {
	store := New()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	late := store.Share(Options{})
	if _, err := late.Sessions().Create(t.Context(), repo.NewSession{}); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("create: %v", err)
	}
	if err := late.Close(); err != nil {
		t.Error(err)
	}
}

// The repositories of a transaction that has ended refuse all calls.
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

// A transaction sees committed rows as it changed them, once each, and not those that
// it removed. Others see its changes only after its commit.
func TestTransactionOverCommittedRows(t *testing.T) {
	store := New()
	for _, name := range []string{"changed", "removed", "same"} {
		if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	lists := func(where string, actions repo.Actions, want ...string) {
		t.Helper()
		page, err := actions.List(t.Context(), repo.ActionFilter{}, repo.Page{})
		var got []string
		for _, action := range page.Items {
			got = append(got, action.Name.Name+" "+action.Description)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", where, got, err, want)
		}
	}
	change := func(fails error) error {
		return store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			if _, err := tx.Actions().Update(ctx, "changed", 0, repo.ActionDefinition{Description: "new"}); err != nil {
				return err
			}
			if err := tx.Actions().Delete(ctx, "removed"); err != nil {
				return err
			}
			if _, err := tx.Actions().Get(ctx, "removed"); !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("what was removed is found: %v", err)
			}
			lists("inside", tx.Actions(), "changed new", "same ")
			lists("outside", store.Actions(), "changed ", "removed ", "same ")
			return fails
		})
	}
	failed := errors.New("failed")
	if err := change(failed); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	lists("after the rollback", store.Actions(), "changed ", "removed ", "same ")
	if err := change(nil); err != nil {
		t.Fatal(err)
	}
	lists("after the commit", store.Actions(), "changed new", "same ")
}
