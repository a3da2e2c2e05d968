package usage

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/repo"
)

// Fold moves the counters of the days from one to another into one scope for each day, so that a report reads a
// quarter of the rows: call it once a day for the days that are over. It changes no sum, and may be repeated, and run
// in several processes and beside turns that are stored late. A counter that is in use may stay until the next call,
// with the counters behind it. Errors: InvalidError; RefusedError for what is not a counter; errors of State.
func Fold(ctx context.Context, state repo.State, from, to Day) error {
	days, err := daysOf(from, to)
	if err != nil {
		return err
	}
	for _, day := range days {
		folded := scopeOf(day, shards)
		for shard := range shards {
			for count := maxMoved; count > 0; {
				if count, err = move(ctx, state, scopeOf(day, shard), folded, count); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

const maxMoved = 500 // counters by one call, each by two changes

// move moves up to count counters from one scope to another, and returns how many to move next. If one is changed
// meanwhile, none is moved, and fewer are tried.
func move(ctx context.Context, state repo.State, from, to repo.Scope, count int) (next int, err error) {
	list, err := state.List(ctx, from, "", repo.Page{Limit: count})
	if err != nil || len(list.Values) == 0 {
		return 0, err
	}
	var changes []repo.StateChange
	for _, value := range list.Values {
		more := repo.StateChange{Scope: to, Key: value.Key, Op: repo.StateIncrement}
		if err := add(&more.By, from, value); err != nil {
			return 0, err
		}
		gone := repo.StateChange{Scope: from, Key: value.Key, Op: repo.StateRemove, IfVersion: &value.Version}
		changes = append(changes, gone, more)
	}
	_, err = state.Change(ctx, changes)
	if _, changed := errors.AsType[*repo.VersionConflictError](err); changed {
		return count / 4, nil
	}
	return maxMoved, err
}

// Scopes returns the names of the shared scopes that have the counters of the days from one to another: for
// erase.Request.Scopes, if all that a view counts is one person's. Errors: InvalidError.
func Scopes(from, to Day) ([]string, error) {
	days, err := daysOf(from, to)
	var names []string
	for _, scope := range scopesOf(days) {
		names = append(names, scope.Name)
	}
	return names, err
}

// Forget removes the counters of the days from one to another, and returns how many there were. It may be repeated,
// and after an error it should be. Each scope that it removes, at most five for a day, leaves an entry in the audit
// trail. A turn of such a day that is stored later is counted anew. Errors: InvalidError; errors of State.
func Forget(ctx context.Context, state repo.State, from, to Day) (counters int64, err error) {
	days, err := daysOf(from, to)
	if err != nil {
		return 0, err
	}
	err = each(ctx, state, days, func(_ Day, scope repo.ScopeState) error {
		if scope.Version == 0 {
			return nil
		}
		erased, err := state.Erase(ctx, scope.Scope.Name)
		counters += erased
		return err
	})
	return counters, err
}
