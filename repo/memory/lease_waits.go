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

// freed wakes callers that wait for a lease, or for the end of this one.
func (t *tables) freed(key repo.LeaseKey) {
	t.wake(topic{leases: true})
	t.wake(topic{ends: key})
}

// acquireInTurn waits until the lease is the owner's, or is free and no other caller has waited longer for it.
func (l leases) acquireInTurn(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	if l.tables.base != nil {
		return repo.Lease{}, rules.CannotWait()
	}
	mine, key := &leaseWait{}, lease.Key
	defer l.leaveWaits(key, mine)
	for waits := false; ; waits = true {
		var watch *watch
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
			watch = t.watch(topic{leases: true})
			return repo.Lease{}, nil
		})
		if watch == nil {
			return acquired, err
		}
		if err := l.await(ctx, watch, due); err != nil {
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
	t.wake(topic{leases: true})
}

// Await implements repo.Leases.
func (l leases) Await(ctx context.Context, lease repo.Lease) error {
	wrong := rules.CheckLease(lease)
	if wrong == nil && l.tables.base != nil {
		wrong = rules.CannotWait()
	}
	lease.Key = l.in(lease.Key)
	for {
		var end *watch
		var due time.Time
		_, err := l.on(ctx, unless(wrong, l.read), lease.Key, func(t *tables) (repo.Lease, error) {
			stored := t.leases.get(lease.Key)
			if stored == nil || stored.Fence != lease.Fence || !stored.ExpiresAt.After(t.now()) {
				return repo.Lease{}, rules.LeaseLost(lease)
			}
			end, due = t.watch(topic{ends: lease.Key}), stored.ExpiresAt
			return repo.Lease{}, nil
		})
		if err == nil {
			err = l.await(ctx, end, due)
		}
		if err != nil {
			return err
		}
	}
}
