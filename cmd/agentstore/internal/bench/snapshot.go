package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
)

// The ways of a workload beside a transaction that reads for long, such as pg_dump.
const (
	waySnapshot   = "agentstore, an old snapshot open"
	wayNoSnapshot = "agentstore, none open"
)

// agedVersions is how many versions of rows have died since the snapshot.
const agedVersions = 5000

// work makes an operation on fresh data.
type work func(ctx context.Context, l *lab) (operation, error)

// besideSnapshot compares work with the same work while a snapshot is open that was taken
// before it, and the rows of tables have changed agedVersions times since. Each run has data of its
// own, and the dead versions of the one before are gone.
func besideSnapshot(writers int, work work, aged ...string) preparation {
	return func(_ context.Context, l *lab) ([]cell, error) {
		run := func(open bool) runner {
			return func(ctx context.Context, duration time.Duration) (s sample, err error) {
				if _, err := l.pool.Exec(ctx, emptyTables); err != nil {
					return sample{}, err
				}
				operation, err := work(ctx, l)
				if err != nil {
					return sample{}, err
				}
				if _, err := operation(ctx, 0); err != nil { // what it changes exists then
					return sample{}, err
				}
				if err := vacuum(ctx, l.baselines); err != nil {
					return sample{}, err
				}
				if open {
					release, err := openSnapshot(ctx, l.baselines)
					if err != nil {
						return sample{}, err
					}
					defer release()
					for _, table := range aged {
						if _, err := l.pool.Exec(ctx, "SELECT age_table($1::text::regclass, $2)", table, agedVersions); err != nil {
							return sample{}, fmt.Errorf("age %s: %w", table, err)
						}
					}
				}
				return drive(ctx, writers, duration, operation)
			}
		}
		return []cell{{way: waySnapshot, run: run(true)}, {way: wayNoSnapshot, run: run(false)}}, nil
	}
}

func vacuum(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, "VACUUM session_counters, session_activity, streams, plans, plan_queue, plan_claims, leases, sessions, state_scopes, state_values"); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	return nil
}

// openSnapshot keeps a snapshot open until the returned function is called.
func openSnapshot(ctx context.Context, pool *pgxpool.Pool) (release func(), err error) {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, err
	}
	release = func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }
	if _, err := tx.Exec(ctx, "SELECT count(*) FROM sessions"); err != nil {
		release()
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return release, nil
}

func appendWork(sessions int) work {
	return func(ctx context.Context, l *lab) (operation, error) {
		ids, err := l.sessions(ctx, sessions)
		way, messages := l.appender(wayOurs), batch(1, messageSize)
		return func(ctx context.Context, _ int) (int, error) { return 1, way(ctx, ids[rand.N(len(ids))], messages) }, err
	}
}

// partWork appends to a stream for each writer.
func partWork(streams int) work {
	return func(ctx context.Context, l *lab) (operation, error) {
		open := make([]repo.Stream, streams)
		err := each(streams, func(i int) (err error) {
			open[i], err = openStream(ctx, l.store)
			return err
		})
		part := make([]byte, partSize)
		return func(ctx context.Context, i int) (_ int, err error) {
			open[i].Next, err = l.store.Streams().Append(ctx, open[i], part)
			return 1, err
		}, err
	}
}

// claimWork queues a plan, and claims and completes the one that waits longest.
func claimWork(ctx context.Context, l *lab) (operation, error) {
	name := "work-" + repo.NewID().String()
	_, err := l.store.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true}})
	return func(ctx context.Context, worker int) (int, error) {
		if _, err := l.store.Plans().Use(ctx, name, repo.UseAction{}); err != nil {
			return 0, err
		}
		claim := repo.Claim{Owner: fmt.Sprint("worker ", worker), Actions: []string{repo.DefaultNamespace + "/" + name}}
		claimed, err := l.store.Plans().Claim(ctx, claim)
		for _, c := range claimed {
			if err == nil {
				_, err = l.store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionComplete, repo.Cause{Actor: claim.Owner, Fence: c.Lease.Fence})
			}
		}
		return len(claimed), err
	}, err
}

// The ways of a workload with a shared scope that is locked.
const (
	wayScopeHeld = "agentstore, another scope held"
	wayScopeFree = "agentstore, no scope held"
)

// heldScopeDeadline is how long a turn on the scope that is held waits for it.
const heldScopeDeadline = 50 * time.Millisecond

// besideHeldScope compares turns on a shared scope, or appends, with the same while a transaction
// holds another scope, on which turns of new sessions wait, one after the other. Both run beside
// appends and turns, whichever are measured.
func besideHeldScope(writers int, measureTurns bool) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		good, bad := "good-"+repo.NewID().String(), "bad-"+repo.NewID().String()
		turn := func(ctx context.Context, scope string) (int, error) {
			session, err := l.store.Sessions().Create(ctx, repo.NewSession{})
			if err != nil {
				return 0, err
			}
			_, err = l.store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: session.ID, Messages: batch(1, messageSize), State: []repo.StateChange{sharedKey(scope, 1)}})
			return 1, err
		}
		for _, scope := range []string{good, bad} { // which exist then
			if _, err := turn(ctx, scope); err != nil {
				return nil, err
			}
		}
		appends, err := appendWork(100)(ctx, l)
		if err != nil {
			return nil, err
		}
		run := func(hold bool) runner {
			return func(ctx context.Context, duration time.Duration) (sample, error) {
				if hold {
					tx, err := l.baselines.Begin(ctx)
					if err != nil {
						return sample{}, err
					}
					defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
					if _, err := tx.Exec(ctx, "SELECT FROM state_scopes WHERE name = $1 FOR UPDATE", bad); err != nil {
						return sample{}, err
					}
				}
				loads := []operation{
					func(ctx context.Context, _ int) (int, error) { return turn(ctx, good) },
					appends,
					func(ctx context.Context, _ int) (int, error) {
						timed, cancel := context.WithTimeout(ctx, heldScopeDeadline)
						defer cancel()
						n, err := turn(timed, bad)
						if timed.Err() != nil && ctx.Err() == nil {
							err = nil
						}
						return n, err
					},
				}
				samples := make([]sample, len(loads))
				err := each(len(loads), func(i int) (err error) {
					samples[i], err = drive(ctx, writers, duration, loads[i])
					return err
				})
				if measureTurns {
					return samples[0], err
				}
				return samples[1], err
			}
		}
		return []cell{{way: wayScopeHeld, run: run(true)}, {way: wayScopeFree, run: run(false)}}, nil
	}
}
