package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
)

// The ways of a workload with sessions that somebody holds.
const (
	wayHeld = "agentstore, some held"
	wayFree = "agentstore, none held"
)

// untilHeld is when the store tries held sessions as seldom as it ever does.
const untilHeld = 250 * time.Millisecond

func heldGoals() []goal {
	return []goal{
		{subject: wayHeld, baseline: wayFree, figure: 0.9},
		{subject: wayHeld, baseline: wayFree, latency: true, tail: true, figure: 1.5},
	}
}

// besideHeld compares appends to the sessions that nobody holds with the same
// while a transaction holds the others for the whole time, and an append to each
// of them waits.
func besideHeld(writers, sessions, held int) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		ids, err := l.sessions(ctx, sessions)
		if err != nil {
			return nil, err
		}
		held := min(held, len(ids)/2) // in a quick run there are few
		way, messages := l.appender(wayOurs), batch(1, messageSize)
		free := appending(way, writers, ids[held:], messages)
		return []cell{
			{way: wayHeld, run: func(ctx context.Context, duration time.Duration) (sample, error) {
				release, err := holdSessions(ctx, l.baselines, ids[:held])
				if err != nil {
					return sample{}, err
				}
				errs := make([]error, held)
				var waiting sync.WaitGroup
				for i, id := range ids[:held] {
					waiting.Go(func() { errs[i] = way(ctx, id, messages) })
				}
				// The first tries of the held sessions come quickly one after the
				// other. What is measured is a hold that lasts.
				time.Sleep(untilHeld)
				s, err := free(ctx, duration)
				release()
				waiting.Wait()
				return s, errors.Join(append(errs, err)...)
			}},
			{way: wayFree, run: free},
		}, nil
	}
}

// holdSessions locks sessions' counter rows until the returned function is called.
func holdSessions(ctx context.Context, pool *pgxpool.Pool, ids []repo.ID) (release func(), err error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	release = func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }
	for _, id := range ids {
		if _, err := tx.Exec(ctx, "SELECT FROM session_counters WHERE session_id = $1 FOR UPDATE", uuid(id)); err != nil {
			release()
			return nil, fmt.Errorf("hold a session: %w", err)
		}
	}
	return release, nil
}
