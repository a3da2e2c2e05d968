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
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// leaseDigest is what news about a lease have.
func leaseDigest(key repo.LeaseKey) (digest [16]byte) {
	sum := sha256.Sum256([]byte(key.Kind + "\x00" + key.Name))
	copy(digest[:], sum[:])
	return digest
}

// freed says that leases have ended.
func freed(keys ...repo.LeaseKey) []news {
	return convert.Each(keys, func(key repo.LeaseKey) news { return newsOf(aboutLease, leaseDigest(key)) })
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
	pool, ok := l.exec.(*pooled)
	if !ok {
		return rules.CannotWait()
	}
	looked, digest := false, leaseDigest(lease.Key)
	key := lease.Key.Kind + "\x00" + lease.Key.Name + "\x00" + strconv.FormatInt(lease.Fence, 10)
	err = awaited(ctx, pool, pool.live.ended, key, lease, [][16]byte{digest}, func() (bool, error) {
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
}

// acquireOrWait holds no connection while it waits.
func (l *leases) acquireOrWait(ctx context.Context, lease repo.NewLease) (acquired repo.Lease, err error) {
	pool, ok := l.exec.(*pooled)
	if !ok {
		return acquired, rules.CannotWait()
	}
	if _, owned, _ := l.openSlots(ctx, lease); owned { // its holder passes the callers that wait
		return l.acquireAny(ctx, lease)
	}
	looked, key, about := false, lease.Key.Kind+"\x00"+lease.Key.Name, convert.Each(rules.SlotsOf(lease), leaseDigest)
	err = awaited(ctx, pool, pool.live.free, key, lease, about, func() (bool, error) {
		acquired, err = l.acquireAny(ctx, lease)
		// After a lost answer the owner may hold it, and gets it.
		passes := looked && (errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrUnknownOutcome)) &&
			ctx.Err() == nil
		looked = true
		if _, taken := errors.AsType[*repo.LeaseConflictError](err); taken || passes {
			return false, nil
		}
		return err == nil, err
	})
	return acquired, err
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
	of := func(place int64) int { return whose[place-1] }
	return l.polled(ctx, len(asked), of, func(ctx context.Context, q db.DBTX) ([]int64, error) {
		return queries.LeaseListEnded(ctx, q, params)
	})
}

// endedLeases implements follow.WaitersConfig.Poll.
func (l *live) endedLeases(ctx context.Context, held []repo.Lease) ([]bool, error) {
	var params db.LeaseListEndedParams
	for _, lease := range held {
		addEnded(&params, lease.Key, "", lease.Fence)
	}
	return l.polled(ctx, len(held), inOrder, func(ctx context.Context, q db.DBTX) ([]int64, error) {
		return queries.LeaseListEnded(ctx, q, params)
	})
}

// inOrder: each filter has one place.
func inOrder(place int64) int { return int(place - 1) }

func addEnded(params *db.LeaseListEndedParams, key repo.LeaseKey, owner string, fence int64) {
	namespace, name := leaseRow(key)
	params.Namespaces, params.Kinds, params.Names = append(params.Namespaces, namespace), append(params.Kinds, key.Kind),
		append(params.Names, name)
	params.Owners, params.Fences = append(params.Owners, owner), append(params.Fences, fence)
}
