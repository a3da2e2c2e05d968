package migrate

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// in returns a URL whose connections use one schema only.
func in(databaseURL, name string) string {
	return pgtest.WithParameter(databaseURL, "search_path", `"`+strings.ReplaceAll(name, `"`, `""`)+`"`)
}

// Two schemas in one database have the tables, beside a foreign table with the name
// of one of ours.
func TestSchemasBesideAForeignTable(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "CREATE TABLE public.sessions (theirs int); INSERT INTO public.sessions VALUES (7)")
	_, err := open(t, in(databaseURL, "public"), schema.Options{}).Run(t.Context(), schema.TargetLatest())
	var exists *schema.ExistsError
	if !errors.Is(err, schema.ErrExists) || !errors.As(err, &exists) || exists.Name != "sessions" || !strings.Contains(err.Error(), "Options.Schema") {
		t.Fatalf("in public: %v", err)
	}

	names := []string{"agents", `A "b", c's \ ☃ $1`}
	for _, name := range names {
		steps, err := open(t, databaseURL, schema.Options{Schema: name}).Run(t.Context(), schema.TargetLatest())
		if err != nil || len(steps) != len(schema.List()) {
			t.Fatalf("%s: %d steps, %v", name, len(steps), err)
		}
		migrator := open(t, databaseURL, schema.Options{Schema: name, LockTimeout: -1})
		if err := migrator.Validate(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := migrator.Run(t.Context(), schema.TargetLatest()); err != nil {
			t.Errorf("%s, again: %v", name, err)
		}
		if list, err := migrator.Status(t.Context()); err != nil || list[len(list)-1].State != schema.StateApplied {
			t.Errorf("%s: status %v, %v", name, list, err)
		}
		pgtest.Exec(t, pgtest.Connect(t, in(databaseURL, name)), insertSession)
	}
	// Refusals and reverts affect one schema only.
	first := open(t, databaseURL, schema.Options{Schema: names[0]})
	if _, err := first.Run(t.Context(), schema.TargetDown(0)); !errors.Is(err, schema.ErrDataLoss) {
		t.Errorf("down with data: %v", err)
	}
	if err := first.Validate(t.Context()); !errors.Is(err, schema.ErrBehind) {
		t.Errorf("the versions above were reverted: %v", err)
	}
	second := open(t, databaseURL, schema.Options{Schema: names[1], AllowDataLoss: true})
	if err := second.Validate(t.Context()); err != nil {
		t.Errorf("the other schema: %v", err)
	}
	if _, err := second.Run(t.Context(), schema.TargetDown(0)); err != nil {
		t.Error(err)
	}
	if version, err := second.Version(t.Context()); err != nil || version != 0 {
		t.Errorf("version %d, %v", version, err)
	}
	if got := pgtest.Value[int](t, conn, "SELECT count(*) FROM "+`"agents".sessions`); got != 1 {
		t.Errorf("%d sessions in the first schema", got)
	}
	if got := pgtest.Value[int](t, conn, "SELECT theirs FROM public.sessions"); got != 7 {
		t.Errorf("the foreign table has %d", got)
	}
	if got := pgtest.Value[int](t, conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'agentstore_migrations%'"); got != 1 {
		t.Errorf("%d tables in public, want only the foreign one", got)
	}
}

func TestEightMigratorsMakeOneSchema(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			store, err := storeapi.Open(t.Context(), databaseURL, storeapi.Options{Schema: "Agents", Migrate: true})
			if err == nil {
				err = store.Close()
			}
			_, runErr := open(t, databaseURL, schema.Options{Schema: "Agents"}).Run(t.Context(), schema.TargetLatest())
			if err := errors.Join(err, runErr); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := pgtest.Value[int](t, pgtest.Connect(t, databaseURL), `SELECT count(*) FROM "Agents".agentstore_migrations`); got != len(schema.List()) {
		t.Errorf("%d rows in the version table", got)
	}
}

// Each schema has a lock of its own.
func TestSchemasAreMigratedAtOnce(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	migrations := fstest.MapFS{"0001_a.sql": file("CREATE TABLE a ();", "DROP TABLE a;")}
	other := open(t, databaseURL, schema.Options{Schema: "other", LockTimeout: -1, Migrations: migrations})
	same := open(t, pgtest.WithParameter(databaseURL, "search_path", "first"), schema.Options{LockTimeout: -1, Migrations: migrations})
	var locked, beside error
	_, err := open(t, databaseURL, schema.Options{Schema: "first", Migrations: migrations, Progress: func(event schema.Event) {
		if event.Kind == schema.EventStarted && locked == nil {
			_, locked = same.Run(t.Context(), schema.TargetLatest())
			_, beside = other.Run(t.Context(), schema.TargetLatest())
		}
	}}).Run(t.Context(), schema.TargetLatest())
	if err != nil || !errors.Is(locked, schema.ErrLocked) || beside != nil {
		t.Errorf("the first: %v; the same meanwhile: %v; the other: %v", err, locked, beside)
	}
}

func TestSchemaThatTheRoleMayNotMake(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	conn := pgtest.Connect(t, databaseURL)
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	role := "schema_" + strings.TrimPrefix(u.Path, "/")
	pgtest.Exec(t, conn, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'")
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, databaseURL)
		if err == nil {
			_, err = conn.Exec(ctx, "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role)
			_ = conn.Close(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	})
	as := pgtest.WithUser(databaseURL, role, "x")
	options := storeapi.Options{Schema: "agents", Migrate: true}
	_, err = storeapi.Open(t.Context(), as, options)
	if !errors.Is(err, schema.ErrPermission) || !errors.Is(err, repo.ErrPermission) || !strings.Contains(err.Error(), `make the schema "agents"`) {
		t.Errorf("without the privilege to create it: %v", err)
	}
	// Another role creates the schema, and grants no privilege on it.
	pgtest.Exec(t, conn, "CREATE SCHEMA agents; GRANT USAGE ON SCHEMA agents TO "+role)
	_, err = storeapi.Open(t.Context(), as, options)
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrPermission) || !errors.Is(err, repo.ErrPermission) || !errors.As(err, &failed) {
		t.Errorf("without a privilege on it: %v", err)
	}
	pgtest.Exec(t, conn, "GRANT CREATE ON SCHEMA agents TO "+role)
	store, err := storeapi.Open(t.Context(), as, options)
	if err != nil {
		t.Fatal(err)
	}
	_ = store.Close()
}
