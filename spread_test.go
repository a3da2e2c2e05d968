package agentstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// openShards opens stores in memory that share nothing.
func openShards(t *testing.T, n int) (stores []*Store) {
	t.Helper()
	for i := range n {
		store, err := Open(t.Context(), "memory://"+t.Name(), Options{Schema: fmt.Sprint("shard", i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		stores = append(stores, store)
	}
	return stores
}

func newSpread(t *testing.T, stores ...*Store) *Spread {
	t.Helper()
	spread, err := NewSpread(t.Context(), stores...)
	if err != nil {
		t.Fatal(err)
	}
	return spread
}

func createIn(ctx context.Context, spread *Spread, namespace string) error {
	view, err := spread.In(ctx, namespace)
	if err == nil {
		_, err = view.Sessions().Create(ctx, repo.NewSession{})
	}
	return err
}

// shardsOf returns the shards that have something of a namespace.
func shardsOf(t *testing.T, stores []*Store, namespace string) (shards []int) {
	t.Helper()
	for i, store := range stores {
		has, err := store.Removal().Has(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		if has {
			shards = append(shards, i)
		}
	}
	return shards
}

// What is placed stays, for any caller and whatever shards there are later.
func TestSpread(t *testing.T) {
	t.Parallel()
	stores := openShards(t, 5)
	first := newSpread(t, stores[:3]...)
	if err := first.Place(t.Context(), "large", 2); err != nil {
		t.Fatal(err)
	}
	names := []string{"large"}
	for i := range 32 {
		names = append(names, fmt.Sprint("tenant ", i))
	}
	before := map[string][]int{}
	used := map[int]bool{}
	for _, name := range names {
		if err := createIn(t.Context(), first, name); err != nil {
			t.Fatal(err)
		}
		before[name] = shardsOf(t, stores, name)
		used[before[name][0]] = true
	}
	if len(used) != 3 || !slices.Equal(before["large"], []int{2}) {
		t.Errorf("the shards %v are used, and large is in %v", used, before["large"])
	}
	later := newSpread(t, stores...)
	for _, name := range names {
		if err := createIn(t.Context(), later, name); err != nil || !slices.Equal(shardsOf(t, stores, name), before[name]) {
			t.Errorf("%s was in %v, and is in %v: %v", name, before[name], shardsOf(t, stores, name), err)
		}
	}
	if err := later.Place(t.Context(), "new", 4); err != nil {
		t.Fatal(err)
	}
	if err := createIn(t.Context(), first, "new"); !errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("in a shard that it does not have: %v", err)
	}
	for range 2 { // it may be repeated
		if err := later.Place(t.Context(), "new", 4); err != nil {
			t.Error(err)
		}
	}
	err := later.Place(t.Context(), "large", 3)
	if placed, is := errors.AsType[*PlacedError](err); !is || placed.Namespace != "large" || !slices.Equal(placed.Shards, []int{2}) || !errors.Is(err, repo.ErrConflict) {
		t.Errorf("in another shard: %v", err)
	}
}

// What a store had before, or what is left when the places are lost, decides where a namespace is.
func TestSpreadOverWhatThereIs(t *testing.T) {
	t.Parallel()
	stores := openShards(t, 4)
	ctx := t.Context()
	for namespace, shards := range map[string][]int{"old": {3}, "both": {1, 3}} {
		for _, shard := range shards {
			if _, err := stores[shard].In(namespace).Sessions().Create(ctx, repo.NewSession{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Retention and others have leases of the whole store.
	if _, err := stores[3].Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "retention", Name: "run"}, Owner: "x"}); err != nil {
		t.Fatal(err)
	}
	spread := newSpread(t, stores...)
	for namespace, shards := range map[string][]int{"old": {3}, "both": {1, 3}} {
		if placed, is := errors.AsType[*PlacedError](spread.Place(ctx, namespace, 0)); !is || !slices.Equal(placed.Shards, shards) {
			t.Errorf("%s: %v", namespace, placed)
		}
	}
	if err := createIn(ctx, spread, "old"); err != nil {
		t.Error(err)
	}
	if err := createIn(ctx, spread, "both"); !errors.Is(err, repo.ErrConflict) {
		t.Error(err)
	}
	if err := spread.Place(ctx, repo.DefaultNamespace, 0); err != nil {
		t.Error(err)
	}
}

// A lease that is held has no second owner in another shard.
func TestSpreadOverLeases(t *testing.T) {
	t.Parallel()
	stores := openShards(t, 3)
	for i := range 9 {
		name := fmt.Sprint("tenant ", i)
		lease := repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: "n"}, Owner: "x"}
		if _, err := stores[i%3].In(name).Leases().Acquire(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	spread := newSpread(t, stores...)
	for i := range 9 {
		err := spread.Place(t.Context(), fmt.Sprint("tenant ", i), (i+1)%3)
		if placed, is := errors.AsType[*PlacedError](err); !is || !slices.Equal(placed.Shards, []int{i % 3}) {
			t.Errorf("tenant %d: %v", i, err)
		}
	}
}

// A shard that cannot be opened is unavailable alone. A namespace that is new may be in it.
func TestSpreadWithoutAShard(t *testing.T) {
	t.Parallel()
	stores := openShards(t, 3)
	whole := newSpread(t, stores...)
	for i := range stores {
		if err := whole.Place(t.Context(), fmt.Sprint("tenant ", i), i); err != nil {
			t.Fatal(err)
		}
	}
	less := newSpread(t, stores[0], nil, stores[2])
	for i, want := range []error{nil, repo.ErrUnavailable, nil} {
		if err := createIn(t.Context(), less, fmt.Sprint("tenant ", i)); !errors.Is(err, want) {
			t.Errorf("tenant %d: %v", i, err)
		}
	}
	if err := createIn(t.Context(), less, "new"); !errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("a new tenant: %v", err)
	}
}

func TestSpreadRefuses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	stores := openShards(t, 4)
	for name, given := range map[string][]*Store{"none": nil, "no first one": {nil, stores[1]}, "one twice": {stores[3], stores[3]}} {
		if _, err := NewSpread(ctx, given...); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	spread := newSpread(t, stores[:3]...)
	for name, given := range map[string][]*Store{
		"another order": {stores[0], stores[2], stores[1]}, "another first one": {stores[1], stores[0]}, "of another spread": {openShards(t, 5)[4], stores[1]},
	} {
		for range 2 { // nothing was noted
			if _, err := NewSpread(ctx, given...); !errors.Is(err, repo.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	view, err := spread.In(ctx, "tenant")
	if err != nil {
		t.Fatal(err)
	}
	err = view.InTx(ctx, func(ctx context.Context, _ repo.Repositories) error {
		for _, namespace := range []string{"tenant", "other"} {
			if _, err := spread.In(ctx, namespace); !errors.Is(err, repo.ErrInvalid) {
				t.Errorf("%s in a transaction: %v", namespace, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, err := range []error{
		createIn(ctx, spread, ""), createIn(ctx, spread, "agentstore.places"), spread.Place(ctx, "other", 3), spread.Place(ctx, "other", -1),
	} {
		if !errors.Is(err, repo.ErrInvalid) {
			t.Error(err)
		}
	}
}

// Spreads of several processes, which place at once, agree.
func TestSpreadsPlaceAtOnce(t *testing.T) {
	t.Parallel()
	stores := openShards(t, 3)
	const names, spreads = 20, 16
	var all sync.WaitGroup
	for i := range spreads {
		all.Go(func() {
			spread, err := NewSpread(t.Context(), stores...)
			if err != nil {
				t.Error(err)
				return
			}
			for n := range names {
				name := fmt.Sprint("tenant ", (n+i)%names)
				if err := spread.Place(t.Context(), name, i%3); err != nil && !errors.Is(err, repo.ErrConflict) {
					t.Error(err)
				}
				if err := createIn(t.Context(), spread, name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for n := range names {
		if in := shardsOf(t, stores, fmt.Sprint("tenant ", n)); len(in) != 1 {
			t.Errorf("tenant %d is in %v", n, in)
		}
	}
}
