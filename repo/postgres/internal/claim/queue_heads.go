package claim

import (
	"time"

	"github.com/seed-df90f812/agentstore/repo/postgres/internal/cache"
)

// queueHeads are the times from which on claims of this process have found plans that are queued.
// A claim looks from there, so that it need not walk over what was claimed before. It never relies
// on that: a plan may be queued since an earlier time, if its transaction was committed late, if
// the server's clock steps back, or if another process has put it back. So a claim looks at all
// from time to time. The zero value is ready to use.
type queueHeads struct {
	of cache.Cache[string, queueHead]
	// turns are the namespaces that claims of all were served from last.
	turns cache.Cache[string, string]
}

type queueHead struct {
	since time.Time
	// whole is when a claim has to look at all again.
	whole time.Time
}

const (
	// wholeLook is how often a claim looks at all. If that takes long, it is done less often, and
	// takes no more than a fiftieth of the time, up to seldomLook: a look that took long once may
	// have waited for something else.
	wholeLook  = time.Second
	seldomLook = 10 * time.Second
	wholePart  = 50
	// lateCommit is for how long a transaction that queues a plan is expected to last.
	lateCommit = time.Second
)

// from returns since when a claim looks, and a function to be called with the time of the first
// plan that it has found. The zero time: it looks at all.
func (h *queueHeads) from(key string) (since time.Time, looked func(first time.Time)) {
	begun := time.Now()
	head, known := h.of.Get(key)
	if known && begun.Before(head.whole) {
		return head.since, func(first time.Time) { h.learn(key, queueHead{first.Add(-lateCommit), head.whole}) }
	}
	return time.Time{}, func(first time.Time) {
		took := time.Since(begun)
		h.learn(key, queueHead{first.Add(-lateCommit), time.Now().Add(min(max(wholeLook, wholePart*took), seldomLook))})
	}
}

func (h *queueHeads) learn(key string, head queueHead) { h.of.Put(key, head, len(key)) }

// turn returns the namespace that the last claim was served from.
func (h *queueHeads) turn(key string) string {
	namespace, _ := h.turns.Get(key)
	return namespace
}

func (h *queueHeads) setTurn(key, namespace string) {
	h.turns.Put(key, namespace, len(key)+len(namespace))
}
