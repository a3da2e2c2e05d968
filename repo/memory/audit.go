package memory

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// audit is repo.Audit. A list looks at every entry: this store is for tests and
// small programs.
type audit struct{ *handle }

// record stores an entry, which from then on waits to be sealed.
func (t *tables) record(entry repo.AuditEntry) {
	salts := make([][]byte, 4)
	for i := range salts {
		salts[i] = make([]byte, 16)
		_, _ = rand.Read(salts[i]) // never fails
	}
	t.entries.put(entry.ID, &auditlog.Entry{AuditEntry: entry, Salts: salts})
	t.unsealed = append(t.unsealed, entry.ID)
}

// known reports whether an entry was recorded. Errors: ExistsError.
func (t *tables) known(entry repo.AuditEntry) (bool, error) {
	stored := t.entries.get(entry.ID)
	at, sealed := t.log.byEntry[entry.ID]
	switch {
	case stored != nil && rules.SameStored(*stored, entry):
		return true, nil
	case stored == nil && !sealed:
		return false, nil
	case stored == nil: // pruned, it does not come back
		leaf := t.log.leaves[at]
		kept := repo.AuditEntry{
			OccurredAt: leaf.OccurredAt, Type: leaf.Kept.Type, Namespace: leaf.Kept.Namespace, PlanID: leaf.Kept.PlanID, SessionID: leaf.Kept.SessionID,
		}
		if rules.SameKept(kept, entry) {
			return true, nil
		}
	}
	return false, &repo.ExistsError{Kind: "audit entry", ID: entry.ID}
}

// recordEvent records an entry of the store's own, with what it tells of.
func (t *tables) recordEvent(at time.Time, event repo.AuditEntry) {
	event.ID, event.OccurredAt, event.RecordedAt = repo.NewID(), at, at
	t.record(event)
}

func (a audit) Record(ctx context.Context, entries ...repo.AuditEntry) error {
	_, err := a.record(ctx, entries)
	return err
}

func (a audit) record(ctx context.Context, entries []repo.AuditEntry) (auditlog.Recorded, error) {
	entries, err := rules.NormalizeEntries(a.options.view, a.tables.dated(entries))
	if err != nil {
		return auditlog.Recorded{}, err
	}
	distinct, err := rules.DistinctEntries(entries)
	return run(ctx, unless(err, a.write), func(t *tables) (auditlog.Recorded, error) {
		var unknown []repo.AuditEntry
		for _, entry := range distinct {
			known, err := t.known(entry)
			if err != nil {
				return auditlog.Recorded{}, err
			}
			if !known {
				unknown = append(unknown, entry)
			}
		}
		for _, entry := range unknown {
			entry.Details = bytes.Clone(entry.Details)
			entry.RecordedAt = t.now()
			t.record(entry)
		}
		return auditlog.Recorded{Written: len(unknown), Known: len(entries) - len(unknown)}, nil
	})
}

// dated gives entries that have neither an id nor a time the time of the clock.
func (t *tables) dated(entries []repo.AuditEntry) []repo.AuditEntry {
	entries = slices.Clone(entries)
	for i := range entries {
		if entries[i].ID.IsZero() && entries[i].OccurredAt.IsZero() {
			entries[i].OccurredAt = t.clock.read()
		}
	}
	return entries
}

func (a audit) Entry(ctx context.Context, id repo.ID) (repo.AuditEntry, error) {
	return run(ctx, a.read, func(t *tables) (repo.AuditEntry, error) {
		found := t.entries.get(id)
		if found == nil || !rules.IsInView(a.options.view, found.Namespace) {
			return repo.AuditEntry{}, &repo.NotFoundError{Kind: "audit entry", ID: id}
		}
		return copyEntry(found), nil
	})
}

func (a audit) List(ctx context.Context, filter repo.AuditFilter, page repo.Page) (repo.List[repo.AuditEntry], error) {
	if is, err := rules.SelectsInView(a.options.view, &filter.Namespace); !is {
		return repo.List[repo.AuditEntry]{}, err
	}
	list, err := rules.AuditList(filter, page)
	if err != nil {
		return repo.List[repo.AuditEntry]{}, err
	}
	found, err := a.selected(ctx, list.Filter)
	if err != nil {
		return repo.List[repo.AuditEntry]{}, err
	}
	place := &auditlog.Entry{AuditEntry: repo.AuditEntry{OccurredAt: list.After.CreatedAt, ID: list.After.ID}}
	found = slices.DeleteFunc(found, func(e *auditlog.Entry) bool { return compareEntries(list.Filter.OldestFirst, e, place) <= 0 })
	return rules.PageOf(list, found, func(e *auditlog.Entry) (repo.AuditEntry, error) { return copyEntry(e), nil })
}

// selected returns what the filter selects, in order.
func (a audit) selected(ctx context.Context, filter repo.AuditFilter) ([]*auditlog.Entry, error) {
	found, err := run(ctx, a.read, func(t *tables) ([]*auditlog.Entry, error) {
		return t.entries.where(func(e *auditlog.Entry) bool { return rules.Selects(filter, e.AuditEntry) }), nil
	})
	slices.SortFunc(found, func(a, b *auditlog.Entry) int { return compareEntries(filter.OldestFirst, a, b) })
	return found, err
}

func compareEntries(oldestFirst bool, a, b *auditlog.Entry) int {
	if !oldestFirst {
		a, b = b, a
	}
	if result := a.OccurredAt.Compare(b.OccurredAt); result != 0 {
		return result
	}
	return a.ID.Compare(b.ID)
}

func (a audit) Count(ctx context.Context, filter repo.AuditFilter, limit int) (count int64, more bool, err error) {
	if is, err := rules.SelectsInView(a.options.view, &filter.Namespace); !is {
		return 0, false, err
	}
	if filter, err = rules.NormalizeAuditFilter(filter); err != nil {
		return 0, false, err
	}
	if limit, err = rules.CheckCount(limit); err != nil {
		return 0, false, err
	}
	found, err := a.selected(ctx, filter)
	return int64(min(len(found), limit)), len(found) > limit, err
}

func (a audit) Export(ctx context.Context, filter repo.AuditFilter, w io.Writer) error {
	if is, err := rules.SelectsInView(a.options.view, &filter.Namespace); !is {
		return err
	}
	filter, err := rules.NormalizeAuditFilter(filter)
	if err != nil {
		return err
	}
	filter.OldestFirst = true
	found, err := a.selected(ctx, filter)
	if err != nil {
		return err
	}
	export := rules.NewAuditExport(ctx, w)
	for _, e := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := export.Write(e.AuditEntry); err != nil {
			return err
		}
	}
	return export.Close()
}
