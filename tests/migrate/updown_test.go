package migrate

import (
	"errors"
	"testing"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// For each version: applying and reverting it restores the schema before it, and
// applying it again the schema after it.
func TestUpDownUpGivesTheSameSchema(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{Migrations: later(t)})
	nothing := schemaOf(t, conn)
	for range contracting {
		before := schemaOf(t, conn)
		step(t, migrator, schema.TargetUpSteps(1))
		after := schemaOf(t, conn)
		if len(after) < len(before) || len(after) < 10 {
			t.Fatalf("%d lines of catalog after %d, too few for the comparison", len(after), len(before))
		}
		step(t, migrator, schema.TargetDownSteps(1))
		equalCatalogs(t, "down", schemaOf(t, conn), before)
		step(t, migrator, schema.TargetUpSteps(1))
		equalCatalogs(t, "up again", schemaOf(t, conn), after)
	}
	full := catalog(t, conn)
	for _, target := range []schema.Target{schema.TargetDown(0), schema.TargetLatest()} {
		if _, err := migrator.Run(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		if target == schema.TargetDown(0) {
			equalCatalogs(t, "all down", schemaOf(t, conn), nothing)
		}
	}
	equalCatalogs(t, "all up again", catalog(t, conn), full)
}

// Down of each version refuses while there is data, which it keeps, until the data may be
// lost.
// Guarantee: Migrations: Down refuses while there is data.
func TestDownWithLiveDataRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	tables.Fill(t, pgtest.OpenStore(t, databaseURL, storeapi.Options{}))
	migrations := later(t)
	step(t, open(t, databaseURL, schema.Options{Migrations: migrations}), schema.TargetUp(expanding))
	pgtest.Exec(t, conn, "INSERT INTO extras SELECT id FROM sessions")
	for version := expanding; version > 0; version-- {
		before := tables.Contents(t, conn)
		// The option allows it; a URL cannot.
		for _, asked := range []string{databaseURL, pgtest.WithParameter(databaseURL, "agentstore.allow_data_loss", "on")} {
			steps, err := open(t, asked, schema.Options{Migrations: migrations}).Run(t.Context(), schema.TargetDown(0))
			var failed *schema.StepError
			if !errors.Is(err, schema.ErrDataLoss) || !errors.As(err, &failed) || failed.Step.Version != version || len(steps) != 0 {
				t.Fatalf("version %d: steps %v, error %v", version, steps, err)
			}
		}
		if version == schema.Latest() {
			if code, _, stderr := execute(t.Context(), t, databaseURL, "migrate", "down"); code != 6 {
				t.Errorf("version %d: exit code %d: %s", version, code, stderr)
			}
		}
		if lost := tables.Different(before, tables.Contents(t, conn)); len(lost) != 0 {
			t.Errorf("version %d: lost rows of %v", version, lost)
		}
		step(t, open(t, databaseURL, schema.Options{Migrations: migrations, AllowDataLoss: true}), schema.TargetDownSteps(1))
	}
	if left := tables.Names(t, conn); len(left) != 1 {
		t.Errorf("the tables %v are left", left)
	}
}

// A writer that commits between the check for rows and the drop would lose its row.
// The lock makes the check wait for the writer, and then see its row.
func TestDownWaitsForARunningWriter(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	migrator := open(t, databaseURL, schema.Options{})
	step(t, migrator, schema.TargetUp(1))
	conn := pgtest.Connect(t, databaseURL)
	tx, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, insertSession)
	result := make(chan error, 1)
	go func() {
		_, err := migrator.Run(t.Context(), schema.TargetDownSteps(1))
		result <- err
	}()
	await.For(t, "the revert waits", func() bool {
		return pgtest.Value[bool](t, conn, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'sessions'::regclass
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := await.Value(t, "the end of the revert", result); !errors.Is(err, schema.ErrDataLoss) {
		t.Errorf("got %v, want ErrDataLoss", err)
	}
}
