package migrate

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Reverting version 8 would lose keys and owners: it refuses to, until it is allowed.
func TestDownRefusesToLoseNames(t *testing.T) {
	t.Parallel()
	for name, insert := range map[string]string{
		"key":   "INSERT INTO sessions (id, key) VALUES (gen_random_uuid(), 'k')",
		"owner": "INSERT INTO sessions (id, owner) VALUES (gen_random_uuid(), 'o')",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewEmptyDatabase(t)
			migrator := open(t, databaseURL, schema.Options{})
			if _, err := migrator.Run(t.Context(), schema.TargetUp(8)); err != nil {
				t.Fatal(err)
			}
			conn := pgtest.Connect(t, databaseURL)
			pgtest.Exec(t, conn, insertSession) // loses nothing
			step(t, migrator, schema.TargetDownSteps(1))
			step(t, migrator, schema.TargetUp(8))
			pgtest.Exec(t, conn, insert)
			before := catalog(t, conn)
			if _, err := migrator.Run(t.Context(), schema.TargetDown(7)); !errors.Is(err, schema.ErrDataLoss) {
				t.Errorf("got %v, want ErrDataLoss", err)
			}
			equalCatalogs(t, "refused", catalog(t, conn), before)
			step(t, open(t, databaseURL, schema.Options{AllowDataLoss: true}), schema.TargetDown(7))
			if got := pgtest.Value[int64](t, conn, "SELECT count(*) FROM sessions"); got != 2 {
				t.Errorf("%d sessions left of 2", got)
			}
		})
	}
}

// A revert waits for a writer before it looks for keys, and so sees what was written.
func TestDownWaitsForAWriterOfNames(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	migrator := open(t, databaseURL, schema.Options{})
	if _, err := migrator.Run(t.Context(), schema.TargetUp(8)); err != nil {
		t.Fatal(err)
	}
	conn := pgtest.Connect(t, databaseURL)
	tx, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, "INSERT INTO sessions (id, key) VALUES (gen_random_uuid(), 'k')")
	result := make(chan error, 1)
	go func() {
		_, err := migrator.Run(t.Context(), schema.TargetDownSteps(1))
		result <- err
	}()
	pgtest.Await(t, patience, "the revert waits", func() bool {
		return pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'sessions'::regclass)")
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, schema.ErrDataLoss) {
		t.Errorf("got %v, want ErrDataLoss", err)
	}
}
