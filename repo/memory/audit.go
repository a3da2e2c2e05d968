package memory

import (
	"bytes"
	"context"
	"io"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// audit is repo.Audit. A list looks at every entry: this store is for tests and
// small programs.
type audit struct{ *handle }

// entryKey is what makes an entry one: the same id at another time is another
// entry. The time is in microseconds since 1970.
type entryKey struct {
	at int64
	id repo.ID
}

func keyOf(e repo.AuditEntry) entryKey { return entryKey{e.OccurredAt.UnixMicro(), e.ID} }

// record stores an entry, which from then on waits to be sealed.
func (t *tables) record(entry repo.AuditEntry) {
	t.entries.put(keyOf(entry), &repo.SealedEntry{AuditEntry: entry, Nonce: repo.NewID()})
	t.unsealed = append(t.unsealed, keyOf(entry))
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
	return run(ctx, a.write, func(t *tables) (recorded repo.AuditRecorded, err error) {
		for _, entry := range entries {
			key := keyOf(entry)
			if t.entries.get(key) != nil || t.log.has(key) { // a pruned one does not come back
				recorded.Known++
				continue
			}
			entry.Details = bytes.Clone(entry.Details)
			entry.RecordedAt = t.now()
			t.record(entry)
			recorded.Written++
		}
		return recorded, nil
	})
}

// Entry returns the entry with this id that occurred first. It looks at all.
func (a audit) Entry(ctx context.Context, id repo.ID) (repo.AuditEntry, error) {
	return run(ctx, a.read, func(t *tables) (repo.AuditEntry, error) {
		found := t.entries.where(func(e *repo.SealedEntry) bool { return e.ID == id })
		if len(found) == 0 {
			return repo.AuditEntry{}, &repo.NotFoundError{Kind: "audit entry", ID: id}
		}
		return copyEntry(slices.MinFunc(found, func(a, b *repo.SealedEntry) int { return compareEntries(repo.OldestFirst, a, b) })), nil
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
