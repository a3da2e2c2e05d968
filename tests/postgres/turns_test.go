package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func plusOne(name, key string) repo.StateChange {
	return repo.StateChange{Scope: repo.Scope{Name: name}, Key: key, Op: repo.StateIncrement, By: 1}
}

// sumOf returns the value of a key that is incremented, and 0 if it does not exist.
func sumOf(t *testing.T, store repo.Repositories, scope repo.Scope, key string) (n int) {
	t.Helper()
	value, err := store.State().Get(t.Context(), scope, key)
	if errors.Is(err, repo.ErrNotFound) {
		return 0
	}
	if err == nil {
		err = json.Unmarshal(value.Value, &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A session that an open transaction holds stops no turn of another, whatever the turns
// have.
func TestHeldSessionStopsNoOtherTurn(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]repo.Turn{
		"own state":    {State: []repo.StateChange{{Key: "a", Value: []byte(`1`)}}},
		"shared state": {State: []repo.StateChange{plusOne("shared", "n")}},
		"usage":        {Usage: &repo.NewUsage{Cost: 1}},
	} {
		for _, connections := range []int{2, 3, 8} {
			t.Run(fmt.Sprint(name, ", ", connections, " connections"), func(t *testing.T) {
				t.Parallel()
				store := pgtest.NewStore(t, agentstore.Options{MaxConns: connections})
				failed := besideHeld(t, store, func(ctx context.Context, id repo.ID) error {
					added := turn
					added.Messages = []repo.NewMessage{user("outside")}
					_, err := store.Sessions().AppendTurn(ctx, inSession(id, added))
					return err
				}, nil)
				if failed > 0 {
					t.Errorf("%d turns of other sessions failed", failed)
				}
			})
		}
	}
}

// A shared scope that an open transaction has changed stops no append, and no turn that
// does not touch it. The turns that do wait, and are stored afterwards.
// Guarantee: Turns: A scope that a transaction has changed delays only turns that need it.
func TestHeldScopeStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{2, 3, 4, 8, -4} {
		// The transaction has created the scope (-), or found it.
		creates := connections < 0
		connections = max(connections, -connections)
		t.Run(fmt.Sprint(connections, " connections, creates: ", creates), func(t *testing.T) {
			t.Parallel()
			store := pgtest.NewStore(t, agentstore.Options{MaxConns: connections})
			const waiters = 4
			var others sync.WaitGroup
			waited, errs := make(chan error, waiters), make([]error, 32)
			ids := make([]repo.ID, waiters+len(errs))
			for i := range ids {
				ids[i] = pgtest.NewSession(t, store)
			}
			add := func(ctx context.Context, id repo.ID, changes ...repo.StateChange) error {
				_, err := store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, Messages: []repo.NewMessage{user("outside")}, State: changes})
				return err
			}
			if err := add(t.Context(), ids[0], plusOne("other", "n")); err != nil { // the scope exists
				t.Fatal(err)
			}
			was := 0
			if !creates {
				was++
				if err := add(t.Context(), ids[0], plusOne("held", "n")); err != nil {
					t.Fatal(err)
				}
			}
			if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				if _, err := tx.State().Change(ctx, []repo.StateChange{plusOne("held", "n")}); err != nil {
					return err
				}
				awaitTried(t, store, 0, func() {
					for _, id := range ids[:waiters] {
						go func() { waited <- add(t.Context(), id, plusOne("held", "n"), plusOne("other", "n")) }()
					}
				})
				ctx = await.Context(t)
				for i := range errs {
					others.Go(func() {
						for range 5 {
							switch id := ids[waiters+i]; i % 4 {
							case 0:
								_, errs[i] = store.Sessions().Append(ctx, id, user("outside"))
							case 1:
								errs[i] = add(ctx, id, repo.StateChange{Key: "own", Value: []byte(`1`)})
							default:
								errs[i] = add(ctx, id, plusOne("other", "n"))
							}
							if errs[i] != nil {
								return
							}
						}
					})
				}
				others.Wait()
				if len(waited) > 0 {
					t.Errorf("%d turns did not wait", len(waited))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for range waiters {
				errs = append(errs, <-waited)
			}
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
			if got := sumOf(t, store, repo.Scope{Name: "held"}, "n"); got != was+1+waiters {
				t.Errorf("the held scope was incremented %d times, want %d", got, was+1+waiters)
			}
			if got, want := sumOf(t, store, repo.Scope{Name: "other"}, "n"), 1+waiters+5*32/2; got != want {
				t.Errorf("the other scope was incremented %d times, want %d", got, want)
			}
		})
	}
}

// Turns of several processes that change the same keys: none is lost. The naive way
// reads a value and writes it back.
// Guarantee: Turns: Concurrent turns of several processes lose no change and no increment.
func TestTurnsOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const processes, writers, rounds = 2, 8, 25
	databaseURL := pgtest.NewDatabase(t)
	stores := make([]*agentstore.Store, processes)
	for i := range stores { // a pool each
		pool := pgtest.NewPool(t, databaseURL)
		stores[i] = pgtest.OpenPool(t, pool, agentstore.Options{})
	}
	run := func(change func(store *agentstore.Store, round int) []repo.StateChange) {
		var all sync.WaitGroup
		for _, store := range stores {
			for range writers {
				all.Go(func() {
					id := pgtest.NewSession(t, store)
					for round := range rounds {
						if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{
							SessionID: id,
							Messages:  []repo.NewMessage{user("x")}, State: change(store, round),
						}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		all.Wait()
	}
	const want = processes * writers * rounds
	run(func(_ *agentstore.Store, round int) []repo.StateChange {
		return []repo.StateChange{plusOne("hot", "n"), plusOne("hot", fmt.Sprint(round%4)), plusOne(fmt.Sprint("warm/", round%3), "n")}
	})
	if got := sumOf(t, stores[0], repo.Scope{Name: "hot"}, "n"); got != want {
		t.Errorf("the sum is %d, want %d", got, want)
	}
	warm := 0
	for i := range 3 {
		warm += sumOf(t, stores[0], repo.Scope{Name: fmt.Sprint("warm/", i)}, "n")
	}
	if warm != want {
		t.Errorf("the sum of the others is %d, want %d", warm, want)
	}
	naive := repo.Scope{Name: "naive"}
	run(func(store *agentstore.Store, _ int) []repo.StateChange {
		return []repo.StateChange{{Scope: naive, Key: "n", Value: fmt.Append(nil, sumOf(t, store, naive, "n")+1)}}
	})
	if sumOf(t, stores[0], naive, "n") == want {
		t.Error("the naive way lost nothing: the test does not show what it is for")
	}
}

// Of a turn each piece is lost that its store sends, on its way to the server and the
// answer to it: what the turn does is done once, or not at all, and it is never reported
// as not done when it was.
// Guarantee: Turns: No turn that was stored is reported as not stored.
func TestLostTurns(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]repo.Turn{
		"messages": {Messages: []repo.NewMessage{user("once")}, State: []repo.StateChange{plusOne("shared", "n")}, Usage: &repo.NewUsage{Cost: 1}},
		"state":    {State: []repo.StateChange{plusOne("shared", "n")}},
		"own":      {Messages: []repo.NewMessage{user("once")}, State: []repo.StateChange{{Key: "n", Op: repo.StateIncrement, By: 1}}},
		"id":       {ID: "turn", Messages: []repo.NewMessage{user("once")}, State: []repo.StateChange{plusOne("shared", "n")}},
		"create":   {Messages: []repo.NewMessage{user("once")}, State: []repo.StateChange{plusOne("shared", "n")}, Create: &repo.NewSession{}},
	} {
		for _, mode := range []string{"cache_statement", "simple_protocol"} {
			t.Run(name+" in "+mode, func(t *testing.T) {
				t.Parallel()
				store, other, network := openLossy(t, mode, agentstore.Options{})
				for piece, lost := int32(1), true; lost; piece++ {
					id := repo.NewID()
					if turn.Create == nil {
						id = pgtest.NewSession(t, other)
					}
					before := sumOf(t, other, repo.Scope{Name: "shared"}, "n")
					network.Lose(piece, false)
					added, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn))
					lost = network.Stop()
					awaitArrived(t, store, other)
					after := sumOf(t, other, repo.Scope{Name: "shared"}, "n") - before
					if name == "own" {
						after = sumOf(t, other, repo.Scope{SessionID: id}, "n")
					}
					if after > 1 || (after == 1) != (err == nil) && !errors.Is(err, repo.ErrUnknownOutcome) {
						t.Errorf("the answer to piece %d lost: %v; it was done %d times", piece, err, after)
					}
					if err != nil && turn.Create == nil { // a group makes it again
						t.Errorf("the answer to piece %d lost: %v", piece, err)
					}
					if err == nil {
						session, err := other.Sessions().Get(t.Context(), id)
						if err != nil || int(session.MessageCount) != len(turn.Messages) || len(added.Messages) != len(turn.Messages) {
							t.Errorf("the answer to piece %d lost: %d messages are stored, %d returned: %v", piece, session.MessageCount, len(added.Messages), err)
						}
						if name != "id" && added.Repeated {
							t.Errorf("the answer to piece %d lost: the turn is said to be repeated", piece)
						}
					}
				}
			})
		}
	}
}

// A turn whose statement arrives late, after the store has made it again, is done once.
func TestLateTurnIsDoneOnce(t *testing.T) {
	t.Parallel()
	l := newDelayed(t, repo.NewSession{})
	turn := repo.Turn{Messages: []repo.NewMessage{user("once")}, State: []repo.StateChange{plusOne("shared", "n")}, Usage: &repo.NewUsage{Cost: 1}}
	if _, err := l.store.Sessions().AppendTurn(t.Context(), inSession(l.id, turn)); err != nil {
		t.Fatal(err)
	}
	if err := l.store.Pool().QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&l.pid); err != nil {
		t.Fatal(err)
	}
	l.network.arm(l.store)
	added, err := l.store.Sessions().AppendTurn(t.Context(), inSession(l.id, turn))
	if l.network.armed.Load() {
		t.Fatal("nothing was kept")
	}
	if err != nil || added.Repeated || len(added.Messages) != 1 || added.Messages[0].Sequence != 1 || added.Usage.Cost != 2 {
		t.Errorf("%+v, %v", added, err)
	}
	l.arrive(t)
	session, err := l.direct.Sessions().Get(t.Context(), l.id)
	if err != nil || session.MessageCount != 2 || session.Usage.Cost != 2 || sumOf(t, l.direct, repo.Scope{Name: "shared"}, "n") != 2 {
		t.Errorf("%d messages and a cost of %d, want 2: %v", session.MessageCount, session.Usage.Cost, err)
	}
}

// A turn that the database refuses, here by a trigger of the owner's, fails no other.
// Guarantee: Turns: A turn that the database refuses makes no other fail.
func TestRejectedTurnFailsNoOther(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	pgtest.Exec(t, store.Pool(), `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.key = 'refused' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$`)
	pgtest.Exec(t, store.Pool(), `CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON state_values FOR EACH ROW EXECUTE FUNCTION refuse()`)
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			id := pgtest.NewSession(t, store)
			for range 5 {
				key := "n"
				if i%4 == 0 {
					key = "refused"
				}
				_, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{user("x")}, State: []repo.StateChange{plusOne("shared", key)}})
				if (err != nil) != (i%4 == 0) {
					t.Errorf("%s: %v", key, err)
				}
			}
		})
	}
	all.Wait()
	if got := sumOf(t, store, repo.Scope{Name: "shared"}, "n"); got != 24*5 {
		t.Errorf("the sum is %d, want %d", got, 24*5)
	}
	if n := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM messages"); n != 24*5 {
		t.Errorf("%d messages, want %d", n, 24*5)
	}
}

// In a caller's transaction of any level a turn is stored, or the error says that the
// transaction has to be run again, because others have changed the scope since it began.
func TestTurnsInTransactionsOfAnyLevel(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		for _, outdated := range []bool{false, true} {
			t.Run(fmt.Sprint(level, ", outdated: ", outdated), func(t *testing.T) {
				t.Parallel()
				id, name := pgtest.NewSession(t, store), "shared/"+repo.NewID().String()
				turn := repo.Turn{
					Messages: []repo.NewMessage{user("x"), user("y")}, Usage: &repo.NewUsage{Cost: 1},
					State: []repo.StateChange{plusOne(name, "n"), {Key: "own", Value: []byte(`1`)}},
				}
				tx, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback(t.Context()) }()
				pgtest.Exec(t, tx, "SELECT count(*) FROM sessions") // the snapshot
				want := 1
				if outdated {
					want++
					if _, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn)); err != nil {
						t.Fatal(err)
					}
				}
				added, err := postgres.Bind(tx).Sessions().AppendTurn(t.Context(), inSession(id, turn))
				if outdated && level != pgx.ReadCommitted {
					if !errors.Is(err, repo.ErrContention) {
						t.Errorf("an outdated transaction got %v", err)
					}
					return
				}
				if err != nil || len(added.Messages) != 2 {
					t.Fatalf("%+v, %v", added, err)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := sumOf(t, store, repo.Scope{Name: name}, "n"); got != want {
					t.Errorf("the sum is %d, want %d", got, want)
				}
			})
		}
	}
}

// onStatement calls a function before each statement.
type onStatement struct{ run func(sql string) }

func (o *onStatement) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	o.run(data.SQL)
	return ctx
}

func (*onStatement) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A turn that creates its session does so although another caller has created one with its key just
// before and deletes it just after. If that happens again and again, nothing is written. With an id of
// the caller's it is refused, since that was given.
func TestTurnCreatesAfterOthersDelete(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		id    repo.ID
		times int
		want  error
	}{
		{"once", repo.ID{}, 1, nil}, {"again and again", repo.ID{}, 1000, repo.ErrContention}, {"by its id", repo.NewID(), 1, repo.ErrConflict},
	} {
		for way, add := range map[string]func(store *agentstore.Store, id repo.ID, turn repo.Turn) (bool, error){
			"AppendTurn": func(store *agentstore.Store, id repo.ID, turn repo.Turn) (bool, error) {
				added, err := store.Sessions().AppendTurn(t.Context(), inSession(id, turn))
				return added.Created, err
			},
			"in InTx": func(store *agentstore.Store, id repo.ID, turn repo.Turn) (created bool, err error) {
				err = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
					added, err := tx.Sessions().AppendTurn(ctx, inSession(id, turn))
					created = added.Created
					return err
				})
				return created, err
			},
		} {
			t.Run(way+" "+test.name, func(t *testing.T) {
				t.Parallel()
				databaseURL := pgtest.NewDatabase(t)
				other := pgtest.OpenStore(t, databaseURL, agentstore.Options{}).Sessions()
				session := repo.NewSession{ID: test.id, Key: "k"}
				times, exists := 0, false
				traced := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "traced"), agentstore.Options{
					Tracer: &onStatement{func(sql string) {
						var err error
						switch {
						case strings.HasPrefix(sql, "-- name: SessionCreate ") && times < test.times:
							times, exists = times+1, true
							_, err = other.Create(t.Context(), session)
						case strings.HasPrefix(sql, "-- name: TurnLockCounters ") && exists:
							exists = false
							_, err = bykey.Of(other, repo.SessionKey{Key: session.Key}).Delete(t.Context())
						}
						if err != nil {
							t.Error(err)
						}
					}},
				})
				created, err := add(traced, test.id, repo.Turn{Messages: []repo.NewMessage{user("x")}, Create: &repo.NewSession{Key: session.Key}})
				if !errors.Is(err, test.want) || created != (test.want == nil) {
					t.Errorf("created %t, %v, want %v", created, err, test.want)
				}
				if times == 0 {
					t.Error("no session was created before")
				}
			})
		}
	}
}
