package files

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const processes, writers = 4, 64

// run runs a task in four processes at once.
func run(t *testing.T, task task) {
	t.Helper()
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			command := pgtest.Again(t.Context(), taskVariable, task)
			command.Stderr = os.Stderr
			if err := command.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Guarantee: Files: Writers of one name make versions without gaps or retries.
func TestProcesses(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, url, agentstore.Options{})
	saves := task{URL: url, Session: pgtest.NewSession(t, store), Writers: writers, Each: pgtest.Choose(16, 1)}
	want := processes * writers * saves.Each
	run(t, saves)
	f, ids := newFiles(t, store, files.Options{}), map[string]bool{}
	err := pages.Items(func(page repo.Page) (repo.List[files.File], error) {
		return f.Versions(t.Context(), files.OfSession(saves.Session), "f", page)
	}, func(file files.File) error {
		if ids[file.ID] = true; file.Version != int64(len(ids)) {
			return fmt.Errorf("%d is version %d", len(ids), file.Version)
		}
		return nil
	})
	if err != nil || len(ids) != want {
		t.Errorf("%d versions, want %d: %v", len(ids), want, err)
	}
	// A version, its id and what refers to its bytes are written by one transaction, which is that of no other.
	commits := pgtest.Value[int](t, store.Pool(), `SELECT count(*) FROM (SELECT xmin FROM state_values WHERE key ~ '^(file|file-id|ref|use)/'
		GROUP BY xmin::text, xmin HAVING count(*) = 4) c`)
	if commits != want {
		t.Errorf("%d commits of a version, want %d", commits, want)
	}
	saves.Naive = true
	run(t, saves)
	different := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM state_values WHERE key LIKE 'naive/%'")
	if different >= want {
		t.Errorf("the naive way has lost none of %d", want)
	}
	t.Logf("%d versions in %d commits; the naive way has %d of %d", len(ids), commits, different, want)
}
