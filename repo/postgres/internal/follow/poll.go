package follow

import "time"

// maxPolled bounds the logs of one call of Config.Newest.
const maxPolled = 10_000

// poll polls at an interval, and ends when there are no followers.
func (h *Hub[K, I]) poll() {
	var known []News[K]
	for {
		timer := time.NewTimer(h.config.Interval())
		select {
		case <-timer.C:
		case <-h.poke:
			timer.Stop()
		case <-h.ctx.Done():
			timer.Stop()
			return
		}
		var ok bool
		if known, ok = h.waitedFor(known[:0]); !ok {
			return
		}
		for rest := known; len(rest) > 0; {
			part := rest[:min(len(rest), maxPolled)]
			rest = rest[len(part):]
			h.compare(part)
		}
	}
}

// waitedFor returns the logs that are waited for, with what is known of them. It returns
// false, and the caller must end, if there are no followers.
func (h *Hub[K, I]) waitedFor(known []News[K]) ([]News[K], bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.followers == 0 || h.closed {
		h.polling = false
		return nil, false
	}
	for key, t := range h.topics {
		t.tail.age()
		// A log that is not known yet is being read.
		if len(t.requests) > 0 && t.known != unknown {
			known = append(known, News[K]{key, t.known})
		}
	}
	return known, true
}

// compare compares logs with what is known of them.
func (h *Hub[K, I]) compare(known []News[K]) {
	news, err := h.config.Newest(h.ctx, known)
	if err != nil {
		if !h.config.Passes(err) {
			h.lookAt(known) // so that their followers get the error
		}
		return
	}
	if len(news) == 0 {
		return
	}
	were := make(map[K]int64, len(known))
	for _, n := range known {
		were[n.Key] = n.Next
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range news {
		t := h.topics[n.Key]
		if t == nil {
			continue
		}
		if n.Next >= 0 && n.Next < t.known && t.known == were[n.Key] {
			// A hint was wrong, or the log was put back to an earlier time.
			t.known = n.Next
			n.Next = Look
		}
		h.learn(t, n.Next)
	}
	h.start()
}

func (h *Hub[K, I]) lookAt(known []News[K]) {
	looks := make([]News[K], len(known))
	for i, n := range known {
		looks[i] = News[K]{n.Key, Look}
	}
	h.Tell(looks...)
}
