package memory

import (
	"context"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// leases is repo.Leases. The clock is the process's.
type leases struct{ *handle }

func (l leases) Acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	lease, err := rules.NormalizeLease(lease)
	if err != nil {
		return repo.Lease{}, err
	}
	return run(ctx, l.write, func(t *tables) (repo.Lease, error) {
		acquired, err := t.putLease(rules.AcquiredLease(lease, t.leases.get(lease.Key), t.now(), t.newToken))
		if err == nil {
			t.fence(acquired)
		}
		return acquired, err
	})
}

// newToken returns a token that was never given before.
func (c *core) newToken() int64 {
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
	if checked := rules.CheckLease(lease); checked != nil {
		err = checked
	}
	if err != nil {
		return repo.Lease{}, err
	}
	return run(ctx, l.write, func(t *tables) (repo.Lease, error) {
		renewed, err := rules.RenewedLease(lease, t.leases.get(lease.Key), t.now(), ttl)
		return t.putLease(renewed, err)
	})
}

func (l leases) Release(ctx context.Context, lease repo.Lease) error {
	if err := rules.CheckLease(lease); err != nil {
		return err
	}
	return exec(ctx, l.write, func(t *tables) error {
		t.releaseLease(lease.Key, lease.Token)
		return nil
	})
}

// releaseLease removes a lease that has this token. If it is a plan's, its claim has
// expired.
func (t *tables) releaseLease(key repo.LeaseKey, token int64) {
	if stored := t.leases.get(key); stored != nil && stored.Token == token {
		t.leases.remove(key)
		t.wakeClaims()
	}
}

func (l leases) ReleaseAll(ctx context.Context, owner string) (int64, error) {
	if err := rules.CheckLeaseOwner(owner); err != nil {
		return 0, err
	}
	return run(ctx, l.write, func(t *tables) (int64, error) {
		found := t.leases.where(func(stored *repo.Lease) bool { return stored.Owner == owner })
		for _, stored := range found {
			t.releaseLease(stored.Key, stored.Token)
		}
		return int64(len(found)), nil
	})
}

func (l leases) List(ctx context.Context, filter repo.LeaseFilter, page repo.Page) (repo.LeasePage, error) {
	list, err := rules.LeaseList(filter, page)
	if err != nil {
		return repo.LeasePage{}, err
	}
	return run(ctx, l.read, func(t *tables) (repo.LeasePage, error) {
		now := t.now()
		read := func(stored *repo.Lease) repo.Lease {
			lease := *stored
			lease.Expired = !lease.ExpiresAt.After(now)
			return lease
		}
		found := t.leases.where(func(stored *repo.Lease) bool {
			return rules.SelectsLease(filter, read(stored)) && rules.CompareLeases(stored.Key, list.After) > 0
		})
		slices.SortFunc(found, func(a, b *repo.Lease) int { return rules.CompareLeases(a.Key, b.Key) })
		leases, next, err := rules.PageOf(list, found, func(stored *repo.Lease) (repo.Lease, error) { return read(stored), nil })
		return repo.LeasePage{Leases: leases, Next: next}, err
	})
}
