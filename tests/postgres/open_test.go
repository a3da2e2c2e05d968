package postgres

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
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
		{"wrong password", at(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), password) }), repo.ErrPermission, "password authentication failed"},
		{"no such database", at(func(u *url.URL) { u.Path = "/nowhere" }), repo.ErrSchema, `"nowhere" does not exist`},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := agentstore.Open(ctx, test.databaseURL)
		cancel()
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
	_, err := agentstore.Open(t.Context(), empty)
	var behind schema.BehindError
	if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &behind) || behind.Have != 0 || behind.Want != schema.Latest() {
		t.Fatalf("empty database: %v", err)
	}
	// The failure is not remembered, and Migrate mends it.
	store := openURL(t, empty, agentstore.Options{Migrate: true})
	newSession(t, store)

	if _, err := store.Pool().Exec(t.Context(), "INSERT INTO "+schema.VersionTable+" (version) VALUES (9999)"); err != nil {
		t.Fatal(err)
	}
	_, err = agentstore.Open(t.Context(), empty)
	var ahead schema.AheadError
	if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &ahead) || ahead.Have != 9999 {
		t.Fatalf("newer database: %v", err)
	}
}

func TestOpenOptions(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	for field, options := range map[string][]agentstore.Options{
		"options.MaxConns":         {{MaxConns: -1}},
		"options.ConnectTimeout":   {{ConnectTimeout: -1}},
		"options.StatementTimeout": {{StatementTimeout: time.Microsecond}},
		"options.LockTimeout":      {{LockTimeout: -time.Second}},
		"options":                  {{}, {}},
	} {
		_, err := agentstore.Open(t.Context(), databaseURL, options...)
		var invalid *repo.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}

	first := openURL(t, databaseURL, agentstore.Options{MaxConns: 3, StatementTimeout: 7 * time.Second, LockTimeout: 5 * time.Second})
	if got := first.Pool().Config().MaxConns; got != 3 {
		t.Errorf("MaxConns %d", got)
	}
	var statement, lock string
	if err := first.Pool().QueryRow(t.Context(), "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')").Scan(&statement, &lock); err != nil {
		t.Fatal(err)
	}
	if statement != "7s" || lock != "5s" {
		t.Errorf("timeouts %s and %s", statement, lock)
	}
	// Another opener gets what there is, or an error if it asks for something else.
	second := openURL(t, databaseURL)
	third := openURL(t, databaseURL, agentstore.Options{MaxConns: 3})
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
	store, err := agentstore.OpenPool(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	id := newSession(t, store)
	if _, err := store.Sessions().Append(t.Context(), id, user("x")); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the caller's pool: %v", err)
	}
	if _, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{MaxConns: 2}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("a pool option for the caller's pool: %v", err)
	}
}

// A caller's pool that is closed under the store gives ErrClosed too.
func TestClosedPool(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	store, err := agentstore.OpenPool(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	id := newSession(t, store)
	pool.Close()
	if _, err := store.Sessions().Append(t.Context(), id, user("x")); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
