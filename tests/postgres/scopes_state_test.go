package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A change waits for a transaction that erases its scope, makes it again, and erases it once
// more. It gets a version that the scope never had: the time at which the change began is
// before one of them.
// Guarantee: State: A scope that is erased and made again repeats no version.
func TestVersionOfScopeErasedDuringAWait(t *testing.T) {
	t.Parallel()
	const name = "shared"
	ways := map[string]func(ctx context.Context, r repo.Repositories, id repo.ID) ([]repo.ScopeVersion, error){
		"change": func(ctx context.Context, r repo.Repositories, _ repo.ID) ([]repo.ScopeVersion, error) {
			return r.State().Change(ctx, []repo.StateChange{plusOne(name, "n")})
		},
		"turn": func(ctx context.Context, r repo.Repositories, id repo.ID) ([]repo.ScopeVersion, error) {
			added, err := r.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, State: []repo.StateChange{plusOne(name, "n")}})
			return added.Scopes, err
		},
	}
	for way, change := range ways {
		for _, mode := range []string{"cache_statement", "simple_protocol"} {
			for _, inTx := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s in %s, in a transaction: %v", way, mode, inTx), func(t *testing.T) {
					t.Parallel()
					store := pgtest.OpenStore(t, pgtest.WithParameter(pgtest.NewDatabase(t), "default_query_exec_mode", mode), agentstore.Options{MaxConns: 6})
					id := pgtest.NewSession(t, store)
					if _, err := store.State().Change(t.Context(), []repo.StateChange{plusOne(name, "n")}); err != nil {
						t.Fatal(err)
					}
					var began, last int64
					var versions []repo.ScopeVersion
					changed := make(chan error, 1)
					err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
						if _, err := tx.State().Erase(ctx, name); err != nil {
							return err
						}
						go func() {
							run := func(ctx context.Context, r repo.Repositories) (err error) {
								versions, err = change(ctx, r, id)
								return err
							}
							if inTx {
								changed <- store.InTx(t.Context(), run)
							} else {
								changed <- run(t.Context(), store)
							}
						}()
						pgtest.AwaitLockWait(t, store.Pool(), 1)
						began = pgtest.Value[int64](t, store.Pool(), "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
						again, err := tx.State().Change(ctx, []repo.StateChange{plusOne(name, "n")})
						if err != nil {
							return err
						}
						last = again[0].Version
						_, err = tx.State().Erase(ctx, name)
						return err
					})
					if err := errors.Join(err, <-changed); err != nil {
						t.Fatal(err)
					}
					if last <= began {
						t.Errorf("version %d is from before the wait, which began at %d: the test finds nothing", last, began)
					}
					if versions[0].Version <= last {
						t.Errorf("version %d comes after %d", versions[0].Version, last)
					}
				})
			}
		}
	}
}

// deadlocks counts the statements that a deadlock ended.
type deadlocks struct {
	steps
	found atomic.Int32
}

func isDeadlock(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == "40P01"
}

func (d *deadlocks) count(err error) {
	if isDeadlock(err) {
		d.found.Add(1)
	}
}

func (d *deadlocks) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	d.count(data.Err)
}

func (d *deadlocks) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	d.count(data.Err)
}

// All writers lock scopes in one order, whatever the order in which they name them, so that
// none meets a deadlock. Writers that lock them in the order named do.
// Guarantee: State: Writers of several scopes meet no deadlock.
func TestScopesAreLockedInOneOrder(t *testing.T) {
	t.Parallel()
	const writers, rounds = 6, 50
	tracer := &deadlocks{}
	// short: after it the server looks for a deadlock, and goes on waiting if there is none
	databaseURL := pgtest.WithParameter(pgtest.NewDatabase(t), "deadlock_timeout", "5ms")
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{Tracer: tracer, MaxConns: 10})
	all := []repo.Scope{{Name: "b"}, {Name: "é"}, {Name: "B"}, {SessionID: pgtest.NewSession(t, store)}, {SessionID: pgtest.NewSession(t, store)}}
	// race has writers change pairs of scopes, of which some name the one first and some the
	// other, and returns the number of deadlocks.
	race := func(scopes []repo.Scope, change func(ctx context.Context, changes []repo.StateChange) error) int32 {
		before := tracer.found.Load()
		var racing sync.WaitGroup
		for writer := range writers {
			racing.Go(func() {
				for i := range rounds {
					pair := []repo.Scope{scopes[i%len(scopes)], scopes[(i+1+i/len(scopes)%(len(scopes)-1))%len(scopes)]}
					if writer%2 == 1 {
						slices.Reverse(pair)
					}
					var changes []repo.StateChange
					for _, scope := range pair {
						changes = append(changes, repo.StateChange{Scope: scope, Key: "n", Op: repo.StateIncrement, By: 1})
					}
					if err := change(t.Context(), changes); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		racing.Wait()
		return tracer.found.Load() - before
	}
	for name, found := range map[string]int32{
		"changes": race(all, func(ctx context.Context, changes []repo.StateChange) error {
			_, err := store.State().Change(ctx, changes)
			return err
		}),
		"turns in transactions": race(all[:3], func(ctx context.Context, changes []repo.StateChange) error {
			id := pgtest.NewSession(t, store)
			return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
				_, err := tx.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, State: changes})
				return err
			})
		}),
	} {
		if found > 0 {
			t.Errorf("%s: %d deadlocks", name, found)
		}
	}
	found := int32(0)
	naive := func(ctx context.Context, changes []repo.StateChange) error {
		err := pgx.BeginFunc(ctx, store.Pool(), func(tx pgx.Tx) error {
			for _, c := range changes {
				if _, err := tx.Exec(ctx, "SELECT pg_sleep(0.001) FROM state_scopes WHERE session_id = $1 OR name = $2 FOR UPDATE", [16]byte(c.Scope.SessionID), c.Scope.Name); err != nil {
					return err
				}
			}
			return nil
		})
		if isDeadlock(err) {
			return nil
		}
		return err
	}
	for try := 0; try < 20 && found == 0; try++ {
		found = race(all, naive)
	}
	if found == 0 {
		t.Error("the naive way met no deadlock: this test would not find one")
	}
}

// Once a database was restored to an earlier time, versions that were given after that time
// are not given again.
func TestVersionsAfterARestore(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	scope := repo.Scope{Name: "restored"}
	set := func() int64 {
		versions, err := store.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "key", Value: json.RawMessage(`1`)}})
		if err != nil {
			t.Fatal(err)
		}
		return versions[0].Version
	}
	restored, lost := set(), set()
	pgtest.Exec(t, store.Pool(), "UPDATE state_scopes SET version = $1", restored)
	pgtest.Exec(t, store.Pool(), "UPDATE state_values SET version = $1", restored)
	if again := set(); again <= lost {
		t.Errorf("version %d follows %d, after %d was given before the restore", again, restored, lost)
	}
	id := pgtest.NewSession(t, store)
	turn := func() int64 {
		added, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, State: []repo.StateChange{{Scope: scope, Key: "key", Value: json.RawMessage(`1`)}}})
		if err != nil {
			t.Fatal(err)
		}
		return added.Scopes[0].Version
	}
	restored, lost = turn(), turn()
	pgtest.Exec(t, store.Pool(), "UPDATE state_scopes SET version = $1", restored)
	if again := turn(); again <= lost {
		t.Errorf("a turn's version %d follows %d, after %d was given before the restore", again, restored, lost)
	}
}
