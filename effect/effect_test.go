package effect_test

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/effect/effecttest"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Guarantee: Effects: Of calls with one key one is made.
func TestEffects(t *testing.T) {
	t.Parallel()
	effecttest.Run(t, func(t *testing.T) (repo.Store, func(*testing.T, time.Duration)) {
		clock := memory.NewClock(time.Now())
		store := memory.NewWith(memory.Options{Clock: clock})
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store, func(_ *testing.T, d time.Duration) { clock.Advance(d) }
	})
}
