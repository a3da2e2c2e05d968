package audit

import (
	"encoding/json"

	"github.com/seed-df90f812/agentstore/repo"
)

// ExactEntry is an entry whose JSON form preserves it byte for byte: its details are
// encoded as a string, because encoding JSON within JSON drops spaces, and the seal is
// of the stored text.
type ExactEntry struct {
	repo.AuditEntry
	// Text has the details, which are not set in the entry itself.
	Text string `json:"details"`
}

func exactOf(entry repo.AuditEntry) ExactEntry {
	text := string(entry.Details)
	entry.Details = nil
	return ExactEntry{AuditEntry: entry, Text: text}
}

func (e ExactEntry) entry() repo.AuditEntry {
	e.Details = json.RawMessage(e.Text)
	return e.AuditEntry
}
