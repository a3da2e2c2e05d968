package budget

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// clock tells the time of the database: it reads that once in a while, and adds what has passed on this machine since.
type clock struct {
	store repo.Store
	age   time.Duration // for which a reading is used
	turn  chan struct{} // has an element while somebody reads
	last  atomic.Pointer[reading]
}

// reading is a time of the database, and this machine's when it was read.
type reading struct{ at, here time.Time }

// now returns the time that has come, if the reading is not too old. A machine that slept counts its sleep by one of its
// two clocks alone.
func (r *reading) now(age time.Duration) (now time.Time, fresh bool) {
	if r == nil {
		return now, false
	}
	here := time.Now()
	passed := here.Sub(r.here)
	return r.at.Add(passed), max(passed, here.Round(0).Sub(r.here.Round(0))) < age
}

func (c *clock) now(ctx context.Context) (time.Time, error) {
	if now, fresh := c.last.Load().now(c.age); fresh {
		return now, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
	now, fresh := c.last.Load().now(c.age) // another may have read it meanwhile
	for i := 0; !fresh && i < attempts; i++ {
		r, err := c.read(ctx)
		if err != nil {
			return time.Time{}, err
		}
		c.last.Store(r)
		now, fresh = r.now(time.Second) // a process that was stopped while it read would be wrong by that
	}
	return now, nil
}

// read makes a key anew, since the time of one that is changed does not go back with the clock. No limit has the scope.
func (c *clock) read(ctx context.Context) (*reading, error) {
	r := &reading{}
	return r, c.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		change := repo.StateChange{Scope: repo.Scope{Name: "budget-clock"}, Key: "now", Op: repo.StateRemove}
		_, err := tx.State().Change(ctx, []repo.StateChange{change})
		if err != nil {
			return err
		}
		r.here = time.Now()
		change.Op, change.Value = repo.StateSet, []byte("0")
		if _, err = tx.State().Change(ctx, []repo.StateChange{change}); err != nil {
			return err
		}
		value, err := tx.State().Get(ctx, change.Scope, change.Key)
		r.at = value.UpdatedAt
		return err
	})
}
