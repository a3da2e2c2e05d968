package memory

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
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
	t.entries.put(entry.ID, &repo.SealedEntry{AuditEntry: entry, Salts: salts})
	t.unsealed = append(t.unsealed, entry.ID)
}

// known reports whether an entry was recorded. Errors: AuditConflictError.
func (t *tables) known(entry repo.AuditEntry) (bool, error) {
	stored := t.entries.get(entry.ID)
	at, sealed := t.log.byEntry[entry.ID]
	switch {
	case stored != nil && rules.SameEntry(stored.AuditEntry, entry):
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
	return false, &repo.AuditConflictError{ID: entry.ID}
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

func (a audit) record(ctx context.Context, entries []repo.AuditEntry) (repo.AuditRecorded, error) {
	entries, err := rules.NormalizeEntries(entries)
	if err != nil {
		return repo.AuditRecorded{}, err
	}
	distinct, err := rules.DistinctEntries(entries)
	if err != nil {
		return repo.AuditRecorded{}, err
	}
	return run(ctx, a.write, func(t *tables) (repo.AuditRecorded, error) {
		var unknown []repo.AuditEntry
		for _, entry := range distinct {
			known, err := t.known(entry)
			if err != nil {
				return repo.AuditRecorded{}, err
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
		return repo.AuditRecorded{Written: len(unknown), Known: len(entries) - len(unknown)}, nil
	})
}

func (a audit) Entry(ctx context.Context, id repo.ID) (repo.AuditEntry, error) {
	return run(ctx, a.read, func(t *tables) (repo.AuditEntry, error) {
		found := t.entries.get(id)
		if found == nil {
			return repo.AuditEntry{}, &repo.NotFoundError{Kind: "audit entry", ID: id}
		}
		return copyEntry(found), nil
	})
}

func (a audit) List(ctx context.Context, filter repo.AuditFilter, order repo.AuditOrder, page repo.Page) (repo.AuditPage, error) {
	list, err := rules.AuditList(filter, order, page)
	if err != nil {
		return repo.AuditPage{}, err
	}
	found, err := a.selected(ctx, list.Filter, order)
	if err != nil {
		return repo.AuditPage{}, err
	}
	place := &repo.SealedEntry{AuditEntry: repo.AuditEntry{OccurredAt: list.After.CreatedAt, ID: list.After.ID}}
	found = slices.DeleteFunc(found, func(e *repo.SealedEntry) bool { return compareEntries(order, e, place) <= 0 })
	entries, next, err := rules.PageOf(list, found, func(e *repo.SealedEntry) (repo.AuditEntry, error) { return copyEntry(e), nil })
	return repo.AuditPage{Entries: entries, Next: next}, err
}

// selected returns what the filter selects, in order.
func (a audit) selected(ctx context.Context, filter repo.AuditFilter, order repo.AuditOrder) ([]*repo.SealedEntry, error) {
	found, err := run(ctx, a.read, func(t *tables) ([]*repo.SealedEntry, error) {
		return t.entries.where(func(e *repo.SealedEntry) bool { return rules.Selects(filter, e.AuditEntry) }), nil
	})
	slices.SortFunc(found, func(a, b *repo.SealedEntry) int { return compareEntries(order, a, b) })
	return found, err
}

func compareEntries(order repo.AuditOrder, a, b *repo.SealedEntry) int {
	if order == repo.NewestFirst {
		a, b = b, a
	}
	if result := a.OccurredAt.Compare(b.OccurredAt); result != 0 {
		return result
	}
	return a.ID.Compare(b.ID)
}

func (a audit) Count(ctx context.Context, filter repo.AuditFilter, limit int) (repo.AuditCount, error) {
	filter, err := rules.NormalizeAuditFilter(filter)
	if err != nil {
		return repo.AuditCount{}, err
	}
	if limit, err = rules.CheckCount(limit); err != nil {
		return repo.AuditCount{}, err
	}
	found, err := a.selected(ctx, filter, repo.OldestFirst)
	return repo.AuditCount{Entries: int64(min(len(found), limit)), AtLeast: len(found) > limit}, err
}

func (a audit) Export(ctx context.Context, filter repo.AuditFilter, w io.Writer) error {
	filter, err := rules.NormalizeAuditFilter(filter)
	if err != nil {
		return err
	}
	found, err := a.selected(ctx, filter, repo.OldestFirst)
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
