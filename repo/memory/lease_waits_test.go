package memory

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Callers that wait for a lease get it in the order in which they came, also when it expires, and later ones wait
// behind them.
func TestLeasesInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := New()
		defer func() { _ = store.Close() }()
		asked := repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: "n"}, Owner: "first", TTL: time.Minute}
		if _, err := store.Leases().Acquire(t.Context(), asked); err != nil {
			t.Fatal(err)
		}
		const waiters = 20
		var mu sync.Mutex
		var got []int
		for n := range waiters {
			asked := asked
			asked.Owner, asked.Wait = fmt.Sprint(n), true
			go func() {
				lease, err := store.Leases().Acquire(t.Context(), asked)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, n)
				mu.Unlock()
				if n%2 == 0 {
					_ = store.Leases().Release(t.Context(), lease)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(waiters * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(got) != waiters || !slices.IsSorted(got) {
			t.Errorf("they got it in the order %v", got)
		}
	})
}
