package audit

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// spool moves as many entries as possible from the queue to the spool's file, and
// returns how many.
func (w *Writer) spool(entries []repo.AuditEntry) (int, error) {
	taken, err := w.options.Spool.append(entries)
	if taken > 0 {
		w.queue.settle(taken, ErrSpooled, func(s *Stats) { s.Spooled += int64(taken) })
	}
	if err != nil {
		w.options.Logger.Error("audit: cannot spool", "error", err, "entries", len(entries)-taken)
	}
	return taken, err
}

// drain writes the entries in the spool, and spools new entries meanwhile, which
// keeps their order. It returns true when the spool is empty or cannot be read,
// and false when the writer ends: when it is cancelled, or, if the queue is closed
// and empty, after a failed attempt.
func (w *Writer) drain() bool {
	for attempt := 1; ; {
		entries, ends, err := w.options.Spool.next(w.options.BatchEntries)
		if err != nil {
			// The file cannot be read. The next OpenSpool recovers it; this writer
			// continues without it.
			w.options.Logger.Error("audit: cannot read the spool", "error", err)
			w.closeSpool()
			w.spooling, w.options.Spool = false, nil
			return true
		}
		if len(entries) == 0 {
			w.spooling = false
			return true
		}
		err = w.record(entries, func(count int, _ error, account func(*Stats)) {
			w.doneSpooled(ends[:count], account)
			ends = ends[count:]
		})
		if err == nil {
			attempt = 1
			continue
		}
		if w.ctx.Err() != nil {
			return false
		}
		if !w.pauseSpooling(attempt) {
			return false // the next process writes what is in the spool
		}
		attempt++
	}
}

// pauseSpooling is pause, but spools entries that arrive meanwhile. It also returns
// false when the queue is closed and everything that was in it is in the spool.
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
			work = nil // do not retry a full spool for each entry
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

// spoolQueue moves the queue to the spool, as far as there is room. ended reports
// that the queue is empty and closed.
func (w *Writer) spoolQueue() (room, ended bool) {
	for {
		entries, closed := w.queue.front(w.options.BatchEntries)
		if len(entries) == 0 {
			return true, closed
		}
		taken, err := w.spool(entries)
		switch {
		case errors.Is(err, ErrSpoolRecord):
			if w.quarantine(entries[taken], err, w.queue.settle) != nil {
				return false, false
			}
		case err != nil:
			return false, false
		}
	}
}

// doneSpooled removes the spool's oldest entries and counts them.
func (w *Writer) doneSpooled(ends []int64, account func(*Stats)) {
	w.queue.account(func(s *Stats) {
		s.Spooled -= int64(len(ends))
		account(s)
	})
	if err := w.options.Spool.file.Done(len(ends), ends[len(ends)-1]); err != nil {
		w.options.Logger.Error("audit: cannot empty the spool", "error", err)
	}
}

// giveBack hands the remaining entries to Close when the writer ends.
func (w *Writer) giveBack() {
	if w.options.Spool != nil && w.options.Spool.file.Gone() {
		w.giveBackSpooled()
	}
	spooling := w.options.Spool != nil && w.lost == nil
	for {
		entries, _ := w.queue.front(w.options.BatchEntries)
		if len(entries) == 0 {
			break
		}
		if spooling {
			taken, err := w.spool(entries)
			entries = entries[taken:]
			switch {
			case errors.Is(err, ErrSpoolRecord):
				entries = entries[:1]
			case err != nil:
				spooling = false
			}
		}
		if len(entries) > 0 {
			w.returned = append(w.returned, entries...)
			w.queue.settle(len(entries), ErrReturned, func(s *Stats) { s.Returned += int64(len(entries)) })
		}
	}
	if w.options.Spool != nil {
		w.closeSpool()
	}
}

// giveBackSpooled hands over the entries of a spool whose file was deleted.
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
