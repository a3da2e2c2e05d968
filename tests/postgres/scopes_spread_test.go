package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// shard is where a store is.
type shard struct{ URL, Schema string }

// newShards are three schemas of one database, and two databases.
func newShards(t *testing.T) (shards []shard) {
	t.Helper()
	databaseURL := pgtest.NewEmptyDatabase(t)
	for i := range 3 {
		shards = append(shards, shard{databaseURL, fmt.Sprintf("shard_%02d", i)})
	}
	return append(shards, shard{URL: pgtest.NewDatabase(t)}, shard{URL: pgtest.NewDatabase(t)})
}

// openAll opens the stores of shards, and migrates them at once.
func openAll(ctx context.Context, shards []shard) ([]*agentstore.Store, error) {
	stores, errs := make([]*agentstore.Store, len(shards)), make([]error, len(shards))
	var opening sync.WaitGroup
	for i, s := range shards {
		opening.Go(func() {
			stores[i], errs[i] = agentstore.Open(ctx, s.URL, agentstore.Options{Schema: s.Schema, MaxConns: 2, Migrate: true})
		})
	}
	opening.Wait()
	return stores, errors.Join(errs...)
}

func openShards(t *testing.T, shards []shard) []*agentstore.Store {
	t.Helper()
	stores, err := openAll(t.Context(), shards)
	t.Cleanup(func() {
		for _, store := range stores {
			if store != nil {
				_ = store.Close()
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return stores
}

func newSpread(t *testing.T, stores []*agentstore.Store) *agentstore.Spread {
	t.Helper()
	spread, err := agentstore.NewSpread(t.Context(), stores...)
	if err != nil {
		t.Fatal(err)
	}
	return spread
}

// shardsOf returns the shards that have something of a namespace.
func shardsOf(t *testing.T, stores []*agentstore.Store, namespace string) (in []int) {
	t.Helper()
	for i, store := range stores {
		has, err := store.Removal().Has(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		if has {
			in = append(in, i)
		}
	}
	return in
}

func tenant(n int) string { return fmt.Sprint("tenant ", n) }

// spreadTask is what a process does: its 16 goroutines place some of the namespaces, here and there, and write into them.
type spreadTask struct {
	Shards     []shard
	Namespaces int
}

const spreadTaskVariable = "AGENTSTORE_SPREAD_WRITERS"

// runSpreadWriters is the main function of such a process.
func runSpreadWriters(text string) error {
	var task spreadTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	ctx := context.Background()
	stores, err := openAll(ctx, task.Shards)
	if err != nil {
		return err
	}
	spread, err := agentstore.NewSpread(ctx, stores...)
	if err != nil {
		return err
	}
	errs := make([]error, 16)
	var running sync.WaitGroup
	for g := range errs {
		running.Go(func() {
			for _, n := range rand.Perm(task.Namespaces)[:task.Namespaces/4] {
				if rand.IntN(2) == 0 {
					if err := spread.Place(ctx, tenant(n), rand.IntN(len(stores))); err != nil && !errors.Is(err, repo.ErrConflict) {
						errs[g] = err
						return
					}
				}
				view, err := spread.In(ctx, tenant(n))
				if err == nil {
					_, err = view.Sessions().Create(ctx, repo.NewSession{})
				}
				if err != nil {
					errs[g] = err
					return
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Four processes place namespaces and write into them, of which two are killed. Each namespace is where its place says, for them and
// for a process that has one shard more.
// Guarantee: Views: A namespace is in one shard, however many processes place it.
func TestProcessesPlace(t *testing.T) {
	t.Parallel()
	shards := newShards(t)
	stores := openShards(t, shards)
	const processes, killed = 4, 2
	task := spreadTask{shards, pgtest.Choose(2000, 200)}
	var ends []func() error
	for n := range processes {
		command := pgtest.Again(t.Context(), spreadTaskVariable, task)
		command.Stderr = os.Stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if n < killed {
			placed := (n + 1) * task.Namespaces / 4
			t.Cleanup(func() { _ = command.Process.Kill() })
			ends = append(ends, func() error {
				await.For(t, "some are placed", func() bool {
					return pgtest.Value[int](t, stores[0].Pool(), "SELECT count(*) FROM state_values") > placed
				})
				err := command.Process.Kill()
				_ = command.Wait()
				return err
			})
			continue
		}
		ends = append(ends, command.Wait)
	}
	for n, end := range ends {
		if err := end(); err != nil {
			t.Errorf("process %d: %v", n, err)
		}
	}
	later := openShards(t, append(slices.Clone(shards), shard{shards[0].URL, "shard_added"}))
	spread := newSpread(t, later)
	used := map[int]int{}
	for n := range task.Namespaces {
		in := shardsOf(t, stores, tenant(n))
		if len(in) > 1 {
			t.Errorf("%s is in the shards %v", tenant(n), in)
		}
		if len(in) == 0 { // nothing was written there
			continue
		}
		used[in[0]]++
		if err := spread.Place(t.Context(), tenant(n), in[0]); err != nil {
			t.Error(err)
		}
	}
	if len(used) != len(shards) {
		t.Errorf("the shards have %v namespaces", used)
	}
	if err := spread.Place(t.Context(), "new", len(shards)); err != nil {
		t.Error(err)
	}
	if view, err := spread.In(t.Context(), "new"); err != nil {
		t.Error(err)
	} else if _, err := view.Sessions().Create(t.Context(), repo.NewSession{}); err != nil {
		t.Error(err)
	}
	if in := shardsOf(t, later, "new"); !slices.Equal(in, []int{len(shards)}) {
		t.Errorf("the new one is in %v", in)
	}
}

// The naive way, which looks for a place, and then stores one without a condition, has the namespace in several shards.
func TestNaivePlaces(t *testing.T) {
	t.Parallel()
	stores := openShards(t, newShards(t)[:3])
	places, scope := stores[0].State(), repo.Scope{Name: "places"}
	var looked, all sync.WaitGroup
	looked.Add(len(stores))
	for i, store := range stores {
		all.Go(func() {
			_, err := places.Get(t.Context(), scope, "tenant")
			looked.Done()
			looked.Wait()
			if !errors.Is(err, repo.ErrNotFound) {
				t.Error(err)
			}
			_, err = places.Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "tenant", Value: []byte(fmt.Sprint(i))}})
			if err == nil {
				_, err = store.In("tenant").Sessions().Create(t.Context(), repo.NewSession{})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if in := shardsOf(t, stores, "tenant"); len(in) < 2 {
		t.Errorf("it is in %v alone", in)
	}
}

// The places are lost when the first store is restored. What the namespaces have says where they were.
// Guarantee: Views: A namespace whose place is lost stays where its data are.
func TestPlacesAreLost(t *testing.T) {
	t.Parallel()
	stores := openShards(t, newShards(t))
	spread := newSpread(t, stores)
	for n := range stores {
		if err := spread.Place(t.Context(), tenant(n), n); err != nil {
			t.Fatal(err)
		}
		view, err := spread.In(t.Context(), tenant(n))
		if err == nil {
			_, err = view.Sessions().Create(t.Context(), repo.NewSession{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Exec(t, stores[0].Pool(), "DELETE FROM state_scopes WHERE name = 'places'")
	after := newSpread(t, stores)
	for n := range stores {
		err := after.Place(t.Context(), tenant(n), (n+1)%len(stores))
		if placed, is := errors.AsType[*agentstore.PlacedError](err); !is || !slices.Equal(placed.Shards, []int{n}) {
			t.Errorf("%s: %v", tenant(n), err)
		}
	}
}

// The statistics of stores add up.
func TestStatsOfShards(t *testing.T) {
	t.Parallel()
	stores := openShards(t, newShards(t))
	var all postgres.Stats
	for _, store := range stores {
		session := pgtest.NewSession(t, store)
		if _, err := store.Sessions().Append(t.Context(), session, user("x")); err != nil {
			t.Fatal(err)
		}
		all.Add(store.Stats())
	}
	if len(all.Committers) != 1 || all.Committers[0].Begun != int64(len(stores)) || all.Pool.Max != 2*len(stores) || all.Pool.Open < len(stores) {
		t.Errorf("they are %+v", all)
	}
}
