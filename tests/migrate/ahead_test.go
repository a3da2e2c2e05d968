package migrate

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const newer = 9001

// withNewer returns the embedded migrations and one more, as a newer library has,
// which declares oldest as the oldest library that works on it.
func withNewer(t *testing.T, oldest int64) fstest.MapFS {
	t.Helper()
	migrations, version := withExtra(t)
	if version != newer {
		t.Fatalf("the extra version is %d", version)
	}
	for name, extra := range migrations {
		if strings.HasPrefix(name, fmt.Sprint(newer)) {
			extra.Data = append(fmt.Appendf(nil, "-- oldest library: %d\n", oldest), extra.Data...)
		}
	}
	return migrations
}

// ahead returns a database that a newer library has migrated.
func ahead(t *testing.T, oldest int64) string {
	t.Helper()
	databaseURL := empty(t)
	if _, err := open(t, databaseURL, schema.Options{Migrations: withNewer(t, oldest)}).Run(t.Context(), schema.TargetLatest()); err != nil {
		t.Fatal(err)
	}
	return databaseURL
}

// A service with this library that restarts after a newer one has migrated still
// works, with Options.Migrate, too.
func TestDatabaseAheadThatAllowsThisLibrary(t *testing.T) {
	t.Parallel()
	databaseURL := ahead(t, schema.Latest())
	for _, options := range []storeapi.Options{{}, {Migrate: true}} {
		store, err := storeapi.Open(t.Context(), databaseURL, options)
		if err != nil {
			t.Fatalf("open with %+v: %v", options, err)
		}
		session := pgtest.NewSession(t, store)
		if _, err := store.Sessions().Append(t.Context(), session, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}

	migrator := open(t, databaseURL, schema.Options{})
	if err := migrator.Validate(t.Context()); err != nil {
		t.Errorf("validate: %v", err)
	}
	for _, target := range []schema.Target{schema.TargetLatest(), schema.TargetUp(1), schema.TargetUpSteps(1)} {
		if steps, err := migrator.Run(t.Context(), target); err != nil || len(steps) != 0 {
			t.Errorf("up: %v, %v", steps, err)
		}
		if steps, err := migrator.Plan(t.Context(), target); err != nil || len(steps) != 0 {
			t.Errorf("plan: %v, %v", steps, err)
		}
	}
	// Only the library that applied a version can revert it.
	for _, target := range []schema.Target{schema.TargetDownSteps(1), schema.TargetDown(1), schema.TargetDown(0)} {
		steps, err := migrator.Run(t.Context(), target)
		var refused *schema.AheadError
		if len(steps) != 0 || !errors.As(err, &refused) || !refused.Revert || !strings.Contains(err.Error(), "revert with") {
			t.Errorf("down: %v, %v", steps, err)
		}
	}
	for args, want := range map[string]string{
		"validate":      "valid: the database is at version 9001",
		"version":       "9001",
		"up":            "nothing to do: the database is at version 9001",
		"up --dry-run":  "nothing to do: the database is at version 9001",
		"status":        "unknown   version 9001, of a newer binary",
		"status --json": `"state":"unknown"`,
	} {
		code, stdout, stderr := execute(t.Context(), t, databaseURL, append([]string{"migrate"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%s: exit code %d, stdout %s, stderr %s", args, code, stdout, stderr)
		}
	}
	if code, _, stderr := execute(t.Context(), t, databaseURL, "migrate", "down"); code != 4 || !strings.Contains(stderr, "revert with") {
		t.Errorf("down: exit code %d: %s", code, stderr)
	}
}

func TestDatabaseAheadThatRefusesThisLibrary(t *testing.T) {
	t.Parallel()
	for name, databaseURL := range map[string]string{
		"declared": ahead(t, newer),
		// Somebody applied a version by hand, without a declaration.
		"undeclared": func() string {
			databaseURL := migrated(t)
			pgtest.Exec(t, pgtest.Connect(t, databaseURL), "INSERT INTO agentstore_migrations (version) VALUES ($1)", newer)
			return databaseURL
		}(),
		// A later version cannot allow what an earlier one refuses.
		"covered": func() string {
			databaseURL := ahead(t, newer)
			pgtest.Exec(t, pgtest.Connect(t, databaseURL), "INSERT INTO agentstore_migrations (version, oldest_library) VALUES ($1, $2)", newer+1, schema.Latest())
			return databaseURL
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			migrator := open(t, databaseURL, schema.Options{})
			_, openErr := storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
			_, migrateErr := storeapi.Open(t.Context(), databaseURL, storeapi.Options{Migrate: true})
			_, upErr := migrator.Run(t.Context(), schema.TargetLatest())
			for call, err := range map[string]error{
				"Open": openErr, "Open with Migrate": migrateErr, "Validate": migrator.Validate(t.Context()), "Up": upErr,
				"Check": schema.Check(t.Context(), pgtest.Connect(t, databaseURL)),
			} {
				var refused *schema.AheadError
				if !errors.As(err, &refused) || refused.Have < newer || refused.Want != schema.Latest() || refused.Oldest != newer || refused.Revert ||
					!strings.Contains(err.Error(), "upgrade the binary") {
					t.Errorf("%s: %v", call, err)
				}
			}
			if !errors.Is(openErr, repo.ErrSchema) || !errors.Is(migrateErr, repo.ErrSchema) {
				t.Errorf("%v; %v", openErr, migrateErr)
			}
			if _, err := migrator.Status(t.Context()); err != nil {
				t.Errorf("status: %v", err)
			}
			if version, err := migrator.Version(t.Context()); err != nil || version < newer {
				t.Errorf("version: %d, %v", version, err)
			}
		})
	}
}

// On a database that was not migrated to its version, a library says so, and what to
// do. No part of it works.
func TestDatabaseBehind(t *testing.T) {
	t.Parallel()
	for version := range schema.Latest() {
		databaseURL := empty(t)
		if version > 0 {
			if _, err := open(t, databaseURL, schema.Options{}).Run(t.Context(), schema.TargetUp(version)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
		var behind *schema.BehindError
		if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &behind) || *behind != (schema.BehindError{Have: version, Want: schema.Latest()}) ||
			!strings.Contains(err.Error(), "agentstore migrate up") {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// If a version is missing below the newest, a library that knows the newest refuses
// the database, and so does one that does not.
func TestDatabaseWithAGap(t *testing.T) {
	t.Parallel()
	databaseURL := ahead(t, schema.Latest())
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), "DELETE FROM agentstore_migrations WHERE version = 2")
	_, err := storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
	var gap *schema.GapError
	if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &gap) || gap.Missing != 2 {
		t.Errorf("%v", err)
	}
}

// Down removes a version's declaration, too.
func TestDownForgetsWhatAVersionDeclared(t *testing.T) {
	t.Parallel()
	databaseURL := ahead(t, newer)
	migrator := open(t, databaseURL, schema.Options{Migrations: withNewer(t, newer)})
	step(t, migrator, schema.TargetDownSteps(1))
	store, err := storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// A version's declaration is in its own row, committed with it.
func TestVersionsDeclareTheOldestLibrary(t *testing.T) {
	t.Parallel()
	conn := pgtest.Connect(t, ahead(t, 4))
	for _, migration := range append(schema.List(), schema.Migration{Version: newer, OldestLibrary: 4}) {
		const declared = "SELECT oldest_library IS NOT DISTINCT FROM $2 FROM agentstore_migrations WHERE version = $1"
		want := &migration.OldestLibrary
		if migration.Version < 4 { // the column did not exist
			want = nil
		}
		if !pgtest.Value[bool](t, conn, declared, migration.Version, want) {
			t.Errorf("version %d does not declare %d", migration.Version, migration.OldestLibrary)
		}
	}
}

// If as many old as new migrators run at once, all succeed, each version is applied
// once, and the old ones do not touch the new ones' versions.
func TestMigratorsOfTwoLibrariesAtOnce(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	migrations := withNewer(t, schema.Latest())
	var group sync.WaitGroup
	for i := range racers {
		options := schema.Options{}
		if i%2 == 1 {
			options.Migrations = migrations
		}
		group.Go(func() {
			migrator, err := schema.Open(t.Context(), databaseURL, options)
			if err == nil {
				_, err = migrator.Run(t.Context(), schema.TargetLatest())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := open(t, databaseURL, schema.Options{}).Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if err := open(t, databaseURL, schema.Options{Migrations: migrations}).Validate(t.Context()); err != nil {
		t.Error(err)
	}
}
