package migrate

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Each version by itself: up, down gives what was before; up again what was after.
func TestUpDownUpGivesTheSameSchema(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := connect(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{})
	for _, migration := range schema.List() {
		before := schemaOf(t, conn)
		step(t, migrator, schema.TargetUp(migration.Version))
		after := schemaOf(t, conn)
		step(t, migrator, schema.TargetDownSteps(1))
		equalCatalogs(t, migration.Name+" down", schemaOf(t, conn), before)
		step(t, migrator, schema.TargetUpSteps(1))
		equalCatalogs(t, migration.Name+" up again", schemaOf(t, conn), after)
	}
}

func TestAllDownAllUpGivesTheSameSchema(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := connect(t, databaseURL)
	empty := schemaOf(t, conn)
	migrator := open(t, databaseURL, schema.Options{})
	if _, err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	full := catalog(t, conn)
	if len(full) < 50 {
		t.Fatalf("only %d lines of catalog: the comparison sees too little", len(full))
	}
	if _, err := migrator.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	equalCatalogs(t, "all down", schemaOf(t, conn), empty)
	if _, err := migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	equalCatalogs(t, "all up again", catalog(t, conn), full)
}

func TestDownWithLiveDataRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	conn := connect(t, databaseURL)
	execSQL(t, conn, insertSession)
	before := catalog(t, conn)

	steps, err := open(t, databaseURL, schema.Options{}).DownTo(t.Context(), 0)
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrDataLoss) || !errors.As(err, &failed) || failed.Step.Version != 1 {
		t.Fatalf("steps %v, error %v", steps, err)
	}
	if len(schema.List()) == 1 {
		equalCatalogs(t, "refused", catalog(t, conn), before)
	}
	if got := query[int64](t, conn, "SELECT count(*) FROM sessions"); got != 1 {
		t.Errorf("%d sessions left of 1", got)
	}

	steps, err = open(t, databaseURL, schema.Options{AllowDataLoss: true}).DownTo(t.Context(), 0)
	if err != nil || len(steps) == 0 || steps[len(steps)-1].Version != 1 {
		t.Errorf("with AllowDataLoss: steps %v, error %v", steps, err)
	}
	if query[bool](t, conn, "SELECT to_regclass('sessions') IS NOT NULL") {
		t.Error("with AllowDataLoss: the table is still there")
	}
}

// A writer that commits between the look for rows and the drop would lose its
// row. The lock makes the look wait for it, and then see its row.
func TestDownWaitsForARunningWriter(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	migrator := open(t, databaseURL, schema.Options{})
	step(t, migrator, schema.TargetUp(1))
	conn := connect(t, databaseURL)
	tx, err := connect(t, databaseURL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), insertSession); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := migrator.Down(t.Context(), 1)
		result <- err
	}()
	eventually(t, "the revert waits", func() bool {
		return query[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'sessions'::regclass)")
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, schema.ErrDataLoss) {
		t.Errorf("got %v, want ErrDataLoss", err)
	}
}

// step runs to a target that is exactly one version away.
func step(t *testing.T, migrator *schema.Migrator, target schema.Target) {
	t.Helper()
	steps, err := migrator.Run(t.Context(), target)
	if err != nil || len(steps) != 1 {
		t.Fatalf("steps %v, error %v", steps, err)
	}
}
