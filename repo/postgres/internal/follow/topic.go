package follow

import (
	"slices"
	"time"
)

// topic is a log that is followed.
type topic[K comparable, I any] struct {
	key       K
	followers int
	// known is what the next sequence is thought to be, or unknown. Only the need for a
	// read is decided by it.
	known int64
	// size is the mean size of the items that were last read.
	size int
	// looks counts the reasons to read again although no sequence is new.
	looks    int
	requests []*request[K, I]
	tail     tail[I]
	// emptied is how many reads had begun when the tail was emptied: the item that did it may have changed what they read.
	emptied int
}

const unknown = -1

// request is the need of one or more followers for the items from a sequence on.
type request[K comparable, I any] struct {
	topic *topic[K, I]
	from  int64
	// live: it is read together with others. Otherwise the followers catch up, or are new: where they stand is not known.
	live, fresh bool
	state       state
	// waiting is the number of followers.
	waiting int
	// known and size are the topic's when the read began, and read the number of the read.
	known int64
	size  int
	read  int

	// answer is set when done is closed.
	done   chan struct{}
	answer answer[I]
}

type state int

const (
	// parked: there is nothing to read yet, as far as is known.
	parked state = iota
	queued
	underway
	answered
	// withdrawn: no follower waits for it any more.
	withdrawn
)

type answer[I any] struct {
	Found[I]
	err error
	// rest is how long the followers rest after err.
	rest time.Duration
	// looks is the topic's when the read began.
	looks int
	// due is when there was something to read. Zero: it was kept.
	due time.Time
}

// ask returns what is kept of the follower's next items, or else a request for them,
// which it makes if there is none.
func (h *Hub[K, I]) ask(f *follower[K, I]) (*request[K, I], *answer[I]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := f.topic
	current := f.looks == t.looks
	if kept := t.tail.from(f.next); len(kept) > 0 && current {
		return nil, &answer[I]{Found: Found[I]{Items: kept, Next: t.tail.end()}, looks: t.looks}
	}
	due := !current || f.next < t.known || t.known == unknown
	live, fresh := f.live || !due, f.looks == never
	at := slices.IndexFunc(t.requests, func(r *request[K, I]) bool {
		// A read that began before the follower did may not see what its caller has seen. A
		// request that catches up may have to wait for others.
		return r.from == f.next && (r.live || !live) && (r.state != underway || r.read > f.entered)
	})
	if at < 0 {
		at = len(t.requests)
		r := &request[K, I]{topic: t, from: f.next, live: live, fresh: fresh, done: make(chan struct{})}
		t.requests = append(t.requests, r)
	}
	r := t.requests[at]
	r.waiting++
	if r.state == parked && due {
		h.put(r)
		h.start()
	}
	return r, nil
}

// withdraw removes a follower that no longer waits for a request.
func (h *Hub[K, I]) withdraw(r *request[K, I]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.waiting--; r.waiting > 0 || r.state == underway || r.state == answered {
		return
	}
	if r.state == queued {
		queue := h.queue(r)
		*queue = slices.DeleteFunc(*queue, func(q *request[K, I]) bool { return q == r })
	}
	r.state = withdrawn
	r.topic.remove(r)
}

func (t *topic[K, I]) remove(r *request[K, I]) {
	t.requests = slices.DeleteFunc(t.requests, func(q *request[K, I]) bool { return q == r })
}

// enqueue has those parked requests of a topic read that are due.
func (h *Hub[K, I]) enqueue(t *topic[K, I], due func(*request[K, I]) bool) {
	for _, r := range t.requests {
		if r.state == parked && due(r) {
			h.put(r)
		}
	}
}
