package pgtest

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Connect opens a connection that is closed at the test's end.
func Connect(t testing.TB, databaseURL string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	comply(config)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// comply gives a caller's connections the settings that the store needs them to have, if
// the databases have others: the encoding, and where results travel as text, the style of
// dates.
func comply(config *pgx.ConnConfig) {
	needed := map[string]string{"client_encoding": "UTF8"}
	if mode := config.DefaultQueryExecMode; mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		needed["DateStyle"] = "ISO"
	}
	for name, value := range needed {
		varied := setting().Database[name] + setting().Server[name]
		if _, given := config.RuntimeParams[name]; !given && varied != "" {
			config.RuntimeParams[name] = value
		}
	}
}

// Database is a connection, a transaction or a pool.
type Database interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// Exec executes a statement and returns the number of rows affected.
func Exec(t testing.TB, database Database, sql string, arguments ...any) int64 {
	t.Helper()
	tag, err := database.Exec(t.Context(), sql, arguments...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

// Value returns the single value of a query.
func Value[V any](t testing.TB, database Database, sql string, arguments ...any) V {
	t.Helper()
	var value V
	if err := database.QueryRow(t.Context(), sql, arguments...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// WithDatabase returns the URL of another database of the server.
func WithDatabase(serverURL, database string) string {
	u := parsed(serverURL)
	u.Path = "/" + database
	return u.String()
}

// WithParameter returns the URL with a parameter added or replaced.
func WithParameter(databaseURL, name, value string) string {
	u := parsed(databaseURL)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // the driver does not read + as a space
	return u.String()
}

// ReadCommitted returns the URL for a test's own SQL that needs this isolation level, as naive
// implementations do: at others the server refuses what they do wrong.
func ReadCommitted(databaseURL string) string {
	return WithParameter(databaseURL, "default_transaction_isolation", "read committed")
}

// WithUser returns the URL of another role.
func WithUser(databaseURL, user, password string) string {
	u := parsed(databaseURL)
	u.User = url.UserPassword(user, password)
	return u.String()
}

func parsed(databaseURL string) *url.URL {
	u, err := url.Parse(databaseURL)
	if err != nil {
		panic("pgtest: a database's URL does not parse") // not shown: it contains a password
	}
	return u
}
