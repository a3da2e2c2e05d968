package postgres

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Claims that wait end with the error of what will not pass, as followers do: nobody would
// ever wake them.
func TestWaitingClaimsGetErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		harm func(t *testing.T, database pgtest.Database, closePool func())
		want error
	}{
		{"the pool is closed by its owner", func(_ *testing.T, _ pgtest.Database, closePool func()) { closePool() }, repo.ErrClosed},
		{"the tables are gone", func(t *testing.T, database pgtest.Database, _ func()) {
			t.Helper()
			pgtest.Exec(t, database, "ALTER TABLE plan_queue RENAME TO plan_queue_away")
		}, repo.ErrSchema},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			pool := pgtest.NewPool(t, databaseURL)
			store := pgtest.OpenPool(t, pool, agentstore.Options{})
			errs := make(chan error)
			var waiting sync.WaitGroup
			defer waiting.Wait()
			for _, namespace := range []string{"a", "a", "b"} {
				waiting.Go(func() {
					_, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "o", Namespaces: []string{namespace}, Wait: true})
					errs <- err
				})
			}
			time.Sleep(500 * time.Millisecond) // so that they wait
			test.harm(t, pgtest.Connect(t, databaseURL), pool.Close)
			late := time.After(10 * time.Second)
			for range 3 {
				select {
				case err := <-errs:
					if !errors.Is(err, test.want) {
						t.Errorf("a waiting claim: %v", err)
					}
				case <-late:
					t.Error("a claim still waits after 10 s, although claims fail for good")
					late = nil
					go func() { _ = store.Close() }()
					if err := <-errs; !errors.Is(err, repo.ErrClosed) {
						t.Errorf("after Close: %v", err)
					}
				}
			}
		})
	}
}
