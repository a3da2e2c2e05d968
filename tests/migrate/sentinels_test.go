package migrate

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Every error of a migrator matches one of the package's sentinels, or is the
// context's.
// Guarantee: Migrations: Every error matches a sentinel of package `schema`, or is the context's.
func TestErrorsHaveSentinels(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	all := func(databaseURL string, migrations fs.FS) map[string]func(context.Context) error {
		options := schema.Options{LockTimeout: -1, Migrations: migrations}
		with := func(call func(context.Context, *schema.Migrator) error) func(context.Context) error {
			return func(ctx context.Context) error {
				migrator, err := schema.Open(ctx, databaseURL, options)
				if err != nil {
					return err
				}
				return call(ctx, migrator)
			}
		}
		return map[string]func(context.Context) error{
			"Run": with(func(ctx context.Context, m *schema.Migrator) error {
				_, err := m.Run(ctx, schema.TargetLatest())
				return err
			}),
			"Plan": with(func(ctx context.Context, m *schema.Migrator) error {
				_, err := m.Plan(ctx, schema.TargetLatest())
				return err
			}),
			"Status":   with(func(ctx context.Context, m *schema.Migrator) error { _, err := m.Status(ctx); return err }),
			"Version":  with(func(ctx context.Context, m *schema.Migrator) error { _, err := m.Version(ctx); return err }),
			"Validate": with(func(ctx context.Context, m *schema.Migrator) error { return m.Validate(ctx) }),
			"Up":       func(ctx context.Context) error { return schema.Up(ctx, databaseURL) },
		}
	}
	one := func(sql string) fs.FS { return fstest.MapFS{"0001_one.sql": file(sql, "SELECT 1;")} }
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("called off"))
	for name, test := range map[string]struct {
		databaseURL string
		migrations  fs.FS
		ctx         context.Context
		calls       []string // nil: all
		want        error
	}{
		"no server":             {"postgres://127.0.0.1:1/x", nil, t.Context(), nil, schema.ErrUnavailable},
		"no database":           {pgtest.WithDatabase(databaseURL, "no_such_database"), nil, t.Context(), nil, schema.ErrUnavailable},
		"no user":               {pgtest.WithUser(databaseURL, "no_such_user", "x"), nil, t.Context(), nil, schema.ErrPermission},
		"no URL":                {"mysql://x", nil, t.Context(), nil, schema.ErrURL},
		"the context has ended": {databaseURL, nil, ended, nil, context.Canceled},
		"no such statement":     {databaseURL, one("SELEKT;"), t.Context(), []string{"Run"}, schema.ErrFailed},
		"no SQL":                {databaseURL, fstest.MapFS{"0001_one.sql": {Data: []byte("SELECT 1;")}}, t.Context(), []string{"Run"}, schema.ErrFailed},
		"the connection ends":   {databaseURL, one("SELECT pg_terminate_backend(pg_backend_pid());"), t.Context(), []string{"Run"}, schema.ErrUnavailable},
		"no files":              {databaseURL, fstest.MapFS{}, t.Context(), []string{"Run", "Plan"}, schema.ErrInvalid},
		// short: the statement takes longer, so it fires however late
		"statement timeout": {databaseURL, one("SET LOCAL statement_timeout = 50;\nSELECT pg_sleep(3600);"), t.Context(), []string{"Run"}, schema.ErrFailed},
	} {
		t.Run(name, func(t *testing.T) {
			for call, do := range all(test.databaseURL, test.migrations) {
				if test.calls != nil && !slices.Contains(test.calls, call) {
					continue
				}
				err := do(test.ctx)
				if !errors.Is(err, test.want) {
					t.Errorf("%s: %v, want %v", call, err, test.want)
				}
				if matched := sentinels(err); test.want != context.Canceled && len(matched) != 1 { //nolint:errorlint // identity is meant
					t.Errorf("%s: %v matches %v", call, err, matched)
				}
			}
		})
	}
	// A version table that is not ours.
	pgtest.Exec(t, conn, "DROP TABLE IF EXISTS agentstore_migrations; CREATE TABLE agentstore_migrations (name text)")
	for call, do := range all(databaseURL, nil) {
		if err := do(t.Context()); !errors.Is(err, schema.ErrFailed) {
			t.Errorf("%s with another's version table: %v", call, err)
		}
	}
	if err := schema.Check(t.Context(), conn); !errors.Is(err, schema.ErrFailed) {
		t.Errorf("Check with another's version table: %v", err)
	}
	if _, err := schema.New(nil, schema.Options{}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("New without a pool: %v", err)
	}
	if _, err := schema.SQL(9999, schema.DirectionUp); !errors.Is(err, schema.ErrUnknownVersion) {
		t.Errorf("SQL of an unknown version: %v", err)
	}
}

func sentinels(err error) (matched []error) {
	for _, sentinel := range schema.Sentinels() {
		if errors.Is(err, sentinel) {
			matched = append(matched, sentinel)
		}
	}
	return matched
}
