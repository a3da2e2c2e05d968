package repo

import (
	"encoding/json"
	"time"
)

// ExportedAuditEntry is an entry as a line of an export: what is not set is left
// out.
type ExportedAuditEntry struct {
	ID         ID              `json:"id"`
	OccurredAt time.Time       `json:"occurred_at"`
	RecordedAt time.Time       `json:"recorded_at"`
	Type       EventType       `json:"type"`
	Actor      string          `json:"actor,omitempty"`
	User       string          `json:"user,omitempty"`
	PlanID     *ID             `json:"plan_id,omitempty"`
	SessionID  *ID             `json:"session_id,omitempty"`
	Project    string          `json:"project,omitempty"`
	Details    json.RawMessage `json:"details"`
}

// ExportedEntry is the entry as a line of an export.
func ExportedEntry(e AuditEntry) ExportedAuditEntry {
	line := ExportedAuditEntry{
		ID: e.ID, OccurredAt: e.OccurredAt, RecordedAt: e.RecordedAt, Type: e.Type,
		Actor: e.Actor, User: e.User, Project: e.Project, Details: e.Details,
	}
	if !e.PlanID.IsZero() {
		line.PlanID = &e.PlanID
	}
	if !e.SessionID.IsZero() {
		line.SessionID = &e.SessionID
	}
	return line
}

// ImportedEntry is the entry of a line of an export.
func ImportedEntry(line ExportedAuditEntry) AuditEntry {
	e := AuditEntry{
		ID: line.ID, OccurredAt: line.OccurredAt, RecordedAt: line.RecordedAt, Type: line.Type,
		Actor: line.Actor, User: line.User, Project: line.Project, Details: line.Details,
	}
	if line.PlanID != nil {
		e.PlanID = *line.PlanID
	}
	if line.SessionID != nil {
		e.SessionID = *line.SessionID
	}
	return e
}
