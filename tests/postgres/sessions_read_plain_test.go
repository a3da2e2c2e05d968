package postgres

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A read on the pool has the result of one in a transaction, also where there is too much for one round trip.
// Guarantee: Messages: A read of sessions, messages and states is of one moment.
func TestPlainRead(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	tracer := &pgtest.RoundTrips{}
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{Tracer: tracer})
	short, long := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	for n := range 9 {
		message := user(fmt.Sprint("message ", n))
		message.Kind, message.CallID = "k", fmt.Sprint(n)
		if _, err := store.Sessions().Append(t.Context(), short, message); err != nil {
			t.Fatal(err)
		}
		message = user(strings.Repeat(fmt.Sprint(n), 1<<19))
		message.Payload = make([]byte, 1<<20)
		if _, err := store.Sessions().Append(t.Context(), long, user("small"), message); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(scope repo.Scope, count, size int) {
		for count > 0 {
			some := min(count, limits.MaxStateChanges)
			count -= some
			changes := make([]repo.StateChange, some)
			for i := range changes {
				changes[i] = repo.StateChange{Scope: scope, Key: fmt.Sprint("key ", count+i), Value: []byte(`"` + strings.Repeat("v", size) + `"`)}
			}
			if _, err := store.State().Change(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
		}
	}
	keys(repo.Scope{SessionID: short}, 3, 1)
	keys(repo.Scope{Name: "few"}, 3, 1)
	keys(repo.Scope{Name: "large"}, 3, 100_000)
	keys(repo.Scope{Name: "many"}, 1500, 1)
	if _, err := store.State().Change(t.Context(), []repo.StateChange{
		{Scope: repo.Scope{Name: "empty"}, Key: "a", Value: []byte("1")}, {Scope: repo.Scope{Name: "empty"}, Key: "b", Value: []byte("1")},
	}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		change := repo.StateChange{Scope: repo.Scope{Name: "empty"}, Key: key, Op: repo.StateRemove}
		if _, err := store.State().Change(t.Context(), []repo.StateChange{change}); err != nil {
			t.Fatal(err)
		}
	}
	missing := repo.NewID()
	for _, id := range []repo.ID{short, long, missing} {
		for _, test := range []struct {
			ask  repo.ReadSessions
			once bool
		}{
			{repo.ReadSessions{}, true},
			{repo.ReadSessions{Last: 5}, true},
			{repo.ReadSessions{Last: 100}, true},
			{repo.ReadSessions{First: 5}, true},
			{repo.ReadSessions{First: 100, From: 3}, true},
			{repo.ReadSessions{Last: limits.MaxReadMessages}, true},
			{repo.ReadSessions{Last: 3, From: 7}, true},
			{repo.ReadSessions{First: 3, From: 100}, true},
			{repo.ReadSessions{Last: 5, State: true}, true},
			{repo.ReadSessions{State: true, Scopes: []string{"few", "empty", "missing", "few"}}, true},
			{repo.ReadSessions{First: 2, Scopes: []string{"few", "large"}}, true},
			{repo.ReadSessions{First: 2, Scopes: []string{"many", "empty"}}, true},
			{repo.ReadSessions{Last: 100, WithoutContent: true}, true},
			{repo.ReadSessions{First: 100, WithoutPayload: true, IDs: []repo.ID{short}}, true},
			{repo.ReadSessions{First: 100, IDs: []repo.ID{short}, State: true}, id != long},
			{repo.ReadSessions{Last: 100, IDs: []repo.ID{long}}, false},
			{repo.ReadSessions{Last: 5, Since: time.Unix(1, 0)}, id == missing},
			{repo.ReadSessions{First: 5, From: 3, Branches: true}, id == missing},
			{repo.ReadSessions{Last: 5, Tokens: 1000}, id != short},
		} {
			test.ask.IDs = append(test.ask.IDs, id)
			before := tracer.Count.Load()
			got, err := store.Sessions().Read(t.Context(), test.ask)
			if err != nil {
				t.Fatal(err)
			}
			once := tracer.Count.Load()-before == 1
			var want repo.Snapshot
			if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) (err error) {
				want, err = tx.Sessions().Read(ctx, test.ask)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			test.ask.IDs = nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: the results differ", test.ask)
			}
			if once != test.once {
				t.Errorf("%+v: in one round trip: %t", test.ask, once)
			}
		}
	}
}

// readBeside reads a session in a transaction, at read committed, which waits for a table. While it does, another transaction, which has
// locked the table, writes.
func readBeside(t *testing.T, store *agentstore.Store, table string, ask repo.ReadSessions, write func(tx repo.Repositories)) (snapshot repo.Snapshot) {
	t.Helper()
	one, err := store.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer one.Release()
	read := func() error {
		return pgx.BeginTxFunc(t.Context(), one, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) (err error) {
			snapshot, err = postgres.Bind(tx).Sessions().Read(t.Context(), ask)
			return err
		})
	}
	if err := read(); err != nil { // which prepares the statements
		t.Fatal(err)
	}
	holder := beginOn(t, store.Pool())
	pgtest.Exec(t, holder, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
	ended := make(chan error, 1)
	go func() { ended <- read() }()
	pgtest.AwaitLockWait(t, store.Pool(), 1)
	write(postgres.Bind(holder))
	if err := holder.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := await.Value(t, "the read", ended); err != nil {
		t.Error(err)
	}
	return snapshot
}

// A read in a transaction reads a state once, also if the session gets messages during that: otherwise a large state
// of a session that is written often would be read for ever.
func TestReadOfStateBesideAppends(t *testing.T) {
	t.Parallel()
	tracer := &pgtest.RoundTrips{}
	store := pgtest.NewStore(t, agentstore.Options{Tracer: tracer})
	id := pgtest.NewSession(t, store)
	if _, err := store.State().Change(t.Context(), []repo.StateChange{{Scope: repo.Scope{SessionID: id}, Key: "k", Value: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	ask := repo.ReadSessions{IDs: []repo.ID{id}, State: true}
	snapshot := readBeside(t, store, "state_values", ask, func(tx repo.Repositories) {
		if _, err := tx.Sessions().Append(t.Context(), id, user("x")); err != nil {
			t.Error(err)
		}
	})
	if got := snapshot.Sessions[0]; got.Session.MessageCount != 0 || len(got.State.Values) != 1 {
		t.Errorf("read %d messages, and %d keys", got.Session.MessageCount, len(got.State.Values))
	}
	reads := 0
	for _, sent := range tracer.Sent() {
		if strings.HasPrefix(sent, "-- name: SessionReadHeads ") {
			reads++
		}
	}
	if reads != 2 {
		t.Errorf("two reads took %d", reads)
	}
}

// A read in a transaction notices that a session was rewound also if that has not changed its time, because the clock has stepped back.
func TestReadBesideRewindOfClock(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	turn := func(r repo.Repositories, after int64, value string) {
		changes := []repo.StateChange{{Key: "k", Value: []byte(value)}}
		if _, err := r.Sessions().AppendTurn(t.Context(), inSession(id, repo.Turn{After: &after, State: changes})); err != nil {
			t.Error(err)
		}
	}
	if _, err := store.Sessions().Append(t.Context(), id, user("a"), user("b"), user("c")); err != nil {
		t.Fatal(err)
	}
	turn(store, 0, "1")
	pgtest.Exec(t, store.Pool(), "UPDATE session_counters SET updated_at = now() + interval '1 hour'")
	ask := repo.ReadSessions{IDs: []repo.ID{id}, Last: 5, Since: time.Unix(1, 0), State: true} // Since: it has the path at once
	snapshot := readBeside(t, store, "state_scopes", ask, func(tx repo.Repositories) { turn(tx, 2, "3") })
	if got := snapshot.Sessions[0]; fmt.Sprint(len(got.Messages)) != string(got.State.Values[0].Value) {
		t.Errorf("read %d messages, and the state of %s", len(got.Messages), got.State.Values[0].Value)
	}
}

// behind is a tracer that does something behind each batch that has a statement.
type behind struct {
	pgtest.RoundTrips
	statement string
	do        func()
}

type behindKey struct{}

func (b *behind) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return context.WithValue(ctx, behindKey{}, slices.ContainsFunc(data.Batch.QueuedQueries, func(q *pgx.QueuedQuery) bool {
		return strings.HasPrefix(q.SQL, "-- name: "+b.statement+" ")
	}))
}

func (b *behind) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	if ctx.Value(behindKey{}) == true {
		b.do()
	}
}

// A read in a transaction that has to begin again, and then finds sessions deleted, one after the other, while it reads their messages,
// does not report messages as missing.
func TestReadBesideDeletions(t *testing.T) {
	t.Parallel()
	tracer := &behind{statement: "SessionReadPath", do: func() {}}
	store := pgtest.NewStore(t, agentstore.Options{Tracer: tracer})
	var ids []repo.ID
	for range 5 {
		id := pgtest.NewSession(t, store)
		if _, err := store.Sessions().Append(t.Context(), id, user("a"), user("b")); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if _, err := store.Sessions().AppendTurn(t.Context(), inSession(ids[0], repo.Turn{After: new(int64), Messages: []repo.NewMessage{user("c")}})); err != nil {
		t.Fatal(err)
	}
	next := 1
	tracer.do = func() {
		if next < len(ids) {
			if _, err := store.Sessions().Delete(t.Context(), ids[next]); err != nil {
				t.Error(err)
			}
			next++
		}
	}
	// It has no store that knows the branch, so that the first attempt finds it.
	snapshot, err := postgres.Bind(beginOn(t, store.Pool())).Sessions().Read(t.Context(), repo.ReadSessions{IDs: ids, Last: 5})
	if err != nil {
		t.Fatal(err)
	}
	if got := snapshot.Sessions; len(got[0].Messages) != 2 || got[1] != nil || got[4] != nil {
		t.Errorf("read %+v", got)
	}
}
