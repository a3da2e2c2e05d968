package agentstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// A service opens its database once at its start, and migrates it. All callers in a
// process that open the same database share one pool.
func ExampleOpen() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, os.Getenv("DATABASE_URL"), agentstore.Options{
		Migrate:          true,
		MaxConns:         8,
		StatementTimeout: 30 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	again, err := agentstore.Open(ctx, os.Getenv("DATABASE_URL"), agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	fmt.Println(store.Pool() == again.Pool(), store.Pool().Config().MaxConns)
	// Prints:
	// true 8
}

// A service that has a pool opens the store on it. The pool stays open when the store
// is closed.
func ExampleOpenPool() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := agentstore.OpenPool(ctx, pool, agentstore.Options{Migrate: true})
	if err != nil {
		log.Fatal(err)
	}
	session, err := store.Sessions().Create(ctx, repo.NewSession{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(session.MessageCount, store.Close(), pool.Ping(ctx))
	// Prints:
	// 0 <nil> <nil>
}
