package bugreports

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Report #7326: the next sequence number was the count of messages, read before the
// inserting transaction and outside of it. Two writers used the same number.

func oursWay(ctx context.Context, databaseURL string) (way, error) {
	store, err := agentstore.Open(ctx, databaseURL, agentstore.Options{})
	if err != nil {
		return way{}, err
	}
	return way{
		append: func(ctx context.Context, session, message repo.ID) error {
			_, err := store.Sessions().Append(ctx, session, repo.NewMessage{ID: message, Role: repo.RoleUser, Content: "hello"})
			return err
		},
		close: func() { _ = store.Close() },
	}, nil
}

// naiveWay is the report's implementation, statement by statement.
func naiveWay(ctx context.Context, databaseURL string) (way, error) {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return way{}, err
	}
	return way{
		append: func(ctx context.Context, session, message repo.ID) error {
			sessionID := pgtype.UUID{Bytes: session, Valid: true}
			var count int64
			if err := pool.QueryRow(ctx, "SELECT count(*) FROM naive_messages WHERE session_id = $1", sessionID).Scan(&count); err != nil {
				return err
			}
			_, err := pool.Exec(ctx, "INSERT INTO naive_messages (session_id, sequence, id) VALUES ($1, $2, $3)",
				sessionID, count, pgtype.UUID{Bytes: message, Valid: true})
			return err
		},
		close: pool.Close,
	}, nil
}

// Guarantee: Messages: Messages are numbered 0, 1, 2, … without a gap.
func TestSequencesOfOneSession(t *testing.T)  { testSequences(t, 1) }
func TestSequencesOf100Sessions(t *testing.T) { testSequences(t, 100) }

// perWriter is the number of appends of each goroutine, and of each of the other
// processes.
func perWriter() int { return pgtest.Choose(2000, 80) }

// 64 goroutines here and 4 other processes make perWriter appends each.
func testSequences(t *testing.T, sessions int) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	ids := make([]repo.ID, sessions)
	for i := range ids {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{Actor: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = session.ID
	}
	here := load{DatabaseURL: databaseURL, Way: "ours", Sessions: ids, Writers: 64, PerWriter: perWriter()}
	there := load{DatabaseURL: databaseURL, Way: "ours", Sessions: ids, Writers: 16, PerWriter: perWriter() / 16}
	all := runAll(t, here, there, there, there, there)

	want := findings{stored: 68 * perWriter()}
	if got := inspect(t, databaseURL, "messages", all); got != want || len(all) != want.stored {
		t.Fatalf("%d acknowledged, found %+v", len(all), got)
	}
	// The counter agrees with the stored messages, and a reader sees exactly those.
	for _, id := range ids {
		session, err := store.Sessions().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if count := pgtest.CountDense(t, store, id); session.MessageCount != count {
			t.Fatalf("counter %d, messages %d", session.MessageCount, count)
		}
	}
}

func TestNaiveSequencesCollide(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool := pgtest.NewPool(t, databaseURL)
	pgtest.Exec(t, pool, `
		CREATE TABLE naive_messages (session_id uuid NOT NULL, sequence bigint NOT NULL, id uuid NOT NULL);
		CREATE INDEX ON naive_messages (session_id)`)
	ids := []repo.ID{repo.NewID()}
	here := load{DatabaseURL: databaseURL, Way: "naive", Sessions: ids, Writers: 64, PerWriter: 20}
	there := load{DatabaseURL: databaseURL, Way: "naive", Sessions: ids, Writers: 16, PerWriter: 20}
	all := runAll(t, here, there, there, there, there)
	got := inspect(t, databaseURL, "naive_messages", all)
	t.Logf("naive: %+v", got)
	if got.duplicates == 0 {
		t.Fatal("no duplicate: the harness does not catch the naive implementation")
	}
}
