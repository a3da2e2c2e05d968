package repo

import (
	"slices"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/internal/cursor"
)

// Normalize checks the entry and returns it as it is recorded: with an id, a time
// and details. An id that was given without a time has the time within the id,
// so that recording it again means the same entry. It shares no memory with e.
func (e AuditEntry) Normalize() (AuditEntry, error) {
	e, err := e.normalize()
	if err != nil {
		return AuditEntry{}, err
	}
	return e, nil
}

func (e AuditEntry) normalize() (AuditEntry, *InvalidError) {
	if e.ID.IsZero() {
		e.ID = NewID()
		if e.OccurredAt.IsZero() {
			e.OccurredAt = time.Now()
		}
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = e.ID.Timestamp()
	}
	var err *InvalidError
	if e.OccurredAt, err = normalizeTime("occurred_at", e.OccurredAt); err != nil {
		return e, err
	}
	if year := e.OccurredAt.Year(); year < minAuditYear || year > maxAuditYear {
		return e, invalid("occurred_at", "is not between the years %d and %d", minAuditYear, maxAuditYear)
	}
	e.RecordedAt = time.Time{}
	if !e.Type.Known() {
		return e, invalid("type", "is not an event type, or not registered")
	}
	for _, name := range []struct{ field, value string }{{"actor", e.Actor}, {"user", e.User}, {"project", e.Project}} {
		if err := checkText(name.field, name.value, MaxNameBytes); err != nil {
			return e, err
		}
	}
	e.Details, err = normalizeObject("details", e.Details)
	return e, err
}

// Entries are kept by month. These bounds keep a broken clock from making
// partitions of the year 1.
const (
	minAuditYear = 2000
	maxAuditYear = 2100
)

// NormalizeAudit checks a batch of entries and returns it as it is recorded.
func NormalizeAudit(entries []AuditEntry) ([]AuditEntry, error) {
	if len(entries) == 0 {
		return nil, invalid("entries", "is empty")
	}
	if len(entries) > MaxBatchMessages {
		return nil, invalid("entries", "has %d entries, more than %d", len(entries), MaxBatchMessages)
	}
	normal, size := make([]AuditEntry, len(entries)), 0
	for i, entry := range entries {
		var err *InvalidError
		if normal[i], err = entry.normalize(); err != nil {
			err.Field = "entries[" + strconv.Itoa(i) + "]." + err.Field
			return nil, err
		}
		if size += len(normal[i].Details); size > MaxBatchBytes {
			return nil, invalid("entries", "hold more than %d bytes together", MaxBatchBytes)
		}
	}
	return normal, nil
}

// Normalize checks the filter.
func (f AuditFilter) Normalize() (AuditFilter, error) {
	if f.Type != "" && !f.Type.Known() {
		return f, invalid("type", "is not an event type, or not registered")
	}
	for _, name := range []struct{ field, value string }{{"actor", f.Actor}, {"user", f.User}, {"project", f.Project}} {
		if err := checkName(name.field, name.value); err != nil {
			return f, err
		}
	}
	for _, bound := range []struct {
		field string
		value *time.Time
	}{{"occurred_from", &f.OccurredFrom}, {"occurred_before", &f.OccurredBefore}} {
		normal, err := normalizeTime(bound.field, *bound.value)
		if err != nil {
			return f, err
		}
		*bound.value = normal
	}
	return f, nil
}

// Bounds are the filter's times, normalized, with ends in the place of those that
// were not given.
func (f AuditFilter) Bounds() (from, before time.Time) {
	from, before = f.OccurredFrom, f.OccurredBefore
	if before.IsZero() {
		before = endOfTime
	}
	return from, before
}

// Selects reports whether the filter, normalized, selects the entry.
func (f AuditFilter) Selects(e AuditEntry) bool {
	from, before := f.Bounds()
	return (f.Type == "" || f.Type == e.Type) && (f.Actor == "" || f.Actor == e.Actor) &&
		(f.User == "" || f.User == e.User) && (f.Project == "" || f.Project == e.Project) &&
		(f.PlanID.IsZero() || f.PlanID == e.PlanID) && (f.SessionID.IsZero() || f.SessionID == e.SessionID) &&
		!e.OccurredAt.Before(from) && e.OccurredAt.Before(before)
}

func (f AuditFilter) cursorFilter(order AuditOrder) []string {
	return []string{
		"audit", strconv.Itoa(int(order)), string(f.Type), f.Actor, f.User, f.PlanID.String(), f.SessionID.String(),
		f.Project, f.OccurredFrom.String(), f.OccurredBefore.String(),
	}
}

// CursorAfter is the cursor of a page of this list, normalized, that ended with
// last.
func (f AuditFilter) CursorAfter(order AuditOrder, last AuditEntry) Cursor {
	return Cursor(cursor.Encode(cursor.Place{CreatedAt: last.OccurredAt, ID: last.ID}, f.cursorFilter(order)...))
}

// Place reads a cursor of this list, normalized. An empty cursor is the place
// before the first entry. Errors: InvalidError, of an unknown order too.
func (f AuditFilter) Place(order AuditOrder, after Cursor) (time.Time, ID, error) {
	if order != NewestFirst && order != OldestFirst {
		return time.Time{}, ID{}, invalid("order", "is not NewestFirst or OldestFirst")
	}
	if after == "" {
		if order == NewestFirst {
			return endOfTime, lastID, nil
		}
		return time.Time{}, ID{}, nil
	}
	place, err := cursor.Decode(string(after), f.cursorFilter(order)...)
	if err != nil {
		return time.Time{}, ID{}, invalid("page.after", "%s", err)
	}
	return place.CreatedAt, place.ID, nil
}

// CheckCount checks a count's limit and gives zero its meaning.
func CheckCount(limit int) (int, error) {
	switch {
	case limit == 0:
		return DefaultAuditCount, nil
	case limit < 0 || limit > MaxAuditCount:
		return 0, invalid("limit", "is not between 1 and %d", MaxAuditCount)
	}
	return limit, nil
}

// Normalize checks the prune.
func (p AuditPrune) Normalize() (AuditPrune, error) {
	if p.Before.IsZero() {
		return p, invalid("before", "is not set")
	}
	before, err := normalizeTime("before", p.Before)
	if err != nil {
		return p, err
	}
	p.Before, p.Types = before, slices.Clone(p.Types)
	for i, t := range p.Types {
		if !t.Known() {
			return p, invalid(at("types", i), "is not an event type, or not registered")
		}
		if t == EventAuditPruned || t == EventAuditGap {
			return p, invalid(at("types", i), "is never pruned")
		}
	}
	if err := checkName("actor", p.Actor); err != nil {
		return p, err
	}
	if err := checkText("reason", p.Reason, MaxTextBytes); err != nil {
		return p, err
	}
	return p, nil
}

// Normalize checks the hold. Releasing one needs no reason.
func (h AuditHold) Normalize(releasing bool) error {
	if h.PlanID.IsZero() == h.SessionID.IsZero() {
		return invalid("hold", "does not name either a plan or a session")
	}
	if h.Reason == "" && !releasing {
		return invalid("reason", "is empty")
	}
	if err := checkText("reason", h.Reason, MaxTextBytes); err != nil {
		return err
	}
	return nil
}
