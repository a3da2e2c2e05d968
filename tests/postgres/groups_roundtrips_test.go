package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// budgeted is an operation with its round trips; zero: any number.
type budgeted struct {
	name   string
	budget int
	run    func(ctx context.Context) error
}

func wantRoundTrips(t *testing.T, tracer *pgtest.RoundTrips, operations []budgeted) {
	t.Helper()
	for _, operation := range operations {
		got, err := tracer.Of(t.Context(), operation.run)
		if err != nil {
			t.Fatalf("%s: %v", operation.name, err)
		}
		if len(got) != operation.budget && operation.budget > 0 {
			t.Errorf("%s: %d round trips, budget %d: %q", operation.name, len(got), operation.budget, got)
		}
	}
}

// conflicts returns an error unless there is a conflict.
func conflicts[V any](_ V, err error) error {
	if !errors.Is(err, repo.ErrConflict) {
		return fmt.Errorf("there is no conflict: %w", err)
	}
	return nil
}

// openTraced opens a store whose round trips are counted.
func openTraced(t *testing.T) (*agentstore.Store, *pgtest.RoundTrips) {
	t.Helper()
	tracer := &pgtest.RoundTrips{}
	// Where transactions have another level by default, a store's first append takes one more.
	databaseURL := pgtest.ReadCommitted(pgtest.NewDatabase(t))
	return pgtest.OpenStore(t, databaseURL, agentstore.Options{Tracer: tracer, MaxConns: 1}), tracer
}

// Each method has a budget of round trips, alone and in a transaction.
func TestRoundTripsOfMethods(t *testing.T) {
	t.Parallel()
	store, tracer := openTraced(t)
	for method := range repotest.Methods(t, store) {
		want := func(ctx context.Context, where string, budget int, run func(context.Context) error) error {
			got, err := tracer.Of(ctx, run)
			if len(got) != budget {
				t.Errorf("%s %s: %d round trips, budget %d: %q", method.Name, where, len(got), budget, got)
			}
			return err
		}
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			inTx := func(ctx context.Context) error { return method.Call(ctx, tx) }
			return cmp.Or(want(ctx, "in a transaction", method.RoundTripsInTx, inTx), errRolledBack)
		})
		if !errors.Is(err, errRolledBack) {
			t.Fatalf("%s in a transaction: %v", method.Name, err)
		}
		alone := func(ctx context.Context) error { return method.Call(ctx, store) }
		if err := want(t.Context(), "alone", method.RoundTrips, alone); err != nil {
			t.Fatalf("%s: %v", method.Name, err)
		}
	}
}

// So have operations that take others than the usual call of a method, or much data.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	store, tracer := openTraced(t)
	sessions := store.Sessions()
	id, other := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	batch := make([]repo.NewMessage, 1000)
	for i := range batch {
		batch[i] = user("message")
	}
	known := user("known")
	known.ID, known.CallID = repo.NewID(), "call"
	turn := repo.Turn{
		ID: "turn", Messages: batch, Usage: &repo.NewUsage{Cost: 1},
		State: []repo.StateChange{plusOne("shared", "n"), plusOne("other", "n"), {Key: "own", Value: []byte(`1`)}},
	}
	var document bytes.Buffer
	keyed := repo.NewSession{Key: "a/b", Owner: "o"}
	named := bykey.Of(sessions, repo.SessionKey{Key: keyed.Key})
	lease, held := repo.NewLease{Key: repo.SessionLease(id), Owner: "worker"}, repo.Lease{}
	var stream repo.Stream
	again := repo.NewStream{Key: "a", Owner: "worker"}
	parts := func(ctx context.Context) error {
		return second(store.Streams().Append(ctx, stream, []byte("x"), []byte("y")))
	}

	wantRoundTrips(t, tracer, []budgeted{
		{"create again", 2, func(ctx context.Context) error {
			return second(sessions.Create(ctx, repo.NewSession{ID: id}))
		}},
		{"create with a key and an owner", 1, func(ctx context.Context) error {
			return second(sessions.Create(ctx, keyed))
		}},
		{"create what must be new", 2, func(ctx context.Context) error {
			return conflicts(sessions.Create(ctx, repo.NewSession{Key: keyed.Key, Existing: repo.ExistingNone}))
		}},
		{"create whatever is there", 2, func(ctx context.Context) error {
			return second(sessions.Create(ctx, repo.NewSession{Key: keyed.Key, Existing: repo.ExistingAny}))
		}},
		{"get by key", 1, func(ctx context.Context) error { return second(named.Get(ctx)) }},
		{"append or create", 1, func(ctx context.Context) error {
			return second(named.AppendOrCreate(ctx, repo.NewSession{}, user("x")))
		}},
		// find; begin, create, lock, write, commit
		{"append or create what is missing", 6, func(ctx context.Context) error {
			missing := bykey.Of(sessions, repo.SessionKey{Key: "missing"})
			return second(missing.AppendOrCreate(ctx, repo.NewSession{}, user("x")))
		}},
		{"append", 1, func(ctx context.Context) error { return second(sessions.Append(ctx, id, user("x"))) }},
		{"append with an id", 1, func(ctx context.Context) error { return second(sessions.Append(ctx, id, known)) }},
		// the statement for one message, the transaction that finds out why it wrote nothing (two), read
		{"append it again", 4, func(ctx context.Context) error { return second(sessions.Append(ctx, id, known)) }},
		{"append 1,000", 2, func(ctx context.Context) error { return second(sessions.Append(ctx, id, batch...)) }},
		{"append at", 1, func(ctx context.Context) error {
			return second(appendAt(ctx, sessions, id, 1002, user("x")))
		}},
		{"turn of messages", 2, func(ctx context.Context) error {
			return second(sessions.AppendTurn(ctx, repo.Turn{SessionID: other, Messages: batch}))
		}},
		// A group locks and reads, creates the rows of the scopes, and then writes and commits.
		{"first turn of scopes", 3, func(ctx context.Context) error {
			return second(sessions.AppendTurn(ctx, inSession(other, turn)))
		}},
		// The turn is found, a rollback; its messages, the usage, the scopes.
		{"turn again", 5, func(ctx context.Context) error {
			return second(sessions.AppendTurn(ctx, inSession(other, turn)))
		}},
		{"turn", 2, func(ctx context.Context) error {
			turn.ID, turn.Usage.ID = repo.NewID().String(), repo.NewID()
			return second(sessions.AppendTurn(ctx, inSession(other, turn)))
		}},
		{"messages from", 1, func(ctx context.Context) error {
			return second(sessions.MessagesFrom(ctx, id, 0, 1000))
		}},
		{"messages before", 1, func(ctx context.Context) error {
			return second(sessions.MessagesBefore(ctx, id, 1000, 1000))
		}},
		{"a turn by its id", 2, func(ctx context.Context) error { return second(sessions.Turn(ctx, other, turn.ID)) }},
		{"change state on conditions", 3, func(ctx context.Context) error {
			change := repo.StateChange{Scope: repo.Scope{SessionID: id}, Key: "n", Op: repo.StateIncrement, By: 1}
			return second(store.State().Change(ctx, []repo.StateChange{change}, repo.ScopeVersion{Scope: repo.Scope{Name: "none"}}))
		}},
		{"read several scopes", 1, func(ctx context.Context) error {
			return second(store.State().Read(ctx, repo.Scope{SessionID: id}, repo.Scope{Name: "shared"}, repo.Scope{Name: "none"}))
		}},
		{"acquire a lease", 1, func(ctx context.Context) (err error) {
			held, err = store.Leases().Acquire(ctx, lease)
			return err
		}},
		{"append under a lease", 1, func(ctx context.Context) error {
			fenced := repo.Turn{SessionID: id, Messages: batch[:1], Fence: held.Fence}
			return second(sessions.AppendTurn(ctx, fenced))
		}},
		{"acquire another's", 1, func(ctx context.Context) error {
			return conflicts(store.Leases().Acquire(ctx, repo.NewLease{Key: lease.Key, Owner: "other"}))
		}},
		{"open a stream", 1, func(ctx context.Context) error { return second(store.Streams().Open(ctx, again)) }},
		{"open it again", 1, func(ctx context.Context) (err error) {
			stream, err = store.Streams().Open(ctx, again)
			return err
		}},
		{"append to a stream", 2, parts},
		{"append it again", 3, parts},
		// begin, append, commit
		{"append in a transaction", 3, func(ctx context.Context) error {
			return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
				return second(tx.Sessions().Append(ctx, id, user("x")))
			})
		}},
		// the session with its state, chunks of 100, 200, 400, 800
		{"export 1,004 messages", 5, func(ctx context.Context) error { return sessions.Export(ctx, id, &document) }},
		// begin, lock, delete, commit
		{"delete", 4, func(ctx context.Context) error { return second(sessions.Delete(ctx, id)) }},
		{"remove the rest", 0, func(ctx context.Context) (err error) { // the store may have been faster
			for more := true; more && err == nil; {
				_, more, err = sessions.RemoveDeleted(ctx, 0)
			}
			return err
		}},
		// begin, the rest of the deleted one, session, two chunks of up to 1,000, the state's scope and keys, commit
		{"import 1,004 messages", 8, func(ctx context.Context) error {
			return second(sessions.Import(ctx, bytes.NewReader(document.Bytes()), true))
		}},
		{"delete another", 4, func(ctx context.Context) error { return second(sessions.Delete(ctx, other)) }},
	})
}
