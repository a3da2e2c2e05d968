package atonce_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/internal/atonce"
)

// Fake time: the tests with times run in bubbles of synctest.

func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum, most, running atomic.Int64
		begun := time.Now()
		err := atonce.Each(3, []int64{1, 2, 3, 4, 5, 6, 7}, func(item int64) error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			sum.Add(item)
			return nil
		})
		if err != nil || sum.Load() != 28 || most.Load() != 3 || time.Since(begun) != 3*time.Second {
			t.Errorf("%v: %d, %d at once, after %v", err, sum.Load(), most.Load(), time.Since(begun))
		}
	})
	var calls atomic.Int64
	failed := errors.New("x")
	err := atonce.Each(2, make([]int, 100), func(int) error { calls.Add(1); return failed })
	if !errors.Is(err, failed) || calls.Load() > 2 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}
