package budget

import (
	"cmp"
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// reading is a time of the database, and this machine's when it was read.
type reading struct{ at, here time.Time }

// now returns the time that has come, if the reading is not too old. A machine that slept counts its sleep by one of
// its two clocks alone.
func (r reading) now(age time.Duration) (now time.Time, fresh bool) {
	here := time.Now()
	passed := here.Sub(r.here)
	return r.at.Add(passed), max(passed, here.Round(0).Sub(r.here.Round(0))) < age
}

// now returns the time of the database: it reads that once in a while, and adds what has passed on this machine since.
func (k *Keeper) now(ctx context.Context) (time.Time, error) {
	select {
	case k.reading <- struct{}{}:
		defer func() { <-k.reading }()
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
	now, fresh := k.last.now(cmp.Or(k.options.ClockAge, time.Minute))
	for i := 0; !fresh && i < attempts; i++ {
		r, err := k.readClock(ctx)
		if err != nil {
			return time.Time{}, err
		}
		k.last = r
		now, fresh = r.now(time.Second) // a process that was stopped while it read would be wrong by that
	}
	return now, nil
}

// readClock makes a key anew, since the time of one that is changed does not go back with the clock. No limit has the
// scope.
func (k *Keeper) readClock(ctx context.Context) (r reading, err error) {
	err = k.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		change := repo.StateChange{Scope: repo.Scope{Name: "budget-clock"}, Key: "now"}
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
