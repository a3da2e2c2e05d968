package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// The ways of a workload with turns.
const (
	wayPlain  = "messages only"
	wayShared = "a key of a shared scope"
	wayOneKey = "one shared key"
	wayByTx   = "a shared key, in InTx"
)

// sharedKeys is how many keys of the shared scope are set.
const sharedKeys = 64

// turns compares appends with the same appends that also set a key of a shared scope.
func turns(writers, sessions int) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		ids, err := l.sessions(ctx, sessions)
		if err != nil {
			return nil, err
		}
		messages := batch(1, messageSize)
		setting := func(scope string, keys int) runner {
			return func(ctx context.Context, duration time.Duration) (sample, error) {
				return drive(ctx, writers, duration, func(ctx context.Context, _ int) (int, error) {
					_, err := l.store.Sessions().AppendTurn(ctx, repo.Turn{
						SessionID: ids[rand.N(len(ids))],
						Messages:  messages, State: []repo.StateChange{sharedKey(scope, keys)},
					})
					return 1, err
				})
			}
		}
		inTx := func(ctx context.Context, duration time.Duration) (sample, error) {
			return drive(ctx, writers, duration, func(ctx context.Context, _ int) (int, error) {
				return 1, l.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
					if _, err := tx.Sessions().Append(ctx, ids[rand.N(len(ids))], messages...); err != nil {
						return err
					}
					_, err := tx.State().Change(ctx, []repo.StateChange{sharedKey("bench/tx", sharedKeys)})
					return err
				})
			})
		}
		return []cell{
			{way: wayPlain, run: appending(l.appender(wayOurs), writers, ids, messages)},
			{way: wayShared, run: setting("bench/shared", sharedKeys)},
			{way: wayOneKey, run: setting("bench/one", 1)},
			{way: wayByTx, run: inTx},
		}, nil
	}
}

func sharedKey(scope string, keys int) repo.StateChange {
	return repo.StateChange{
		Scope: repo.Scope{Name: scope}, Key: fmt.Sprint("key/", rand.N(keys)), Value: fmt.Appendf(nil, `{"n":%d}`, rand.N(1_000_000)),
	}
}
