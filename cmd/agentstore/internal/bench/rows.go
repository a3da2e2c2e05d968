package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Work that changes the same few rows again and again: see besideSnapshot.

// renewalWork renews leases in turn.
func renewalWork(leases int) work {
	return func(ctx context.Context, l *lab) (operation, error) {
		held := make([]repo.Lease, leases)
		err := each(leases, func(i int) (err error) {
			key := repo.LeaseKey{Kind: "bench", Name: repo.NewID().String()}
			held[i], err = l.store.Leases().Acquire(ctx, repo.NewLease{Key: key, Owner: "bench", TTL: time.Hour})
			return err
		})
		var turn atomic.Int64
		return func(ctx context.Context, _ int) (int, error) {
			_, err := l.store.Leases().Renew(ctx, held[turn.Add(1)%int64(leases)], time.Hour)
			return 1, err
		}, err
	}
}

// keyWork sets keys of a session's state in turn.
func keyWork(keys int) work {
	return func(ctx context.Context, l *lab) (operation, error) {
		ids, err := l.sessions(ctx, 1)
		if err != nil {
			return nil, err
		}
		var turn atomic.Int64
		set := func(ctx context.Context, _ int) (int, error) {
			n := turn.Add(1)
			_, err := l.store.State().Change(ctx, []repo.StateChange{
				{Scope: repo.Scope{SessionID: ids[0]}, Key: fmt.Sprint("key ", n%int64(keys)), Value: fmt.Append(nil, n)},
			})
			return 1, err
		}
		for range keys { // which exist then
			if _, err := set(ctx, 0); err != nil {
				return nil, err
			}
		}
		return set, nil
	}
}

// scopeWork increments a key of a shared scope.
func scopeWork(_ context.Context, l *lab) (operation, error) {
	change := repo.StateChange{Scope: repo.Scope{Name: "scope-" + repo.NewID().String()}, Key: "key", Op: repo.StateIncrement, By: 1}
	return func(ctx context.Context, _ int) (int, error) {
		_, err := l.store.State().Change(ctx, []repo.StateChange{change})
		return 1, err
	}, nil
}

// openWork opens the stream of a key, or goes on with it.
func openWork(_ context.Context, l *lab) (operation, error) {
	open := repo.NewStream{Key: "bench-" + repo.NewID().String(), Owner: "bench"}
	return func(ctx context.Context, _ int) (int, error) {
		_, err := l.store.Streams().Open(ctx, open)
		return 1, err
	}, nil
}

// openEndWork opens the stream of a key and ends it, so that the key has ever more of them.
func openEndWork(_ context.Context, l *lab) (operation, error) {
	open := repo.NewStream{Key: "bench-" + repo.NewID().String(), Owner: "bench"}
	return func(ctx context.Context, _ int) (int, error) {
		stream, err := l.store.Streams().Open(ctx, open)
		if err != nil {
			return 0, err
		}
		return 1, l.store.Streams().Finish(ctx, stream)
	}, nil
}

// usageWork adds usages of one session.
func usageWork(ctx context.Context, l *lab) (operation, error) {
	ids, err := l.sessions(ctx, 1)
	return func(ctx context.Context, _ int) (int, error) {
		_, err := l.store.Sessions().AddUsage(ctx, ids[0], repo.NewUsage{InputTokens: 1})
		return 1, err
	}, err
}
