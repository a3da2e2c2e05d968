package rules

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

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
		e.OccurredAt = e.ID.Timestamp()
	}
	if err := normalizeTime("occurred_at", &e.OccurredAt); err != nil {
		return repo.AuditEntry{}, err
	}
	if year := e.OccurredAt.Year(); year < minAuditYear || year > maxAuditYear {
		return repo.AuditEntry{}, invalid("occurred_at", "is not between the years %d and %d", minAuditYear, maxAuditYear)
	}
	e.RecordedAt = time.Time{}
	err := cmp.Or(
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

func checkEventType(field string, t repo.EventType) error {
	return invalidIf(!t.Known(), field, "is not an event type, or not registered")
}

// NormalizeEntries checks a batch of entries and returns it as it is recorded.
func NormalizeEntries(entries []repo.AuditEntry) ([]repo.AuditEntry, error) {
	if len(entries) == 0 {
		return nil, invalid("entries", "is empty")
	}
	if err := checkEntries("entries", len(entries), repo.MaxBatchMessages); err != nil {
		return nil, err
	}
	normal, size := make([]repo.AuditEntry, len(entries)), 0
	for i, entry := range entries {
		var err error
		if normal[i], err = NormalizeEntry(entry); err != nil {
			return nil, within(at("entries", i)+".", err)
		}
		if size += len(normal[i].Details); size > repo.MaxBatchBytes {
			return nil, invalid("entries", "hold more than %d bytes together", repo.MaxBatchBytes)
		}
	}
	return normal, nil
}

// SameEntry reports whether two normalized entries with the same id are the same.
func SameEntry(a, b repo.AuditEntry) bool {
	return SameKept(a, b) && a.Actor == b.Actor && a.User == b.User && a.Project == b.Project && bytes.Equal(a.Details, b.Details)
}

// SameKept is SameEntry as far as the leaf of a pruned entry tells.
func SameKept(a, b repo.AuditEntry) bool {
	return a.OccurredAt.Equal(b.OccurredAt) && a.Type == b.Type && a.Namespace == b.Namespace && a.PlanID == b.PlanID && a.SessionID == b.SessionID
}

// DistinctEntries returns normalized entries, each id once. Errors:
// AuditConflictError.
func DistinctEntries(entries []repo.AuditEntry) ([]repo.AuditEntry, error) {
	first := make(map[repo.ID]int, len(entries))
	distinct := make([]repo.AuditEntry, 0, len(entries))
	for _, entry := range entries {
		place, again := first[entry.ID]
		if !again {
			first[entry.ID] = len(distinct)
			distinct = append(distinct, entry)
		} else if !SameEntry(distinct[place], entry) {
			return nil, &repo.AuditConflictError{ID: entry.ID}
		}
	}
	return distinct, nil
}

// NormalizeAuditFilter checks the filter.
func NormalizeAuditFilter(f repo.AuditFilter) (repo.AuditFilter, error) {
	if f.Type != "" {
		if err := checkEventType("type", f.Type); err != nil {
			return f, err
		}
	}
	err := cmp.Or(
		checkNames(name{"actor", f.Actor}, name{"user", f.User}, name{"project", f.Project}),
		normalizeTime("occurred_from", &f.OccurredFrom),
		normalizeTime("occurred_before", &f.OccurredBefore),
	)
	return f, err
}

// Selects reports whether the filter, normalized, selects the entry.
func Selects(f repo.AuditFilter, e repo.AuditEntry) bool {
	return (f.Type == "" || f.Type == e.Type) && (f.Actor == "" || f.Actor == e.Actor) &&
		(f.User == "" || f.User == e.User) && (f.Project == "" || f.Project == e.Project) &&
		(f.PlanID.IsZero() || f.PlanID == e.PlanID) && (f.SessionID.IsZero() || f.SessionID == e.SessionID) &&
		!e.OccurredAt.Before(f.OccurredFrom) && e.OccurredAt.Before(Until(f.OccurredBefore))
}

// NormalizePrune checks the prune and returns it as it is carried out.
func NormalizePrune(p repo.AuditPrune) (repo.AuditPrune, error) {
	if p.Before.IsZero() {
		return p, invalid("before", "is not set")
	}
	if err := normalizeTime("before", &p.Before); err != nil {
		return p, err
	}
	p.Types = slices.Clone(p.Types)
	for i, t := range p.Types {
		if err := cmp.Or(checkEventType(at("types", i), t), invalidIf(isNeverPruned(t), at("types", i), "is never pruned")); err != nil {
			return p, err
		}
	}
	return p, cmp.Or(checkNames(name{"actor", p.Actor}), checkText("reason", p.Reason, repo.MaxTextBytes))
}

// isNeverPruned reports whether entries of the type record what is missing.
func isNeverPruned(t repo.EventType) bool {
	return t == repo.EventAuditPruned || t == repo.EventAuditGap
}

// CheckHold checks the hold. Releasing one needs no reason.
func CheckHold(h repo.AuditHold, releasing bool) error {
	return cmp.Or(
		invalidIf(h.PlanID.IsZero() == h.SessionID.IsZero(), "hold", "does not name either a plan or a session"),
		invalidIf(h.Reason == "" && !releasing, "reason", "is empty"),
		checkText("reason", h.Reason, repo.MaxTextBytes),
	)
}
