package repotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func transactionTests() []test {
	return []test{
		{"Commit", testTxCommit},
		{"Error", testTxError},
		{"Panic", testTxPanic},
		{"OwnWrites", testTxOwnWrites},
		{"Lists", testTxLists},
		{"Stream", testTxStream},
		{"GoesOnAfterAnswers", testTxGoesOnAfterAnswers},
		{"NeverHalf", testTxNeverHalf},
		{"Context", testTxContext},
		{"ContextEnded", testTxContextEnded},
		{"ContextEndsInside", testTxContextEndsInside},
		{"Concurrent", testTxConcurrent},
		{"Inside", testTxInside},
		{"InsideEnded", testTxInsideEnded},
		{"InsideOutlived", testTxInsideOutlived},
	}
}

// writes has one result of each write in a transaction.
type writes struct {
	existing, doomed, fresh, imported repo.ID
	document                          []byte
}

func newWrites(t *testing.T, s repo.Sessions) *writes {
	t.Helper()
	w := &writes{existing: create(t, s), doomed: create(t, s), fresh: repo.NewID(), imported: create(t, s)}
	appendTo(t, s, w.doomed, user("x"))
	appendTo(t, s, w.imported, users(3)...)
	w.document = export(t, s, w.imported)
	remove(t, s, w.imported)
	return w
}

func (w *writes) run(ctx context.Context, s repo.Sessions) error {
	if _, err := s.Create(ctx, repo.NewSession{ID: w.fresh}); err != nil {
		return err
	}
	if _, err := s.Append(ctx, w.fresh, users(2)...); err != nil {
		return err
	}
	if _, err := appendAt(ctx, s, w.existing, 0, user("x")); err != nil {
		return err
	}
	if _, err := s.AddUsage(ctx, w.existing, repo.NewUsage{InputTokens: 1}); err != nil {
		return err
	}
	if _, err := s.Update(ctx, w.existing, repo.SessionUpdate{Actor: ptr("written")}); err != nil {
		return err
	}
	if _, err := s.Import(ctx, bytes.NewReader(w.document), true); err != nil {
		return err
	}
	_, err := s.Delete(ctx, w.doomed)
	return err
}

// check checks that all of the writes are stored.
func (w *writes) check(t *testing.T, s repo.Sessions) {
	t.Helper()
	wantCount(t, s, w.fresh, 2)
	wantCount(t, s, w.existing, 1)
	wantCount(t, s, w.imported, 3)
	if got := get(t, s, w.existing); got.Actor != "written" || got.Usage.InputTokens != 1 {
		t.Errorf("the update or the usage is missing: %+v", got)
	}
	_, err := s.Get(t.Context(), w.doomed)
	wantNotFound(t, err, "session", w.doomed)
}

// checkNone checks that none of them is stored.
func (w *writes) checkNone(t *testing.T, s repo.Sessions) {
	t.Helper()
	for _, id := range []repo.ID{w.fresh, w.imported} {
		_, err := s.Get(t.Context(), id)
		wantNotFound(t, err, "session", id)
	}
	wantCount(t, s, w.existing, 0)
	wantCount(t, s, w.doomed, 1)
	if got := get(t, s, w.existing); got.Actor != "" || got.Usage != (repo.Usage{}) {
		t.Errorf("the update or the usage was not rolled back: %+v", got)
	}
}

func testTxCommit(t *testing.T, store repo.Store) {
	s := store.Sessions()
	w := newWrites(t, s)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		return w.run(ctx, tx.Sessions())
	}); err != nil {
		t.Fatalf("InTx: %v", err)
	}
	w.check(t, s)
	// A transaction without a write is valid too.
	if err := store.InTx(t.Context(), func(context.Context, repo.Repositories) error { return nil }); err != nil {
		t.Errorf("an empty transaction gave %v", err)
	}
}

func testTxError(t *testing.T, store repo.Store) {
	s := store.Sessions()
	w := newWrites(t, s)
	for _, want := range []error{errBroken, fmt.Errorf("wrapped: %w", repo.ErrConflict), context.Canceled} {
		runs := 0
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			runs++
			if err := w.run(ctx, tx.Sessions()); err != nil {
				return err
			}
			return want
		})
		if err != want { //nolint:errorlint // as it is: not wrapped
			t.Errorf("got %v, want %v itself", err, want)
		}
		if runs != 1 {
			t.Errorf("fn ran %d times for an error of its own", runs)
		}
		w.checkNone(t, s)
	}
	// So does an error that tx returned.
	missing := repo.NewID()
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if err := w.run(ctx, tx.Sessions()); err != nil {
			return err
		}
		_, err := tx.Sessions().Get(ctx, missing)
		return err
	})
	wantNotFound(t, err, "session", missing)
	w.checkNone(t, s)
}

func testTxPanic(t *testing.T, store repo.Store) {
	s := store.Sessions()
	w := newWrites(t, s)
	want := &struct{ name string }{"the panic's value"}
	func() {
		defer func() {
			if got := recover(); got != want {
				t.Errorf("recovered %v, want fn's own value", got)
			}
		}()
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			if err := w.run(ctx, tx.Sessions()); err != nil {
				return err
			}
			panic(want)
		})
		t.Errorf("InTx returned %v, want a panic", err)
	}()
	w.checkNone(t, s)
	// No lock is left.
	appendTo(t, s, w.existing, user("x"))
	remove(t, s, w.doomed)
}

// A session that the transaction has changed is listed once, as it is now.
func testTxLists(t *testing.T, store repo.Store) {
	created, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: spaceOf(store)})
	must(t, created, err)
	err = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		changed, err := tx.Sessions().Update(ctx, created.ID, repo.SessionUpdate{Actor: new("changed")})
		if err != nil {
			return err
		}
		for _, byActivity := range []bool{false, true} {
			listed, err := tx.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, Namespace: created.Namespace, ByActivity: byActivity}, repo.Page{})
			if err != nil {
				return err
			}
			if len(listed.Items) != 1 || listed.Items[0].Actor != changed.Actor {
				t.Errorf("by activity %t: %d sessions are listed, want the changed one: %+v", byActivity, len(listed.Items), listed.Items)
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("InTx: %v", err)
	}
}

func testTxOwnWrites(t *testing.T, store repo.Store) {
	w := newWrites(t, store.Sessions())
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if err := w.run(ctx, tx.Sessions()); err != nil {
			return err
		}
		w.check(t, tx.Sessions())
		return errBroken
	})
	if !errors.Is(err, errBroken) {
		t.Errorf("InTx: %v", err)
	}
	w.checkNone(t, store.Sessions())
}

// A change of a session in a transaction does not end its streams there.
func testTxStream(t *testing.T, store repo.Store) {
	id := create(t, store.Sessions())
	appendTo(t, store.Sessions(), id, users(600)...)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		next := int64(0)
		for message, err := range tx.Sessions().Messages(ctx, id, 0) {
			if err != nil {
				return err
			}
			if message.Sequence != next {
				t.Errorf("message %d, want %d", message.Sequence, next)
			}
			if next++; next == 1 {
				if _, err := tx.Sessions().Append(ctx, id, user("x")); err != nil {
					return err
				}
			}
		}
		if next < 600 {
			t.Errorf("%d messages", next)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// The transaction remains usable after the errors of the contract.
func testTxGoesOnAfterAnswers(t *testing.T, store repo.Store) {
	s := store.Sessions()
	w := newWrites(t, s)
	taken := fullSession(store)
	createAs(t, s, taken)
	message := fullMessage()
	appendTo(t, s, taken.ID, message)
	document := export(t, s, taken.ID)
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		in, missing := tx.Sessions(), repo.NewID()
		_, err := in.Get(ctx, missing)
		wantNotFound(t, err, "session", missing)
		other := taken
		other.Actor = "other"
		_, err = in.Create(ctx, other)
		wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: taken.ID, Field: "actor"})
		_, err = in.Append(ctx, taken.ID, user(""))
		wantInvalid(t, err, "messages[0].content")
		_, err = in.Append(ctx, taken.ID, message, user("x"))
		wantMessageConflict(t, err, taken.ID, message.ID, "batch")
		_, err = appendAt(ctx, in, taken.ID, 7, user("x"))
		wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: taken.ID, Expected: 7, Next: 1})
		_, err = in.AddUsage(ctx, taken.ID, repo.NewUsage{Cost: *taken.Budget + 1})
		wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: taken.ID, Limit: int64(*taken.Budget), Requested: int64(*taken.Budget + 1)})
		_, err = in.Import(ctx, bytes.NewReader(document), true)
		wantImportError(t, err)
		_, err = in.Import(ctx, bytes.NewReader(w.document[:len(w.document)-9]), true)
		wantImportError(t, err)
		return w.run(ctx, in)
	})
	if err != nil {
		t.Fatalf("InTx: %v", err)
	}
	w.check(t, s)
	wantCount(t, s, taken.ID, 1)
}

// Each transaction adds three messages and three tokens, in six operations. A
// reader always sees the same number of both.
func testTxNeverHalf(t *testing.T, store repo.Store) {
	const rounds, each = 20, 3
	s := store.Sessions()
	id := create(t, s)
	var writer sync.WaitGroup
	done := make(chan struct{})
	writer.Go(func() {
		defer close(done)
		for range rounds {
			if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				for range each {
					if _, err := tx.Sessions().Append(ctx, id, user("x")); err != nil {
						return err
					}
					if _, err := tx.Sessions().AddUsage(ctx, id, repo.NewUsage{InputTokens: 1}); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Errorf("InTx: %v", err)
				return
			}
		}
	})
	defer writer.Wait()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		got := get(t, s, id)
		if got.MessageCount%each != 0 || got.MessageCount != got.Usage.InputTokens {
			t.Fatalf("a reader saw %d messages and %d tokens", got.MessageCount, got.Usage.InputTokens)
		}
		if last, err := s.LastMessages(t.Context(), id, 1); err != nil || len(last) > 0 && (last[0].Sequence+1)%each != 0 {
			t.Fatalf("a reader saw the last message %+v, %v", last, err)
		}
	}
	wantCount(t, s, id, rounds*each)
}

type contextKey struct{}

// fn's context is the caller's, or is derived from it.
func testTxContext(t *testing.T, store repo.Store) {
	ctx := context.WithValue(t.Context(), contextKey{}, "value")
	err := store.InTx(ctx, func(ctx context.Context, _ repo.Repositories) error {
		if ctx.Value(contextKey{}) != "value" {
			t.Error("fn's context has lost the caller's value")
		}
		return nil
	})
	if err != nil {
		t.Errorf("InTx: %v", err)
	}
}

func testTxContextEnded(t *testing.T, store repo.Store) {
	w := newWrites(t, store.Sessions())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error { return w.run(ctx, tx.Sessions()) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	w.checkNone(t, store.Sessions())
}

// If the context ends before the commit, nothing is stored, although fn returns
// nil.
func testTxContextEndsInside(t *testing.T, store repo.Store) {
	w := newWrites(t, store.Sessions())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		defer cancel()
		return w.run(ctx, tx.Sessions())
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	w.checkNone(t, store.Sessions())
}

// Transactions that lock two sessions in opposite order may have to be retried:
// each of them succeeds, and takes effect once.
func testTxConcurrent(t *testing.T, store repo.Store) {
	const workers, rounds = 4, 2
	s := store.Sessions()
	ids := []repo.ID{create(t, s), create(t, s)}
	var committed counter
	together(workers, func(worker int) {
		for range rounds {
			err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				for i := range ids {
					if _, err := tx.Sessions().Append(ctx, ids[(i+worker)%2], user("x")); err != nil {
						return err
					}
				}
				return nil
			})
			switch {
			case err == nil:
				committed.add()
			case !errors.Is(err, repo.ErrContention): // the repetitions are bounded
				t.Errorf("InTx: %v", err)
			}
		}
	})
	for _, id := range ids {
		wantCount(t, s, id, committed.get())
	}
	if committed.get() == 0 {
		t.Error("no transaction came through")
	}
}
