package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// quarantine sets aside an entry that the database or the spool refuses, so that it
// does not hold up the others.
func (w *Writer) quarantine(entry repo.AuditEntry, reason error, settle settling) error {
	if err := w.setAside(entry, reason); err != nil {
		return err
	}
	settle(1, fmt.Errorf("%w: %w", ErrQuarantined, reason), func(s *Stats) { s.Quarantined++ })
	w.options.Logger.Error("audit: an entry was quarantined", "id", entry.ID, "type", entry.Type, "error", reason)
	if w.options.OnQuarantine != nil {
		w.options.OnQuarantine(entry, reason)
	}
	return nil
}

func (w *Writer) setAside(entry repo.AuditEntry, reason error) error {
	document, err := json.Marshal(exactOf(entry))
	if err != nil { // does not depend on the entry's values
		return err
	}
	poison := auditlog.Poison{ID: entry.ID, Document: document, Reason: reason.Error()}
	return w.try(func(ctx context.Context) error { return w.sink.Quarantine(ctx, poison) })
}

// noteGap records in the audit trail, in one entry, how many entries were refused
// since the last one. It does so as soon as there is room.
func (w *Writer) noteGap() {
	refused := w.queue.snapshot().Refused
	if refused == w.noted || w.Health().State != Healthy {
		return
	}
	details := fmt.Sprintf(`{"refused":%d}`, refused-w.noted)
	entry, err := rules.NormalizeEntry(repo.AuditEntry{
		ID: repo.NewID(), OccurredAt: time.Now(), Type: EventAuditGap, Details: json.RawMessage(details),
	})
	if err != nil {
		return
	}
	if w.queue.tryPut(entry) {
		w.noted = refused
		w.options.Logger.Error("audit: entries were refused while the queue was full", "entries", refused)
	}
}
