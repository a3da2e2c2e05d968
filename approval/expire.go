package approval

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"

	"github.com/seed-df90f812/agentstore/clock"
	"github.com/seed-df90f812/agentstore/repo"
)

// Expire lets requests and unused approvals expire whose time has passed by the database's clock, up to limit (zero:
// 100), and returns how many. It also removes list entries of deleted sessions. An expired request refuses decisions
// and uses also without it: Expire wakes plans that are not due by themselves, calls Options.Decided, and shortens
// lists. Call it now and then, in any process, and again while it returns limit. Requests that fail, such as in
// Options.Decided, stay, up to 1,000, and the others expire; the errors are joined.
func (a *Approvals) Expire(ctx context.Context, limit int) (expired int, err error) {
	if limit <= 0 {
		limit = 100
	}
	at, err := clock.New(a.store, 0).Now(ctx)
	if err != nil {
		return 0, err
	}
	now := at.UTC().Format(timeLayout) // as it is in keys
	const maxFailed = 1000
	var failed []error
	first := rand.N(shards) // so that nothing waits for ever behind what fails
	for n := range shards {
		scope := shard((first + n) % shards)
		for page := (repo.Page{Limit: min(limit, repo.MaxPageSize)}); ; {
			found, err := a.store.State().List(ctx, scope, "", page)
			if err != nil {
				return expired, errors.Join(append(failed, err)...)
			}
			for _, entry := range found.Values {
				until, ref, ok := parseEntry(entry.Key)
				if !ok || until > now || expired >= limit || len(failed) >= maxFailed {
					found.Next = ""
					break
				}
				done, err := a.expire(ctx, scope, entry, ref)
				switch {
				case err != nil:
					failed = append(failed, err)
				case done:
					expired++
				}
			}
			if page.After = found.Next; page.After == "" {
				break
			}
		}
	}
	return expired, errors.Join(failed...)
}

// expire ends the request of an entry. It removes the entry of a request that is gone or was replaced.
func (a *Approvals) expire(ctx context.Context, scope repo.Scope, entry repo.StateValue, ref Ref) (bool, error) {
	r, err := load(ctx, a.store.State(), ref)
	_, foreign := errors.AsType[*ForeignError](err)
	switch {
	case err == nil && r.seal != 0 && entryOf(r.Until, ref) == entry.Key:
		err = a.commit(ctx, "", []*step{r.step(Expired, r.Votes)})
	case err == nil || foreign || errors.Is(err, repo.ErrNotFound):
		changes := []repo.StateChange{{Scope: scope, Key: entry.Key, Op: repo.StateRemove, IfVersion: &entry.Version}}
		var left seal
		if json.Unmarshal(entry.Value, &left) == nil {
			for _, name := range left.For {
				changes = append(changes,
					repo.StateChange{Scope: repo.Scope{Name: ScopeOf(name)}, Key: entry.Key, Op: repo.StateRemove})
			}
		}
		_, err = a.store.State().Change(ctx, changes)
		err = moved(err)
	}
	if errors.Is(err, errMoved) { // and is at it
		return false, nil
	}
	return err == nil, err
}
