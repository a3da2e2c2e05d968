package bench

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// The baselines' SQL stands here and not in queries/: what is generated from
// there is what the library does, and this is what it is compared with. No user
// of the library should find it among its queries.

// baselineTables are the tables of the baselines that cannot use the library's.
// retried_messages has the columns, checks and both indexes of messages, without
// its foreign key. bare_messages has no sequence, and so one index.
const baselineTables = `
CREATE TABLE retried_messages (LIKE messages INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
CREATE TABLE bare_messages (LIKE messages INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
ALTER TABLE bare_messages DROP COLUMN sequence, ADD PRIMARY KEY (session_id, id);`

// emptyTables makes room for the next workload.
const emptyTables = `TRUNCATE sessions, session_counters, session_usages, messages, session_plans, retried_messages, bare_messages`

// fillSession makes a session of a given length in one statement each, which is
// quicker than appending.
const fillSession = `
INSERT INTO messages (session_id, sequence, id, role, content)
SELECT $1, n, gen_random_uuid(), 'user', $3 FROM generate_series(0, $2::bigint - 1) n`

const fillCounter = `UPDATE session_counters SET next_sequence = $2 WHERE session_id = $1`

// appender is one way of appending messages to a session.
type appender func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error

func uuid(id repo.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

func metadata(m repo.NewMessage) string {
	if m.Metadata == nil {
		return "{}"
	}
	return string(m.Metadata)
}

// naive is the transaction that is written by hand: five round trips, the lock
// held over three of them. It is right, and uses the library's own tables.
func naive(pool *pgxpool.Pool) appender {
	return func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		var next int64
		if err := tx.QueryRow(ctx, "SELECT next_sequence FROM session_counters WHERE session_id = $1 FOR UPDATE",
			uuid(sessionID)).Scan(&next); err != nil {
			return err
		}
		for i, m := range messages {
			if _, err := tx.Exec(ctx, `INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload)
				VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				uuid(sessionID), next+int64(i), uuid(repo.NewID()), string(m.Role), m.Content, metadata(m), m.Payload); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "UPDATE session_counters SET next_sequence = $2, updated_at = clock_timestamp() WHERE session_id = $1",
			uuid(sessionID), next+int64(len(messages))); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
}

// retry takes the next number with a look at the highest, without a lock: the
// unique key refuses all but one of those who saw the same, and they try again.
func retry(pool *pgxpool.Pool) appender {
	return func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error {
		for _, m := range messages {
			for {
				_, err := pool.Exec(ctx, `INSERT INTO retried_messages (session_id, sequence, id, role, content, metadata, payload)
					SELECT $1, coalesce((SELECT max(sequence) + 1 FROM retried_messages WHERE session_id = $1), 0), $2, $3, $4, $5, $6`,
					uuid(sessionID), uuid(repo.NewID()), string(m.Role), m.Content, metadata(m), m.Payload)
				if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "23505" {
					continue
				}
				if err != nil {
					return err
				}
				break
			}
		}
		return nil
	}
}

// bare is one INSERT of one row without a sequence: less than what is asked for,
// and the least that a message in a table of its own can cost.
func bare(pool *pgxpool.Pool) appender {
	return func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error {
		for _, m := range messages {
			if _, err := pool.Exec(ctx, `INSERT INTO bare_messages (session_id, id, role, content, metadata, payload)
				VALUES ($1, $2, $3, $4, $5, $6)`,
				uuid(sessionID), uuid(repo.NewID()), string(m.Role), m.Content, metadata(m), m.Payload); err != nil {
				return err
			}
		}
		return nil
	}
}

// copying is COPY into the library's own table, with sequences that the one
// client counts by itself: the fastest way there is, and right for one writer.
func copying(pool *pgxpool.Pool) appender {
	next := map[repo.ID]int64{}
	return func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error {
		first := next[sessionID]
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"messages"},
			[]string{"session_id", "sequence", "id", "role", "content", "metadata", "payload"},
			pgx.CopyFromSlice(len(messages), func(i int) ([]any, error) {
				m := messages[i]
				return []any{uuid(sessionID), first + int64(i), uuid(repo.NewID()), string(m.Role), m.Content, metadata(m), m.Payload}, nil
			}))
		next[sessionID] = first + int64(len(messages))
		return err
	}
}

// selecting is one SELECT of a session's messages, each row scanned and put into
// the struct that Stream yields.
func selecting(pool *pgxpool.Pool) func(ctx context.Context, sessionID repo.ID, yield func(repo.Message)) error {
	return func(ctx context.Context, sessionID repo.ID, yield func(repo.Message)) error {
		rows, err := pool.Query(ctx, `SELECT session_id, sequence, id, role, content, metadata, payload, occurred_at, created_at
			FROM messages WHERE session_id = $1 ORDER BY sequence`, uuid(sessionID))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var row db.Message
			if err := rows.Scan(&row.SessionID, &row.Sequence, &row.ID, &row.Role, &row.Content, &row.Metadata,
				&row.Payload, &row.OccurredAt, &row.CreatedAt); err != nil {
				return err
			}
			message := repo.Message{
				SessionID: row.SessionID.Bytes, ID: row.ID.Bytes, Sequence: row.Sequence, Role: repo.Role(row.Role),
				Content: row.Content, Metadata: row.Metadata, Payload: row.Payload, CreatedAt: row.CreatedAt.UTC(),
			}
			if row.OccurredAt != nil {
				message.OccurredAt = row.OccurredAt.UTC()
			}
			yield(message)
		}
		return rows.Err()
	}
}
