package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// endContexts ends the contexts of appends at all stages: at once, in the queue,
// while being sent, at the server, while the answer returns. If a context ended
// before its append was sent, the append must not be stored; if later, it may be.
func endContexts(t *testing.T, s *stage) outcome {
	before := len(goroutines())
	store := pgtest.OpenStore(t, s.url, agentstore.Options{MaxConns: 16})
	ids := make([]repo.ID, writers)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
	}
	l := newLoad(store.Sessions(), ids)
	inDoubt := map[repo.ID]bool{}
	attempts := pgtest.Choose(20_000, 1_000)
	// First many at once, whose appends share transactions that continue without
	// those that left; then few, each alone in its transaction, which ends with its
	// context.
	for life := 4 * time.Millisecond; ; life *= 2 {
		for _, concurrent := range []int{writers, 2} {
			var wg sync.WaitGroup
			for w := range concurrent {
				wg.Go(func() {
					for range attempts / 2 / concurrent {
						interrupt(t, l, w, inDoubt, life)
					}
				})
			}
			wg.Wait()
		}
		// On a slow machine contexts that live longer reach the later stages.
		if len(l.acknowledged) > writers || time.Now().After(await.End(t)) {
			break
		}
	}
	o := outcome{name: "caller's context ends", errors: map[string]int{}}
	healed := now()
	for w := range writers {
		if !l.deliver(t.Context(), w, ids[w], repo.NewID()) {
			t.Error("not delivered")
		}
	}
	recovery := time.Duration(now() - healed)
	checkNothingLeft(t, s.url, store.Pool()) // first: what is in doubt may still arrive
	o.add(l, inspect(t, s.url, ids, l.acknowledged, inDoubt), recovery)
	for _, count := range o.errors {
		o.times += count
	}
	o.times-- // not counting add's
	for _, err := range l.failures {
		t.Error(err)
	}
	if o.findings != (findings{}) {
		t.Errorf("afterwards: %+v", o.findings)
	}
	if o.errors["not sent in time"] == 0 || len(l.acknowledged) <= writers {
		t.Errorf("contexts did not end at all stages: %v, %d acknowledged", o.errors, len(l.acknowledged))
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	checkGoroutines(t, before)
	return o
}

// interrupt appends one message with a context that ends at a random time, and half
// of the time sends it again if it is in doubt.
func interrupt(t *testing.T, l *load, writer int, inDoubt map[repo.ID]bool, life time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	timer := time.AfterFunc(rand.N(life), cancel) // pace: it ends at any stage
	defer timer.Stop()
	session, message := l.ids[rand.N(len(l.ids))], repo.NewID()
	stored, err := l.sessions.Append(ctx, session, newMessage(message))
	if err == nil {
		l.acknowledge(acknowledgement{session, message, stored[0].Sequence})
		return
	}
	again := rand.N(2) == 0
	l.mu.Lock()
	l.errors[kind(err)]++
	switch {
	case errors.Is(err, repo.ErrUnknownOutcome):
		inDoubt[message] = !again
	case errors.Is(err, context.Canceled):
		again = false // it must not be stored
	default:
		l.failures = append(l.failures, err)
	}
	l.mu.Unlock()
	if again {
		l.deliver(t.Context(), writer, session, message)
	}
}
