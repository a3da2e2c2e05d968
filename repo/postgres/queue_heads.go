package postgres

import (
	"sync"
	"time"
)

// queueHeads are the times from which on claims of this process have found plans that are queued.
// A claim looks from there, so that it need not walk over what was claimed before. It never relies
// on that: a plan may be queued since an earlier time, if its transaction was committed late, if
// the server's clock steps back, or if another process has put it back. So a claim looks at all
// from time to time. The zero value is ready to use.
type queueHeads struct {
	mu sync.Mutex
	of map[string]queueHead
	// ends are where the last claim has ended to look for what it could take, if it has not looked at
	// all. The next one goes on there.
	ends map[string]map[lane]spot
	// turns are the namespaces that claims of all were served from last.
	turns map[string]string
	// ofActions are the claims whose namespaces have limits of actions, until when that is looked at
	// again.
	ofActions map[string]time.Time
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
	// maxHeads bounds the memory of heads. Others have none.
	maxHeads = 1000
)

// from returns since when a claim looks, and a function to be called with the time of the first
// plan that it has found. The zero time: it looks at all.
func (h *queueHeads) from(key string) (since time.Time, looked func(first time.Time)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun := time.Now()
	head, known := h.of[key]
	if known && begun.Before(head.whole) {
		return head.since, func(first time.Time) { h.learn(key, queueHead{first.Add(-lateCommit), head.whole}) }
	}
	return time.Time{}, func(first time.Time) {
		took := time.Since(begun)
		h.learn(key, queueHead{first.Add(-lateCommit), time.Now().Add(min(max(wholeLook, wholePart*took), seldomLook))})
	}
}

func (h *queueHeads) learn(key string, head queueHead) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string]queueHead{}
	}
	if _, known := h.of[key]; !known && len(h.of) >= maxHeads {
		clear(h.of)
	}
	h.of[key] = head
}

// left returns where the last claim has left a lane.
func (h *queueHeads) left(key string, of lane) (spot, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, known := h.ends[key][of]
	return at, known
}

// leave notes where a claim has left lanes. What has no more is begun from its head again.
func (h *queueHeads) leave(key string, lanes []lane, places map[lane]spot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends == nil || len(h.ends) >= maxHeads {
		h.ends = map[string]map[lane]spot{}
	}
	if h.ends[key] == nil {
		h.ends[key] = map[lane]spot{}
	}
	for _, of := range lanes {
		if delete(h.ends[key], of); places[of] != closed {
			h.ends[key][of] = places[of]
		}
	}
	if len(h.ends[key]) == 0 {
		delete(h.ends, key)
	}
}

// turn returns the namespace that the last claim was served from.
func (h *queueHeads) turn(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.turns[key]
}

func (h *queueHeads) setTurn(key, namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.turns == nil || len(h.turns) >= maxHeads {
		h.turns = map[string]string{}
	}
	h.turns[key] = namespace
}

// byAction reports whether the namespaces have limits of actions, as far as is known.
func (h *queueHeads) byAction(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Before(h.ofActions[key])
}

func (h *queueHeads) setByAction(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ofActions == nil || len(h.ofActions) >= maxHeads {
		h.ofActions = map[string]time.Time{}
	}
	h.ofActions[key] = time.Now().Add(seldomLook)
}
