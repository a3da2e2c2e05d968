package migrate

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

var racers = pgtest.Choose(12, 8)

// race starts processes on one empty database. The gate holds them until all have
// looked at the database and the first is in the middle of its migration.
func race(t *testing.T, begin func(databaseURL string) *process, held int) (databaseURL string, processes []*process, failed int) {
	t.Helper()
	databaseURL = pgtest.NewEmptyDatabase(t)
	gate := newGate(t, databaseURL, "sessions")
	for range racers {
		processes = append(processes, begin(databaseURL))
	}
	gate.waitFor(t, racers, held)
	gate.open(t)
	for _, process := range processes {
		if process.exit(t) != 0 {
			failed++
		}
	}
	return databaseURL, processes, failed
}

// Guarantee: Migrations: Concurrent migrators apply each version once, and all succeed.
func TestProcessesMigrateOneEmptyDatabase(t *testing.T) {
	t.Parallel()
	// One is held at the gate, and has the lock, for which the others wait.
	databaseURL, processes, failed := race(t, func(databaseURL string) *process {
		return agentstore(t, databaseURL, "migrate", "up", "--lock-timeout", "1h")
	}, 1)
	var output strings.Builder
	for _, process := range processes {
		fmt.Fprintf(&output, "%s%s", process.stdout.String(), process.stderr.String())
	}
	if failed != 0 {
		t.Errorf("%d of %d processes failed:\n%s", failed, racers, output.String())
	}
	for _, migration := range schema.List() {
		if count := strings.Count(output.String(), migration.Name+"  applied in"); count != 1 {
			t.Errorf("%s was applied %d times", migration.Name, count)
		}
	}
	if err := open(t, databaseURL, schema.Options{}).Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if got := pgtest.Value[int64](t, pgtest.Connect(t, databaseURL), heldLocks, lockID); got != 0 {
		t.Errorf("%d locks left behind", got)
	}
}

// The same harness finds that naive migrators fail if all look before one acts.
func TestNaiveMigratorsFail(t *testing.T) {
	t.Parallel()
	_, _, failed := race(t, func(databaseURL string) *process {
		return naive(t, databaseURL)
	}, racers)
	if failed == 0 {
		t.Error("no naive migrator failed: the harness does not catch them")
	}
}

// Migrators of two libraries run at once, in any order. All succeed, and the older ones leave
// the newer ones' versions alone. Running a version twice must not happen even if the database
// would not notice, as it does when a table is created twice.
func TestMigratorsInOneProcessApplyEachVersionOnce(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	older := fstest.MapFS{"0001_log.sql": file("CREATE TABLE log (version int);", "DROP TABLE log;")}
	for version := 2; version <= 3; version++ {
		older[fmt.Sprintf("%04d_row.sql", version)] = logs(version)
	}
	newer := maps.Clone(older)
	for version := 4; version <= 5; version++ {
		newer[fmt.Sprintf("%04d_row.sql", version)] = logs(version)
	}
	var group sync.WaitGroup
	for i := range racers {
		group.Go(func() {
			migrator, err := schema.Open(t.Context(), databaseURL, schema.Options{Migrations: []fstest.MapFS{older, newer}[i%2]})
			if err == nil {
				_, err = migrator.Run(t.Context(), schema.TargetLatest())
			}
			if err == nil {
				err = migrator.Validate(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	conn := pgtest.Connect(t, databaseURL)
	if got := pgtest.Value[string](t, conn, "SELECT string_agg(version::text, ',' ORDER BY version) FROM log"); got != "2,3,4,5" {
		t.Errorf("versions that ran: %s", got)
	}
}

// logs returns a migration that adds a row, and on which libraries of version 2 work.
func logs(version int) *fstest.MapFile {
	migration := file(fmt.Sprintf("INSERT INTO log VALUES (%d); SELECT pg_sleep(0.01);", version), "SELECT 1;")
	migration.Data = append([]byte("-- oldest library: 2\n"), migration.Data...)
	return migration
}

// file returns a migration file with two sections.
func file(up, down string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("-- +goose Up\n" + up + "\n-- +goose Down\n" + down + "\n")}
}
