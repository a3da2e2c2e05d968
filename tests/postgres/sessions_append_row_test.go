package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// lookFirst is MessageAppendOne, but with a number from another scan of the row.
const lookFirst = `WITH advanced AS (
    UPDATE session_counters c SET next_sequence = s.next_sequence + 1
    FROM (SELECT next_sequence FROM session_counters WHERE session_id = $1) s
    WHERE c.session_id = (SELECT l.session_id FROM session_counters l WHERE l.session_id = $1 FOR UPDATE)
    RETURNING s.next_sequence AS first_sequence
)
INSERT INTO messages (session_id, sequence, id, role, content)
SELECT $1, a.first_sequence, $2, 'user', 'x' FROM advanced a RETURNING sequence`

// A plain append uses the number in the row as others left it, even if they changed
// it after the statement began. A number from another scan would be outdated.
func TestPlainAppendFollowsTheRow(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.ReadCommitted(pgtest.NewDatabase(t)) // at other levels the statements do nothing
	queries, pool := db.New(), pgtest.NewPool(t, databaseURL)
	one := func(ctx context.Context, conn *pgx.Conn, session pgtype.UUID) error {
		_, err := queries.MessageAppendOne(ctx, conn, db.MessageAppendOneParams{
			SessionID: session, ID: pgtype.UUID{Bytes: repo.NewID(), Valid: true}, Role: "user", Content: "x", Metadata: "{}",
		})
		return err
	}
	naive := func(ctx context.Context, conn *pgx.Conn, session pgtype.UUID) error {
		var sequence int64
		return conn.QueryRow(ctx, lookFirst, session, pgtype.UUID{Bytes: repo.NewID(), Valid: true}).Scan(&sequence)
	}
	run := func(way func(context.Context, *pgx.Conn, pgtype.UUID) error) (failed int64) {
		const writers, each = 4, 200
		session := pgtype.UUID{Bytes: pgtest.NewSession(t, pgtest.OpenPool(t, pool, agentstore.Options{})), Valid: true}
		var failures atomic.Int64
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				conn, err := pgx.Connect(t.Context(), databaseURL)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
				for done := 0; done < each; {
					switch err := way(t.Context(), conn, session); {
					case err == nil:
						done++
					case !errors.Is(err, pgx.ErrNoRows): // the row is locked
						failures.Add(1)
						done++
					}
				}
			})
		}
		wg.Wait()
		var next, last, written int64
		if err := pool.QueryRow(t.Context(), `SELECT next_sequence, (SELECT count(*) FROM messages m WHERE m.session_id = c.session_id),
			(SELECT max(sequence) + 1 FROM messages m WHERE m.session_id = c.session_id) FROM session_counters c WHERE session_id = $1`,
			session).Scan(&next, &written, &last); err != nil {
			t.Fatal(err)
		}
		if written+failures.Load() != writers*each || next != written || last != written {
			t.Errorf("%d written and %d failed of %d; the counter is %d, the last sequence %d", written, failures.Load(), writers*each, next, last)
		}
		return failures.Load()
	}
	if failed := run(one); failed > 0 {
		t.Errorf("%d failed", failed)
	}
	await.For(t, "an append of the naive way fails", func() bool { return run(naive) > 0 })
}
