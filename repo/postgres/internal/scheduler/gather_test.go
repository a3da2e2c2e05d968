package scheduler

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// carried runs writers that submit one item after another, each with its own key, and
// returns the number of groups that it took. A group takes a millisecond.
func carried(t *testing.T, groups, writers, each int) int64 {
	t.Helper()
	var batches atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		s := New(Config[string, int]{Limits: roomy(), Groups: groups, Group: func(b *Batch[string, int]) {
			batches.Add(1)
			time.Sleep(time.Millisecond)
			for _, task := range b.Tasks {
				b.Done(task)
			}
		}})
		defer s.Close()
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					if err := s.Submit(t.Context(), fmt.Sprint(w), i, Size{1, 1}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
	return batches.Load()
}

// The callers of a group that submit their next item at once are all in the next group:
// it does not begin with the first of them.
func TestCallersComeBackTogether(t *testing.T) {
	const writers, each = 8, 200
	count := carried(t, 1, writers, each)
	t.Logf("%d items in %d groups", writers*each, count)
	if count > each*5/4 {
		t.Errorf("%d items of %d writers took %d groups, want about %d", writers*each, writers, count, each)
	}
}

// If there is much to do, groups share the waiting items.
func TestGroupsShareWhatWaits(t *testing.T) {
	const writers, each = 200, 5
	count := carried(t, 2, writers, each)
	t.Logf("%d items in %d groups", writers*each, count)
	if count < 2*each-1 { // the first and the last group may be one each
		t.Errorf("%d items took %d groups, want at least %d", writers*each, count, 2*each)
	}
}
