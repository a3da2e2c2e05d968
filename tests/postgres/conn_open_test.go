package postgres

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestOpenErrorsAreClearAndHoldNoPassword(t *testing.T) {
	t.Parallel()
	const password = "hush-hush-7"
	migrated, err := url.Parse(pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	at := func(change func(*url.URL)) string {
		u := *migrated
		change(&u)
		return u.String()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unreachable := closed.Addr().String()
	_ = closed.Close()

	for _, test := range []struct {
		name        string
		databaseURL string
		is          error
		says        string
	}{
		{"unknown scheme", "mysql://app:" + password + "@127.0.0.1/agents", repo.ErrInvalid, "scheme"},
		{"no URL", "", repo.ErrInvalid, "empty"},
		{"malformed", "postgres://app:" + password + "@127.0.0.1:port/agents", repo.ErrInvalid, "malformed"},
		{"unreachable", at(func(u *url.URL) { u.Host = unreachable; u.User = url.UserPassword("app", password) }), repo.ErrUnavailable, "refused"},
		{"wrong password", at(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), password) }), repo.ErrPermission, "28P01"},
		{"no such database", at(func(u *url.URL) { u.Path = "/nowhere" }), repo.ErrSchema, "nowhere"},
	} {
		_, err := agentstore.Open(await.Context(t), test.databaseURL, agentstore.Options{})
		for _, sentinel := range repo.Sentinels() {
			if errors.Is(err, sentinel) != errors.Is(test.is, sentinel) {
				t.Errorf("%s: %v is %v: %t", test.name, err, sentinel, errors.Is(err, sentinel))
			}
		}
		if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("%s: the password is in the error", test.name)
		}
	}
}

func TestOpenComparesTheSchema(t *testing.T) {
	t.Parallel()
	empty := pgtest.NewEmptyDatabase(t)
	_, err := agentstore.Open(t.Context(), empty, agentstore.Options{})
	var behind *schema.BehindError
	if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &behind) || behind.Have != 0 || behind.Want != schema.Latest() {
		t.Fatalf("empty database: %v", err)
	}
	// The failure is not cached, and Options.Migrate repairs it.
	store := pgtest.OpenStore(t, empty, agentstore.Options{Migrate: true})
	pgtest.NewSession(t, store)

	pgtest.Exec(t, store.Pool(), "INSERT INTO agentstore_migrations (version, oldest_library) VALUES (9999, 9999)")
	_, err = agentstore.Open(t.Context(), empty, agentstore.Options{})
	var ahead *schema.AheadError
	if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &ahead) || ahead.Have != 9999 {
		t.Fatalf("newer database: %v", err)
	}
}

func TestOpenOptions(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	for field, options := range map[string]agentstore.Options{
		"options.MaxConns":         {MaxConns: -1},
		"options.ConnectTimeout":   {ConnectTimeout: -1},
		"options.StatementTimeout": {StatementTimeout: time.Microsecond}, // short: it is refused
		"options.LockTimeout":      {LockTimeout: -time.Second},          // short: it is refused
	} {
		_, err := agentstore.Open(t.Context(), databaseURL, options)
		var invalid *repo.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}

	first := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 3, StatementTimeout: 70 * time.Second, LockTimeout: 50 * time.Second})
	if got := first.Pool().Config().MaxConns; got != 3 {
		t.Errorf("MaxConns %d", got)
	}
	var statement, lock string
	if err := first.Pool().QueryRow(t.Context(), "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')").Scan(&statement, &lock); err != nil {
		t.Fatal(err)
	}
	if statement != "70s" || lock != "50s" {
		t.Errorf("timeouts %s and %s", statement, lock)
	}
	// Another opener shares the pool, or gets an error if its options differ.
	second := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	third := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 3})
	if first.Pool() != second.Pool() || first.Pool() != third.Pool() {
		t.Error("three openers, more than one pool")
	}
	if _, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{MaxConns: 4}); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("another pool size: %v", err)
	}
}

func TestOpenPoolLeavesThePoolOpen(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	store, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := pgtest.NewSession(t, store)
	if _, err := store.Sessions().Append(t.Context(), id, user("x")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Ping(t.Context()), store.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if err := store.Ping(t.Context()); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Ping after close: %v", err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the caller's pool: %v", err)
	}
	if _, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{MaxConns: 2}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("a pool option for the caller's pool: %v", err)
	}
}

// A caller's pool that is closed while a store uses it gives ErrClosed, too.
func TestClosedPool(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	store, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := pgtest.NewSession(t, store)
	pool.Close()
	if _, err := store.Sessions().Append(t.Context(), id, user("x")); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
