package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// accented is two bytes in UTF-8, which are two letters in LATIN1.
const accented = "é"

// hostile are settings that a server, a database or a role may have, and that
// opened stores must not notice.
var hostile = []string{
	"client_encoding=LATIN1", "DateStyle=SQL, DMY", "TimeZone=Asia/Kolkata", "standard_conforming_strings=off",
	"IntervalStyle=sql_standard", "extra_float_digits=-15", "xmloption=document", "row_security=off", "quote_all_identifiers=on",
}

// alterDatabase gives a database settings (name=value), which new sessions have.
func alterDatabase(t *testing.T, databaseURL string, settings ...string) {
	t.Helper()
	conn := connect(t, databaseURL)
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		execSQL(t, conn, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", databaseName(t, databaseURL), name, value))
	}
}

func databaseName(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	return strings.TrimPrefix(u.Path, "/")
}

func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func execSQL(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// stored is what the server holds of the last message of a session, read without
// any encoding between.
func stored(t *testing.T, databaseURL string, id repo.ID) string {
	t.Helper()
	var content []byte
	err := connect(t, withParameter(t, databaseURL, "client_encoding", "UTF8")).QueryRow(t.Context(),
		"SELECT convert_to(content, 'UTF8') FROM messages WHERE session_id = $1 ORDER BY sequence DESC LIMIT 1", [16]byte(id)).Scan(&content)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// keepsTexts appends and reads a text that another encoding would change.
func keepsTexts(t *testing.T, databaseURL string, store repo.Repositories) {
	t.Helper()
	id := newSession(t, store)
	if _, err := store.Sessions().Append(t.Context(), id, user(accented+`\`)); err != nil {
		t.Fatal(err)
	}
	messages, err := store.Sessions().MessagesFrom(t.Context(), id, 0, 10)
	if err != nil || len(messages) != 1 || messages[0].Content != accented+`\` {
		t.Errorf("read %v, %v", messages, err)
	}
	if got := stored(t, databaseURL, id); got != accented+`\` {
		t.Errorf("stored %q, appended %q", got, accented+`\`)
	}
}

// Opened stores have the settings that they need, wherever others come from.
func TestSettingsArePinned(t *testing.T) {
	t.Parallel()
	for name, hostileURL := range map[string]func(*testing.T) string{
		"database": func(t *testing.T) string {
			databaseURL := pgtest.NewDatabase(t)
			alterDatabase(t, databaseURL, hostile...)
			return databaseURL
		},
		"role": func(t *testing.T) string {
			databaseURL := pgtest.NewDatabase(t)
			conn, name := connect(t, databaseURL), databaseName(t, databaseURL)
			t.Cleanup(func() {
				_, _ = conn.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+name+"; DROP ROLE "+name)
			})
			execSQL(t, conn, fmt.Sprintf("CREATE ROLE %s LOGIN SUPERUSER PASSWORD 'x'", name))
			for _, setting := range hostile {
				setting, value, _ := strings.Cut(setting, "=")
				execSQL(t, conn, fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s = '%s'", name, name, setting, value))
			}
			u, err := url.Parse(databaseURL)
			if err != nil {
				t.Fatal("the URL does not parse")
			}
			u.User = url.UserPassword(name, "x")
			return u.String()
		},
		"URL": func(t *testing.T) string {
			databaseURL := pgtest.NewDatabase(t)
			for _, setting := range hostile {
				name, value, _ := strings.Cut(setting, "=")
				databaseURL = withParameter(t, databaseURL, strings.ToLower(name), value)
			}
			return databaseURL
		},
		"options of the URL": func(t *testing.T) string {
			return withParameter(t, pgtest.NewDatabase(t), "options", "-c client_encoding=LATIN1 -c DateStyle=SQL -c standard_conforming_strings=off")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := hostileURL(t)
			for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
				store := openURL(t, withParameter(t, databaseURL, "default_query_exec_mode", mode))
				keepsTexts(t, databaseURL, store)
				var got string
				err := store.Pool().QueryRow(t.Context(), `SELECT concat_ws('; ', current_setting('client_encoding'), current_setting('DateStyle'),
					current_setting('TimeZone'), current_setting('standard_conforming_strings'))`).Scan(&got)
				if err != nil || got != "UTF8; ISO, MDY; UTC; on" {
					t.Errorf("%s: %q, %v", mode, got, err)
				}
			}
		})
	}
}

// A server's own configuration, which the maker of a template may have copied to
// every database.
func TestSettingsOfTheServer(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	cluster.Start(t, hostile...)
	databaseURL := cluster.URL("postgres")
	store := openURL(t, databaseURL, agentstore.Options{Migrate: true})
	keepsTexts(t, databaseURL, store)
}

// The conformance suite, all of it, passes under settings that break whoever reads
// values as text, in the mode that differs most from the default.
func TestConformanceUnderSettings(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	alterDatabase(t, databaseURL, hostile...)
	repotest.Run(t, opener(t, withParameter(t, databaseURL, "default_query_exec_mode", "simple_protocol")))
}

// On a caller's pool and in a caller's transaction the time zone is the caller's.
func TestConformanceInAnotherTimeZone(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	alterDatabase(t, databaseURL, "TimeZone=Asia/Kolkata", "DateStyle=ISO, DMY", "IntervalStyle=sql_standard")
	pool := pgtest.NewPool(t, withParameter(t, databaseURL, "default_query_exec_mode", "simple_protocol"))
	repotest.RunRepositories(t, func(t *testing.T) repo.Repositories {
		store, err := agentstore.OpenPool(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return store
	})
}

// refusal checks an error that names a setting and its value.
func refusal(t *testing.T, what string, err error, name, value string) {
	t.Helper()
	var refused *schema.SettingError
	if !errors.Is(err, repo.ErrSchema) || !errors.Is(err, schema.ErrSetting) || !errors.As(err, &refused) || refused.Name != name || refused.Value != value {
		t.Errorf("%s under %s = %s: %v", what, name, value, err)
	}
}

// What cannot be pinned is refused by name, in Open where the first column says so,
// on the caller's pool and in the caller's transaction.
func TestSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, value     string
		modes           string // in which it matters
		open, pool, one bool   // refused by Open, OpenPool, Bind
	}{
		{"client_encoding", "LATIN1", "cache_statement exec simple_protocol", false, true, true},
		{"client_encoding", "SQL_ASCII", "cache_statement exec simple_protocol", false, true, true},
		{"standard_conforming_strings", "off", "cache_statement exec simple_protocol", false, true, true},
		{"DateStyle", "SQL, DMY", "exec simple_protocol", false, true, true},
		{"bytea_output", "escape", "exec simple_protocol", true, true, false},
		{"array_nulls", "off", "exec simple_protocol", true, true, false},
		{"transform_null_equals", "on", "simple_protocol", true, true, false},
		{"session_replication_role", "replica", "cache_statement exec simple_protocol", true, true, false},
		{"default_transaction_read_only", "on", "cache_statement exec simple_protocol", true, true, false},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			t.Parallel()
			plain := pgtest.NewDatabase(t)
			alterDatabase(t, plain, test.name+"="+test.value)
			for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
				databaseURL := withParameter(t, plain, "default_query_exec_mode", mode)
				matters := strings.Contains(test.modes, mode) || strings.Contains(test.modes, "cache_statement") && strings.Contains("cache_describe describe_exec", mode)
				open, openErr := agentstore.Open(t.Context(), databaseURL)
				if test.open && matters {
					refusal(t, "Open "+mode, openErr, test.name, test.value)
				} else if openErr != nil {
					t.Errorf("Open %s: %v", mode, openErr)
				} else {
					keepsTexts(t, plain, open)
					_ = open.Close()
				}
				pool := pgtest.NewPool(t, databaseURL)
				store, poolErr := agentstore.OpenPool(t.Context(), pool)
				if test.pool && matters {
					refusal(t, "OpenPool "+mode, poolErr, test.name, test.value)
				} else if poolErr != nil {
					t.Errorf("OpenPool %s: %v", mode, poolErr)
				} else {
					keepsTexts(t, plain, store)
					_ = store.Close()
				}
				if !test.one || !matters {
					continue
				}
				tx, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_, err = postgres.Bind(tx).Sessions().Create(t.Context(), repo.NewSession{})
				refusal(t, "Bind "+mode, err, test.name, test.value)
				_ = tx.Rollback(t.Context())
				// A store that asked nothing when it was made looks all the same.
				bare := postgres.New(pool, postgres.Options{})
				_, err = bare.Sessions().Create(t.Context(), repo.NewSession{})
				refusal(t, "New "+mode, err, test.name, test.value)
				err = bare.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
					_, err := tx.Sessions().Create(ctx, repo.NewSession{})
					return err
				})
				refusal(t, "InTx "+mode, err, test.name, test.value)
				_, err = bare.Trail().Sink(t.Context())
				refusal(t, "Sink "+mode, err, test.name, test.value)
				_, err = bare.Sessions().Append(t.Context(), repo.NewID(), user(accented))
				refusal(t, "Append "+mode, err, test.name, test.value)
				_, err = bare.Sessions().Delete(t.Context(), repo.NewID())
				refusal(t, "Delete "+mode, err, test.name, test.value)
				_ = bare.Close()
			}
		})
	}
}

// Whoever uses a connection of the pool, or the transaction, may set what it likes
// between two operations.
func TestSettingsThatChange(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := openURL(t, databaseURL, agentstore.Options{MaxConns: 1})
	id := newSession(t, store)
	if _, err := store.Pool().Exec(t.Context(), "SET client_encoding = 'LATIN1'"); err != nil {
		t.Fatal(err)
	}
	_, err := store.Sessions().Append(t.Context(), id, user(accented))
	refusal(t, "append on a connection that was changed", err, "client_encoding", "LATIN1")
	if _, err := store.Pool().Exec(t.Context(), "SET client_encoding = 'UTF8'"); err != nil {
		t.Fatal(err)
	}
	keepsTexts(t, databaseURL, store)

	conn := connect(t, databaseURL)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bound := postgres.Bind(tx)
	if _, err := bound.Sessions().Append(t.Context(), id, user(accented)); err != nil {
		t.Fatal(err)
	}
	execSQL(t, conn, "SET LOCAL client_encoding = 'LATIN1'")
	for name, call := range map[string]func() error{
		"Append":   func() error { _, err := bound.Sessions().Append(t.Context(), id, user(accented)); return err },
		"Get":      func() error { _, err := bound.Sessions().Get(t.Context(), id); return err },
		"Messages": func() error { _, err := bound.Sessions().MessagesFrom(t.Context(), id, 0, 10); return err },
		"Delete":   func() error { _, err := bound.Sessions().Delete(t.Context(), id); return err },
		"Record": func() error {
			return bound.Audit().Record(t.Context(), repo.AuditEntry{Type: repo.EventDecisionPoint})
		},
		"Use": func() error { _, err := bound.Plans().Use(t.Context(), "x", repo.UseAction{}); return err },
		"Actions": func() error {
			_, err := bound.Actions().List(t.Context(), repo.ActionFilter{}, repo.Page{})
			return err
		},
	} {
		refusal(t, name, call(), "client_encoding", "LATIN1")
	}
	execSQL(t, conn, "SET LOCAL client_encoding = 'UTF8'")
	if _, err := bound.Sessions().Append(t.Context(), id, user(accented)); err != nil {
		t.Errorf("when it is set right again: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// An encoding that cannot hold every text is refused by whatever comes first.
func TestDatabasesOfOtherEncodings(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			other := pgtest.NewEmptyDatabase(t)
			conn, name := connect(t, other), databaseName(t, other)+"_other"
			execSQL(t, conn, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING %s LC_COLLATE 'C' LC_CTYPE 'C'", name, encoding))
			t.Cleanup(func() {
				_, _ = conn.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
			})
			databaseURL := pgtest.WithDatabase(other, name)
			_, err := agentstore.Open(t.Context(), databaseURL)
			refusal(t, "Open", err, "server_encoding", encoding)
			_, err = agentstore.Open(t.Context(), databaseURL, agentstore.Options{Migrate: true})
			refusal(t, "Open with Migrate", err, "server_encoding", encoding)
			pool := pgtest.NewPool(t, withParameter(t, databaseURL, "client_encoding", "UTF8"))
			_, err = agentstore.OpenPool(t.Context(), pool)
			refusal(t, "OpenPool", err, "server_encoding", encoding)
			var refused *schema.SettingError
			if err := schema.Up(t.Context(), databaseURL); !errors.As(err, &refused) || refused.Name != "server_encoding" || refused.Value != encoding {
				t.Errorf("migrate: %v", err)
			}
		})
	}
}

// A role that only reads may be kept from writing by default; so may whoever asks
// for it in the URL.
func TestReadOnlyByDefault(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	asked := openURL(t, withParameter(t, databaseURL, "default_transaction_read_only", "on"))
	if _, err := asked.Sessions().List(t.Context(), repo.SessionFilter{}, repo.Page{}); err != nil {
		t.Error(err)
	}
	alterDatabase(t, databaseURL, "default_transaction_read_only=on")
	_, err := agentstore.Open(t.Context(), databaseURL)
	refusal(t, "Open", err, "default_transaction_read_only", "on")
	// The error's advice works.
	openAndUse(t, withParameter(t, databaseURL, "default_transaction_read_only", "off"))
}

func openAndUse(t *testing.T, databaseURL string) {
	t.Helper()
	keepsTexts(t, databaseURL, openURL(t, databaseURL))
}
