package migrate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const (
	// longWait is how long another client uses the tables that a version needs.
	longWait = 4 * time.Second
	// slack is how much longer than the lock timeout a statement may take, on a slow
	// machine.
	slack = 2 * time.Second
)

// load has writers that append while migrations run.
type load struct {
	stop     atomic.Bool
	running  sync.WaitGroup
	mu       sync.Mutex
	appended int
	longest  time.Duration // of an append
	failures []error
}

// startLoad starts writers that append through a store.
func startLoad(t *testing.T, databaseURL string) *load {
	t.Helper()
	store := pgtest.OpenStore(t, databaseURL, storeapi.Options{})
	session := pgtest.NewSession(t, store)
	return startWriters(t, func() error {
		_, err := store.Sessions().Append(t.Context(), session, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
		return err
	})
}

// startFirstLoad starts writers that append as the library of the first version could:
// on every version.
func startFirstLoad(t *testing.T, databaseURL string) *load {
	t.Helper()
	pool := pgtest.NewPool(t, pgtest.ReadCommitted(databaseURL))
	session := pgtest.NewSession(t, pgtest.OpenStore(t, databaseURL, storeapi.Options{}))
	return startWriters(t, func() error {
		_, err := pool.Exec(t.Context(), `WITH advanced AS (
				UPDATE session_counters SET next_sequence = next_sequence + 1, updated_at = clock_timestamp()
				WHERE session_id = $1 RETURNING next_sequence - 1 AS sequence
			)
			INSERT INTO messages (session_id, sequence, id, role, content)
			SELECT $1, sequence, gen_random_uuid(), 'user', 'x' FROM advanced`, pgtype.UUID{Bytes: session, Valid: true})
		return err
	})
}

func startWriters(t *testing.T, write func() error) *load {
	t.Helper()
	l := &load{}
	for range 8 {
		l.running.Go(func() {
			for !l.stop.Load() {
				began := time.Now()
				err := write()
				took := time.Since(began)
				l.mu.Lock()
				l.appended++
				l.longest = max(l.longest, took)
				if err != nil {
					l.failures = append(l.failures, err)
				}
				l.mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) end() {
	l.stop.Store(true)
	l.running.Wait()
}

// check ends the load. It fails the test if an append failed, or took longer than
// atMost.
func (l *load) check(t *testing.T, atMost time.Duration) {
	t.Helper()
	l.end()
	if len(l.failures) > 0 {
		t.Errorf("%d of %d appends failed, the first: %v", len(l.failures), l.appended, l.failures[0])
	}
	if l.longest > atMost {
		t.Errorf("an append waited %s, want at most %s", l.longest, atMost)
	}
	t.Logf("%d appends, the longest took %s", l.appended, l.longest.Round(time.Millisecond))
}

// withExtra returns the embedded migrations and one more, which locks the tables that
// the writers use.
func withExtra(t *testing.T) (migrations fstest.MapFS, version int64) {
	t.Helper()
	directory := os.DirFS("../../schema/migrations")
	names, err := fs.Glob(directory, "*.sql")
	if err != nil || len(names) != len(schema.List()) {
		t.Fatalf("%d files, %v", len(names), err)
	}
	migrations = fstest.MapFS{"9001_extra.sql": file(
		"ALTER TABLE messages ADD COLUMN extra int;", "ALTER TABLE messages DROP COLUMN extra;")}
	for _, name := range names {
		content, err := fs.ReadFile(directory, name)
		if err != nil {
			t.Fatal(err)
		}
		migrations[name] = &fstest.MapFile{Data: content}
	}
	return migrations, 9001
}

// occupy uses the table messages, as a long report does, and releases it after
// longWait.
func occupy(t *testing.T, databaseURL string) (done <-chan struct{}) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, "LOCK TABLE messages IN ACCESS SHARE MODE")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		time.Sleep(longWait)
		_ = tx.Rollback(context.WithoutCancel(t.Context()))
	}()
	t.Cleanup(func() { <-ended })
	return ended
}

// Each version above the first is reverted and applied again while writers append.
// Reverting the first is refused, after it has locked the writers out for its check.
func TestEveryVersionUnderLoad(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	migrations, extra := withExtra(t)
	migrator := open(t, databaseURL, schema.Options{Migrations: migrations})
	// The load's sessions have audit entries, which a revert deletes only on request.
	allowed := open(t, databaseURL, schema.Options{Migrations: migrations, AllowDataLoss: true})
	l := startFirstLoad(t, databaseURL)
	for range 3 {
		step(t, migrator, schema.TargetUp(extra))
		if steps, err := allowed.Run(t.Context(), schema.TargetDown(1)); err != nil || len(steps) != len(schema.List()) {
			t.Fatalf("down: steps %v, error %v", steps, err)
		}
		if _, err := migrator.Run(t.Context(), schema.TargetDown(0)); !errors.Is(err, schema.ErrDataLoss) {
			t.Fatalf("down to nothing: %v", err)
		}
		if _, err := migrator.Run(t.Context(), schema.TargetUp(schema.Latest())); err != nil {
			t.Fatal(err)
		}
	}
	l.check(t, schema.DefaultTableLockTimeout+slack)
}

// While a version waits for a table, everybody else waits behind it. The migrator
// gives way repeatedly, and continues when the table is free.
func TestWaitingVersionLetsWritersPass(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	migrations, extra := withExtra(t)
	yielded := 0
	migrator := open(t, databaseURL, schema.Options{Migrations: migrations, Progress: func(event schema.Event) {
		if event.Kind == schema.EventYielded {
			yielded++
		}
	}})
	l := startLoad(t, databaseURL)
	for _, target := range []schema.Target{schema.TargetUp(extra), schema.TargetDownSteps(1)} {
		freed := occupy(t, databaseURL)
		yielded = 0
		step(t, migrator, target)
		select {
		case <-freed:
		default:
			t.Error("the version did not need the table")
		}
		if yielded == 0 {
			t.Error("the version never gave way")
		}
	}
	l.check(t, schema.DefaultTableLockTimeout+slack)
}

// The naive migrator waits for the table without a limit. The harness finds that the
// writers wait with it.
func TestNaiveVersionHoldsUpWriters(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	l := startLoad(t, databaseURL)
	occupy(t, databaseURL)
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), "ALTER TABLE messages ADD COLUMN extra int")
	l.end()
	if l.longest < schema.DefaultTableLockTimeout+slack {
		t.Errorf("no append took longer than %s: the harness does not catch the naive migrator", l.longest)
	}
}

func TestBusyTablesEndTheRun(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	migrations, extra := withExtra(t)
	occupy(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{Migrations: migrations, LockTimeout: -1, TableLockTimeout: 50 * time.Millisecond})
	_, err := migrator.Run(t.Context(), schema.TargetUp(extra))
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrBusy) || !errors.As(err, &failed) || failed.Step.Version != extra {
		t.Errorf("got %v", err)
	}
	if conn := pgtest.Connect(t, databaseURL); pgtest.Value[int64](t, conn, heldLocks, lockID) != 0 {
		t.Error("the migration lock is still held")
	}
}
