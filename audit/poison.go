package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// quarantine sets an entry aside that the database refuses, so that it does not
// hold up the others: until that is done, or the writer is cancelled.
func (w *Writer) quarantine(batch []item, entry repo.AuditEntry, reason error) progress {
	for attempt := 1; ; attempt++ {
		if err := w.setAside(entry, reason); err == nil {
			break
		}
		if w.ctx.Err() != nil || !w.pause(attempt) {
			return cancelled
		}
	}
	w.settle(batch, fmt.Errorf("%w: %w", ErrQuarantined, reason), func(s *Stats) { s.Quarantined++ })
	w.reportPoison(entry, reason)
	return settled
}

func (w *Writer) setAside(entry repo.AuditEntry, reason error) error {
	document, err := json.Marshal(exactOf(entry))
	if err != nil { // no value of it can make it fail
		return err
	}
	poison := repo.AuditPoison{ID: entry.ID, Document: document, Reason: reason.Error()}
	return w.try(func(ctx context.Context) error { return w.sink.Quarantine(ctx, poison) })
}

func (w *Writer) reportPoison(entry repo.AuditEntry, reason error) {
	w.options.Logger.Error("audit: an entry was quarantined", "id", entry.ID, "type", entry.Type, "error", reason)
	if w.options.OnQuarantine != nil {
		w.options.OnQuarantine(entry, reason)
	}
}

// noteGap records, in the trail itself, that callers could not record: as soon as
// there is room, and no more of it than one entry.
func (w *Writer) noteGap() {
	refused := w.queue.snapshot().Refused
	if refused == w.noted || w.Health().State != Healthy {
		return
	}
	details := fmt.Sprintf(`{"refused":%d}`, refused-w.noted)
	entry, err := repo.AuditEntry{
		ID: repo.NewID(), OccurredAt: time.Now(), Type: repo.EventAuditGap, Details: json.RawMessage(details),
	}.Normalize()
	if err != nil {
		return
	}
	if w.queue.tryPut(entry) {
		w.noted = refused
		w.options.Logger.Error("audit: entries were refused while the queue was full", "entries", refused)
	}
}
