package rules

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// timeOf returns the time within an id of version 7: milliseconds, in its first 48 bits.
func timeOf(id repo.ID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

// NormalizeEntry checks the entry and returns it as it is recorded: with an id, a
// time and details. An entry with an id and no time gets the time within the id, so
// that recording it again means the same entry.
func NormalizeEntry(e repo.AuditEntry) (repo.AuditEntry, error) {
	if e.ID.IsZero() {
		e.ID = repo.NewID()
		if e.OccurredAt.IsZero() {
			e.OccurredAt = time.Now()
		}
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = timeOf(e.ID)
	}
	e.RecordedAt = time.Time{}
	err := normalizeTime("occurred_at", &e.OccurredAt)
	year := e.OccurredAt.Year()
	err = cmp.Or(
		err,
		invalidIf(year < minAuditYear || year > maxAuditYear, "occurred_at",
			"is not between the years %d and %d", minAuditYear, maxAuditYear),
		checkEventType("type", e.Type),
		checkNames(name{"namespace", e.Namespace}, name{"actor", e.Actor}, name{"user", e.User}, name{"project", e.Project}),
		normalizeObject("details", &e.Details),
	)
	if err != nil {
		return repo.AuditEntry{}, err
	}
	return e, nil
}

// These bounds refuse the time of a broken clock, and of nearly every id that contains none.
const (
	minAuditYear = 2000
	maxAuditYear = 2100
)

const notEvent = "is not an event type, or not registered"

func checkEventType(field string, t string) error {
	return invalidIf(!events.Known(t), field, notEvent)
}

// NormalizeEntries checks a batch of entries and returns it as it is recorded.
func NormalizeEntries(view string, entries []repo.AuditEntry) ([]repo.AuditEntry, error) {
	if err := checkBatch("entries", len(entries)); err != nil {
		return nil, err
	}
	normal, size := make([]repo.AuditEntry, len(entries)), 0
	for i, entry := range entries {
		err := MadeInView(view, "namespace", &entry.Namespace)
		if err == nil {
			normal[i], err = NormalizeEntry(entry)
		}
		if err != nil {
			return nil, within(at("entries", i)+".", err)
		}
		if size += len(normal[i].Details); size > limits.MaxBatchBytes {
			return nil, invalid("entries", "hold more than %d bytes together", limits.MaxBatchBytes)
		}
	}
	return normal, nil
}

// HiddenField is a field of an entry that can be erased: the line that begins its digest, and its value, before and
// after that.
type HiddenField struct{ Line, Value, Erased string }

// HiddenFields are an entry's hidden fields, in the order of its salts.
func HiddenFields(e repo.AuditEntry) [4]HiddenField {
	return [4]HiddenField{
		{"agentstore/audit actor 1\n", e.Actor, ""},
		{"agentstore/audit user 1\n", e.User, ""},
		{"agentstore/audit project 1\n", e.Project, ""},
		{"agentstore/audit details 1\n", string(e.Details), "{}"},
	}
}

// Digest is what stands in the place of the salt of a field that was erased.
func (f HiddenField) Digest(salt []byte) [sha256.Size]byte {
	text := binary.BigEndian.AppendUint64([]byte(f.Line), uint64(len(salt)))
	return sha256.Sum256(append(append(text, salt...), f.Value...))
}

// IsErased reports whether a salt is a digest.
func IsErased(salt []byte) bool { return len(salt) == sha256.Size }

// ownDeletion is what a store says of a session or a plan that it has deleted: nothing personal.
var ownDeletion = regexp.MustCompile(`^{"entity":("session","messages":[0-9]+,"plans":[0-9]+,"state_keys":[0-9]+|` +
	`"plan","action":"[^"]*","stage":"[a-z_/]*","version":[0-9]+)}$`)

// EraseEntry returns the entry without the names in it, without its details, and with about also without its user: as
// the store on PostgreSQL erases it. It changes nothing that e refers to.
func EraseEntry(e auditlog.Entry, names []string, about bool) (erased auditlog.Entry, changed bool) {
	was := HiddenFields(e.AuditEntry)
	for field, about := range map[*string]bool{&e.Actor: false, &e.User: about, &e.Project: false} {
		if about || slices.Contains(names, *field) {
			*field = ""
		}
	}
	isOwn := e.Type == events.EntityDeleted && e.Actor+e.User == "" && ownDeletion.Match(e.Details)
	if !isNeverPruned(e.Type) && !isOwn {
		e.Details = json.RawMessage(`{}`)
	}
	e.Salts = slices.Clone(e.Salts)
	for i, is := range HiddenFields(e.AuditEntry) {
		if is != was[i] {
			digest := was[i].Digest(e.Salts[i])
			e.Salts[i], changed = digest[:], true
		}
	}
	return e, changed
}

// SameStored is SameEntry as far as a stored entry tells, of which fields may have been erased.
func SameStored(stored auditlog.Entry, e repo.AuditEntry) bool {
	given := HiddenFields(e)
	for i, field := range HiddenFields(stored.AuditEntry) {
		if !IsErased(stored.Salts[i]) && field.Value != given[i].Value {
			return false
		}
	}
	return SameKept(stored.AuditEntry, e)
}

// SameEntry reports whether two normalized entries with the same id are the same.
func SameEntry(a, b repo.AuditEntry) bool {
	return SameKept(a, b) && a.Actor == b.Actor && a.User == b.User && a.Project == b.Project &&
		bytes.Equal(a.Details, b.Details)
}

// SameKept is SameEntry as far as the leaf of a pruned entry tells.
func SameKept(a, b repo.AuditEntry) bool {
	return a.OccurredAt.Equal(b.OccurredAt) && a.Type == b.Type && a.Namespace == b.Namespace && a.PlanID == b.PlanID &&
		a.SessionID == b.SessionID
}

// DistinctEntries returns normalized entries, each id once. Errors:
// ExistsError.
func DistinctEntries(entries []repo.AuditEntry) ([]repo.AuditEntry, error) {
	first := make(map[repo.ID]int, len(entries))
	distinct := make([]repo.AuditEntry, 0, len(entries))
	for _, entry := range entries {
		place, again := first[entry.ID]
		if !again {
			first[entry.ID] = len(distinct)
			distinct = append(distinct, entry)
		} else if !SameEntry(distinct[place], entry) {
			return nil, &repo.ExistsError{Kind: "audit entry", ID: entry.ID}
		}
	}
	return distinct, nil
}

// NormalizeAuditFilter checks the filter.
func NormalizeAuditFilter(f repo.AuditFilter) (repo.AuditFilter, error) {
	err := cmp.Or(
		invalidIf(f.Type != "" && !events.Known(f.Type), "type", notEvent),
		checkNames(name{"namespace", f.Namespace}, name{"actor", f.Actor}, name{"user", f.User}, name{"project", f.Project}),
		normalizeTime("occurred_from", &f.OccurredFrom),
		normalizeTime("occurred_before", &f.OccurredBefore),
	)
	return f, err
}

// Selects reports whether the filter, normalized, selects the entry.
func Selects(f repo.AuditFilter, e repo.AuditEntry) bool {
	return (f.Namespace == "" || f.Namespace == e.Namespace) && (f.Type == "" || f.Type == e.Type) &&
		(f.Actor == "" || f.Actor == e.Actor) &&
		(f.User == "" || f.User == e.User) && (f.Project == "" || f.Project == e.Project) &&
		(f.PlanID.IsZero() || f.PlanID == e.PlanID) && (f.SessionID.IsZero() || f.SessionID == e.SessionID) &&
		!e.OccurredAt.Before(f.OccurredFrom) && e.OccurredAt.Before(Until(f.OccurredBefore))
}

// NormalizePrune checks the prune and returns it as it is carried out.
func NormalizePrune(p auditlog.Prune) (auditlog.Prune, error) {
	err := cmp.Or(
		invalidIf(p.Before.IsZero(), "before", "is not set"),
		normalizeTime("before", &p.Before),
		invalidIf(p.Types != nil && len(p.Types) == 0, "types", "is an empty list: nil means all"),
	)
	if err != nil {
		return p, err
	}
	p.Types = slices.Clone(p.Types)
	for i, t := range p.Types {
		if err := cmp.Or(checkEventType(at("types", i), t), invalidIf(isNeverPruned(t), at("types", i),
			"is never pruned")); err != nil {
			return p, err
		}
	}
	return p, cmp.Or(checkNames(name{"actor", p.Actor}), checkText("reason", p.Reason, limits.MaxTextBytes))
}

// isNeverPruned reports whether entries of the type record what is missing.
func isNeverPruned(t string) bool {
	return t == events.AuditPruned || t == events.AuditGap
}

// CheckHold checks the hold. Releasing one needs no reason.
func CheckHold(h auditlog.Hold, releasing bool) error {
	return cmp.Or(
		invalidIf(h.PlanID.IsZero() == h.SessionID.IsZero(), "hold", "does not name either a plan or a session"),
		invalidIf(h.Reason == "" && !releasing, "reason", "is empty"),
		checkText("reason", h.Reason, limits.MaxTextBytes),
	)
}
