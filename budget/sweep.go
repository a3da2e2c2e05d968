package budget

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

// Sweep gives back what has expired under these names, and returns how many reservations that were. Each comes back
// under all of its limits at once. It also removes what Options.Keep says. It reads all that is kept under the names,
// page by page. Several processes may sweep at the same time, and a sweep may be ended at any time.
//
// Errors: as of State.List and State.Change, with the number so far.
func (k *Keeper) Sweep(ctx context.Context, names ...string) (expired int, err error) {
	now, err := k.clock.Now(ctx)
	for i := 0; err == nil && i < len(names); i++ {
		var n int
		n, err = k.sweep(ctx, names[i], "", now)
		expired += n
	}
	return expired, err
}

// sweepInterval is how often refusals make a process look for what has expired under a name, and maxSwept how many
// names it remembers.
const sweepInterval, maxSwept = time.Second, 10_000

// sweepRefused sweeps a name under which something was refused, unless this process did so just now: otherwise all that
// are refused together would read all reservations.
func (k *Keeper) sweepRefused(ctx context.Context, name string, now time.Time) (int, error) {
	k.mu.Lock()
	if now.Sub(k.swept[name]).Abs() < sweepInterval {
		k.mu.Unlock()
		return 0, nil
	}
	if len(k.swept) >= maxSwept {
		clear(k.swept)
	}
	k.swept[name] = now
	k.mu.Unlock()
	return k.sweep(ctx, name, heldPrefix, now)
}

// sweep removes what is outdated among the keys under a name that begin with prefix.
func (k *Keeper) sweep(ctx context.Context, name, prefix string, now time.Time) (expired int, err error) {
	for page := (repo.Page{Limit: repo.MaxPageSize}); ; {
		found, err := k.store.State().List(ctx, scopeOf(name), prefix, page)
		for i := 0; err == nil && i < len(found.Values); i++ {
			var changes []repo.StateChange
			if changes, err = k.outdated(ctx, name, found.Values[i], now); err == nil && len(changes) > 0 {
				_, err = k.store.State().Change(ctx, changes)
			}
			if errors.Is(err, repo.ErrConflict) { // another sweep was faster, or another writer has written there
				err = nil
			} else if err == nil && len(changes) > 1 { // of a reservation
				expired++
			}
		}
		if page.After = found.Next; err != nil || page.After == "" {
			return expired, err
		}
	}
}

// outdated returns the changes that remove a key under a name, or none if it is needed.
func (k *Keeper) outdated(ctx context.Context, name string, v repo.StateValue, now time.Time) ([]repo.StateChange,
	error,
) {
	gone := []repo.StateChange{{Scope: scopeOf(name), Key: v.Key, Op: repo.StateRemove, IfVersion: &v.Version}}
	of := append(adapter.SplitKey(v.Key), "", "", "", "") // a foreign key may have fewer parts
	switch of[0] + "/" {
	case expiredPrefix:
		if now.After(v.UpdatedAt.Add(remembered)) {
			return gone, nil
		}
	case usedPrefix:
		first, _, err := Limit{Period: Period(of[2]), Zone: of[3]}.instance(now.Add(-k.options.Keep))
		if k.options.Keep > 0 && err == nil && of[4] < first {
			return gone, nil
		}
	case heldPrefix:
		var r Reservation
		if json.Unmarshal(v.Value, &r) != nil || now.Before(v.UpdatedAt.Add(r.Life)) {
			return nil, nil //nolint:nilerr // a value that cannot be decoded is foreign
		}
		r, err := k.locate(ctx, r)
		if err != nil || r.has(true) { // another was faster
			return nil, err
		}
		changes := r.closing(Use{})
		for _, c := range changes {
			if c.Op == repo.StateRemove {
				changes = append(changes, repo.StateChange{Scope: c.Scope, Key: r.expiredKey(), Value: []byte("true")})
			}
		}
		return changes, nil
	}
	return nil, nil
}
