package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/schema"
)

// A session in the caller's own transaction: it is there if, and only if, the
// transaction is committed.
func ExampleBind() {
	ctx := context.Background()
	if err := schema.Up(ctx, os.Getenv("DATABASE_URL")); err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	id := repo.NewID()
	for _, outcome := range []error{errors.New("out of stock"), nil} {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			sessions := postgres.Bind(tx).Sessions()
			if _, err := sessions.Create(ctx, repo.NewSession{ID: id}); err != nil {
				return err
			}
			if _, err := sessions.Append(ctx, id, repo.NewMessage{Role: repo.RoleUser, Content: "a bicycle, please"}); err != nil {
				return err
			}
			return outcome // here the caller's own statements would go through tx
		})
		session, missing := postgres.New(pool, postgres.Options{}).Sessions().Get(ctx, id)
		fmt.Println(err, errors.Is(missing, repo.ErrNotFound), session.MessageCount)
	}
	// Prints:
	// out of stock true 0
	// <nil> false 1
}
