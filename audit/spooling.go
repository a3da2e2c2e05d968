package audit

import (
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// spool moves a batch from the queue to the spool's file. It returns false when
// that has no room or fails; then the batch stays where it is.
func (w *Writer) spool(batch []item, entries []repo.AuditEntry) bool {
	if err := w.options.Spool.append(entries); err != nil {
		w.options.Logger.Error("audit: cannot spool", "error", err)
		return false
	}
	w.settle(batch, ErrSpooled, func(s *Stats) { s.Spooled += int64(len(batch)) })
	return true
}

// drain writes what is in the spool, and spools what comes meanwhile: so the
// order stays. It returns when the spool is empty, with true, or when the writer
// ends, with false: after an attempt that failed, if the queue is closed.
func (w *Writer) drain() bool {
	for attempt := 1; ; {
		entries, end, err := w.options.Spool.next(w.options.BatchEntries)
		if err != nil {
			// The file cannot be read: it is left for somebody to look at, and the
			// queue goes on without it.
			w.options.Logger.Error("audit: cannot read the spool", "error", err)
			w.spooling, w.options.Spool = false, nil
			return true
		}
		if len(entries) == 0 {
			w.spooling = false
			return true
		}
		err = w.recordSpooled(entries)
		if err == nil {
			attempt = 1
			if err := w.options.Spool.done(len(entries), end); err != nil {
				w.options.Logger.Error("audit: cannot empty the spool", "error", err)
			}
			continue
		}
		if w.ctx.Err() != nil {
			return false
		}
		if !w.pauseSpooling(attempt) {
			return false // what is in the spool, the next process writes
		}
		attempt++
	}
}

// pauseSpooling is pause, and spools what comes meanwhile. It returns false, too,
// when the queue is closed.
func (w *Writer) pauseSpooling(attempt int) bool {
	timer := time.NewTimer(w.backoff(attempt))
	defer timer.Stop()
	for {
		if closed := w.spoolQueue(); closed {
			return false
		}
		select {
		case <-timer.C:
			return true
		case <-w.queue.work:
		case <-w.ctx.Done():
			return false
		}
	}
}

// spoolQueue moves all that waits to the spool, as far as there is room.
func (w *Writer) spoolQueue() (closed bool) {
	for {
		batch, closed := w.queue.front(w.options.BatchEntries)
		if len(batch) == 0 {
			return closed
		}
		entries := make([]repo.AuditEntry, len(batch))
		for i, it := range batch {
			entries[i] = w.options.Redactor.Entry(it.entry)
		}
		if !w.spool(batch, entries) {
			return closed
		}
	}
}

// recordSpooled writes entries of the spool, and quarantines what is refused.
func (w *Writer) recordSpooled(entries []repo.AuditEntry) error {
	recorded, err := w.attempt(entries)
	switch {
	case err == nil:
		w.queue.account(func(s *Stats) {
			s.Spooled -= int64(len(entries))
			s.Written += int64(recorded.Written)
			s.Known += int64(recorded.Known)
		})
		return nil
	case !errors.Is(err, repo.ErrInvalid):
		return err
	case len(entries) > 1:
		half := len(entries) / 2
		if err := w.recordSpooled(entries[:half]); err != nil {
			return err
		}
		return w.recordSpooled(entries[half:])
	}
	return w.quarantineSpooled(entries[0], err)
}
