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

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// ErrSpooled means that an entry is durable in the spool's file, but not yet in the
// trail.
var ErrSpooled = errors.New("audit: spooled, not yet recorded")

// ErrQuarantined means that the database refuses an entry because of its values, or by a
// trigger of its owner's, or has another entry with its id, and that the entry is in the
// quarantine. The reason is wrapped.
var ErrQuarantined = errors.New("audit: quarantined")

// ErrReturned means that the writer was closed before an entry was written, and that
// Close returned the entry.
var ErrReturned = errors.New("audit: returned by Close")

// Opener opens sinks. auditlog.Store is one.
type Opener interface {
	Sink(ctx context.Context) (auditlog.Sink, error)
}

// Writer records entries in the background, once each and in the order of each
// caller's calls. It is safe for concurrent use. NewWriter starts one; the caller
// closes it.
type Writer struct {
	opener  Opener
	options Options
	queue   *queue

	// ended is closed when the writer's goroutine ends. cancel ends its waits and
	// writes.
	ended  chan struct{}
	ctx    context.Context //nolint:containedctx // the goroutine's own, not a caller's
	cancel context.CancelFunc

	mu     sync.Mutex
	health Health

	failed error // why Close gave up; mu guards it

	// returned and lost belong to the goroutine until it has ended: the entries that
	// Close returns, and the reason, unless Close's context has ended.
	returned []repo.AuditEntry
	lost     error

	// Only the goroutine uses the following fields.
	sink     auditlog.Sink
	noted    int64 // refused entries that a gap entry has reported
	spooling bool
}

// NewWriter starts a writer. It connects in the background, so that an unavailable
// database is not an error. Errors: repo.InvalidError of the opener, if it is nil, or the
// options.
func NewWriter(opener Opener, options Options) (*Writer, error) {
	if opener == nil {
		return nil, &repo.InvalidError{Field: "opener", Reason: "is nil"}
	}
	options, err := options.normalize()
	if err != nil {
		return nil, err
	}
	w := &Writer{
		opener: opener, options: options, queue: newQueue(options.QueueEntries, options.QueueBytes),
		ended: make(chan struct{}), health: Health{State: Healthy},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if s := options.Spool; s != nil && s.file.Records() > 0 { // left by an earlier process
		w.spooling = true
		w.queue.account(func(stats *Stats) {
			stats.Accepted += s.file.Records()
			stats.Spooled += s.file.Records()
		})
	}
	go w.run()
	return w, nil
}

// Record redacts an entry, and queues it. If it returns nil the entry is accepted: it will be written,
// or returned by Close. The entry is copied: Details may be reused. While the queue is
// full Record waits. Errors: repo.InvalidError; repo.ErrClosed; the context's own. The
// entry is then not accepted. If the entry has no id or time, Record sets them; to
// know the id, set it with repo.NewID.
func (w *Writer) Record(ctx context.Context, entry repo.AuditEntry) error {
	return w.put(ctx, entry, nil)
}

// put accepts an entry. It is redacted here, by its caller's goroutine, so that a slow text
// delays only its own caller.
func (w *Writer) put(ctx context.Context, entry repo.AuditEntry, done chan<- error) error {
	entry, err := rules.NormalizeEntry(entry)
	if err != nil {
		return err
	}
	return w.queue.put(ctx, w.options.Redactor.Entry(entry), done)
}

// RecordWait queues an entry like Record, and returns when it is committed. If the
// context ends after the entry was accepted, the error wraps repo.ErrUnknownOutcome:
// the entry was written, or will be. Further errors: ErrSpooled, ErrQuarantined,
// ErrReturned.
func (w *Writer) RecordWait(ctx context.Context, entry repo.AuditEntry) error {
	done := make(chan error, 1)
	if err := w.put(ctx, entry, done); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: the entry was accepted: %w", repo.ErrUnknownOutcome, ctx.Err())
	}
}

// Flush waits until all entries accepted so far are settled: committed, quarantined or
// in the spool's file.
func (w *Writer) Flush(ctx context.Context) error { return w.queue.wait(ctx) }

// Stats returns counts of the writer's entries.
func (w *Writer) Stats() Stats { return w.queue.snapshot() }

// Health reports whether the last attempt to write succeeded, and otherwise since when
// attempts have failed.
func (w *Writer) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health
}

// Close refuses further entries, including entries whose callers wait for room,
// writes the accepted ones, and ends the writer. If ctx ends first, it returns the
// entries that are not written, redacted and in order, and ctx's error. With a spool
// Close does not wait for the database: it ends when every entry is written or in
// the spool's file. If that has no room, it retries until ctx ends, and then returns
// the rest. If the spool's file was deleted it returns the entries that were in it,
// and ErrSpoolGone. Close may be called concurrently and again: all calls return the
// same entries and error.
func (w *Writer) Close(ctx context.Context) ([]repo.AuditEntry, error) {
	w.queue.refuse()
	select {
	case <-w.ended:
	case <-ctx.Done():
		w.giveUp(ctx.Err())
		<-w.ended // soon: the sink's context has ended
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left(), errors.Join(w.failed, w.lost)
}

// giveUp ends the writer's attempts. Close returns the first reason.
func (w *Writer) giveUp(reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("audit: close: %w", reason)
	}
	w.cancel()
}

// left returns Close's results, with a copy of the entries for each caller. The
// caller holds the lock.
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
		entries, closed := w.queue.front(w.options.BatchEntries)
		if len(entries) == 0 {
			if closed {
				break
			}
			select {
			case <-w.queue.work:
			case <-w.ctx.Done():
			}
			continue
		}
		if !w.write(entries) {
			break
		}
	}
	w.giveBack()
}

// write settles entries of the queue, or moves some of them to the spool: entries
// in the spool are written first. It returns false if the writer was cancelled.
func (w *Writer) write(entries []repo.AuditEntry) bool {
	for attempt := 1; ; attempt++ {
		settle := func(count int, outcome error, account func(*Stats)) {
			w.queue.settle(count, outcome, account)
			entries, attempt = entries[count:], 1
		}
		err := w.record(entries, settle)
		switch {
		case err == nil:
			return true
		case w.ctx.Err() != nil:
			return false
		case w.options.Spool != nil:
			switch taken, err := w.spool(entries); {
			case taken > 0:
				w.spooling = true
				return true
			case errors.Is(err, ErrSpoolRecord):
				if w.quarantine(entries[0], err, settle) == nil {
					return true
				}
			}
		}
		if !w.pause(attempt) {
			return false
		}
	}
}

// settling settles the oldest count of the entries that are being recorded.
type settling func(count int, outcome error, account func(*Stats))

// record writes entries in order, and quarantines refused ones. After an error,
// the entries that are not settled may be recorded again.
func (w *Writer) record(entries []repo.AuditEntry, settle settling) error {
	recorded, err := w.attempt(entries)
	switch {
	case err == nil:
		settle(len(entries), nil, func(s *Stats) {
			s.Written += int64(recorded.Written)
			s.Known += int64(recorded.Known)
		})
		return nil
	case !isRefused(err):
		return err
	case len(entries) == 1:
		return w.quarantine(entries[0], err, settle)
	}
	// One of them is refused. Bisect to find it, and write the others in order.
	half := len(entries) / 2
	if err := w.record(entries[:half], settle); err != nil {
		return err
	}
	return w.record(entries[half:], settle)
}

// isRefused reports whether an entry is refused because of its values, because its id is
// another's, or by a trigger of the database's owner.
func isRefused(err error) bool {
	return errors.Is(err, repo.ErrConflict) || errors.Is(err, repo.ErrInvalid)
}

// attempt tries once to record entries, and updates the writer's health.
func (w *Writer) attempt(entries []repo.AuditEntry) (recorded auditlog.Recorded, err error) {
	err = w.try(func(ctx context.Context) (err error) {
		recorded, err = w.sink.Record(ctx, entries)
		return err
	})
	return recorded, err
}

// try runs one operation on the sink, with a timeout. If the database refuses an entry
// because of its values, that does not affect the writer's health.
func (w *Writer) try(operation func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.options.WriteTimeout)
	defer cancel()
	err := w.connect(ctx)
	if err == nil {
		err = operation(ctx)
	}
	if err == nil || isRefused(err) {
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

// isMisconfigured reports whether the login, a privilege, the database or a table is
// missing.
func isMisconfigured(err error) bool {
	return errors.Is(err, repo.ErrPermission) || errors.Is(err, repo.ErrSchema)
}

func (w *Writer) backoff(attempt int) time.Duration {
	return backoff(attempt, w.options.MinBackoff, w.options.MaxBackoff)
}

// backoff returns the pause after so many failed attempts in a row: the first is least,
// it doubles each time up to most, and half of it is random.
func backoff(attempts int, least, most time.Duration) time.Duration {
	pause := least
	for ; attempts > 1 && pause <= most/2; attempts-- {
		pause *= 2
	}
	if attempts > 1 {
		pause = most
	}
	return pause/2 + rand.N(pause/2+1)
}

// pause waits before the next attempt. It returns false if the writer was cancelled.
func (w *Writer) pause(attempt int) bool {
	return sleep(w.ctx, w.backoff(attempt))
}

// sleep waits for the pause. It returns false if ctx ends first.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
