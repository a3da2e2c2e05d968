package follow

import "time"

// The pauses after reads that failed.
const (
	firstRest = 10 * time.Millisecond
	longRest  = time.Second
)

// start begins reads, as many as may be under way. The caller holds mu.
func (h *Hub[K, I]) start() {
	for h.reading < h.config.Readers && h.reading < len(h.queue) && !h.closed {
		h.reading++
		h.running.Go(h.read)
	}
}

// read reads what is queued, until nothing is.
func (h *Hub[K, I]) read() {
	rest := firstRest
	for {
		requests, positions := h.take()
		if len(requests) == 0 {
			return
		}
		found, err := h.config.Read(h.ctx, positions)
		h.settle(requests, found, err)
		if err == nil {
			rest = firstRest
			continue
		}
		select {
		case <-time.After(rest):
		case <-h.ctx.Done():
		}
		rest = min(2*rest, longRest)
	}
}

// take takes the requests of one read from the queue. If there are none, the caller must
// end.
func (h *Hub[K, I]) take() ([]*request[K, I], []Position[K]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := min(len(h.queue), h.config.Positions)
	if count == 0 || h.closed {
		h.reading--
		return nil, nil
	}
	requests := make([]*request[K, I], count)
	positions := make([]Position[K], count)
	copy(requests, h.queue)
	left := copy(h.queue, h.queue[count:])
	clear(h.queue[left:])
	h.queue = h.queue[:left]
	h.begun++
	for i, r := range requests {
		r.state, r.known, r.answer.looks = underway, r.topic.known, r.topic.looks
		r.read = h.begun
		positions[i] = Position[K]{r.topic.key, r.from}
	}
	return requests, positions
}

// settle answers the requests of a read.
func (h *Hub[K, I]) settle(requests []*request[K, I], found []Found[I], err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var cut []*request[K, I]
	for i, r := range requests {
		if err != nil {
			r.answer.err = err
			h.finish(r)
			continue
		}
		if found[i].Cut {
			if r.state = queued; r.waiting == 0 {
				r.state = withdrawn
				r.topic.remove(r)
				continue
			}
			cut = append(cut, r)
			continue
		}
		r.answer.Found = found[i]
		h.finish(r)
		h.observe(r)
	}
	h.queue = append(cut, h.queue...)
	h.start()
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
		// Those who need other items of it must find out, too.
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
	if t.followers > 1 {
		t.tail.extend(r.from, &a.Found, h.config.Size)
	}
}
