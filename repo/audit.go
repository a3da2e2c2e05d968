package repo

import (
	"encoding/json"
	"time"
)

// AuditEntry records an event. Its JSON form is a line of an export.
type AuditEntry struct {
	// ID makes recording idempotent, also after the entry was pruned. Zero, when recording: a new ID.
	ID ID `json:"id"`
	// OccurredAt is the caller's, in the years 2000 to 2100. Zero, when recording: the time in ID, if that is one.
	OccurredAt time.Time `json:"occurred_at"`
	RecordedAt time.Time `json:"recorded_at"` // by the database's clock; ignored when recording
	// Type is the kind of the event, at most 63 of a-z, 0-9 and _, the first a letter: see package audit.
	Type string `json:"type"`
	// Namespace is the namespace of what the event concerns. It and the following are optional, at most MaxNameBytes.
	Namespace string `json:"namespace,omitempty"`
	Actor     string `json:"actor,omitempty"` // the agent
	User      string `json:"user,omitempty"`  // the person on whose behalf it acts
	// PlanID and SessionID are what the event concerns. Zero: none. They need not exist.
	PlanID    ID              `json:"plan_id,omitzero"`
	SessionID ID              `json:"session_id,omitzero"`
	Project   string          `json:"project,omitempty"`
	Details   json.RawMessage `json:"details"` // an object of at most MaxMetadataBytes; nil: "{}"
}

// AuditFilter selects entries; the zero value selects all.
type AuditFilter struct {
	Namespace                    string // also of sessions, plans and actions that an entry is about
	Type, Actor, User, Project   string
	PlanID, SessionID            ID
	OccurredFrom, OccurredBefore time.Time // inclusive and exclusive
	OldestFirst                  bool      // the order of a list, by OccurredAt, then ID; otherwise it is newest first
}
