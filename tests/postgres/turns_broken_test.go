package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// steps calls a function before and after each thing that the store sends, until it is
// told to stop.
type steps struct {
	mu   sync.Mutex
	step int
	at   func(step int, conn *pgx.Conn)
}

func (s *steps) begin(at func(step int, conn *pgx.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.at = 0, at
}

func (s *steps) next(conn *pgx.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != nil {
		s.step++
		s.at(s.step, conn)
	}
}

func (s *steps) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.next(conn)
	return ctx
}

func (s *steps) TraceQueryEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceQueryEndData) {
	s.next(conn)
}

func (s *steps) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	s.next(conn)
	return ctx
}
func (s *steps) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (s *steps) TraceBatchEnd(_ context.Context, conn *pgx.Conn, _ pgx.TraceBatchEndData) {
	s.next(conn)
}

// severalTurns are turns of all kinds: how they are added to two sessions, and what was
// added to each afterwards.
var severalTurns = map[string]func(ctx context.Context, r repo.Repositories, ids []repo.ID) error{
	"one": func(ctx context.Context, r repo.Repositories, ids []repo.ID) error {
		_, err := r.Sessions().AppendTurn(ctx, inSession(ids[0], brokenTurn()))
		return err
	},
	"creating": func(ctx context.Context, r repo.Repositories, ids []repo.ID) error {
		created := brokenTurn()
		created.Create = &repo.NewSession{Key: keyBeside(ids[0])}
		_, err := r.Sessions().AppendTurn(ctx, created)
		return err
	},
}

// keyBeside is the key of a session that a turn creates.
func keyBeside(id repo.ID) string { return "beside " + id.String() }

func brokenTurn() repo.Turn {
	return repo.Turn{
		Messages: []repo.NewMessage{user("once")}, Usage: &repo.NewUsage{Cost: 1},
		State: []repo.StateChange{plusOne("shared", "n"), {Key: "n", Op: repo.StateIncrement, By: 1}},
	}
}

// wholeTurns returns how often the turns of a call were stored, and fails if that is not
// the same for all of their parts.
func wholeTurns(t *testing.T, store repo.Repositories, call string, ids []repo.ID, sharedBefore int) int {
	t.Helper()
	id, shared := ids[0], sumOf(t, store, repo.Scope{Name: "shared"}, "n")-sharedBefore
	if call == "creating" {
		created, err := store.Sessions().Find(t.Context(), repo.SessionKey{Key: keyBeside(id)})
		switch {
		case errors.Is(err, repo.ErrNotFound) && shared == 0:
			return 0
		case err != nil:
			t.Fatalf("%v, and the scope has %d", err, shared)
		}
		id = created
	}
	count := int(pgtest.CountDense(t, store, id))
	session, err := store.Sessions().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	parts := []int{int(session.Usage.Cost), sumOf(t, store, repo.Scope{SessionID: id}, "n"), shared}
	for _, part := range parts {
		if part != count {
			t.Errorf("%d messages of the first session are stored, but of the other parts %v", count, parts)
		}
	}
	return count
}

// At each step of a turn its connection is lost, or its backend is terminated. The turn is
// made once, unless the error says that this is not known.
func TestTurnsWhoseConnectionIsLost(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, other *pgxpool.Pool, conn *pgx.Conn){
		"terminated": func(t *testing.T, other *pgxpool.Pool, conn *pgx.Conn) {
			pid := conn.PgConn().PID()
			if pgtest.Value[bool](t, other, "SELECT pg_terminate_backend($1)", int32(pid)) {
				await.For(t, "the backend has ended", func() bool {
					return !pgtest.Value[bool](t, other, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", int32(pid))
				})
			}
		},
		"closed": func(_ *testing.T, _ *pgxpool.Pool, conn *pgx.Conn) { _ = conn.PgConn().Conn().Close() },
	}
	for call, add := range severalTurns {
		for name, lose := range ways {
			for _, mode := range []string{"cache_statement", "simple_protocol"} {
				if name == "terminated" && mode == "simple_protocol" {
					continue // the answers are the same
				}
				t.Run(fmt.Sprint(call, ", ", name, ", ", mode), func(t *testing.T) {
					t.Parallel()
					direct, tracer := pgtest.NewDatabase(t), &steps{}
					other := pgtest.OpenStore(t, direct, agentstore.Options{})
					through := pgtest.WithParameter(pgtest.WithParameter(direct, "application_name", lossyName), "default_query_exec_mode", mode)
					store := pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 1, Tracer: tracer})
					for step, lost := 1, true; lost; step++ {
						ids := newSessions(t, other, 2)
						before := sumOf(t, other, repo.Scope{Name: "shared"}, "n")
						lost = false
						tracer.begin(func(at int, conn *pgx.Conn) {
							if at == step {
								lost = true
								lose(t, other.Pool(), conn)
							}
						})
						err := add(t.Context(), store, ids)
						tracer.begin(nil)
						awaitArrived(t, store, other)
						count := wholeTurns(t, other, call, ids, before)
						if count > 1 || (count == 1) != (err == nil) && !errors.Is(err, repo.ErrUnknownOutcome) && !errors.Is(err, repo.ErrUnavailable) ||
							count == 1 && errors.Is(err, repo.ErrUnavailable) {
							t.Errorf("lost at step %d: %v; it was done %d times", step, err, count)
						}
						if err != nil && call != "creating" { // a group makes it again
							t.Errorf("lost at step %d: %v", step, err)
						}
					}
				})
			}
		}
	}
}

// At each step of a turn its caller's context ends. The turn is stored whole or not at all,
// and not if the error does not say that this is not known. Its connection returns, and the
// next turn is made.
func TestTurnsCancelledAtEachStep(t *testing.T) {
	t.Parallel()
	for call, add := range severalTurns {
		for _, connections := range []int{1, 3} {
			t.Run(fmt.Sprint(call, ", ", connections, " connections"), func(t *testing.T) {
				t.Parallel()
				direct, tracer := pgtest.NewDatabase(t), &steps{}
				other := pgtest.OpenStore(t, direct, agentstore.Options{})
				store := pgtest.OpenStore(t, pgtest.WithParameter(direct, "application_name", lossyName), agentstore.Options{MaxConns: connections, Tracer: tracer})
				for step, ended := 1, true; ended; step++ {
					ids := newSessions(t, other, 2)
					before := sumOf(t, other, repo.Scope{Name: "shared"}, "n")
					ended = false
					ctx, cancel := context.WithCancel(t.Context())
					tracer.begin(func(at int, _ *pgx.Conn) {
						if at == step {
							ended = true
							cancel()
						}
					})
					err := add(ctx, store, ids)
					tracer.begin(nil)
					cancel()
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("ended at step %d: %v", step, err)
					}
					// What is at the server goes on after an error.
					if err := add(t.Context(), store, ids); err != nil {
						t.Errorf("after step %d: %v", step, err)
					}
					awaitArrived(t, store, other)
					count := wholeTurns(t, other, call, ids, before)
					if count < 1 || count > 2 || (count == 2) != (err == nil) && !errors.Is(err, repo.ErrUnknownOutcome) {
						t.Errorf("ended at step %d: %v; it was done %d times", step, err, count-1)
					}
				}
			})
		}
	}
}

// Of turns each piece is lost that the store sends, and the answer to it.
func TestLostPiecesOfTurns(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "simple_protocol"} {
		for _, call := range []string{"one", "creating"} {
			t.Run(call+" in "+mode, func(t *testing.T) {
				t.Parallel()
				store, other, network := openLossy(t, mode, agentstore.Options{})
				for piece, lost := int32(1), true; lost; piece++ {
					ids := newSessions(t, other, 2)
					before := sumOf(t, other, repo.Scope{Name: "shared"}, "n")
					network.Lose(piece, false)
					err := severalTurns[call](t.Context(), store, ids)
					lost = network.Stop()
					awaitArrived(t, store, other)
					count := wholeTurns(t, other, call, ids, before)
					if count > 1 || (count == 1) != (err == nil) && !errors.Is(err, repo.ErrUnknownOutcome) {
						t.Errorf("the answer to piece %d lost: %v; it was done %d times", piece, err, count)
					}
					if err != nil && call == "one" { // a group makes it again
						t.Errorf("the answer to piece %d lost: %v", piece, err)
					}
				}
			})
		}
	}
}

// In each of the driver's modes, callers that share scopes and sessions lose nothing.
func TestRacingTurnsInExecModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			store := pgtest.OpenStore(t, pgtest.WithParameter(pgtest.NewDatabase(t), "default_query_exec_mode", mode), agentstore.Options{MaxConns: 4})
			ids := newSessions(t, store, 3)
			const writers, rounds = 8, 5
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					for range rounds {
						for _, id := range []repo.ID{ids[w%3], ids[(w+1)%3]} {
							if err := severalTurns["one"](t.Context(), store, []repo.ID{id}); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			all.Wait()
			const want = writers * rounds * 2
			count, own := 0, 0
			for _, id := range ids {
				count += int(pgtest.CountDense(t, store, id))
				own += sumOf(t, store, repo.Scope{SessionID: id}, "n")
			}
			if shared := sumOf(t, store, repo.Scope{Name: "shared"}, "n"); slices.Min([]int{count, own, shared}) != want || max(count, own, shared) != want {
				t.Errorf("%d messages, a sum of %d in the sessions and of %d in the shared scope, want %d", count, own, shared, want)
			}
		})
	}
}
