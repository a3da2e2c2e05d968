package postgres

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// awaitClaimsWait waits until so many claims wait, which have looked in vain in groups after those that had begun.
func awaitClaimsWait(t *testing.T, store *agentstore.Store, count int, begun int64) {
	t.Helper()
	await.For(t, fmt.Sprintf("%d claims wait", count), func() bool {
		writes := writesOf(store)
		return store.Stats().Followers.Claims == count && writes.Begun > begun && writes.Groups == 0
	})
}

// Claims that wait end with the error of what will not pass, as followers do: they would
// never be woken.
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
			errs := make(chan error, 3)
			var waiting sync.WaitGroup
			t.Cleanup(waiting.Wait)
			for _, namespace := range []string{"a", "a", "b"} {
				waiting.Go(func() {
					_, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "o", Namespaces: []string{namespace}, Wait: true})
					errs <- err
				})
			}
			awaitClaimsWait(t, store, 3, 0)
			test.harm(t, pgtest.Connect(t, databaseURL), pool.Close)
			for range 3 {
				if err := await.Value(t, "a claim ends", errs); !errors.Is(err, test.want) {
					t.Errorf("a waiting claim: %v", err)
				}
			}
		})
	}
}
