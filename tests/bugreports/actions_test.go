package bugreports

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Report #1281: without a database, actions and plans were in two maps. Each call
// looked first and wrote later, and nothing made the two steps atomic: of two
// creations one was overwritten, and an action that can be used once was used twice.

// catalog creates actions and uses those that can be used once.
type catalog interface {
	create(ctx context.Context, name, description string) error
	use(ctx context.Context, name string) (repo.ID, error)
	// stored returns the action's description, and how many plans it has.
	stored(ctx context.Context, name string) (description string, plans int, err error)
}

var errTaken = errors.New("taken")

// naiveCatalog is the report's implementation. A mutex guards each access to a map,
// because the report's language did that, too.
type naiveCatalog struct {
	mu      sync.Mutex
	actions map[string]string
	used    map[string]bool
	plans   map[string][]repo.ID
}

func (c *naiveCatalog) create(_ context.Context, name, description string) error {
	c.mu.Lock()
	_, exists := c.actions[name]
	c.mu.Unlock()
	if exists {
		return errTaken
	}
	runtime.Gosched() // here the report's code validates
	c.mu.Lock()
	defer c.mu.Unlock()
	c.actions[name] = description
	return nil
}

func (c *naiveCatalog) use(_ context.Context, name string) (repo.ID, error) {
	c.mu.Lock()
	used, plans := c.used[name], c.plans[name]
	c.mu.Unlock()
	if used {
		return repo.ID{}, errTaken
	}
	runtime.Gosched()
	id := repo.NewID()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans[name] = append(slices.Clip(plans), id)
	c.used[name] = true
	return id, nil
}

func (c *naiveCatalog) stored(_ context.Context, name string) (string, int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.actions[name], len(c.plans[name]), nil
}

// ourCatalog is a store.
type ourCatalog struct{ store repo.Store }

func (c ourCatalog) create(ctx context.Context, name, description string) error {
	_, err := c.store.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Description: description}})
	return asTaken(err)
}

func (c ourCatalog) use(ctx context.Context, name string) (repo.ID, error) {
	plan, err := c.store.Plans().Use(ctx, name, repo.UseAction{Namespace: "of-" + name})
	return plan.ID, asTaken(err)
}

func asTaken(err error) error {
	if errors.Is(err, repo.ErrConflict) {
		return errTaken
	}
	return err
}

func (c ourCatalog) stored(ctx context.Context, name string) (string, int, error) {
	action, err := c.store.Actions().Get(ctx, name)
	if err != nil {
		return "", 0, err
	}
	page, err := c.store.Plans().List(ctx, repo.PlanFilter{Namespace: "of-" + name}, repo.Page{Limit: repo.MaxPageSize})
	return action.Description, len(page.Items), err
}

// lost counts the acknowledged creations that are not stored, and the acknowledged
// uses without a plan or after the first.
type lost struct{ actions, plans int }

// raceCatalog makes 32 goroutines each create 20 actions, with descriptions of their
// own, and then use them.
func raceCatalog(t *testing.T, c catalog) lost {
	t.Helper()
	var all lost
	for round := range 20 {
		name := fmt.Sprintf("action-%d", round)
		created := race(t, func(g int) error { return c.create(t.Context(), name, fmt.Sprint(g)) })
		used := race(t, func(int) error { _, err := c.use(t.Context(), name); return err })
		description, plans, err := c.stored(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range created {
			if fmt.Sprint(g) != description {
				all.actions++
			}
		}
		all.plans += len(used) - 1
		if len(created) == 0 || len(used) == 0 || plans == 0 {
			t.Fatalf("%s was created %d times and used %d times, and has %d plans", name, len(created), len(used), plans)
		}
	}
	return all
}

// race runs 32 goroutines and returns those that succeeded.
func race(t *testing.T, run func(g int) error) []int {
	t.Helper()
	var mu sync.Mutex
	var succeeded []int
	var running sync.WaitGroup
	start := make(chan struct{})
	for g := range 32 {
		running.Go(func() {
			<-start
			err := run(g)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				succeeded = append(succeeded, g)
			case !errors.Is(err, errTaken):
				t.Error(err)
			}
		})
	}
	close(start)
	running.Wait()
	return succeeded
}

func TestActionsAreNotLost(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	for name, open := range map[string]string{"postgres": databaseURL, "memory": "memory://actions"} {
		t.Run(name, func(t *testing.T) {
			store := pgtest.OpenStore(t, open, agentstore.Options{})
			if got := raceCatalog(t, ourCatalog{store}); got != (lost{}) {
				t.Fatalf("lost: %+v", got)
			}
		})
	}
}

func TestNaiveActionsAreLost(t *testing.T) {
	t.Parallel()
	got := raceCatalog(t, &naiveCatalog{actions: map[string]string{}, used: map[string]bool{}, plans: map[string][]repo.ID{}})
	t.Logf("naive, lost: %+v", got)
	if got.actions == 0 || got.plans == 0 {
		t.Fatal("nothing was lost: the harness does not catch the naive implementation")
	}
}
