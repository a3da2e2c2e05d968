// Package follow lets many readers follow logs that grow, such as the messages of
// sessions: each reads its log from an item on, and then waits for further ones. A log
// has a key, and its items have the sequences 0, 1, 2, …. The package contains no SQL,
// and does not use the network: functions of the caller's do.
//
// A Hub has the followers of a process. What it is told about a log (Hub.Tell), it takes
// for a hint that is worth a read, never for data: a hint may be lost, repeated, early
// or wrong. All items come from Config.Read. Hints that are lost are made up for by a
// poll: at an interval, Config.Newest compares all logs that are waited for with what is
// known of them.
//
// A follower has no goroutine and no queue, only the sequence that it needs next.
// Followers that need the same one share a read, and reads that are due together are one
// call of Config.Read. The latest items of a log with several followers are kept for
// followers that are a little behind.
//
// A follower whose last read did not reach the end of its log catches up. Followers that catch up
// take turns, one by one, and never delay followers that are up to date. The first read of a new
// follower shows which it is: new ones are read together, among the ones that catch up.
//
// A Notifier and a Listener carry hints from one process to others.
package follow

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"
)

// The errors of Follow, apart from Config.Read's and the context's.
var (
	// ErrMissing: there is no log with this key.
	ErrMissing = errors.New("follow: no such log")
	// ErrGone: the log that was followed no longer exists.
	ErrGone = errors.New("follow: the log is gone")
	// ErrClosed: the Hub was closed, or the follower told to stop.
	ErrClosed = errors.New("follow: closed")
)

// Position is where a read begins.
type Position[K comparable] struct {
	Key  K
	From int64
	// Size is the mean size of the items that were last read of the log. Zero: none were.
	Size int
}

// News says that a log has the items below Next.
type News[K comparable] struct {
	Key  K
	Next int64
}

// Look is the Next of a log that must be read to find out what has happened to it: it
// may be gone.
const Look = -1

// Found is what a read found at one position.
type Found[I any] struct {
	// Items are those from the position on, ascending and without gaps.
	Items []I
	// Next is the sequence of the log's next item.
	Next int64
	// Missing: there is no such log.
	Missing bool
	// End, if not nil, ends the followers of the log after these items.
	End error
	// Cut: the answer had no room for this position, which is read again, by itself. A position
	// that needs little should not be cut for one that needs much, and the only one of a read is
	// not. Items may be fewer than there are, too.
	Cut bool
}

// Config says how a Hub reads. All fields are required.
type Config[K comparable, I any] struct {
	// Read reads logs from positions on, and returns what it found in the order of the
	// positions. A log may have several positions.
	Read func(ctx context.Context, positions []Position[K]) ([]Found[I], error)
	// Newest returns the logs whose next sequence is not the known one, with the actual
	// one; Look for missing logs. It may use known until it returns.
	Newest func(ctx context.Context, known []News[K]) ([]News[K], error)
	// Size returns an item's size in bytes.
	Size func(I) int
	// Passes reports whether reading again may succeed after this error.
	Passes func(error) bool
	// Alone reports whether an error may be of one position alone, such as a timeout of the
	// statement: each position of the read is read again by itself.
	Alone func(error) bool
	// Interval is the time between two polls.
	Interval func() time.Duration
	// Readers bounds the reads under way, and Positions the positions in one read of
	// up-to-date followers. Followers that catch up are read one by one, and leave one
	// reader to the others, if there are several.
	Readers, Positions int
}

// Hub is safe for concurrent use. New makes one.
type Hub[K comparable, I any] struct {
	config  Config[K, I]
	ctx     context.Context // ends with Close
	close   context.CancelFunc
	running sync.WaitGroup // the goroutines of reads and of the poll
	poke    chan struct{}  // has an element if the next poll is due at once

	mu        sync.Mutex
	closed    bool
	topics    map[K]*topic[K, I]
	followers int
	late      map[*follower[K, I]]bool // followers that are behind
	live      []*request[K, I]         // requests of up-to-date followers, in order
	behind    []*request[K, I]         // requests of followers that catch up
	reading   int                      // goroutines that read
	catching  int                      // the ones that read for followers that catch up
	begun     int                      // the reads that have begun
	polling   bool                     // a goroutine polls
}

// New returns a Hub. The caller must close it.
func New[K comparable, I any](config Config[K, I]) *Hub[K, I] {
	h := &Hub[K, I]{
		config: config, poke: make(chan struct{}, 1), topics: map[K]*topic[K, I]{},
		late: map[*follower[K, I]]bool{},
	}
	h.ctx, h.close = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return h
}

// Close ends all followers, and waits for reads under way, which it cancels.
func (h *Hub[K, I]) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.close()
	h.running.Wait()
}

// Follow yields the items of a log from a sequence on, and then each further one. An
// error is yielded once and ends it: the context's; ErrMissing, ErrGone, ErrClosed, the
// last also when stop is closed; Found.End; the error of the first read, or of a later
// one that will not pass. The items are shared by all followers, and must not be changed.
func (h *Hub[K, I]) Follow(ctx context.Context, stop <-chan struct{}, key K, from int64) iter.Seq2[I, error] {
	return func(yield func(I, error) bool) {
		var none I
		f, err := h.enter(key, from)
		if err != nil {
			yield(none, err)
			return
		}
		defer h.leave(f)
		for {
			items, end := h.next(ctx, stop, f)
			for _, item := range items {
				if ctx.Err() != nil {
					end = ctx.Err()
					break
				}
				// First, since the body may end the goroutine.
				f.next++
				if !yield(item, nil) {
					return
				}
			}
			if end != nil {
				yield(none, end)
				return
			}
		}
	}
}

// follower follows a log.
type follower[K comparable, I any] struct {
	topic *topic[K, I]
	// next is the sequence that it needs next.
	next int64
	// looks is topic.looks as of its last read, or never.
	looks int
	// live: its last read reached the end of the log.
	live bool
	// entered is the number of reads that had begun before it.
	entered int
	// late is since when it is behind, or zero. It changes under mu.
	late time.Time
}

const never = -1

// next waits for the follower's next items. It may return none, and no error: then there
// is something else to be found out.
func (h *Hub[K, I]) next(ctx context.Context, stop <-chan struct{}, f *follower[K, I]) ([]I, error) {
	a, err := h.await(ctx, stop, f)
	began := f.looks != never
	switch {
	case err != nil:
		return nil, err
	case a.err != nil && began && h.config.Passes(a.err):
		f.live = f.live && a.rest == 0
		h.note(f, a.due, true)
		return nil, h.rest(ctx, stop, a.rest)
	case a.err != nil:
		return nil, a.err
	case a.Missing && !began:
		return nil, ErrMissing
	case a.Missing:
		return nil, ErrGone
	}
	// It may be older than the answer before, for example from a replica that is behind,
	// and then has no items.
	f.looks = a.looks
	f.live = f.next+int64(len(a.Items)) >= a.Next
	h.note(f, a.due, !f.live)
	return a.Items, a.End
}

// rest waits before a follower's next read, whose last one failed although it was alone.
// After other errors the reader rests, and there is nothing to wait for here.
func (h *Hub[K, I]) rest(ctx context.Context, stop <-chan struct{}, rest time.Duration) error {
	if rest == 0 {
		return nil
	}
	select {
	case <-time.After(rest):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-stop:
	case <-h.ctx.Done():
	}
	return ErrClosed
}

// await waits for the answer to the follower's next read.
func (h *Hub[K, I]) await(ctx context.Context, stop <-chan struct{}, f *follower[K, I]) (*answer[I], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-stop: // although its next items may be kept
		return nil, ErrClosed
	default:
	}
	r, kept := h.ask(f)
	if kept != nil {
		return kept, nil
	}
	var err error
	select {
	case <-r.done:
		if h.ctx.Err() != nil { // the read's error is only that
			return nil, ErrClosed
		}
		return &r.answer, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-stop:
		err = ErrClosed
	case <-h.ctx.Done():
		err = ErrClosed
	}
	h.withdraw(r)
	return nil, err
}

// enter begins to follow a log.
func (h *Hub[K, I]) enter(key K, from int64) (*follower[K, I], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	t := h.topics[key]
	if t == nil {
		t = &topic[K, I]{key: key, known: unknown}
		h.topics[key] = t
	}
	t.followers++
	h.followers++
	if !h.polling {
		h.polling = true
		h.running.Go(h.poll)
	}
	return &follower[K, I]{topic: t, next: from, looks: never, entered: h.begun}, nil
}

func (h *Hub[K, I]) leave(f *follower[K, I]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers--
	delete(h.late, f)
	t := f.topic
	if t.followers--; t.followers == 0 {
		delete(h.topics, t.key)
	}
}

// note notes whether a follower is behind, after an answer to what was due at that time.
func (h *Hub[K, I]) note(f *follower[K, I], due time.Time, late bool) {
	if late != f.late.IsZero() { // nothing changes
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !late {
		f.late = time.Time{}
		delete(h.late, f)
		return
	}
	if f.late = due; due.IsZero() {
		f.late = time.Now()
	}
	h.late[f] = true
}

// Followers returns the number of followers, and how many wait for a read because they catch up. lag is for how long
// the one that is behind longest has been: there are, or may be, items that it was not given.
func (h *Hub[K, I]) Followers() (all, behind int, lag time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for f := range h.late {
		lag = max(lag, now.Sub(f.late))
	}
	for _, t := range h.topics {
		for _, r := range t.requests {
			if r.state == queued || r.state == underway {
				lag = max(lag, now.Sub(r.answer.due))
			}
		}
	}
	return h.followers, len(h.behind) + h.catching, lag
}

// Tell says what is new. It is quick: waiting followers are woken once the items were read.
func (h *Hub[K, I]) Tell(news ...News[K]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.topics) == 0 {
		return
	}
	for _, n := range news {
		if t := h.topics[n.Key]; t != nil {
			h.learn(t, n.Next)
		}
	}
	h.start()
}

// learn takes a hint.
func (h *Hub[K, I]) learn(t *topic[K, I], next int64) {
	switch {
	case next < 0:
		t.looks++
		h.enqueue(t, func(*request[K, I]) bool { return true })
	case next > t.known:
		t.known = next
		h.enqueue(t, func(r *request[K, I]) bool { return r.from < next })
	}
}

// Poke makes the next poll due at once.
func (h *Hub[K, I]) Poke() {
	select {
	case h.poke <- struct{}{}:
	default:
	}
}
