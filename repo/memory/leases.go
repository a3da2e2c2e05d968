package memory

import (
	"cmp"
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// leases is repo.Leases.
type leases struct{ *handle }

// in returns a key as the tables have it. Leases of sessions and plans are shared by all views.
func (l leases) in(key repo.LeaseKey) repo.LeaseKey {
	if !rules.NamesID(key) {
		key.Name = rules.InView(l.options.view, key.Name)
	}
	return key
}

// check checks that the session or plan is in the view whose lease it is. So it must exist, or have existed: the lease
// of an unused id would belong to the session or plan that gets it.
func (l leases) check(t *tables, key repo.LeaseKey) (err error) {
	id, _ := repo.ParseID(key.Name)
	switch {
	case l.options.view == "":
	case key.Kind == repo.LeaseOfSession && l.options.view != t.namespaceOf(id):
		err = sessionNotFound(id)
	case key.Kind == repo.LeaseOfPlan:
		_, err = l.plan(t, id)
	}
	return err
}

// on runs an operation on a lease, which returns it with the key that the view knows.
func (l leases) on(ctx context.Context, way way, key repo.LeaseKey,
	operation func(*tables) (repo.Lease, error),
) (repo.Lease, error) {
	return run(ctx, way, func(t *tables) (lease repo.Lease, err error) {
		if err = l.check(t, key); err == nil {
			lease, err = operation(t)
		}
		lease.Key.Name = rules.OutOfView(lease.Key.Name)
		return lease, err
	})
}

// has reports whether a key in the tables is one of the store, or the view.
func (l leases) has(t *tables, key repo.LeaseKey) bool {
	if rules.NamesID(key) {
		id, _ := repo.ParseID(key.Name)
		return l.check(t, key) == nil && (l.options.view == "" || key.Kind == repo.LeaseOfPlan || t.sessions.get(id) != nil)
	}
	namespace, _ := rules.SplitView(key.Name)
	return namespace == cmp.Or(l.options.view, repo.DefaultNamespace)
}

func (l leases) Acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	lease, err := rules.NormalizeLease(lease)
	if err != nil {
		return repo.Lease{}, err
	}
	lease.Key = l.in(lease.Key)
	if lease.Wait {
		return l.acquireInTurn(ctx, lease)
	}
	return l.on(ctx, l.write, lease.Key, func(t *tables) (repo.Lease, error) { return t.acquire(lease) })
}

// acquire acquires a lease, or one of its slots.
func (t *tables) acquire(lease repo.NewLease) (repo.Lease, error) {
	open, _, err := t.openSlots(lease)
	if err != nil {
		return repo.Lease{}, err
	}
	lease.Key = open[0]
	acquired, err := t.putLease(rules.AcquiredLease(lease, t.leases.get(lease.Key), t.now(), t.newFence))
	if err == nil {
		t.fence(acquired)
	}
	return acquired, err
}

func (t *tables) openSlots(lease repo.NewLease) (open []repo.LeaseKey, owned bool, err error) {
	held, now := map[repo.LeaseKey]repo.Lease{}, t.now()
	for _, key := range rules.SlotsOf(lease) {
		if stored := t.leases.get(key); stored != nil && stored.ExpiresAt.After(now) {
			held[key] = *stored
		}
	}
	return rules.OpenSlots(lease, held)
}

// newFence returns a fence that was never given before.
func (c *core) newFence() int64 {
	c.lastToken++
	return c.lastToken
}

func (t *tables) putLease(lease repo.Lease, err error) (repo.Lease, error) {
	if err == nil {
		t.leases.put(lease.Key, &lease)
	}
	return lease, err
}

func (l leases) Renew(ctx context.Context, lease repo.Lease, ttl time.Duration) (repo.Lease, error) {
	ttl, err := rules.NormalizeTTL(ttl)
	err = cmp.Or(rules.CheckLease(lease), err)
	lease.Key = l.in(lease.Key)
	return l.on(ctx, unless(err, l.write), lease.Key, func(t *tables) (repo.Lease, error) {
		return t.putLease(rules.RenewedLease(lease, t.leases.get(lease.Key), t.now(), ttl))
	})
}

func (l leases) Release(ctx context.Context, lease repo.Lease) error {
	_, err := l.on(ctx, unless(rules.CheckLease(lease), l.write), lease.Key, func(t *tables) (repo.Lease, error) {
		t.releaseLease(l.in(lease.Key), lease.Fence)
		return repo.Lease{}, nil
	})
	return err
}

// releaseLease removes a lease that has this fence. If it is a plan's, its claim has
// expired.
func (t *tables) releaseLease(key repo.LeaseKey, fence int64) {
	if stored := t.leases.get(key); stored != nil && stored.Fence == fence {
		t.leases.remove(key)
		t.wake(topic{claims: true})
		t.freed(key)
	}
}

func (l leases) ReleaseAll(ctx context.Context, owner string) (int64, error) {
	return run(ctx, unless(rules.CheckLeaseOwner(owner), l.write), func(t *tables) (int64, error) {
		found := t.leases.where(func(stored *repo.Lease) bool { return stored.Owner == owner && l.has(t, stored.Key) })
		for _, stored := range found {
			t.releaseLease(stored.Key, stored.Fence)
		}
		return int64(len(found)), nil
	})
}

func (l leases) List(ctx context.Context, filter repo.LeaseFilter, page repo.Page) (repo.List[repo.Lease], error) {
	list, err := rules.LeaseList(l.options.view, filter, page)
	return run(ctx, unless(err, l.read), func(t *tables) (repo.List[repo.Lease], error) {
		now := t.now()
		read := func(stored *repo.Lease) repo.Lease {
			lease := *stored
			lease.Key.Name = rules.OutOfView(lease.Key.Name)
			lease.Expired = !lease.ExpiresAt.After(now)
			return lease
		}
		found := t.leases.where(func(stored *repo.Lease) bool {
			lease := read(stored)
			return l.has(t, stored.Key) && rules.SelectsLease(filter, lease) && rules.CompareLeases(lease.Key, list.After) > 0
		})
		return pageOf(list, found, func(a, b *repo.Lease) int { return rules.CompareLeases(a.Key, b.Key) }, read)
	})
}
