package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
)

// aboutLease is the kind of news that say that a lease has ended before its time.
const aboutLease = 'l'

// leaseDigest is what such news have.
func leaseDigest(key repo.LeaseKey) (digest [16]byte) {
	sum := sha256.Sum256([]byte(key.Kind + "\x00" + key.Name))
	copy(digest[:], sum[:])
	return digest
}

// freed announces that leases have ended.
func (l *live) freed(keys ...repo.LeaseKey) {
	for _, key := range keys {
		digest := leaseDigest(key)
		l.heardFreed(digest)
		l.notifier.Add(follow.News[follow.Subject]{Key: follow.Subject{Kind: aboutLease, Key: digest}, Next: follow.Look})
	}
}

func (l *live) heardFreed(digest [16]byte) {
	l.lately.add(digest)
	l.ended.Tell(digest)
	l.free.Tell(digest)
}

// lately has the last hints about leases: one may come before the holder waits for it.
type lately struct {
	mu      sync.Mutex
	digests [1024][16]byte
	next    int
}

func (l *lately) add(digest [16]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.digests[l.next] = digest
	l.next = (l.next + 1) % len(l.digests)
}

func (l *lately) has(digest [16]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.digests[:], digest)
}

// Await looks at the lease only after a hint or a poll: it was acquired just now.
func (l *leases) Await(ctx context.Context, lease repo.Lease) error {
	var err error
	if lease.Key, err = l.enter(ctx, lease.Key, rules.CheckLease(lease)); err != nil {
		return err
	}
	looked, digest := false, leaseDigest(lease.Key)
	return l.wait(ctx, func(pool *pooled) error {
		key := lease.Key.Kind + "\x00" + lease.Key.Name + "\x00" + strconv.FormatInt(lease.Fence, 10)
		err := pool.live.ended.Await(ctx, pool.gate.closing, key, lease, [][16]byte{digest}, func() (bool, error) {
			if !looked && !pool.live.lately.has(digest) {
				looked = true
				return false, nil
			}
			ended, err := pool.live.endedLeases(ctx, []repo.Lease{lease})
			if errors.Is(err, repo.ErrUnavailable) && ctx.Err() == nil {
				return false, nil
			}
			return err == nil && ended[0], err
		})
		if err == nil {
			_, err = outOfView(lease, rules.LeaseLost(lease))
		}
		return err
	})
}

// acquireOrWait holds no connection while it waits.
func (l *leases) acquireOrWait(ctx context.Context, lease repo.NewLease) (acquired repo.Lease, err error) {
	if _, ok := l.exec.(*pooled); !ok {
		return acquired, rules.CannotWait()
	}
	if _, owned, _ := l.openSlots(ctx, lease); owned { // who holds it need not wait for those who wait
		return l.acquireAny(ctx, lease)
	}
	slots := rules.SlotsOf(lease)
	about := make([][16]byte, len(slots))
	for i, key := range slots {
		about[i] = leaseDigest(key)
	}
	looked := false
	err = l.wait(ctx, func(pool *pooled) error {
		return pool.live.free.Await(ctx, pool.gate.closing, lease.Key.Kind+"\x00"+lease.Key.Name, lease, about, func() (bool, error) {
			acquired, err = l.acquireAny(ctx, lease)
			// After a lost answer the owner may hold it, and gets it.
			passes := looked && (errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrUnknownOutcome)) && ctx.Err() == nil
			looked = true
			if _, taken := errors.AsType[*repo.LeaseConflictError](err); taken || passes {
				return false, nil
			}
			return err == nil, err
		})
	})
	return acquired, err
}

// wait has a caller wait who is not inside of the gate: Close ends the wait, and does not wait for it.
func (l *leases) wait(ctx context.Context, await func(*pooled) error) error {
	pool, ok := l.exec.(*pooled)
	if !ok {
		return rules.CannotWait()
	}
	if err := pool.usable(ctx); err != nil {
		return err
	}
	defer pool.live.listener.Use()() //nolint:contextcheck // its goroutine is not one of those who wait
	err := await(pool)
	if errors.Is(err, follow.ErrClosed) {
		return repo.ErrClosed
	}
	return err
}

// freeLeases implements follow.WaitersConfig.Poll.
func (l *live) freeLeases(ctx context.Context, asked []repo.NewLease) ([]bool, error) {
	var params db.LeaseListEndedParams
	var whose []int
	for i, lease := range asked {
		for _, key := range rules.SlotsOf(lease) {
			addEnded(&params, key, lease.Owner, 0)
			whose = append(whose, i)
		}
	}
	return l.listEnded(ctx, params, len(asked), func(place int64) int { return whose[place-1] })
}

// endedLeases implements follow.WaitersConfig.Poll.
func (l *live) endedLeases(ctx context.Context, held []repo.Lease) ([]bool, error) {
	var params db.LeaseListEndedParams
	for _, lease := range held {
		addEnded(&params, lease.Key, "", lease.Fence)
	}
	return l.listEnded(ctx, params, len(held), func(place int64) int { return int(place - 1) })
}

func addEnded(params *db.LeaseListEndedParams, key repo.LeaseKey, owner string, fence int64) {
	namespace, name := leaseRow(key)
	params.Namespaces, params.Kinds, params.Names = append(params.Namespaces, namespace), append(params.Kinds, key.Kind), append(params.Names, name)
	params.Owners, params.Fences = append(params.Owners, owner), append(params.Fences, fence)
}

func (l *live) listEnded(ctx context.Context, params db.LeaseListEndedParams, count int, of func(place int64) int) ([]bool, error) {
	ended := make([]bool, count)
	err := l.within(ctx, pollTimeout, 1, func(ctx context.Context, q db.DBTX) error {
		places, err := queries.LeaseListEnded(ctx, q, params)
		for _, place := range places {
			ended[of(place)] = true
		}
		return err
	})
	return ended, err
}
