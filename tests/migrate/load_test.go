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

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
)

const (
	// longWait is how long somebody else uses the tables that a version needs.
	longWait = 4 * time.Second
	// slack is what a statement may take beyond the lock timeout, on a slow
	// machine.
	slack = 2 * time.Second
)

// load is writers that append while migrations run.
type load struct {
	stop     atomic.Bool
	running  sync.WaitGroup
	mu       sync.Mutex
	appended int
	longest  time.Duration // an append took
	failures []error
}

func startLoad(t *testing.T, databaseURL string) *load {
	t.Helper()
	store, err := storeapi.Open(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	l := &load{}
	for range 8 {
		l.running.Go(func() {
			for !l.stop.Load() {
				began := time.Now()
				_, err := store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
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
	t.Cleanup(func() {
		l.end()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func (l *load) end() {
	l.stop.Store(true)
	l.running.Wait()
}

// check ends the load: no append failed, and none waited longer than so.
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

// withExtra is the embedded migrations and one more, which needs the tables of
// the running writers for itself.
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

// occupy uses the table messages, as a long report does, and gives it back after
// longWait.
func occupy(t *testing.T, databaseURL string) (done <-chan struct{}) {
	t.Helper()
	conn := connect(t, databaseURL)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE messages IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		time.Sleep(longWait)
		_ = tx.Rollback(context.WithoutCancel(t.Context()))
	}()
	t.Cleanup(func() { <-ended })
	return ended
}

// Every version above the first goes down and up again while writers append,
// and the first is tried: it refuses, having kept the writers out for a look.
func TestEveryVersionUnderLoad(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	migrations, extra := withExtra(t)
	migrator := open(t, databaseURL, schema.Options{Migrations: migrations})
	// The load's sessions are in the audit trail, which no revert takes away
	// unasked.
	allowed := open(t, databaseURL, schema.Options{Migrations: migrations, AllowDataLoss: true})
	l := startLoad(t, databaseURL)
	for range 3 {
		step(t, migrator, schema.TargetUp(extra))
		if steps, err := allowed.DownTo(t.Context(), 1); err != nil || len(steps) != len(schema.List()) {
			t.Fatalf("down: steps %v, error %v", steps, err)
		}
		if _, err := migrator.DownTo(t.Context(), 0); !errors.Is(err, schema.ErrDataLoss) {
			t.Fatalf("down to nothing: %v", err)
		}
		if _, err := migrator.UpTo(t.Context(), schema.Latest()); err != nil {
			t.Fatal(err)
		}
	}
	l.check(t, schema.DefaultTableLockTimeout+slack)
}

// Behind a version that waits for a table, everybody waits. The migrator gives
// way again and again, and goes on when the table is free.
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

// The naive way waits for the table for as long as it takes. This harness sees
// how the writers wait with it.
func TestNaiveVersionHoldsUpWriters(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	l := startLoad(t, databaseURL)
	occupy(t, databaseURL)
	execSQL(t, connect(t, databaseURL), "ALTER TABLE messages ADD COLUMN extra int")
	l.end()
	if l.longest < schema.DefaultTableLockTimeout+slack {
		t.Errorf("no append took longer than %s: the harness does not catch the naive way", l.longest)
	}
}

func TestBusyTablesEndTheRun(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	migrations, extra := withExtra(t)
	occupy(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{Migrations: migrations, LockTimeout: -1, TableLockTimeout: 50 * time.Millisecond})
	_, err := migrator.UpTo(t.Context(), extra)
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrBusy) || !errors.As(err, &failed) || failed.Step.Version != extra {
		t.Errorf("got %v", err)
	}
	if conn := connect(t, databaseURL); query[int64](t, conn, heldLocks, schema.LockID) != 0 {
		t.Error("the migration lock is still held")
	}
}
