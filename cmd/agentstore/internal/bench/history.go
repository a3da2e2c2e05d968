package bench

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
)

// The ways of workloads with rewound and forked sessions.
const (
	wayForkShort  = "fork at message 10"
	wayForkLong   = "fork at message 100,000"
	wayTurn       = "turn"
	wayRegenerate = "turn with After and Head"
	wayNeverEdit  = "session that was never rewound"
	wayRewound    = "session with 20 rewinds"
	wayCondition  = "the library's statement"
	wayWithout    = "the same without its condition"
	wayWindow     = "window of 100,000 tokens"
	wayLastN      = "as many last messages"
)

// forks compares forks of a session at different places.
func forks(ctx context.Context, l *lab) ([]cell, error) {
	const long = 100_000
	id, err := l.ofLength(ctx, l.shrunk(long)+1)
	fork := func(at int) runner {
		return alone(func(ctx context.Context, _ int) (int, error) {
			_, err := l.store.Sessions().Fork(ctx, id, int64(at), repo.NewSession{})
			return 1, err
		})
	}
	return []cell{{way: wayForkShort, run: fork(10)}, {way: wayForkLong, run: fork(l.shrunk(long))}}, err
}

// regenerations compares turns that replace the last answer with turns that follow it.
func regenerations(ctx context.Context, l *lab) ([]cell, error) {
	ids, err := l.sessions(ctx, 2)
	if err != nil {
		return nil, err
	}
	head, after := int64(0), int64(0)
	for _, id := range ids {
		if _, err := l.store.Sessions().Append(ctx, id, batch(1, messageSize)...); err != nil {
			return nil, err
		}
	}
	turn := func(id repo.ID, turn repo.Turn) (int64, error) {
		turn.SessionID, turn.ID, turn.Messages = id, repo.NewID().String(), batch(1, messageSize)
		added, err := l.store.Sessions().AppendTurn(ctx, turn)
		if err != nil {
			return 0, err
		}
		return added.Messages[0].Sequence, nil
	}
	return []cell{
		{way: wayTurn, run: alone(func(context.Context, int) (int, error) {
			_, err := turn(ids[0], repo.Turn{})
			return 1, err
		})},
		{way: wayRegenerate, run: alone(func(context.Context, int) (int, error) {
			sequence, err := turn(ids[1], repo.Turn{After: &after, Head: &head})
			if err == nil {
				head = sequence
			}
			return 1, err
		})},
	}, nil
}

// rewoundReads compares reading the last 50 messages of a rewound session and of one that was never rewound.
func rewoundReads(ctx context.Context, l *lab) ([]cell, error) {
	ids, err := l.sessions(ctx, 2)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		for part := range 21 {
			turn := repo.Turn{SessionID: id, Messages: batch(10, messageSize)}
			if i == 1 && part > 0 {
				last := int64(part*10 - 4)
				turn.After = &last
			}
			if _, err := l.store.Sessions().AppendTurn(ctx, turn); err != nil {
				return nil, err
			}
		}
	}
	last := func(id repo.ID) runner {
		return alone(func(ctx context.Context, _ int) (int, error) {
			messages, err := l.store.Sessions().LastMessages(ctx, id, 50)
			return len(messages), err
		})
	}
	return []cell{{way: wayNeverEdit, run: last(ids[0])}, {way: wayRewound, run: last(ids[1])}}, nil
}

// conditionedReads compares the statement that reads the last 50 messages with the same one without the condition that the session
// has no branches.
func conditionedReads(ctx context.Context, l *lab) ([]cell, error) {
	id, err := l.ofLength(ctx, l.shrunk(10_000))
	read := func(before string) runner {
		sql := `SELECT * FROM messages WHERE messages.session_id = $1 AND sequence < ` + before + ` ORDER BY sequence DESC LIMIT $3`
		return alone(func(ctx context.Context, _ int) (int, error) {
			rows, err := l.pool.Query(ctx, sql, uuid(id), int64(1)<<62, 50)
			if err != nil {
				return 0, err
			}
			count := 0
			for rows.Next() {
				count++
			}
			return count, rows.Err()
		})
	}
	return []cell{
		{way: wayWithout, run: read("$2")},
		{way: wayCondition, run: read("CASE WHEN EXISTS (SELECT FROM session_branches WHERE session_branches.session_id = $1) THEN 0 ELSE $2::bigint END")},
	}, err
}

// windows compares what goes into a prompt with a read of as many last messages.
func windows(ctx context.Context, l *lab) ([]cell, error) {
	id, err := l.ofLength(ctx, l.shrunk(100_000))
	if err != nil {
		return nil, err
	}
	read := repo.ReadSessions{IDs: []repo.ID{id}, Last: 1000, Tokens: 100_000}
	found, err := l.store.Sessions().Read(ctx, read)
	if err != nil {
		return nil, err
	}
	reading := func(read repo.ReadSessions) runner {
		return alone(func(ctx context.Context, _ int) (int, error) {
			found, err := l.store.Sessions().Read(ctx, read)
			if err != nil {
				return 0, err
			}
			return len(found.Sessions[0].Messages), nil
		})
	}
	last := repo.ReadSessions{IDs: read.IDs, Last: len(found.Sessions[0].Messages)}
	return []cell{{way: wayLastN, run: reading(last)}, {way: wayWindow, run: reading(read)}}, nil
}
