package scheduler

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The number of groups under way adapts to their cost, and adapts again when the cost
// changes.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4
		// The cost of a group: either independent of the other groups, or time with
		// one resource that all share.
		shared := make(chan struct{}, 1)
		var mu sync.Mutex
		alone := true
		cost := func(b *Batch[string, int]) {
			mu.Lock()
			mode := alone
			mu.Unlock()
			if mode {
				time.Sleep(time.Duration(len(b.Tasks)) * 100 * time.Microsecond)
			} else {
				shared <- struct{}{}
				time.Sleep(time.Millisecond + time.Duration(len(b.Tasks))*time.Microsecond)
				<-shared
			}
			for _, task := range b.Tasks {
				b.Done(task)
			}
		}
		s := New(Config[string, int]{Limits: roomy(), Groups: most, Group: cost})
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for i := range 64 {
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if err := s.Submit(t.Context(), fmt.Sprint(i), 0, Size{1, 1}); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		is := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.load.best
		}
		for round, want := range []int{most, 1, most} {
			mu.Lock()
			alone = want == most
			mu.Unlock()
			time.Sleep(4 * time.Second)
			if got := is(); got != want {
				t.Errorf("round %d: %d groups at once, not %d", round, got, want)
			}
		}
		close(stop)
		writers.Wait()
		s.Close()
	})
}
