package memory

import (
	"context"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// leaseWait is a caller that waits for a lease.
type leaseWait struct{ _ byte }

// wakeLeases wakes those who wait for leases, or for the ends of these. Changes in a transaction are
// seen when it is committed.
func (t *tables) wakeLeases(keys ...repo.LeaseKey) {
	if t.base != nil || len(keys) == 0 {
		return
	}
	t.wakeWaits()
	for _, key := range keys {
		if end := t.ends[key]; end != nil {
			close(end)
			delete(t.ends, key)
		}
	}
}

// wakeWaits wakes those who wait for leases.
func (t *tables) wakeWaits() {
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}

// leasesChange returns a channel that is closed when a lease may be free.
func (t *tables) leasesChange() <-chan struct{} {
	if t.freed == nil {
		t.freed = make(chan struct{})
	}
	return t.freed
}

// endOf returns a channel that is closed when the lease of a key has ended.
func (t *tables) endOf(key repo.LeaseKey) <-chan struct{} {
	if t.ends[key] == nil {
		t.ends[key] = make(chan struct{})
	}
	return t.ends[key]
}

// acquireInTurn waits until the lease is the owner's, or is free and nobody has waited longer for it.
func (l leases) acquireInTurn(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	if l.tables.base != nil {
		return repo.Lease{}, rules.CannotWait()
	}
	mine, key := &leaseWait{}, lease.Key
	defer l.leaveWaits(key, mine)
	for waits := false; ; waits = true {
		var change <-chan struct{}
		due := l.tables.clock.read().Add(repo.MaxLeaseTTL)
		acquired, err := l.on(ctx, l.write, key, func(t *tables) (acquired repo.Lease, err error) {
			if !waits {
				t.leaseWaits[key] = append(t.leaseWaits[key], mine)
			}
			if _, owned, _ := t.openSlots(lease); owned || t.leaseWaits[key][0] == mine {
				acquired, err = t.acquire(lease)
				conflict, taken := err.(*repo.LeaseConflictError) //nolint:errorlint // it was not wrapped
				if !taken {
					return acquired, err
				}
				due = conflict.ExpiresAt
			}
			change = t.leasesChange()
			return repo.Lease{}, nil
		})
		if change == nil {
			return acquired, err
		}
		if err := l.waitUntil(ctx, change, due); err != nil {
			return repo.Lease{}, err
		}
	}
}

// leaveWaits has the next one try.
func (l leases) leaveWaits(key repo.LeaseKey, mine *leaseWait) {
	t := l.tables
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := slices.DeleteFunc(t.leaseWaits[key], func(w *leaseWait) bool { return w == mine })
	if t.leaseWaits[key] = rest; len(rest) == 0 {
		delete(t.leaseWaits, key)
	}
	t.wakeWaits()
}

// Await implements repo.Leases.
func (l leases) Await(ctx context.Context, lease repo.Lease) error {
	if err := rules.CheckLease(lease); err != nil {
		return err
	}
	if l.tables.base != nil {
		return rules.CannotWait()
	}
	lease.Key = l.in(lease.Key)
	for {
		var end <-chan struct{}
		var due time.Time
		_, err := l.on(ctx, l.read, lease.Key, func(t *tables) (repo.Lease, error) {
			stored := t.leases.get(lease.Key)
			if stored == nil || stored.Fence != lease.Fence || !stored.ExpiresAt.After(t.now()) {
				return repo.Lease{}, rules.LeaseLost(lease)
			}
			end, due = t.endOf(lease.Key), stored.ExpiresAt
			return repo.Lease{}, nil
		})
		if err != nil {
			return err
		}
		if err := l.waitUntil(ctx, end, due); err != nil {
			return err
		}
	}
}
