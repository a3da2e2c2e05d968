package audit

import (
	"encoding/json"

	"github.com/seed-df90f812/agentstore/repo"
)

// exactEntry is an entry as JSON that gives it back byte for byte: its details
// are a text, because encoding JSON within JSON drops spaces, and what was sealed
// is the text that was stored.
type exactEntry struct {
	repo.ExportedAuditEntry
	Text string `json:"details"`
}

func exactOf(entry repo.AuditEntry) exactEntry {
	text := string(entry.Details)
	entry.Details = nil
	return exactEntry{ExportedAuditEntry: repo.ExportedEntry(entry), Text: text}
}

func (e exactEntry) entry() repo.AuditEntry {
	line := e.ExportedAuditEntry
	line.Details = json.RawMessage(e.Text)
	return repo.ImportedEntry(line)
}
