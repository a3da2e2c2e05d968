package demo

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
)

// runNaive assigns sequences as is often done: it counts the messages, then inserts
// with that number. Nothing makes the two steps atomic. It has a table of its own, so
// its statements are not among the library's queries.
func runNaive(ctx context.Context, pool *pgxpool.Pool) (result, error) {
	if _, err := pool.Exec(ctx, `CREATE TABLE naive_messages (
		session_id uuid NOT NULL, sequence bigint NOT NULL, id uuid NOT NULL, content text NOT NULL);
		CREATE INDEX ON naive_messages (session_id, sequence)`); err != nil {
		return result{}, err
	}
	session := pgtype.UUID{Bytes: repo.NewID(), Valid: true}
	begin := time.Now()
	acknowledged, err := write(func(content string) (repo.ID, error) {
		var count int64
		err := pool.QueryRow(ctx, "SELECT count(*) FROM naive_messages WHERE session_id = $1", session).Scan(&count)
		if err != nil {
			return repo.ID{}, err
		}
		id := repo.NewID()
		_, err = pool.Exec(ctx, "INSERT INTO naive_messages (session_id, sequence, id, content) VALUES ($1, $2, $3, $4)",
			session, count, pgtype.UUID{Bytes: id, Valid: true}, content)
		return id, err
	})
	took := time.Since(begin)
	if err != nil {
		return result{}, err
	}

	rows, err := pool.Query(ctx, "SELECT sequence, id FROM naive_messages WHERE session_id = $1 ORDER BY sequence", session)
	if err != nil {
		return result{}, err
	}
	stored := map[repo.ID]int{}
	var sequences []int64
	var sequence int64
	var id pgtype.UUID
	_, err = pgx.ForEachRow(rows, []any{&sequence, &id}, func() error {
		stored[id.Bytes]++
		sequences = append(sequences, sequence)
		return nil
	})
	return summarize(acknowledged, stored, sequences, took), err
}
