package postgres

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A read on the pool has the result of one in a transaction, also where there is too much for one round trip.
// Guarantee: Messages: A read of sessions, messages and states is of one moment.
func TestPlainRead(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	tracer := &roundTrips{}
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
			before := tracer.count.Load()
			got, err := store.Sessions().Read(t.Context(), test.ask)
			if err != nil {
				t.Fatal(err)
			}
			once := tracer.count.Load()-before == 1
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
