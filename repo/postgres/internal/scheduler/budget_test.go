package scheduler

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// Schedulers that share a budget have no more groups under way together than it has places, none
// starves another, and each place comes back.
func TestBudget(t *testing.T) {
	for _, places := range []int{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			budget := NewBudget(places)
			var mu sync.Mutex
			under, most := 0, 0
			done := make([]int, 3)
			schedulers := make([]*Scheduler[int, int], len(done))
			for i := range schedulers {
				schedulers[i] = New(Config[int, int]{
					Limits: roomy(), Groups: 3, Budget: budget,
					Shares: func(item int) bool { return item%2 == 1 },
					Group: func(b *Batch[int, int]) {
						mu.Lock()
						under++
						most = max(most, under)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						under--
						done[i] += len(b.Tasks)
						mu.Unlock()
						for _, task := range b.Tasks {
							b.Done(task)
						}
					},
				})
			}
			end := time.After(time.Second)
			stop := make(chan struct{})
			var writers sync.WaitGroup
			for _, s := range schedulers {
				for writer := range 20 {
					writers.Go(func() {
						for {
							select {
							case <-stop:
								return
							default:
								if err := s.Submit(t.Context(), writer, writer, Size{1, 1}); err != nil {
									t.Error(err)
								}
							}
						}
					})
				}
			}
			<-end
			close(stop)
			writers.Wait()
			for _, s := range schedulers {
				s.Close()
			}
			synctest.Wait()
			if most != places {
				t.Errorf("%d groups at once, of %d", most, places)
			}
			for i, n := range done {
				if sum := done[0] + done[1] + done[2]; n < sum/6 {
					t.Errorf("scheduler %d made %d of %d", i, n, sum)
				}
			}
			if budget.places != places {
				t.Errorf("%d of %d places came back", budget.places, places)
			}
		})
	}
}

// A place without use is not lost.
func TestBudgetOfTheWithdrawn(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		budget := NewBudget(1)
		w.s.config.Budget = budget
		if !budget.take(nil) {
			t.Fatal("no place")
		}
		p := w.one("a", 0)
		w.sleep(time.Millisecond)
		p.waits(t)
		p.cancel()
		p.wants(t, ErrWithdrawn)
		budget.give()
		w.one("b", 0).wants(t, nil)
		synctest.Wait()
		if budget.places != 1 {
			t.Errorf("%d places are left", budget.places)
		}
	})
}
