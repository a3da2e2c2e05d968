package rules

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
)

// Covers reports whether a prune's bounds cover an entry with this time, and with
// the fields that its leaf keeps.
func Covers(d auditlog.PruneDetails, occurredAt time.Time, kept auditlog.Kept) bool {
	if !occurredAt.Before(d.Before) || len(d.Types) > 0 && !slices.Contains(d.Types, kept.Type) ||
		isNeverPruned(kept.Type) {
		return false
	}
	return !held(d.Held.Plans, kept.PlanID) && !held(d.Held.Sessions, kept.SessionID)
}

// held reports whether a sorted list contains the id.
func held(list []string, id repo.ID) bool {
	if id.IsZero() {
		return false
	}
	_, found := slices.BinarySearch(list, hex.EncodeToString(id[:]))
	return found
}

// ParsePruneDetails reads the details of an entry of the type EventAuditPruned.
func ParsePruneDetails(details json.RawMessage) (auditlog.PruneDetails, error) {
	var d auditlog.PruneDetails
	if err := json.Unmarshal(details, &d); err != nil || d.Before.IsZero() {
		return auditlog.PruneDetails{}, invalid("details", "are not of a prune")
	}
	slices.Sort(d.Held.Plans)
	slices.Sort(d.Held.Sessions)
	return d, nil
}

// PruneEntry returns the entry that records a prune, without its times.
// Errors: InvalidError.
func PruneEntry(prune auditlog.Prune, holds []auditlog.Hold) (repo.AuditEntry, error) {
	if len(holds) > auditlog.MaxHeldInPrune {
		return repo.AuditEntry{}, invalid("holds", "are more than %d, which a prune's entry cannot name",
			auditlog.MaxHeldInPrune)
	}
	d := auditlog.PruneDetails{Before: prune.Before, Types: prune.Types, Reason: prune.Reason}
	for _, hold := range holds {
		if hold.PlanID.IsZero() {
			d.Held.Sessions = append(d.Held.Sessions, hex.EncodeToString(hold.SessionID[:]))
		} else {
			d.Held.Plans = append(d.Held.Plans, hex.EncodeToString(hold.PlanID[:]))
		}
	}
	slices.Sort(d.Held.Plans)
	slices.Sort(d.Held.Sessions)
	details, err := json.Marshal(d)
	if err != nil {
		return repo.AuditEntry{}, err
	}
	return repo.AuditEntry{ID: repo.NewID(), Type: events.AuditPruned, Actor: prune.Actor, Details: details}, nil
}

// CheckSealLimit checks the maximum number of entries of a seal.
func CheckSealLimit(limit int) error {
	return invalidIf(limit < 1 || limit > auditlog.MaxSealEntries, "limit", "is not between 1 and %d",
		auditlog.MaxSealEntries)
}

// SealTakes reports whether a seal takes an entry that brings it to so many
// entries, and so many bytes of details. It takes at least one.
func SealTakes(entries int, bytes int64) bool { return entries == 1 || bytes <= auditlog.MaxSealBytes }

// CheckSeal checks the seal that a sealer made of the entries that it was given.
func CheckSeal(unsealed auditlog.Unsealed, seal auditlog.Seal) error {
	entries := len(unsealed.Entries)
	whole := len(seal.Leaves) == entries && len(seal.Hidden) == entries &&
		seal.Checkpoint.Size == unsealed.Size+int64(entries)
	return invalidIf(!whole, "seal", "does not have a leaf for each entry and a checkpoint of them all")
}

// AuditExport writes an export: a line of JSON for each entry.
type AuditExport struct {
	out     *bufio.Writer
	encoder *json.Encoder
}

// NewAuditExport returns an export to w. It writes in large pieces, and does not
// wait for w once ctx has ended.
func NewAuditExport(ctx context.Context, w io.Writer) *AuditExport {
	out := bufio.NewWriterSize(ctxio.NewWriter(ctx, w), 64<<10)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return &AuditExport{out, encoder}
}

// Write writes an entry.
func (x *AuditExport) Write(e repo.AuditEntry) error { return x.encoder.Encode(e) }

// Close writes the remaining lines.
func (x *AuditExport) Close() error { return x.out.Flush() }
