package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// accented is two bytes in UTF-8, which are two letters in LATIN1.
const accented = "é"

// hostile are settings that a server, a database or a role may have, and that must
// not affect a store.
var hostile = []string{
	"client_encoding=LATIN1", "DateStyle=SQL, DMY", "TimeZone=Asia/Kolkata", "standard_conforming_strings=off",
	"IntervalStyle=sql_standard", "xmloption=document", "row_security=off", "quote_all_identifiers=on",
}

// alterDatabase sets settings of a database (name=value), for new sessions.
func alterDatabase(t *testing.T, databaseURL string, settings ...string) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		pgtest.Exec(t, conn, fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", databaseName(t, databaseURL), name, value))
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

// stored returns the last message of a session as the server has it, without any
// conversion of its encoding.
func stored(t *testing.T, databaseURL string, id repo.ID) string {
	t.Helper()
	var content []byte
	err := pgtest.Connect(t, pgtest.WithParameter(databaseURL, "client_encoding", "UTF8")).QueryRow(t.Context(),
		"SELECT convert_to(content, 'UTF8') FROM messages WHERE session_id = $1 ORDER BY sequence DESC LIMIT 1", [16]byte(id)).Scan(&content)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// keepsTexts appends and reads a text that another encoding would change.
func keepsTexts(t *testing.T, databaseURL string, store repo.Repositories) {
	t.Helper()
	id := pgtest.NewSession(t, store)
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

// Stores have the settings that they need, wherever others are set.
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
			conn, name := pgtest.Connect(t, databaseURL), databaseName(t, databaseURL)
			t.Cleanup(func() {
				_, _ = conn.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+name+"; DROP ROLE "+name)
			})
			pgtest.Exec(t, conn, fmt.Sprintf("CREATE ROLE %s LOGIN SUPERUSER PASSWORD 'x'", name))
			for _, setting := range hostile {
				setting, value, _ := strings.Cut(setting, "=")
				pgtest.Exec(t, conn, fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET %s = '%s'", name, name, setting, value))
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
				databaseURL = pgtest.WithParameter(databaseURL, strings.ToLower(name), value)
			}
			return databaseURL
		},
		"options of the URL": func(t *testing.T) string {
			return pgtest.WithParameter(pgtest.NewDatabase(t), "options", "-c client_encoding=LATIN1 -c DateStyle=SQL -c standard_conforming_strings=off")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := hostileURL(t)
			for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
				store := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "default_query_exec_mode", mode), agentstore.Options{})
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

// Settings in the server's configuration, which initdb may have written for every
// database.
func TestSettingsOfTheServer(t *testing.T) {
	t.Parallel()
	cluster := pgtest.NewCluster(t)
	cluster.Start(t, hostile...)
	databaseURL := cluster.URL("postgres")
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{Migrate: true})
	keepsTexts(t, databaseURL, store)
}

// The conformance suite passes under settings that break clients that read values as text,
// in the mode that differs most from the default.
// Guarantee: Servers and roles: Values are stored unchanged under any setting, or the setting is refused.
func TestConformanceUnderSettings(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	alterDatabase(t, databaseURL, hostile...)
	open := opener(t, pgtest.WithParameter(databaseURL, "default_query_exec_mode", "simple_protocol"))
	if pgtest.Full() {
		repotest.Run(t, open, pgtest.Races(), pgtest.Elapse(databaseURL))
		return
	}
	// Each kind of value, but no races.
	repotest.Run(t, open, repotest.Only("List", "Messages", "Values", "Export", "Actions", "Plans", "State", "Leases", "Streams", "AuditLog"))
}

// On a caller's pool and in a caller's transaction the time zone is the caller's.
func TestConformanceInAnotherTimeZone(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	alterDatabase(t, databaseURL, "TimeZone=Asia/Kolkata", "DateStyle=ISO, DMY", "IntervalStyle=sql_standard")
	databaseURL = pgtest.WithParameter(databaseURL, "client_encoding", "UTF8") // which a caller's pool must have
	pool := pgtest.NewPool(t, pgtest.WithParameter(databaseURL, "default_query_exec_mode", "simple_protocol"))
	repotest.RunRepositories(t, func(t *testing.T) repo.Repositories {
		return pgtest.OpenPool(t, pool, agentstore.Options{})
	}, append(pgtest.Parts("List", "Activity", "Messages", "Export", "Plans", "Leases", "Streams", "Audit"), // which have times
		pgtest.Elapse(databaseURL))...)
}

// refusal checks an error that names a setting and its value.
func refusal(t *testing.T, what string, err error, name, value string) {
	t.Helper()
	var refused *schema.SettingError
	if !errors.Is(err, repo.ErrSchema) || !errors.Is(err, schema.ErrSetting) || !errors.As(err, &refused) || refused.Name != name || refused.Value != value {
		t.Errorf("%s under %s = %s: %v", what, name, value, err)
	}
}

// Settings that cannot be pinned are refused by name: by Open if the first column
// says so, on the caller's pool, and in the caller's transaction.
func TestSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	modes := []string{"cache_statement", "exec", "simple_protocol"}
	if pgtest.Full() { // those that are as the first one here
		modes = append(modes, "cache_describe", "describe_exec")
	}
	for _, test := range []struct {
		name, value     string
		modes           string // in which the setting matters
		open, pool, one bool   // refused by Open, OpenPool, Bind
	}{
		{"client_encoding", "LATIN1", "cache_statement exec simple_protocol", false, true, true},
		{"client_encoding", "SQL_ASCII", "cache_statement exec simple_protocol", false, true, true},
		{"standard_conforming_strings", "off", "cache_statement exec simple_protocol", false, true, true},
		{"DateStyle", "SQL, DMY", "exec simple_protocol", false, true, true},
		{"bytea_output", "escape", "exec simple_protocol", true, true, false},
		{"array_nulls", "off", "exec simple_protocol", true, true, false},
		{"extra_float_digits", "0", "exec simple_protocol", true, true, false},
		{"extra_float_digits", "-15", "exec simple_protocol", true, true, false},
		{"transform_null_equals", "on", "simple_protocol", true, true, false},
		{"session_replication_role", "replica", "cache_statement exec simple_protocol", true, true, false},
		{"default_transaction_read_only", "on", "cache_statement exec simple_protocol", true, true, false},
	} {
		t.Run(test.name+"="+test.value, func(t *testing.T) {
			t.Parallel()
			plain := pgtest.NewDatabase(t)
			alterDatabase(t, plain, test.name+"="+test.value)
			for _, mode := range modes {
				databaseURL := pgtest.WithParameter(plain, "default_query_exec_mode", mode)
				matters := strings.Contains(test.modes, mode) || strings.Contains(test.modes, "cache_statement") && strings.Contains("cache_describe describe_exec", mode)
				open, openErr := agentstore.Open(t.Context(), databaseURL, agentstore.Options{})
				if test.open && matters {
					refusal(t, "Open "+mode, openErr, test.name, test.value)
				} else if openErr != nil {
					t.Errorf("Open %s: %v", mode, openErr)
				} else {
					keepsTexts(t, plain, open)
					_ = open.Close()
				}
				pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) { delete(c.ConnConfig.RuntimeParams, test.name) })
				store, poolErr := agentstore.OpenPool(t.Context(), pool, agentstore.Options{})
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
				// A store that did not query the settings when it was made checks
				// them, too.
				bare := postgres.New(pgsettings.Checked{Pool: pool}, postgres.Options{})
				_, err = bare.Sessions().Create(t.Context(), repo.NewSession{})
				refusal(t, "New "+mode, err, test.name, test.value)
				err = bare.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
					_, err := tx.Sessions().Create(ctx, repo.NewSession{})
					return err
				})
				refusal(t, "InTx "+mode, err, test.name, test.value)
				_, err = bare.AuditLog().Sink(t.Context())
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

// Other users of the pool's connections, or of the transaction, may change settings
// between two operations.
func TestSettingsThatChange(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1})
	id := pgtest.NewSession(t, store)
	pgtest.Exec(t, store.Pool(), "SET client_encoding = 'LATIN1'")
	_, err := store.Sessions().Append(t.Context(), id, user(accented))
	refusal(t, "append on a connection that was changed", err, "client_encoding", "LATIN1")
	pgtest.Exec(t, store.Pool(), "SET client_encoding = 'UTF8'")
	keepsTexts(t, databaseURL, store)

	conn := pgtest.Connect(t, databaseURL)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bound := postgres.Bind(tx)
	if _, err := bound.Sessions().Append(t.Context(), id, user(accented)); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, "SET LOCAL client_encoding = 'LATIN1'")
	for name, call := range map[string]func() error{
		"Append":   func() error { _, err := bound.Sessions().Append(t.Context(), id, user(accented)); return err },
		"Get":      func() error { _, err := bound.Sessions().Get(t.Context(), id); return err },
		"Messages": func() error { _, err := bound.Sessions().MessagesFrom(t.Context(), id, 0, 10); return err },
		"Delete":   func() error { _, err := bound.Sessions().Delete(t.Context(), id); return err },
		"Record": func() error {
			return bound.Audit().Record(t.Context(), repo.AuditEntry{Type: events.DecisionPoint})
		},
		"Use": func() error { _, err := bound.Plans().Use(t.Context(), "x", repo.UseAction{}); return err },
		"Actions": func() error {
			_, err := bound.Actions().List(t.Context(), repo.ActionFilter{}, repo.Page{})
			return err
		},
	} {
		refusal(t, name, call(), "client_encoding", "LATIN1")
	}
	pgtest.Exec(t, conn, "SET LOCAL client_encoding = 'UTF8'")
	if _, err := bound.Sessions().Append(t.Context(), id, user(accented)); err != nil {
		t.Errorf("after the setting was corrected: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// An encoding that cannot represent every text is refused by the first operation.
// Guarantee: Servers and roles: Databases with another encoding than UTF8 are refused.
func TestDatabasesOfOtherEncodings(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			other := pgtest.NewEmptyDatabase(t)
			conn, name := pgtest.Connect(t, other), databaseName(t, other)+"_other"
			pgtest.Exec(t, conn, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING %s LC_COLLATE 'C' LC_CTYPE 'C'", name, encoding))
			t.Cleanup(func() {
				_, _ = conn.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
			})
			databaseURL := pgtest.WithDatabase(other, name)
			_, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{})
			refusal(t, "Open", err, "server_encoding", encoding)
			_, err = agentstore.Open(t.Context(), databaseURL, agentstore.Options{Migrate: true})
			refusal(t, "Open with Migrate", err, "server_encoding", encoding)
			pool := pgtest.NewPool(t, pgtest.WithParameter(databaseURL, "client_encoding", "UTF8"))
			_, err = agentstore.OpenPool(t.Context(), pool, agentstore.Options{})
			refusal(t, "OpenPool", err, "server_encoding", encoding)
			var refused *schema.SettingError
			if err := schema.Up(t.Context(), databaseURL); !errors.As(err, &refused) || refused.Name != "server_encoding" || refused.Value != encoding {
				t.Errorf("migrate: %v", err)
			}
		})
	}
}

// A role that only reads may be read-only by default, and so may a session whose URL
// requests it.
func TestReadOnlyByDefault(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	asked := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "default_transaction_read_only", "on"), agentstore.Options{})
	if _, err := asked.Sessions().List(t.Context(), repo.SessionFilter{AnyOwner: true}, repo.Page{}); err != nil {
		t.Error(err)
	}
	alterDatabase(t, databaseURL, "default_transaction_read_only=on")
	_, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{})
	refusal(t, "Open", err, "default_transaction_read_only", "on")
	// The error's advice works.
	openAndUse(t, pgtest.WithParameter(databaseURL, "default_transaction_read_only", "off"))
}

func openAndUse(t *testing.T, databaseURL string) {
	t.Helper()
	keepsTexts(t, databaseURL, pgtest.OpenStore(t, databaseURL, agentstore.Options{}))
}
