package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
)

// NewEmptyDatabase makes a database for one test, and drops it at its end. It
// returns a superuser's URL of it.
func NewEmptyDatabase(t testing.TB) string {
	t.Helper()
	return newDatabase(t, Shared(t), "template0")
}

// NewDatabase makes a migrated database for one test, and drops it at its end.
func NewDatabase(t testing.TB) string {
	t.Helper()
	server := Shared(t)
	template.once.Do(func() { template.name, template.err = makeTemplate(t.Context(), server) })
	if template.err != nil {
		t.Fatalf("make the template database: %v", template.err)
	}
	return newDatabase(t, server, template.name)
}

// template is this process's migrated database, which others are copies of.
var template struct {
	once sync.Once
	name string
	err  error
}

// makeTemplate migrates a database of this process's own: processes that share
// a server do not share it, so that none has to wait for another's, or wonder
// whose migrations it holds.
func makeTemplate(ctx context.Context, server *Server) (string, error) {
	name := fmt.Sprintf("agentstore_template_%d_%s", os.Getpid(), suffix())
	databaseURL, err := setting().create(ctx, server, name, "template0")
	if err != nil {
		return "", err
	}
	if err := schema.Up(ctx, databaseURL); err != nil {
		return "", err
	}
	return name, nil
}

func dropTemplate(server *Server) {
	if template.name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := administer(ctx, server, "DROP DATABASE IF EXISTS "+template.name+" WITH (FORCE)"); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: drop the template database:", err)
	}
}

func suffix() string { return strings.ToLower(repo.NewID().String()[10:]) }

// databaseName tells whose a database is that was left behind.
func databaseName(t testing.TB) string {
	sum := sha256.Sum256([]byte(t.Name()))
	return "agentstore_test_" + hex.EncodeToString(sum[:4]) + "_" + suffix()
}

func newDatabase(t testing.TB, server *Server, from string) string {
	t.Helper()
	name := databaseName(t)
	databaseURL, err := setting().create(t.Context(), server, name, from)
	if err != nil {
		t.Fatalf("make a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := administer(ctx, server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	return databaseURL
}

// oneAtATime: a template cannot be copied twice at once by one server without
// waiting, and two hundred tests that begin together need not wait in it.
var oneAtATime sync.Mutex

func administer(ctx context.Context, server *Server, sql string) error {
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	conn, err := pgx.Connect(ctx, server.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// NewPool opens a pool that is closed at the test's end, which fails if a
// connection has not come back by then.
func NewPool(t testing.TB, databaseURL string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		CheckReturned(t, pool)
		pool.Close()
	})
	return pool
}

// CheckReturned fails the test if a connection of the pool is still in use. One
// that was just given back may take a moment.
func CheckReturned(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		acquired := pool.Stat().AcquiredConns()
		if acquired == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d connections were not given back", acquired)
			return
		}
	}
}
