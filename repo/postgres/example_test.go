package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
)

// A session in the caller's own transaction: it exists if, and only if, the
// transaction is committed.
func ExampleBind() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, os.Getenv("DATABASE_URL"), agentstore.Options{Migrate: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	pool := store.Pool()

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
			return outcome // the caller's own statements use tx
		})
		session, missing := store.Sessions().Get(ctx, id)
		fmt.Println(err, errors.Is(missing, repo.ErrNotFound), session.MessageCount)
	}
	// Prints:
	// out of stock true 0
	// <nil> false 1
}

// Rows of the caller's own in the transaction of InTx, which runs again after a
// conflict with others.
func ExampleTx() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, os.Getenv("DATABASE_URL"), agentstore.Options{Migrate: true})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	pool := store.Pool()
	if _, err := pool.Exec(ctx, "CREATE TABLE invoices (session_id uuid, amount int)"); err != nil {
		log.Fatal(err)
	}
	err = store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		session, err := tx.Sessions().Create(ctx, repo.NewSession{})
		if err != nil {
			return err
		}
		own, ok := postgres.Tx(tx) // false for a store in memory
		if !ok {
			return errors.New("no PostgreSQL")
		}
		_, err = own.Exec(ctx, "INSERT INTO invoices VALUES ($1, $2)", [16]byte(session.ID), 42)
		return postgres.Translate(ctx, err)
	})
	var invoices int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM invoices JOIN sessions ON id = session_id").Scan(&invoices); err != nil {
		log.Fatal(err)
	}
	fmt.Println(err, invoices)
	// Prints:
	// <nil> 1
}
