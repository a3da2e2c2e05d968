package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// ErrSpooled says that an entry is safe in the spool's file, and not yet in the
// trail.
var ErrSpooled = errors.New("audit: spooled, not yet recorded")

// ErrQuarantined says that the database refuses an entry for what it holds, and
// that it was set aside there.
var ErrQuarantined = errors.New("audit: quarantined")

// ErrReturned says that the writer was closed before an entry could be written.
// Close's caller got it.
var ErrReturned = errors.New("audit: returned by Close")

// Opener opens sinks. repo.AuditStore is one.
type Opener interface {
	Sink(ctx context.Context) (repo.AuditSink, error)
}

// Writer records entries in the background: in the order in which each caller
// gave them, each once. It is safe for concurrent use. NewWriter makes one; its
// owner closes it.
type Writer struct {
	opener  Opener
	options Options
	queue   *queue

	// ended is the writer's goroutine's. cancel ends its waits and writes.
	ended  chan struct{}
	ctx    context.Context //nolint:containedctx // the goroutine's own, which no caller's context owns
	cancel context.CancelFunc

	mu     sync.Mutex
	health Health

	failed error // why Close gave up; mu guards it

	// returned and lost are the goroutine's until it has ended: what Close hands
	// over, and why, if that is not for want of time.
	returned []repo.AuditEntry
	lost     error

	// The rest is the goroutine's alone.
	sink     repo.AuditSink
	noted    int64 // refused entries that a gap entry tells of
	spooling bool
}

// NewWriter starts a writer. It connects in the background, so that an unavailable
// database is not an error. Errors: repo.InvalidError of the options.
func NewWriter(opener Opener, options Options) (*Writer, error) {
	options, err := options.normalize()
	if err != nil {
		return nil, err
	}
	w := &Writer{
		opener: opener, options: options, queue: newQueue(options.QueueEntries, options.QueueBytes),
		ended: make(chan struct{}), health: Health{State: Healthy},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if s := options.Spool; s != nil && s.file.Records() > 0 { // what an earlier process left
		w.spooling = true
		w.queue.account(func(stats *Stats) {
			stats.Accepted += s.file.Records()
			stats.Spooled += s.file.Records()
		})
	}
	go w.run()
	return w, nil
}

// Record queues an entry. Nil means that it is accepted: it will be written, or
// returned by Close. The entry is copied: Details may be reused. While the queue is
// full Record waits. Errors:
// repo.InvalidError; repo.ErrClosed; the context's own, and then the entry is not
// accepted. The entry's id and time, where none were given, are made here; use
// repo.NewID to know the id.
func (w *Writer) Record(ctx context.Context, entry repo.AuditEntry) error {
	entry, err := entry.Normalize()
	if err != nil {
		return err
	}
	return w.queue.put(ctx, entry, nil)
}

// RecordWait queues an entry like Record, and returns when it is committed. If the
// context ends after the entry was accepted the error wraps repo.ErrUnknownOutcome:
// the entry is, or will be, written. Errors also: ErrSpooled, ErrQuarantined, ErrReturned.
func (w *Writer) RecordWait(ctx context.Context, entry repo.AuditEntry) error {
	entry, err := entry.Normalize()
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	if err := w.queue.put(ctx, entry, done); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: the entry was accepted: %w", repo.ErrUnknownOutcome, ctx.Err())
	}
}

// Flush waits until all that was accepted before is settled: committed,
// quarantined or in the spool's file.
func (w *Writer) Flush(ctx context.Context) error { return w.queue.wait(ctx) }

// Stats counts what became of entries.
func (w *Writer) Stats() Stats { return w.queue.snapshot() }

// Health returns whether the last attempt to write succeeded, and otherwise since
// when attempts have failed.
func (w *Writer) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health
}

// Close refuses further entries, including those whose callers wait for room,
// writes those that were accepted, and ends the writer. If ctx ends first, it
// returns the entries that are not written, redacted and in order, and ctx's error.
// With a spool Close does not wait for the database: it ends when every entry is
// written or in the spool's file. If that has no room, it retries until ctx ends,
// and then returns the rest. If the spool's file was deleted it returns the entries
// that were in it, and ErrSpoolGone. Close may be called concurrently and again: all
// calls return the same entries and error.
func (w *Writer) Close(ctx context.Context) ([]repo.AuditEntry, error) {
	w.queue.refuse()
	select {
	case <-w.ended:
	case <-ctx.Done():
		w.giveUp(ctx.Err())
		<-w.ended // a sink heeds its context
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left(), errors.Join(w.failed, w.lost)
}

// giveUp ends the writer's attempts. The first reason is the one that is told.
func (w *Writer) giveUp(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("audit: close: %w", reason)
	}
	w.cancel()
}

// left is what Close returns: each of its callers gets entries of its own. It is
// called with the writer's lock.
func (w *Writer) left() []repo.AuditEntry {
	entries := slices.Clone(w.returned)
	for i := range entries {
		entries[i].Details = bytes.Clone(entries[i].Details)
	}
	return entries
}

// run writes until the queue is closed and empty, or the writer is cancelled.
func (w *Writer) run() {
	defer close(w.ended)
	defer w.cancel()
	defer w.disconnect()
	for {
		if w.spooling {
			if !w.drain() {
				break
			}
			continue
		}
		w.noteGap()
		batch, closed := w.queue.front(w.options.BatchEntries)
		if len(batch) == 0 {
			if closed {
				break
			}
			select {
			case <-w.queue.work:
			case <-w.ctx.Done():
			}
			continue
		}
		if w.write(batch) == cancelled {
			break
		}
	}
	w.giveBack()
}

// progress is how far the writer came with a batch.
type progress int

const (
	// settled: all of it is.
	settled progress = iota
	// begun: some of it is in the spool, the rest at the front of the queue. What
	// is in the spool is written first.
	begun
	// cancelled: the writer ends.
	cancelled
)

// write settles a batch, or a part of it.
func (w *Writer) write(batch []item) progress {
	return w.record(batch, w.redacted(batch))
}

func (w *Writer) redacted(batch []item) []repo.AuditEntry {
	entries := make([]repo.AuditEntry, len(batch))
	for i, it := range batch {
		entries[i] = w.options.Redactor.Entry(it.entry)
	}
	return entries
}

// record writes entries, which are the batch's, until they are settled.
func (w *Writer) record(batch []item, entries []repo.AuditEntry) progress {
	for attempt := 1; ; attempt++ {
		recorded, err := w.attempt(entries)
		switch {
		case err == nil:
			w.settle(batch, nil, func(s *Stats) {
				s.Written += int64(recorded.Written)
				s.Known += int64(recorded.Known)
			})
			return settled
		case w.ctx.Err() != nil:
			return cancelled
		case errors.Is(err, repo.ErrInvalid) && len(entries) > 1:
			// One of them is refused. Which one it is, halving finds out; the
			// others are written, in order.
			half := len(entries) / 2
			if first := w.record(batch[:half], entries[:half]); first != settled || w.spooling {
				return max(first, begun)
			}
			return w.record(batch[half:], entries[half:])
		case errors.Is(err, repo.ErrInvalid):
			return w.quarantine(batch, entries[0], err)
		case w.options.Spool != nil:
			switch taken, err := w.spool(batch, entries); {
			case taken > 0:
				w.spooling = true
				return begun
			case errors.Is(err, ErrSpoolRecord):
				if w.quarantine(batch[:1], entries[0], err) == cancelled {
					return cancelled
				}
				return begun
			}
		}
		if !w.pause(attempt) {
			return cancelled
		}
	}
}

// attempt tries once to record entries, and notes how that went.
func (w *Writer) attempt(entries []repo.AuditEntry) (recorded repo.AuditRecorded, err error) {
	err = w.try(func(ctx context.Context) (err error) {
		recorded, err = w.sink.Record(ctx, entries)
		return err
	})
	return recorded, err
}

// try runs one operation on the sink, within its time. What the database answers
// to the entry itself says nothing of its health.
func (w *Writer) try(operation func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.options.WriteTimeout)
	defer cancel()
	err := w.connect(ctx)
	if err == nil {
		err = operation(ctx)
	}
	if err == nil || errors.Is(err, repo.ErrInvalid) {
		w.healthy()
	} else {
		w.unhealthy(err)
	}
	return err
}

func (w *Writer) connect(ctx context.Context) error {
	if w.sink != nil {
		return nil
	}
	sink, err := w.opener.Sink(ctx)
	if err != nil {
		return err
	}
	w.sink = sink
	return nil
}

func (w *Writer) disconnect() {
	if w.sink != nil {
		if err := w.sink.Close(); err != nil {
			w.options.Logger.Warn("audit: cannot close the connection", "error", err)
		}
	}
}

func (w *Writer) healthy() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.health.State != Healthy {
		w.options.Logger.Info("audit: recording resumed", "attempts", w.health.Attempts)
	}
	w.health = Health{State: Healthy}
}

func (w *Writer) unhealthy(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.health.State == Healthy {
		w.health.Since = time.Now()
		w.options.Logger.Warn("audit: cannot record; will retry", "error", err)
	}
	w.health.State, w.health.Err = Retrying, err
	w.health.Attempts++
	if isMisconfigured(err) {
		w.health.State = Misconfigured
	}
}

// isMisconfigured: the login, a right, the database or a table.
func isMisconfigured(err error) bool {
	return errors.Is(err, repo.ErrPermission) || errors.Is(err, repo.ErrSchema)
}

// backoff is how long to wait before the next attempt: twice as long each time,
// and half of it by chance.
func (w *Writer) backoff(attempt int) time.Duration {
	pause := w.options.MaxBackoff
	if shift := attempt - 1; shift < 20 {
		pause = min(pause, w.options.MinBackoff<<shift)
	}
	return pause/2 + rand.N(pause/2+1)
}

// pause waits so long. It returns false when the writer was cancelled.
func (w *Writer) pause(attempt int) bool {
	timer := time.NewTimer(w.backoff(attempt))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// settle takes a batch out of the queue and tells who waits for its entries.
func (w *Writer) settle(batch []item, outcome error, account func(*Stats)) {
	w.queue.settle(len(batch), account)
	for _, it := range batch {
		if it.done != nil {
			it.done <- outcome // it has room for one
		}
	}
}
