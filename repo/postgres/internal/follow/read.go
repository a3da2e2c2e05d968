package follow

import (
	"slices"
	"time"
)

// The pauses after reads that failed.
const (
	firstRest = 10 * time.Millisecond
	longRest  = time.Second
	// aloneRest is how many times as long as its read a position rests whose read failed
	// though it was alone, so that most of the time is left to the others.
	aloneRest = 4
)

// start begins reads, as many as may be under way. The caller holds mu.
func (h *Hub[K, I]) start() {
	for h.reading < h.config.Readers {
		requests := h.take(false)
		if len(requests) == 0 {
			return
		}
		h.reading++
		h.running.Go(func() { h.read(requests) })
	}
}

// read reads, until there is nothing to read.
func (h *Hub[K, I]) read(requests []*request[K, I]) {
	rest := firstRest
	for len(requests) > 0 {
		positions := make([]Position[K], len(requests))
		for i, r := range requests {
			positions[i] = Position[K]{Key: r.topic.key, From: r.from, Size: r.size}
		}
		live, begun := requests[0].live, time.Now()
		found, err := h.config.Read(h.ctx, positions)
		h.settle(requests, found, err, aloneRest*time.Since(begun))
		if err == nil || h.config.Alone(err) {
			rest = firstRest
		} else {
			select {
			case <-time.After(rest):
			case <-h.ctx.Done():
			}
			rest = min(2*rest, longRest)
		}
		requests = h.following(live)
	}
}

// following takes the requests of a reader's next read. If there are none, the caller must
// end. live: those before were live.
func (h *Hub[K, I]) following(live bool) []*request[K, I] {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !live {
		h.catching--
	}
	requests := h.take(live)
	if len(requests) == 0 {
		h.reading--
	}
	return requests
}

// take takes the requests of one read: of up-to-date followers together, of new ones together, or of one that
// catches up. One reader is left to the first, if there are several, and each takes turns. The caller holds mu.
func (h *Hub[K, I]) take(turn bool) (requests []*request[K, I]) {
	behind := len(h.behind) > 0 && h.catching < max(1, h.config.Readers-1)
	switch {
	case h.closed:
		return nil
	case behind && (turn || len(h.live) == 0):
		fresh := slices.IndexFunc(h.behind, func(r *request[K, I]) bool { return !r.fresh })
		if fresh < 0 {
			fresh = len(h.behind)
		}
		requests, h.behind = cut(h.behind, max(1, min(fresh, h.config.Positions)))
		h.catching++
	default:
		requests, h.live = cut(h.live, h.config.Positions)
	}
	h.begun++
	for _, r := range requests {
		r.state, r.known, r.size, r.answer.looks = underway, r.topic.known, r.topic.size, r.topic.looks
		r.read = h.begun
	}
	return requests
}

// cut takes up to count requests from the front of a queue.
func cut[R any](queue []R, count int) (first, rest []R) {
	count = min(count, len(queue))
	return slices.Clone(queue[:count]), slices.Delete(queue, 0, count)
}

// settle answers the requests of a read. rest is how long their followers rest if it failed
// because of them.
func (h *Hub[K, I]) settle(requests []*request[K, I], found []Found[I], err error, rest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	alone := err != nil && h.config.Alone(err)
	for i, r := range requests {
		switch {
		case alone && len(requests) > 1: // it may be another's
			h.again(r)
		case err != nil:
			if r.answer.err = err; alone {
				r.answer.rest = rest
			}
			h.finish(r)
		case found[i].Cut:
			h.again(r)
		default:
			r.answer.Found = found[i]
			h.finish(r)
			h.observe(r)
		}
	}
	h.start()
}

// again has a request read again, by itself, unless it has no waiting follower any more.
func (h *Hub[K, I]) again(r *request[K, I]) {
	if r.waiting == 0 {
		r.state = withdrawn
		r.topic.remove(r)
		return
	}
	r.live, r.fresh = false, false
	h.put(r)
}

// put puts a request at the end of its queue.
func (h *Hub[K, I]) put(r *request[K, I]) {
	r.state = queued
	if r.answer.due.IsZero() {
		r.answer.due = time.Now()
	}
	queue := h.queue(r)
	*queue = append(*queue, r)
}

// queue is where a request waits to be read.
func (h *Hub[K, I]) queue(r *request[K, I]) *[]*request[K, I] {
	if r.live {
		return &h.live
	}
	return &h.behind
}

func (h *Hub[K, I]) finish(r *request[K, I]) {
	r.state = answered
	r.topic.remove(r)
	close(r.done)
}

// observe notes what a read has shown of its topic.
func (h *Hub[K, I]) observe(r *request[K, I]) {
	t, a := r.topic, &r.answer
	if a.Missing || a.End != nil {
		// Followers that need other items of it must find out, too.
		h.learn(t, Look)
		t.known, t.tail = unknown, tail[I]{}
		return
	}
	if a.Next < t.tail.end() {
		t.tail = tail[I]{}
	}
	if a.Next < t.known && t.known == r.known {
		// Not because of a hint that came meanwhile: either an earlier one was wrong, or
		// the log was put back to an earlier time.
		t.known = a.Next
		h.learn(t, Look)
	}
	h.learn(t, a.Next)
	if len(a.Items) > 0 {
		t.size = 0
		for _, item := range a.Items {
			t.size += h.config.Size(item)
		}
		t.size = max(1, t.size/len(a.Items))
	}
	switch {
	case t.followers == 1: // it is not extended, so it may lack an item that ends it
		t.tail = tail[I]{}
	case r.read > t.emptied:
		t.tail.extend(r.from, &a.Found, h.config.Size)
	}
	if len(t.tail.items) == 0 {
		t.emptied = h.begun
	}
}
