package failover

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// writers append to one session until they are stopped. Each sends a message again,
// by its id, until it is acknowledged.
type writers struct {
	store   *agentstore.Store
	session repo.ID
	stop    atomic.Bool
	running sync.WaitGroup

	mu           sync.Mutex
	acknowledged map[repo.ID]int64 // with their sequences
	failed       int               // attempts
	unfinished   int               // writers that gave up
}

func startWriters(ctx context.Context, store *agentstore.Store, session repo.ID, count int) *writers {
	w := &writers{store: store, session: session, acknowledged: map[repo.ID]int64{}}
	for range count {
		w.running.Go(func() { w.write(ctx) })
	}
	return w
}

func (w *writers) write(ctx context.Context) {
	for !w.stop.Load() {
		message := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "x"}
		for {
			stored, err := w.store.Sessions().Append(ctx, w.session, message)
			w.mu.Lock()
			if err == nil {
				w.acknowledged[message.ID] = stored[0].Sequence
			} else {
				w.failed++
			}
			w.mu.Unlock()
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				w.mu.Lock()
				w.unfinished++
				w.mu.Unlock()
				return
			case <-time.After(20 * time.Millisecond): // pace: until it sends the message again
			}
		}
	}
}

func (w *writers) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acknowledged)
}

// await waits until count messages are acknowledged.
func (w *writers) await(t *testing.T, count int) {
	t.Helper()
	await.For(t, fmt.Sprintf("%d messages are acknowledged", count), func() bool { return w.count() >= count })
}

// end stops the writers when they have finished their messages.
func (w *writers) end(t *testing.T) {
	t.Helper()
	w.stop.Store(true)
	w.running.Wait()
	if w.unfinished > 0 {
		t.Fatalf("%d writers gave up", w.unfinished)
	}
}

// findings counts what became of the acknowledged messages.
type findings struct{ stored, lost, elsewhere, notDense int }

func (w *writers) inspect(t *testing.T) (found findings) {
	t.Helper()
	seen := map[repo.ID]int64{}
	var next int64
	for message, err := range w.store.Sessions().Messages(t.Context(), w.session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if message.Sequence != next {
			found.notDense++
		}
		next = message.Sequence + 1
		seen[message.ID] = message.Sequence
		found.stored++
	}
	for id, sequence := range w.acknowledged {
		switch at, stored := seen[id]; {
		case !stored:
			found.lost++
		case at != sequence:
			found.elsewhere++
		}
	}
	return found
}
