// Package clock tells the time of a store's database, for packages on the contract that let something expire.
package clock

import (
	"cmp"
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Clock reads the time of the database once in a while, and adds what has passed on this machine since. It is safe for
// concurrent use.
type Clock struct {
	store repo.Store
	age   time.Duration
	busy  chan struct{} // has an element while a caller reads, or uses the last reading
	last  reading
}

// attempts bounds how often a call reads the clock.
const attempts = 3

// New returns a clock, which reads and writes nothing yet. A reading that is older than age is made anew. Zero: a
// minute.
func New(store repo.Store, age time.Duration) *Clock {
	return &Clock{store: store, age: cmp.Or(age, time.Minute), busy: make(chan struct{}, 1)}
}

// reading is a time of the database, and this machine's when it was read.
type reading struct{ at, here time.Time }

// now returns the time that has come, if the reading is not too old. A machine that slept counts its sleep by one of
// its two clocks alone.
func (r reading) now(age time.Duration) (now time.Time, fresh bool) {
	here := time.Now()
	passed := here.Sub(r.here)
	return r.at.Add(passed), max(passed, here.Round(0).Sub(r.here.Round(0))) < age
}

// Now returns the time of the database. Errors: as of Store.InTx and of State.
func (c *Clock) Now(ctx context.Context) (time.Time, error) {
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
	now, fresh := c.last.now(c.age)
	for i := 0; !fresh && i < attempts; i++ {
		r, err := c.read(ctx)
		if err != nil {
			return time.Time{}, err
		}
		c.last = r
		now, fresh = r.now(time.Second) // a process that was stopped while it read would be wrong by that
	}
	return now, nil
}

// read makes a key anew, since a changed key's time does not go back with the clock.
func (c *Clock) read(ctx context.Context) (r reading, err error) {
	err = c.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		change := repo.StateChange{Scope: repo.Scope{Name: "agentstore-clock"}, Key: "now"}
		for _, change.Op = range []repo.StateOp{repo.StateRemove, repo.StateIncrement} {
			r.here = time.Now()
			if _, err := tx.State().Change(ctx, []repo.StateChange{change}); err != nil {
				return err
			}
		}
		value, err := tx.State().Get(ctx, change.Scope, change.Key)
		r.at = value.UpdatedAt
		return err
	})
	return r, err
}
