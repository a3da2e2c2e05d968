package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// eachBatch calls a function before each batch that the store sends for its callers, with
// its first statement.
type eachBatch struct {
	steps
	before atomic.Pointer[func(statement string)]
}

func (e *eachBatch) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	statement := data.Batch.QueuedQueries[len(data.Batch.QueuedQueries)-1].SQL
	if before := e.before.Load(); before != nil && !strings.Contains(statement, "name: LiveNotify") { // which no call waits for
		(*before)(data.Batch.QueuedQueries[0].SQL)
	}
	return ctx
}

// Between the two round trips of a turn others try to change what it has read: they wait,
// or come before it, and nothing is lost.
func TestNothingChangesBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	const name = "shared"
	turn := repo.Turn{
		Messages: []repo.NewMessage{user("turn")}, Usage: &repo.NewUsage{Cost: 1},
		State: []repo.StateChange{plusOne(name, "n"), {Key: "n", Op: repo.StateIncrement, By: 1}},
	}
	one := func(ctx context.Context, r repo.Repositories, id repo.ID) (repo.AppendedTurn, error) {
		return r.Sessions().AppendTurn(ctx, inSession(id, turn))
	}
	ways := map[string]func(ctx context.Context, store repo.Store, id repo.ID) (repo.AppendedTurn, error){
		"in a group": func(ctx context.Context, store repo.Store, id repo.ID) (repo.AppendedTurn, error) {
			return one(ctx, store, id)
		},
		"in a transaction": func(ctx context.Context, store repo.Store, id repo.ID) (added repo.AppendedTurn, err error) {
			err = store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
				added, err = one(ctx, tx, id)
				return err
			})
			return added, err
		},
	}
	changes := map[string]func(ctx context.Context, tx repo.Repositories, id repo.ID) error{
		"append": func(ctx context.Context, tx repo.Repositories, id repo.ID) error {
			_, err := tx.Sessions().Append(ctx, id, user("other"))
			return err
		},
		"usage": func(ctx context.Context, tx repo.Repositories, id repo.ID) error {
			_, err := tx.Sessions().AddUsage(ctx, id, repo.NewUsage{Cost: 1})
			return err
		},
		"state": func(ctx context.Context, tx repo.Repositories, id repo.ID) error {
			_, err := tx.State().Change(ctx, []repo.StateChange{
				plusOne(name, "n"), {Scope: repo.Scope{SessionID: id}, Key: "n", Op: repo.StateIncrement, By: 1},
			})
			return err
		},
	}
	for wayName, way := range ways {
		for changeName, change := range changes {
			t.Run(wayName+", "+changeName, func(t *testing.T) {
				t.Parallel()
				databaseURL, tracer := pgtest.NewDatabase(t), &eachBatch{}
				others := pgtest.NewPool(t, pgtest.ReadCommitted(databaseURL)) // at others one of the two is refused
				store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 4, Tracer: tracer})
				id := pgtest.NewSession(t, store)
				if _, err := one(t.Context(), store, id); err != nil { // the scopes exist
					t.Fatal(err)
				}
				changed := make(chan error, 1)
				var once atomic.Bool
				before := func(statement string) {
					if !strings.HasPrefix(statement, "-- name: MessageAdvance") || once.Swap(true) {
						return
					}
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						changed <- pgx.BeginFunc(t.Context(), others, func(tx pgx.Tx) error {
							return change(t.Context(), postgres.Bind(tx), id)
						})
					}()
					await.For(t, "the other one has ended or waits", func() bool {
						select {
						case <-ended:
							return true
						default:
							return pgtest.LockWaits(t, others) > 0
						}
					})
				}
				tracer.before.Store(&before)
				added, err := way(t.Context(), store, id)
				if err := errors.Join(err, <-changed); err != nil {
					t.Fatal(err)
				}
				stored, err := store.Sessions().Message(t.Context(), id, added.Messages[0].ID)
				if err != nil || stored.Sequence != added.Messages[0].Sequence {
					t.Errorf("the message is said to be at %d, and is at %d: %v", added.Messages[0].Sequence, stored.Sequence, err)
				}
				session, err := store.Sessions().Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				want := map[string][]int{"append": {3, 2, 2, 2}, "usage": {2, 3, 2, 2}, "state": {2, 2, 3, 3}}[changeName]
				got := []int{
					int(pgtest.CountDense(t, store, id)), int(session.Usage.Cost),
					sumOf(t, store, repo.Scope{Name: name}, "n"), sumOf(t, store, repo.Scope{SessionID: id}, "n"),
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("messages, cost and sums are %v, want %v", got, want)
				}
			})
		}
	}
}

// The answer to a turn is lost, and its session is deleted before the next attempt: that
// this one finds no session does not mean that nothing was written.
func TestLostTurnOfDeletedSession(t *testing.T) {
	t.Parallel()
	tracer := &eachBatch{}
	store, other, network := openLossy(t, "cache_statement", agentstore.Options{Tracer: tracer})
	written := 0
	for try := 0; written == 0 && try < 5; try++ { // on a busy machine the pieces are others each time
		for piece, lost := int32(1), true; lost; piece++ {
			ids := newSessions(t, other, 1)
			var deleted repo.DeletedSession
			before := func(string) {
				if network.Lost.CompareAndSwap(true, false) {
					var err error
					if deleted, err = other.Sessions().Delete(t.Context(), ids[0]); err != nil {
						t.Error(err)
					}
					written += int(deleted.Messages)
				}
			}
			tracer.before.Store(&before)
			network.Lose(piece, false)
			err := severalTurns["one"](t.Context(), store, ids)
			lost = network.Left.Swap(0) <= 0
			if deleted.Messages > 0 && !errors.Is(err, repo.ErrUnknownOutcome) {
				t.Errorf("the answer to piece %d lost: %v, but it was written", piece, err)
			}
		}
	}
	if written == 0 {
		t.Error("no attempt was written: the test does not show what it is for")
	}
}
