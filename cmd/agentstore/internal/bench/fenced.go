package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

const wayFenced = "with a token"

// fenced compares appends with the same appends under the tokens of leases: one writer
// on one session, or several on 1,000.
func fenced(writers int) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		sessions := 1
		if writers > 1 {
			sessions = 1000
		}
		var ids [2][]repo.ID
		for i := range ids {
			var err error
			if ids[i], err = l.sessions(ctx, sessions); err != nil {
				return nil, err
			}
		}
		tokens := make([]int64, len(ids[1])) // fewer than asked for in a quick run
		for i, id := range ids[1] {
			lease, err := l.store.Leases().Acquire(ctx, repo.NewLease{Key: repo.SessionLease(id), Owner: "bench", TTL: repo.MaxLeaseTTL})
			if err != nil {
				return nil, err
			}
			tokens[i] = lease.Fence
		}
		messages := batch(1, messageSize)
		under := func(ctx context.Context, duration time.Duration) (sample, error) {
			return drive(ctx, writers, duration, func(ctx context.Context, _ int) (int, error) {
				i := rand.N(len(tokens))
				_, err := l.store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: ids[1][i], Messages: messages, Fence: tokens[i]})
				return 1, err
			})
		}
		return []cell{
			{way: wayOurs, run: appending(l.appender(wayOurs), writers, ids[0], messages)},
			{way: wayFenced, run: under},
		}, nil
	}
}
