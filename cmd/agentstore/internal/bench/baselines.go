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

// The SQL of the baselines is here rather than in queries/, which contains only what
// the library itself does: users should not find the baselines among its queries.

// baselineTables are for baselines that cannot use the library's tables.
// retried_messages has the columns, checks and both indexes of messages, but no
// foreign key. bare_messages has no sequence, and so only one index; counted_messages has
// one, and no index of ids. bare_parts has no foreign key.
const baselineTables = `
CREATE TABLE retried_messages (LIKE messages INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS INCLUDING INDEXES);
CREATE TABLE bare_messages (LIKE messages INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS);
ALTER TABLE bare_messages DROP COLUMN sequence, ADD PRIMARY KEY (session_id, id),
	ADD CHECK (messages_valid(0, role, kind, call_id, content, metadata, payload, NULL, NULL, NULL)); -- it went with the column
CREATE TABLE counters (session_id uuid PRIMARY KEY, next_sequence bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE counted_messages (LIKE messages INCLUDING DEFAULTS INCLUDING GENERATED INCLUDING CONSTRAINTS, PRIMARY KEY (session_id, sequence));
CREATE TABLE bare_parts (LIKE stream_parts INCLUDING CONSTRAINTS INCLUDING INDEXES);` + ageTable

// ageTable is a function that changes the rows of a table in turn, so that each leaves versions
// behind. By their places it does so in a second, as thousands of calls would in minutes.
const ageTable = `
CREATE FUNCTION age_table(rows regclass, versions integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	places tid[];
	place tid;
	next integer;
	key text := (SELECT quote_ident(a.attname) FROM pg_attribute a WHERE a.attrelid = rows AND a.attnum = 1);
BEGIN
	EXECUTE format('SELECT array_agg(ctid) FROM %s', rows) INTO places;
	FOR i IN 0 .. versions - 1 LOOP
		next := 1 + i % cardinality(places);
		EXECUTE format('UPDATE %s SET %s = %s WHERE ctid = $1 RETURNING ctid', rows, key, key) INTO place USING places[next];
		places[next] := place;
	END LOOP;
END
$$;`

// emptyTables removes the data of a workload before the next one. CASCADE includes the
// tables that refer to sessions.
const emptyTables = `TRUNCATE sessions, session_branches, state_scopes, streams, leases, stream_parts, retried_messages, bare_messages, counters, counted_messages, bare_parts CASCADE`

// fillSession creates a session of a given length with one statement per table,
// which is faster than appending.
const fillSession = `
INSERT INTO messages (session_id, sequence, id, role, content)
SELECT $1, n, gen_random_uuid(), 'user', $3 FROM generate_series(0, $2::bigint - 1) n`

// fillActivity and fillActivityCounters create sessions that were last active one second
// after the other.
const (
	fillActivity = `
INSERT INTO sessions (id, actor, created_at, updated_at)
SELECT gen_random_uuid(), 'bench', t, t FROM generate_series(1, $1::bigint) n, LATERAL (SELECT now() - n * interval '1 second') AS s (t)`
	fillActivityCounters = `
WITH counters AS (INSERT INTO session_counters (session_id, updated_at) SELECT id, updated_at FROM sessions)
INSERT INTO session_activity (session_id, namespace, active_at) SELECT id, namespace, updated_at FROM sessions`
)

const fillCounter = `UPDATE session_counters SET next_sequence = $2 WHERE session_id = $1`

// appender is one way of appending messages to a session.
type appender func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error

func uuid(id repo.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// values are the values that every way stores of a message, after those in before.
// The messages of the workloads have no metadata.
func values(before []any, m repo.NewMessage) []any {
	return append(before, uuid(repo.NewID()), string(m.Role), m.Content, "{}", m.Payload)
}

// naive is the transaction that people write by hand: five round trips, with the
// lock held during three of them. It is correct, and uses the library's own tables.
func naive(pool *pgxpool.Pool) appender {
	return func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var next int64
			if err := tx.QueryRow(ctx, "SELECT next_sequence FROM session_counters WHERE session_id = $1 FOR UPDATE",
				uuid(sessionID)).Scan(&next); err != nil {
				return err
			}
			for _, m := range messages {
				if _, err := tx.Exec(ctx, `INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload)
					VALUES ($1, $2, $3, $4, $5, $6, $7)`, values([]any{uuid(sessionID), next}, m)...); err != nil {
					return err
				}
				next++
			}
			_, err := tx.Exec(ctx, "UPDATE session_counters SET next_sequence = $2, updated_at = clock_timestamp() WHERE session_id = $1",
				uuid(sessionID), next)
			return err
		})
	}
}

// oneByOne appends each message with its own statement.
func oneByOne(pool *pgxpool.Pool, insert string, again func(error) bool) appender {
	return func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error {
		for _, m := range messages {
			_, err := pool.Exec(ctx, insert, values([]any{uuid(sessionID)}, m)...)
			for again(err) {
				_, err = pool.Exec(ctx, insert, values([]any{uuid(sessionID)}, m)...)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// retry takes the number after the highest one, without a lock. The unique key refuses all but one
// of the writers that read the same number, and the others retry.
func retry(pool *pgxpool.Pool) appender {
	return oneByOne(pool, `INSERT INTO retried_messages (session_id, sequence, id, role, content, metadata, payload)
		SELECT $1, coalesce((SELECT max(sequence) + 1 FROM retried_messages WHERE session_id = $1), 0), $2, $3, $4, $5, $6`,
		func(err error) bool {
			refused, ok := errors.AsType[*pgconn.PgError](err)
			return ok && refused.Code == "23505"
		})
}

// bare is one INSERT of one row without a sequence: less than the task requires,
// and the least that a message in its own table can cost.
func bare(pool *pgxpool.Pool) appender {
	return oneByOne(pool, `INSERT INTO bare_messages (session_id, id, role, content, metadata, payload)
		VALUES ($1, $2, $3, $4, $5, $6)`, func(error) bool { return false })
}

// counted is bare with an exact sequence, from a row that counts: the least that two rows
// in one statement can cost. It knows no ids, and no references between the tables.
func counted(pool *pgxpool.Pool) appender {
	return oneByOne(pool, `WITH advanced AS (
			INSERT INTO counters AS c VALUES ($1, 1)
			ON CONFLICT (session_id) DO UPDATE SET next_sequence = c.next_sequence + 1 RETURNING next_sequence - 1 AS sequence
		)
		INSERT INTO counted_messages (session_id, sequence, id, role, content, metadata, payload)
		SELECT $1, a.sequence, $2, $3, $4, $5, $6 FROM advanced a`, func(error) bool { return false })
}

// copying is COPY into the library's own table, with sequences that the only client
// counts itself: the fastest way, and correct for one writer.
func copying(pool *pgxpool.Pool) appender {
	next := map[repo.ID]int64{}
	return func(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) error {
		first := next[sessionID]
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"messages"},
			[]string{"session_id", "sequence", "id", "role", "content", "metadata", "payload"},
			pgx.CopyFromSlice(len(messages), func(i int) ([]any, error) {
				return values([]any{uuid(sessionID), first + int64(i)}, messages[i]), nil
			}))
		next[sessionID] = first + int64(len(messages))
		return err
	}
}

// selecting is one SELECT of a session's messages; each row is scanned into the
// struct that Stream yields.
func selecting(ctx context.Context, pool *pgxpool.Pool, sessionID repo.ID, yield func(repo.Message)) error {
	rows, err := pool.Query(ctx, `SELECT session_id, sequence, id, role, content, metadata, payload, occurred_at, created_at, kind, call_id
			FROM messages WHERE session_id = $1 ORDER BY sequence`, uuid(sessionID))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var row db.Message // each has its own, as in generated code
		err := rows.Scan(&row.SessionID, &row.Sequence, &row.ID, &row.Role, &row.Content, &row.Metadata,
			&row.Payload, &row.OccurredAt, &row.CreatedAt, &row.Kind, &row.CallID)
		if err != nil {
			return err
		}
		message := repo.Message{
			SessionID: row.SessionID.Bytes, ID: row.ID.Bytes, Sequence: row.Sequence, Role: repo.Role(row.Role),
			Content: row.Content, Metadata: row.Metadata, Payload: row.Payload, CreatedAt: row.CreatedAt.UTC(),
		}
		if row.OccurredAt != nil {
			message.OccurredAt = row.OccurredAt.UTC()
		}
		if row.Kind != nil {
			message.Kind = *row.Kind
		}
		if row.CallID != nil {
			message.CallID = *row.CallID
		}
		yield(message)
	}
	return rows.Err()
}
