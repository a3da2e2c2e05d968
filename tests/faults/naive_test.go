package faults

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
)

// naive is a store with a planted bug: it reads the next sequence before it has the
// lock.
type naive struct{ pool *pgxpool.Pool }

const naiveSchema = `
	CREATE TABLE naive_counters (session_id uuid PRIMARY KEY, next_sequence bigint NOT NULL);
	CREATE TABLE naive_messages (session_id uuid NOT NULL, sequence bigint NOT NULL, id uuid NOT NULL);
	CREATE INDEX ON naive_messages (session_id, sequence)`

func openNaive(ctx context.Context, databaseURL string) (messages, func(), error) {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return nil, nil, err
	}
	return naive{pool}, pool.Close, nil
}

func (n naive) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	return n.append(ctx, sessionID, -1, messages)
}

func (n naive) AppendAt(ctx context.Context, sessionID repo.ID, expected int64, messages ...repo.NewMessage) ([]repo.Message, error) {
	return n.append(ctx, sessionID, expected, messages)
}

func (n naive) append(ctx context.Context, sessionID repo.ID, expected int64, messages []repo.NewMessage) ([]repo.Message, error) {
	key := pgtype.UUID{Bytes: sessionID, Valid: true}
	var next int64
	if err := n.pool.QueryRow(ctx, "SELECT next_sequence FROM naive_counters WHERE session_id = $1", key).Scan(&next); err != nil {
		return nil, err
	}
	if expected >= 0 && expected != next {
		return nil, &repo.SequenceConflictError{Kind: "session", ID: sessionID, Expected: expected, Next: next}
	}
	result := make([]repo.Message, len(messages))
	err := pgx.BeginFunc(ctx, n.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT FROM naive_counters WHERE session_id = $1 FOR UPDATE", key); err != nil {
			return err
		}
		for i, message := range messages {
			result[i] = repo.Message{ID: message.ID, Sequence: next + int64(i)}
			if _, err := tx.Exec(ctx, "INSERT INTO naive_messages (session_id, sequence, id) VALUES ($1, $2, $3)",
				key, result[i].Sequence, pgtype.UUID{Bytes: message.ID, Valid: true}); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE naive_counters SET next_sequence = $2 WHERE session_id = $1", key, next+int64(len(messages)))
		return err
	})
	return result, err
}

func (n naive) MessagesFrom(ctx context.Context, sessionID repo.ID, from int64, limit int) ([]repo.Message, error) {
	return n.read(ctx, "SELECT id FROM naive_messages WHERE session_id = $1 AND sequence >= $3 ORDER BY sequence LIMIT $2",
		pgtype.UUID{Bytes: sessionID, Valid: true}, limit, from)
}

func (n naive) LastMessages(ctx context.Context, sessionID repo.ID, limit int) ([]repo.Message, error) {
	found, err := n.read(ctx, "SELECT id FROM naive_messages WHERE session_id = $1 ORDER BY sequence DESC LIMIT $2",
		pgtype.UUID{Bytes: sessionID, Valid: true}, limit)
	slices.Reverse(found)
	return found, err
}

func (n naive) read(ctx context.Context, sql string, arguments ...any) ([]repo.Message, error) {
	rows, err := n.pool.Query(ctx, sql, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (repo.Message, error) {
		var id pgtype.UUID
		err := row.Scan(&id)
		return repo.Message{ID: id.Bytes}, err
	})
}
