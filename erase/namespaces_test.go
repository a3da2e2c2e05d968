package erase_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/removal"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/retention"
)

// A person of one tenant has the names of a person of another one, and of one in no view.
// Guarantee: Deletion: An erasure in some namespaces leaves scopes and leases of others.
func TestOnlyNamespaces(t *testing.T) {
	t.Parallel()
	store := open(t)
	scope := repo.Scope{Name: "user:" + marker}
	stores := map[string]repo.Store{"here": store.In("here"), "there": store.In("there"), repo.DefaultNamespace: store}
	sessions := map[string]repo.ID{}
	make := func() {
		t.Helper()
		for namespace, in := range stores {
			session, err := in.Sessions().Create(t.Context(), repo.NewSession{Owner: marker})
			if err != nil {
				t.Fatal(err)
			}
			sessions[namespace] = session.ID
			if _, err := in.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "k", Value: json.RawMessage("1")}}); err != nil {
				t.Fatal(err)
			}
			for _, key := range []repo.LeaseKey{{Kind: "job", Name: "n"}, {Kind: repo.LeaseOfSession, Name: session.ID.String()}} {
				if _, err := in.Leases().Acquire(t.Context(), repo.NewLease{Key: key, Owner: marker}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	check := func(receipt erase.Receipt) {
		t.Helper()
		if receipt.Sessions != 1 || receipt.StateKeys != 1 || receipt.Leases != 2 {
			t.Errorf("%+v", receipt)
		}
		for namespace, in := range stores {
			_, err := in.State().Get(t.Context(), scope, "k")
			leases, listed := in.Leases().List(t.Context(), repo.LeaseFilter{Owner: marker}, repo.Page{})
			if gone := namespace == "here"; listed != nil || errors.Is(err, repo.ErrNotFound) != gone || gone != (len(leases.Items) == 0) {
				t.Errorf("%s: %v, %d leases, %v", namespace, err, len(leases.Items), listed)
			}
			if _, err := in.Sessions().Get(t.Context(), sessions[namespace]); errors.Is(err, repo.ErrNotFound) != (namespace == "here") {
				t.Errorf("%s: %v", namespace, err)
			}
		}
	}
	make()
	receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: marker, Namespaces: []string{"here"}, Scopes: []string{scope.Name}, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	check(receipt)
	// A backup has the scopes and leases, but no name of the owner.
	restored := open(t)
	stores = map[string]repo.Store{"here": restored.In("here"), "there": restored.In("there"), repo.DefaultNamespace: restored}
	for _, in := range stores {
		if _, err := in.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "k", Value: json.RawMessage("1")}}); err != nil {
			t.Fatal(err)
		}
	}
	done, err := erase.Replay(t.Context(), restored, erase.Request{Key: key}, receipt)
	if err != nil || len(done) != 1 || done[0].StateKeys != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// The other store: TestErasure in tests/postgres.
func TestErasure(t *testing.T) {
	t.Parallel()
	store := open(t)
	repotest.ErasedInNamespaces(t, store, func(name string, namespaces ...string) error {
		_, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Namespaces: namespaces, Key: key})
		return err
	})
	repotest.ErasedBesideForks(t, store, func(store removal.Keeper, name string) error {
		_, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Key: key})
		return err
	})
	repotest.ErasedForks(t, store, func(name string) (messages, texts int64, err error) {
		receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Key: key})
		return receipt.Messages, receipt.Texts, err
	})
	repotest.DeletionsAreTold(t, store, func(name string) error {
		_, err := erase.Subject(t.Context(), store, erase.Request{Owner: name, Key: key})
		return err
	}, func(namespace string) error {
		ages := map[string]time.Duration{namespace: time.Microsecond}
		_, err := retention.Run(t.Context(), store, retention.Policy{Sessions: ages, Plans: ages})
		return err
	})
}

// The receipt of an erasure everywhere is recorded, also where each user has a namespace.
func TestManyNamespaces(t *testing.T) {
	t.Parallel()
	store := open(t)
	for i := range 16_000 {
		if _, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: fmt.Sprint("tenant ", i), Owner: fmt.Sprint("owner ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: "owner 7", Key: key})
	if err != nil || receipt.Sessions != 1 {
		t.Errorf("%d sessions, %v", receipt.Sessions, err)
	}
	if _, err := store.Audit().Entry(t.Context(), receipt.ID); err != nil {
		t.Error(err)
	}
}

// A lease that is named after the person is forgotten with its name, or counted while it is held.
func TestNamedLeases(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now())
	store := memory.NewWith(memory.Options{Clock: clock})
	lease := repo.NewLease{Key: repo.LeaseKey{Kind: "user", Name: marker}, Owner: "worker", TTL: time.Minute}
	if _, err := store.Leases().Acquire(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{1, 0} {
		receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: marker, Key: key})
		leases, listed := store.Leases().List(t.Context(), repo.LeaseFilter{}, repo.Page{})
		if err != nil || listed != nil || receipt.Named != want || len(leases.Items) != int(want) {
			t.Errorf("%+v, %v, %+v", receipt, err, leases.Items)
		}
		clock.Advance(time.Hour)
	}
}

// An erasure is of one store. What a hold in another one refuses is known before. The places of a spread are no person's, whatever
// they are called.
func TestShards(t *testing.T) {
	t.Parallel()
	const name = "places" // as their scope
	var stores []*agentstore.Store
	for i := range 3 {
		store, err := agentstore.Open(t.Context(), "memory://"+t.Name(), agentstore.Options{Schema: fmt.Sprint("shard", i)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		stores = append(stores, store)
	}
	spread, err := agentstore.NewSpread(t.Context(), stores...)
	if err != nil {
		t.Fatal(err)
	}
	view := func(namespace string) repo.Store {
		view, err := spread.In(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		return view
	}
	const tenants = 16
	for i := range tenants {
		if _, err := view(fmt.Sprint("tenant ", i)).Sessions().Create(t.Context(), repo.NewSession{Owner: name}); err != nil {
			t.Fatal(err)
		}
	}
	request := erase.Request{Owner: name, Scopes: []string{name}, Key: key}
	hold := repo.LegalHold{Namespace: "tenant 3", Owner: name, Reason: "x"}
	if err := view("tenant 3").Sessions().AddHold(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, store := range stores {
		err := erase.Check(t.Context(), store, request)
		if is := errors.Is(err, repo.ErrConflict); is {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused != 1 {
		t.Errorf("%d stores refuse", refused)
	}
	if err := view("tenant 3").Sessions().RemoveHold(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	sessions := int64(0)
	var receipts []erase.Receipt
	for _, store := range stores {
		receipt, err := erase.Subject(t.Context(), store, request)
		if sessions += receipt.Sessions; err != nil || receipt.StateKeys != 0 {
			t.Errorf("%+v, %v", receipt, err)
		}
		receipts = append(receipts, receipt)
	}
	if sessions != tenants {
		t.Errorf("%d sessions were erased", sessions)
	}
	for _, store := range stores {
		if done, err := erase.Replay(t.Context(), store, erase.Request{Key: key}, receipts...); err != nil {
			t.Errorf("%+v, %v", done, err)
		}
	}
	for i := range tenants {
		if _, err := stores[0].In("agentstore.places").State().Get(t.Context(), repo.Scope{Name: name}, fmt.Sprint("tenant ", i)); err != nil {
			t.Errorf("the place of tenant %d: %v", i, err)
		}
	}
}
