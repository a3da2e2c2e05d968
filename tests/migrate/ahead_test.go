package migrate

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A library works on a newer database for as long as each newer version allows it, and again
// when the version that does not is reverted.
func TestLibraryOnANewerDatabase(t *testing.T) {
	t.Parallel()
	databaseURL, migrator := upgraded(t, expanding)
	allowed(t, databaseURL)
	allowedByCommand(t, databaseURL)
	step(t, migrator, schema.TargetUp(contracting))
	refused(t, databaseURL, "up", "down", "validate")
	list, err := migrator.Status(t.Context())
	if err != nil || len(list) != int(contracting) {
		t.Fatalf("%v, %v", list, err)
	}
	for _, status := range list {
		want := int64(1)
		if status.Version > schema.Latest() {
			want = status.Version - 1
		}
		if status.State != schema.StateApplied || status.OldestLibrary != want {
			t.Errorf("version %d is %s and declares %d, want %d", status.Version, status.State, status.OldestLibrary, want)
		}
	}
	// A later version cannot allow what an earlier one refuses.
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "INSERT INTO agentstore_migrations (version, oldest_library) VALUES ($1, 1)", contracting+1)
	refused(t, databaseURL)
	pgtest.Exec(t, conn, "DELETE FROM agentstore_migrations WHERE version = $1", contracting+1)
	step(t, migrator, schema.TargetDownSteps(1))
	allowed(t, databaseURL)
	// If a version is missing below the newest, all libraries refuse the database.
	pgtest.Exec(t, conn, "DELETE FROM agentstore_migrations WHERE version = 2")
	_, err = storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
	var gap *schema.GapError
	if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &gap) || gap.Missing != 2 {
		t.Errorf("with a gap: %v", err)
	}
}

// allowed checks that this library works, with Options.Migrate, too, and changes no version.
func allowed(t *testing.T, databaseURL string) {
	t.Helper()
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
	migrator := open(t, databaseURL, schema.Options{AllowDataLoss: true})
	if err := migrator.Validate(t.Context()); err != nil {
		t.Errorf("validate: %v", err)
	}
	for _, target := range []schema.Target{schema.TargetLatest(), schema.TargetUp(1), schema.TargetUpSteps(1)} {
		steps, err := migrator.Run(t.Context(), target)
		planned, planErr := migrator.Plan(t.Context(), target)
		if err != nil || planErr != nil || len(steps)+len(planned) != 0 {
			t.Errorf("up: %v, %v; planned: %v, %v", steps, err, planned, planErr)
		}
	}
	// Only the library that applied a version can revert it.
	for _, target := range []schema.Target{schema.TargetDownSteps(1), schema.TargetDown(0)} {
		steps, err := migrator.Run(t.Context(), target)
		var ahead *schema.AheadError
		if len(steps) != 0 || !errors.As(err, &ahead) || !ahead.Revert {
			t.Errorf("down: %v, %v", steps, err)
		}
	}
}

// allowedByCommand is like allowed, for the command.
func allowedByCommand(t *testing.T, databaseURL string) {
	t.Helper()
	for args, want := range map[string]string{
		"validate":      fmt.Sprintf("valid: the database is at version %d", expanding),
		"up --dry-run":  fmt.Sprintf("nothing to do: the database is at version %d", expanding),
		"status":        fmt.Sprintf("unknown   version %d, of a newer binary", expanding),
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

// refused checks that this library and the verbs of its command refuse the database, and change nothing.
func refused(t *testing.T, databaseURL string, verbs ...string) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	before := catalog(t, conn)
	migrator := open(t, databaseURL, schema.Options{AllowDataLoss: true})
	_, openErr := storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
	_, migrateErr := storeapi.Open(t.Context(), databaseURL, storeapi.Options{Migrate: true})
	_, upErr := migrator.Run(t.Context(), schema.TargetLatest())
	_, downErr := migrator.Run(t.Context(), schema.TargetDownSteps(1))
	_, planErr := migrator.Plan(t.Context(), schema.TargetLatest())
	for call, err := range map[string]error{
		"Open": openErr, "Open with Migrate": migrateErr, "up": upErr, "down": downErr, "Plan": planErr,
		"Validate": migrator.Validate(t.Context()), "Check": schema.Check(t.Context(), conn),
	} {
		var ahead *schema.AheadError
		if !errors.Is(err, schema.ErrAhead) || !errors.As(err, &ahead) || ahead.Want != schema.Latest() || ahead.Oldest != expanding || ahead.Revert ||
			!strings.Contains(err.Error(), "upgrade the binary") {
			t.Errorf("%s: %v", call, err)
		}
	}
	if !errors.Is(openErr, repo.ErrSchema) || !errors.Is(migrateErr, repo.ErrSchema) {
		t.Errorf("%v; %v", openErr, migrateErr)
	}
	list, err := migrator.Status(t.Context())
	if err != nil || list[len(list)-1].State != schema.StateUnknown {
		t.Errorf("status %v, %v", list, err)
	}
	for _, verb := range verbs {
		if code, _, stderr := execute(t.Context(), t, databaseURL, "migrate", verb); code != 4 || !strings.Contains(stderr, "newer than this binary") {
			t.Errorf("%s: exit code %d: %s", verb, code, stderr)
		}
	}
	equalCatalogs(t, "refused", catalog(t, conn), before)
}

// On a database that was not migrated to its version, a library says so, and what to
// do. No part of it works.
// Guarantee: Migrations: On a database that was not migrated a library only returns an error.
func TestDatabaseBehind(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	migrator := open(t, databaseURL, schema.Options{})
	for version := range schema.Latest() {
		_, err := storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
		var behind *schema.BehindError
		if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &behind) || *behind != (schema.BehindError{Have: version, Want: schema.Latest()}) ||
			!strings.Contains(err.Error(), "agentstore migrate up") {
			t.Errorf("version %d: %v", version, err)
		}
		step(t, migrator, schema.TargetUpSteps(1))
	}
}
