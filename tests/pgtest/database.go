package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
)

// NewEmptyDatabase makes a database for one test and returns a superuser's URL of it.
// It is dropped at the test's end.
func NewEmptyDatabase(t testing.TB) string {
	t.Helper()
	return newDatabase(t, Shared(t), "template0")
}

// NewDatabase is like NewEmptyDatabase, but the database is migrated.
func NewDatabase(t testing.TB) string {
	t.Helper()
	return NewFilledDatabase(t, "")
}

// NewFilledDatabase is like NewDatabase, but fill, which is SQL, has run in the database.
// For the same SQL, it runs once.
func NewFilledDatabase(t testing.TB, fill string) string {
	t.Helper()
	server := Shared(t)
	made := templates.of(fill)
	made.once.Do(func() { made.name, made.err = makeTemplate(t.Context(), server, fill) })
	if made.err != nil {
		t.Fatalf("make the template database: %v", made.err)
	}
	return newDatabase(t, server, made.name)
}

// template is a migrated database of which tests get copies.
type template struct {
	once sync.Once
	name string
	err  error
}

// templates are this process's, by what fills them.
var templates templatesByFill

type templatesByFill struct {
	sync.Mutex
	all map[string]*template
}

func (t *templatesByFill) of(fill string) *template {
	t.Lock()
	defer t.Unlock()
	if t.all == nil {
		t.all = map[string]*template{}
	}
	if t.all[fill] == nil {
		t.all[fill] = &template{}
	}
	return t.all[fill]
}

// makeTemplate makes a template for this process. Processes that share a server do not
// share it: they may be of different versions of the code.
func makeTemplate(ctx context.Context, server *Server, fill string) (string, error) {
	name := fmt.Sprintf("agentstore_template_%d_%s", os.Getpid(), suffix())
	databaseURL, err := setting().create(ctx, server, name, "template0")
	if err != nil {
		return "", err
	}
	if err := schema.Up(ctx, databaseURL); err != nil {
		return "", err
	}
	if fill == "" {
		return name, nil
	}
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, fill, pgx.QueryExecModeSimpleProtocol)
	return name, errors.Join(err, conn.Close(ctx))
}

func dropTemplates(server *Server) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, made := range templates.all {
		if made.name == "" {
			continue
		}
		if err := administer(ctx, server, "DROP DATABASE IF EXISTS "+made.name+" WITH (FORCE)"); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: drop the template database:", err)
		}
	}
}

func suffix() string { return strings.ReplaceAll(repo.NewID().String(), "-", "")[10:] }

// databaseName returns a name that identifies the test, in case the database is left
// behind.
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
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := administer(ctx, server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	return databaseURL
}

// oneAtATime serializes copies of the template. The server makes one at a time anyway,
// and two hundred tests that begin together would hold connections while they wait.
var oneAtATime sync.Mutex

func administer(ctx context.Context, server *Server, sql string) error {
	return administerBy(ctx, server, func(*pgx.Conn) string { return sql })
}

// copyDatabase copies a template file by file: since version 15 the server copies block by
// block through its log otherwise, which takes seven times as long here, where nothing is
// flushed to the disk.
func copyDatabase(ctx context.Context, server *Server, name, template, owner string) error {
	return administerBy(ctx, server, func(conn *pgx.Conn) string {
		sql := "CREATE DATABASE " + name + " TEMPLATE " + template + owner
		version := conn.PgConn().ParameterStatus("server_version")
		if major, err := strconv.Atoi(version[:min(2, len(version))]); err == nil && major >= 15 {
			sql += " STRATEGY file_copy"
		}
		return sql
	})
}

func administerBy(ctx context.Context, server *Server, makeSQL func(*pgx.Conn) string) error {
	oneAtATime.Lock()
	defer oneAtATime.Unlock()
	conn, err := pgx.Connect(ctx, server.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, makeSQL(conn), pgx.QueryExecModeSimpleProtocol)
	return err
}

// NewPool opens a pool, with its configuration changed by configure. The pool is closed
// at the test's end; the test fails if a connection is then still in use.
func NewPool(t testing.TB, databaseURL string, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	comply(config.ConnConfig)
	for _, change := range configure {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		CheckReturned(t, pool)
		pool.Close()
	})
	return pool
}

// CheckReturned fails the test if a connection of the pool stays in use: releasing one may
// take a moment.
func CheckReturned(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	// pace: until it looks again; not await.For, because a test's context ends before its cleanups
	for end := await.End(t); pool.Stat().AcquiredConns() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%d connections are still in use", pool.Stat().AcquiredConns())
			return
		}
	}
}
