package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// roundTrips counts round trips to the server, without those that announce, beside the
// operations, what was committed, or remove what has expired or was deleted.
type roundTrips struct{ count atomic.Int64 }

// operationKey is in the contexts of operations.
type operationKey struct{}

func (r *roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if ctx.Value(operationKey{}) != nil || !strings.HasPrefix(data.SQL, "-- name: SessionRemove ") {
		r.count.Add(1)
	}
	return ctx
}
func (r *roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (r *roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	queued := data.Batch.QueuedQueries
	swept := strings.HasPrefix(queued[0].SQL, "-- name: StreamExpire ") && ctx.Value(operationKey{}) == nil
	if !swept && !strings.HasPrefix(queued[len(queued)-1].SQL, "-- name: LiveNotify ") {
		r.count.Add(1)
	}
	return ctx
}
func (r *roundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (r *roundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// Each operation has a budget of round trips, whatever the size of its data.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	tracer := &roundTrips{}
	// Where transactions have another level by default, a store's first append takes one more.
	store := pgtest.OpenStore(t, pgtest.ReadCommitted(pgtest.NewDatabase(t)), agentstore.Options{Tracer: tracer, MaxConns: 1})
	sessions := store.Sessions()
	id := pgtest.NewSession(t, store)
	other := pgtest.NewSession(t, store)
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
	budget := repo.CostUnit
	keyed := repo.NewSession{Key: "a/b", Owner: "o"}
	named := bykey.Of(sessions, repo.SessionKey{Key: keyed.Key})
	changes := []repo.StateChange{
		{Scope: repo.Scope{Name: "app"}, Key: "a", Value: []byte(`1`)},
		{Scope: repo.Scope{SessionID: id}, Key: "n", Op: repo.StateIncrement, By: 1},
	}
	lease, held := repo.NewLease{Key: repo.SessionLease(id), Owner: "worker"}, repo.Lease{}
	var stream repo.Stream

	for _, operation := range []struct {
		name   string
		budget int64
		run    func(ctx context.Context) error
	}{
		{"create", 1, func(ctx context.Context) error { _, err := sessions.Create(ctx, repo.NewSession{}); return err }},
		{"create again", 2, func(ctx context.Context) error { _, err := sessions.Create(ctx, repo.NewSession{ID: id}); return err }},
		{"create with a key and an owner", 1, func(ctx context.Context) error { _, err := sessions.Create(ctx, keyed); return err }},
		{"create what must be new", 2, func(ctx context.Context) error {
			_, err := sessions.Create(ctx, repo.NewSession{Key: keyed.Key, Existing: repo.ExistingNone})
			if !errors.Is(err, repo.ErrConflict) {
				return fmt.Errorf("it exists: %w", err)
			}
			return nil
		}},
		{"create whatever is there", 2, func(ctx context.Context) error {
			_, err := sessions.Create(ctx, repo.NewSession{Key: keyed.Key, Existing: repo.ExistingAny})
			return err
		}},
		{"find", 0, func(ctx context.Context) error {
			_, err := sessions.Find(ctx, repo.SessionKey{Key: keyed.Key})
			return err
		}},
		{"get by key", 1, func(ctx context.Context) error { _, err := named.Get(ctx); return err }},
		{"append or create", 1, func(ctx context.Context) error {
			_, err := named.AppendOrCreate(ctx, repo.NewSession{}, user("x"))
			return err
		}},
		// find; begin, create, lock, write, commit
		{"append or create what is missing", 6, func(ctx context.Context) error {
			_, err := bykey.Of(sessions, repo.SessionKey{Key: "missing"}).AppendOrCreate(ctx, repo.NewSession{}, user("x"))
			return err
		}},
		{"list by owner", 1, func(ctx context.Context) error {
			_, err := sessions.List(ctx, repo.SessionFilter{Owner: keyed.Owner}, repo.Page{Limit: 100})
			return err
		}},
		{"get", 1, func(ctx context.Context) error { _, err := sessions.Get(ctx, id); return err }},
		{"read", 1, func(ctx context.Context) error {
			_, err := sessions.Read(ctx, repo.ReadSessions{IDs: []repo.ID{id, other}, Last: 100, Since: time.Now(), State: true, Scopes: []string{"a", "b"}})
			return err
		}},
		{"read in a transaction", 3, func(ctx context.Context) error {
			return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
				_, err := tx.Sessions().Read(ctx, repo.ReadSessions{IDs: []repo.ID{id, other}, Last: 100})
				return err
			})
		}},
		{"list", 1, func(ctx context.Context) error {
			_, err := sessions.List(ctx, repo.SessionFilter{AnyOwner: true}, repo.Page{Limit: 100})
			return err
		}},
		{"update", 1, func(ctx context.Context) error {
			_, err := sessions.Update(ctx, id, repo.SessionUpdate{Budget: &budget})
			return err
		}},
		{"add usage", 1, func(ctx context.Context) error {
			_, err := sessions.AddUsage(ctx, id, repo.NewUsage{InputTokens: 1, Cost: 1})
			return err
		}},
		{"append", 1, func(ctx context.Context) error { _, err := sessions.Append(ctx, id, user("x")); return err }},
		{"append with an id", 1, func(ctx context.Context) error { _, err := sessions.Append(ctx, id, known); return err }},
		// the statement for one message, the transaction that finds out why it wrote nothing (two), read
		{"append it again", 4, func(ctx context.Context) error { _, err := sessions.Append(ctx, id, known); return err }},
		{"append 1,000", 1, func(ctx context.Context) error { _, err := sessions.Append(ctx, id, batch...); return err }},
		{"append at", 1, func(ctx context.Context) error { _, err := appendAt(ctx, sessions, id, 1002, user("x")); return err }},
		{"turn of messages", 1, func(ctx context.Context) error {
			_, err := sessions.AppendTurn(ctx, repo.Turn{SessionID: other, Messages: batch})
			return err
		}},
		// A group finds that the scopes have no rows, and rolls back; they are created, and
		// a group locks and reads, and then writes and commits.
		{"first turn of scopes", 5, func(ctx context.Context) error {
			_, err := sessions.AppendTurn(ctx, inSession(other, turn))
			return err
		}},
		// The turn is found, a rollback; its messages, the usage, the scopes.
		{"turn again", 5, func(ctx context.Context) error {
			_, err := sessions.AppendTurn(ctx, inSession(other, turn))
			return err
		}},
		{"turn", 2, func(ctx context.Context) error {
			turn.ID, turn.Usage.ID = repo.NewID().String(), repo.NewID()
			_, err := sessions.AppendTurn(ctx, inSession(other, turn))
			return err
		}},
		{"turns together", 2, func(ctx context.Context) error {
			_, err := sessions.AppendTurns(ctx, repo.Turn{SessionID: id, Usage: &repo.NewUsage{}},
				repo.Turn{SessionID: other, State: turn.State})
			return err
		}},
		{"message", 1, func(ctx context.Context) error { _, err := sessions.Message(ctx, id, known.ID); return err }},
		{"messages from", 1, func(ctx context.Context) error { _, err := sessions.MessagesFrom(ctx, id, 0, 1000); return err }},
		{"messages before", 1, func(ctx context.Context) error {
			_, err := sessions.MessagesBefore(ctx, id, 1000, 1000)
			return err
		}},
		{"last messages", 1, func(ctx context.Context) error { _, err := sessions.LastMessages(ctx, id, 100); return err }},
		{"messages of a call", 1, func(ctx context.Context) error { _, err := sessions.MessagesOfCall(ctx, id, "call"); return err }},
		{"a turn by its id", 2, func(ctx context.Context) error { _, err := sessions.Turn(ctx, other, turn.ID); return err }},
		{"change state", 1, func(ctx context.Context) error { _, err := store.State().Change(ctx, changes); return err }},
		{"change it on conditions", 1, func(ctx context.Context) error {
			_, err := store.State().Change(ctx, changes[1:], repo.ScopeVersion{Scope: repo.Scope{Name: "none"}})
			return err
		}},
		{"get state", 1, func(ctx context.Context) error { _, err := store.State().Get(ctx, changes[0].Scope, "a"); return err }},
		{"read state", 1, func(ctx context.Context) error {
			_, err := store.State().Read(ctx, changes[0].Scope, changes[1].Scope, repo.Scope{Name: "none"})
			return err
		}},
		{"list state", 1, func(ctx context.Context) error {
			_, err := store.State().List(ctx, changes[0].Scope, "a", repo.Page{})
			return err
		}},
		{"erase state", 1, func(ctx context.Context) error { _, err := store.State().Erase(ctx, "app"); return err }},
		{"acquire a lease", 1, func(ctx context.Context) (err error) {
			held, err = store.Leases().Acquire(ctx, lease)
			return err
		}},
		{"append under a lease", 1, func(ctx context.Context) error {
			_, err := sessions.AppendTurn(ctx, repo.Turn{SessionID: id, Messages: batch[:1], Fence: held.Fence})
			return err
		}},
		{"acquire it again", 1, func(ctx context.Context) error { _, err := store.Leases().Acquire(ctx, lease); return err }},
		{"acquire another's", 1, func(ctx context.Context) error {
			_, err := store.Leases().Acquire(ctx, repo.NewLease{Key: lease.Key, Owner: "other"})
			if !errors.Is(err, repo.ErrConflict) {
				return fmt.Errorf("it is held: %w", err)
			}
			return nil
		}},
		{"renew a lease", 1, func(ctx context.Context) error { _, err := store.Leases().Renew(ctx, held, 0); return err }},
		{"list leases", 1, func(ctx context.Context) error {
			_, err := store.Leases().List(ctx, repo.LeaseFilter{Owner: lease.Owner}, repo.Page{})
			return err
		}},
		{"release a lease", 1, func(ctx context.Context) error { return store.Leases().Release(ctx, held) }},
		{"release all leases", 1, func(ctx context.Context) error { _, err := store.Leases().ReleaseAll(ctx, lease.Owner); return err }},
		{"open a stream", 1, func(ctx context.Context) (err error) {
			stream, err = store.Streams().Open(ctx, repo.NewStream{Key: "a", Owner: "worker"})
			return err
		}},
		{"open it again", 1, func(ctx context.Context) (err error) {
			stream, err = store.Streams().Open(ctx, repo.NewStream{Key: "a", Owner: "worker"})
			return err
		}},
		{"append to a stream", 1, func(ctx context.Context) error {
			_, err := store.Streams().Append(ctx, stream, []byte("x"), []byte("y"))
			return err
		}},
		{"append it again", 2, func(ctx context.Context) error {
			_, err := store.Streams().Append(ctx, stream, []byte("x"), []byte("y"))
			return err
		}},
		{"get a stream", 1, func(ctx context.Context) error { _, err := store.Streams().Get(ctx, "a"); return err }},
		{"finish a stream", 1, func(ctx context.Context) error { return store.Streams().Finish(ctx, stream) }},
		{"remove streams", 1, func(ctx context.Context) error { _, _, err := store.Streams().RemoveExpired(ctx, 0); return err }},
		// begin, append, commit
		{"append in a transaction", 3, func(ctx context.Context) error {
			return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, id, user("x"))
				return err
			})
		}},
		// the session with its state, chunks of 100, 200, 400, 800
		{"export 1,004 messages", 5, func(ctx context.Context) error { return sessions.Export(ctx, id, &document) }},
		// begin, lock, delete, commit
		{"delete", 4, func(ctx context.Context) error { _, err := sessions.Delete(ctx, id); return err }},
		// the store may have been faster
		{"remove the rest", 0, func(ctx context.Context) (err error) {
			for more := true; more && err == nil; {
				_, more, err = sessions.RemoveDeleted(ctx, 0)
			}
			return err
		}},
		// begin, the rest of the deleted one, session, two chunks of up to 1,000, the state's scope and keys, commit
		{"import 1,004 messages", 8, func(ctx context.Context) error {
			_, err := sessions.Import(ctx, bytes.NewReader(document.Bytes()), true)
			return err
		}},
		{"delete another", 4, func(ctx context.Context) error { _, err := sessions.Delete(ctx, other); return err }},
	} {
		before := tracer.count.Load()
		if err := operation.run(context.WithValue(t.Context(), operationKey{}, true)); err != nil {
			t.Fatalf("%s: %v", operation.name, err)
		}
		if got := tracer.count.Load() - before; got != operation.budget && operation.budget > 0 {
			t.Errorf("%s: %d round trips, budget %d", operation.name, got, operation.budget)
		}
	}
}
