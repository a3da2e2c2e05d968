package audit

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// spool moves as much as it can of a batch from the queue to the spool's file, and
// returns how much that is.
func (w *Writer) spool(batch []item, entries []repo.AuditEntry) (int, error) {
	taken, err := w.options.Spool.append(entries)
	if taken > 0 {
		w.settle(batch[:taken], ErrSpooled, func(s *Stats) { s.Spooled += int64(taken) })
	}
	if err != nil {
		w.options.Logger.Error("audit: cannot spool", "error", err, "entries", len(entries)-taken)
	}
	return taken, err
}

// drain writes what is in the spool, and spools what comes meanwhile: so the
// order stays. It returns when the spool is empty, with true, or when the writer
// ends, with false: after an attempt that failed, if nothing waits and the queue
// is closed.
func (w *Writer) drain() bool {
	for attempt := 1; ; {
		entries, ends, err := w.options.Spool.next(w.options.BatchEntries)
		if err != nil {
			// The file cannot be read: it is left for the next OpenSpool, and the
			// queue goes on without it.
			w.options.Logger.Error("audit: cannot read the spool", "error", err)
			w.closeSpool()
			w.spooling, w.options.Spool = false, nil
			return true
		}
		if len(entries) == 0 {
			w.spooling = false
			return true
		}
		if err = w.recordSpooled(entries, ends); err == nil {
			attempt = 1
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
// when the queue is closed and all that was in it is in the spool.
func (w *Writer) pauseSpooling(attempt int) bool {
	timer := time.NewTimer(w.backoff(attempt))
	defer timer.Stop()
	for {
		room, ended := w.spoolQueue()
		if ended {
			return false
		}
		work := w.queue.work
		if !room {
			work = nil // a spool that was full a moment ago is not asked again for each entry
		}
		select {
		case <-timer.C:
			return true
		case <-work:
		case <-w.ctx.Done():
			return false
		}
	}
}

// spoolQueue moves all that waits to the spool, as far as there is room. ended:
// nothing waits, and nothing will.
func (w *Writer) spoolQueue() (room, ended bool) {
	for {
		batch, closed := w.queue.front(w.options.BatchEntries)
		if len(batch) == 0 {
			return true, closed
		}
		entries := w.redacted(batch)
		taken, err := w.spool(batch, entries)
		switch {
		case errors.Is(err, ErrSpoolRecord):
			if w.quarantine(batch[taken:taken+1], entries[taken], err) == cancelled {
				return false, false
			}
		case err != nil:
			return false, false
		}
	}
}

// recordSpooled writes entries of the spool, and quarantines what is refused. ends
// are their places.
func (w *Writer) recordSpooled(entries []repo.AuditEntry, ends []int64) error {
	recorded, err := w.attempt(entries)
	switch {
	case err == nil:
		w.doneSpooled(ends, func(s *Stats) {
			s.Written += int64(recorded.Written)
			s.Known += int64(recorded.Known)
		})
		return nil
	case !errors.Is(err, repo.ErrInvalid):
		return err
	case len(entries) > 1:
		half := len(entries) / 2
		if err := w.recordSpooled(entries[:half], ends[:half]); err != nil {
			return err
		}
		return w.recordSpooled(entries[half:], ends[half:])
	}
	if err := w.setAside(entries[0], err); err != nil {
		return err
	}
	w.doneSpooled(ends, func(s *Stats) { s.Quarantined++ })
	w.reportPoison(entries[0], err)
	return nil
}

// doneSpooled counts the spool's oldest entries as something else.
func (w *Writer) doneSpooled(ends []int64, account func(*Stats)) {
	w.queue.account(func(s *Stats) {
		s.Spooled -= int64(len(ends))
		account(s)
	})
	if err := w.options.Spool.file.Done(len(ends), ends[len(ends)-1]); err != nil {
		w.options.Logger.Error("audit: cannot empty the spool", "error", err)
	}
}

// giveBack hands over what is left when the writer ends.
func (w *Writer) giveBack() {
	if w.options.Spool != nil && w.options.Spool.file.Gone() {
		w.giveBackSpooled()
	}
	spooling := w.options.Spool != nil && w.lost == nil
	for {
		batch, _ := w.queue.front(w.options.BatchEntries)
		if len(batch) == 0 {
			break
		}
		entries := w.redacted(batch)
		if spooling {
			taken, err := w.spool(batch, entries)
			batch, entries = batch[taken:], entries[taken:]
			switch {
			case errors.Is(err, ErrSpoolRecord):
				batch, entries = batch[:1], entries[:1]
			case err != nil:
				spooling = false
			}
		}
		if len(batch) > 0 {
			w.returned = append(w.returned, entries...)
			w.settle(batch, ErrReturned, func(s *Stats) { s.Returned += int64(len(batch)) })
		}
	}
	if w.options.Spool != nil {
		w.closeSpool()
	}
}

// giveBackSpooled hands over what is in a file that has no name any more.
func (w *Writer) giveBackSpooled() {
	w.lost = fmt.Errorf("audit: close: %w", ErrSpoolGone)
	for {
		entries, ends, err := w.options.Spool.next(w.options.BatchEntries)
		if err != nil {
			w.lost = fmt.Errorf("%w: %w", w.lost, err)
			return
		}
		if len(entries) == 0 {
			return
		}
		w.returned = append(w.returned, entries...)
		w.doneSpooled(ends, func(s *Stats) { s.Returned += int64(len(entries)) })
	}
}

func (w *Writer) closeSpool() {
	if err := w.options.Spool.Close(); err != nil {
		w.options.Logger.Warn("audit: cannot close the spool", "error", err)
	}
}
