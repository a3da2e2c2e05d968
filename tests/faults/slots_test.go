package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// slotsTask is the task of a process of workers that share the slots of a lease until they are killed.
type slotsTask struct {
	DatabaseURL, Process string
	Workers, Slots       int
	Naive                bool // they count the holders, and then acquire a lease of their own
}

const slotsTaskVariable = "AGENTSTORE_FAULTS_SLOTS"

// slotsLock is the advisory lock that workers share while they are in a slot. The server frees it when its client is killed.
const slotsLock = 310031

// runSlots is the main function of such a process.
func runSlots(ctx context.Context, task slotsTask) error {
	store, err := openPatiently(ctx, task.DatabaseURL, agentstore.Options{MaxConns: 2*task.Workers + 2})
	if err != nil {
		return err
	}
	failed := make(chan error, task.Workers)
	for n := range task.Workers {
		go func() { failed <- task.work(ctx, store, fmt.Sprintf("%s/%d", task.Process, n)) }()
	}
	return <-failed
}

func (task slotsTask) work(ctx context.Context, store *agentstore.Store, owner string) error {
	asked := repo.NewLease{Key: repo.LeaseKey{Kind: "slots", Name: "x"}, Owner: owner, TTL: time.Hour, Slots: task.Slots, Wait: true}
	for {
		if task.Naive {
			list, err := store.Leases().List(ctx, repo.LeaseFilter{Kind: "slots", Held: true}, repo.Page{})
			if err != nil {
				return err
			}
			if len(list.Items) >= task.Slots {
				time.Sleep(rand.N(5 * time.Millisecond)) // pace: until it looks again
				continue
			}
			time.Sleep(rand.N(10 * time.Millisecond)) // pace: after counting it does not know what happens meanwhile
			asked.Key.Name, asked.Slots = owner, 1
		}
		held, err := repo.HoldLease(ctx, store, asked)
		if err != nil {
			return err
		}
		if err := inSlot(held.Context(), store); err != nil && held.Err() == nil {
			return err
		}
		if err := held.Release(ctx); err != nil && !errors.Is(err, repo.ErrConflict) {
			return err
		}
	}
}

// inSlot works in a slot, and shares the lock meanwhile.
func inSlot(ctx context.Context, store *agentstore.Store) error {
	conn, err := store.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared($1)", slotsLock); err != nil {
		return err
	}
	time.Sleep(rand.N(10 * time.Millisecond)) // pace: the work
	_, err = conn.Exec(ctx, "SELECT pg_advisory_unlock_shared($1)", slotsLock)
	return err
}

// mostInSlots has processes of workers share slots, and kills some of them. It returns how many were in a slot at
// once, at most, and after the last kill.
func mostInSlots(t *testing.T, task slotsTask, processes, kills int) (most, last int) {
	t.Helper()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	workers := startCrew(t, databaseURL, slotsTaskVariable, processes, func(databaseURL, name string) any {
		task.DatabaseURL, task.Process = databaseURL, name
		return task
	})
	// sample looks until so many were in a slot, and many times at least.
	sample := func(enough int) (found int) {
		for looks, end := 0, await.End(t); found < enough || looks < 500; looks++ {
			found = max(found, pgtest.Value[int](t, conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 AND granted AND mode = 'ShareLock'", slotsLock))
			if time.Now().After(end) {
				t.Fatalf("%d workers were in a slot at once, not %d", found, enough)
			}
		}
		return found
	}
	for range kills {
		most = max(most, sample(task.Slots))
		workers.replace(t, rand.N(processes), func() bool { return false })
	}
	last = sample(task.Slots + map[bool]int{true: 1}[task.Naive])
	return max(most, last), last
}

// Processes are killed while they are in a slot. There are never more in one than there are slots, and the slots of those that
// were killed are used again. With the naive way, which counts, and then acquires, there are too many.
// Guarantee: Leases: Holders of slots that are killed leave no more holders than slots, and their slots come back.
func TestSlotsOfKilledHolders(t *testing.T) {
	const slots = 3
	processes, kills := pgtest.Choose(32, 4), pgtest.Choose(20, 2)
	most, last := mostInSlots(t, slotsTask{Workers: 2, Slots: slots}, processes, kills)
	if most != slots || last != slots {
		t.Errorf("%d were in a slot at once, and %d after the kills, of %d slots", most, last, slots)
	}
	if most, _ := mostInSlots(t, slotsTask{Workers: 4, Slots: slots, Naive: true}, processes, 0); most <= slots {
		t.Errorf("with counting first %d were in a slot at once: the test would not notice more than %d", most, slots)
	}
}
