package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// An item of a key that is in a batch, and may be in several, is withdrawn while it waits for another
// one: nothing is left of its key among those that have items.
func TestWithdrawnBesideABatchOfItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config[string, int]{
			Limits: roomy(), Groups: 1, Unordered: true,
			Group: func(b *Batch[string, int]) {
				time.Sleep(10 * time.Millisecond)
				for _, task := range b.Tasks {
					b.Done(task)
				}
			},
		})
		submit := func(ctx context.Context, item int, want error) {
			go func() {
				if err := s.Submit(ctx, "key", item, Size{Rows: 1}); !errors.Is(err, want) {
					t.Errorf("item %d: %v, want %v", item, err, want)
				}
			}()
			synctest.Wait()
		}
		submit(t.Context(), 1, nil)
		leaves, leave := context.WithCancel(t.Context())
		submit(leaves, 2, ErrWithdrawn)
		leave()
		synctest.Wait()
		if s.turns.length > 0 {
			t.Errorf("%d keys have a turn, without an item", s.turns.length)
			return
		}
		time.Sleep(20 * time.Millisecond)
		submit(t.Context(), 3, nil)
		time.Sleep(20 * time.Millisecond)
		s.Close()
	})
}
