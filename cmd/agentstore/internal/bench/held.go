package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
)

// The ways of a workload with locked sessions.
const (
	wayHeld = "agentstore, some held"
	wayFree = "agentstore, none held"
)

// untilHeld is the time after which the store retries held sessions at its longest
// interval.
const untilHeld = 250 * time.Millisecond

// besideHeld compares appends to free sessions with the same appends while a
// transaction locks the other sessions for the whole time, and an append to each of
// them waits.
func besideHeld(writers, sessions, held int) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		ids, err := l.sessions(ctx, sessions)
		if err != nil {
			return nil, err
		}
		held := min(held, len(ids)/2) // a quick run has few
		way, messages := l.appender(wayOurs), batch(1, messageSize)
		free := appending(way, writers, ids[held:], messages)
		return []cell{
			{way: wayHeld, run: func(ctx context.Context, duration time.Duration) (sample, error) {
				release, err := holdSessions(ctx, l.baselines, ids[:held])
				if err != nil {
					return sample{}, err
				}
				waiting := make(chan error, 1)
				go func() { waiting <- each(held, func(i int) error { return way(ctx, ids[i], messages) }) }()
				// The held sessions are retried often at first. Measure a hold
				// that lasts.
				time.Sleep(untilHeld)
				s, err := free(ctx, duration)
				release()
				return s, errors.Join(err, <-waiting)
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
