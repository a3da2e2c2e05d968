package memory

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/repo"
)

// audit is repo.Audit. A list looks at every entry: this store is for tests and
// small programs.
type audit struct{ at access }

// entryKey is what makes an entry one: the same id at another time is another
// entry. The time is in microseconds since 1970.
type entryKey struct {
	at int64
	id repo.ID
}

func keyOf(e repo.AuditEntry) entryKey { return entryKey{e.OccurredAt.UnixMicro(), e.ID} }

// earliest is the entry with this id that occurred first. It looks at all.
func earliest(v view, id repo.ID) (found *repo.SealedEntry) {
	v.entries().each(func(key entryKey, e *repo.SealedEntry) {
		if key.id == id && (found == nil || e.OccurredAt.Before(found.OccurredAt)) {
			found = e
		}
	})
	return found
}

func copyEntry(e repo.AuditEntry) repo.AuditEntry {
	e.Details = bytes.Clone(e.Details)
	return e
}

func (a *audit) Record(ctx context.Context, entries ...repo.AuditEntry) error {
	_, err := a.record(ctx, entries)
	return err
}

func (a *audit) record(ctx context.Context, entries []repo.AuditEntry) (repo.AuditRecorded, error) {
	normal, err := repo.NormalizeAudit(entries)
	if err != nil {
		return repo.AuditRecorded{}, err
	}
	v, err := a.at.write(ctx)
	if err != nil {
		return repo.AuditRecorded{}, err
	}
	defer a.at.unlock()
	var result repo.AuditRecorded
	for _, entry := range normal {
		key := keyOf(entry)
		if v.entries().get(key) != nil || v.sealed(key) { // a pruned one does not come back
			result.Known++
			continue
		}
		entry = copyEntry(entry)
		entry.RecordedAt = v.now()
		v.entries().put(key, &repo.SealedEntry{AuditEntry: entry, Nonce: repo.NewID()})
		v.queue(key)
		result.Written++
	}
	return result, nil
}

func (a *audit) Entry(ctx context.Context, id repo.ID) (repo.AuditEntry, error) {
	v, err := a.at.read(ctx)
	if err != nil {
		return repo.AuditEntry{}, err
	}
	defer a.at.unlock()
	stored := earliest(v, id)
	if stored == nil {
		return repo.AuditEntry{}, &repo.NotFoundError{Kind: "audit entry", ID: id}
	}
	return copyEntry(stored.AuditEntry), nil
}

func (a *audit) List(ctx context.Context, filter repo.AuditFilter, order repo.AuditOrder, page repo.Page) (repo.AuditPage, error) {
	filter, err := filter.Normalize()
	if err != nil {
		return repo.AuditPage{}, err
	}
	limit, err := repo.CheckLimit(page.Limit)
	if err != nil {
		return repo.AuditPage{}, err
	}
	at, id, err := filter.Place(order, page.After)
	if err != nil {
		return repo.AuditPage{}, err
	}
	found, err := a.selected(ctx, filter, order)
	if err != nil {
		return repo.AuditPage{}, err
	}
	place := &repo.SealedEntry{AuditEntry: repo.AuditEntry{OccurredAt: at, ID: id}}
	if page.After != "" {
		found = slices.DeleteFunc(found, func(e *repo.SealedEntry) bool { return compareEntries(order, e, place) <= 0 })
	}
	result := repo.AuditPage{Entries: make([]repo.AuditEntry, 0, min(len(found), limit))}
	for _, e := range found[:min(len(found), limit)] {
		result.Entries = append(result.Entries, copyEntry(e.AuditEntry))
	}
	if len(found) > limit {
		result.Next = filter.CursorAfter(order, result.Entries[limit-1])
	}
	return result, nil
}

// selected returns what the filter selects, in order.
func (a *audit) selected(ctx context.Context, filter repo.AuditFilter, order repo.AuditOrder) ([]*repo.SealedEntry, error) {
	v, err := a.at.read(ctx)
	if err != nil {
		return nil, err
	}
	var found []*repo.SealedEntry
	v.entries().each(func(_ entryKey, e *repo.SealedEntry) {
		if filter.Selects(e.AuditEntry) {
			found = append(found, e)
		}
	})
	a.at.unlock()
	slices.SortFunc(found, func(a, b *repo.SealedEntry) int { return compareEntries(order, a, b) })
	return found, nil
}

func compareEntries(order repo.AuditOrder, a, b *repo.SealedEntry) int {
	result := a.OccurredAt.Compare(b.OccurredAt)
	if result == 0 {
		result = a.ID.Compare(b.ID)
	}
	if order == repo.NewestFirst {
		return -result
	}
	return result
}

func (a *audit) Count(ctx context.Context, filter repo.AuditFilter, limit int) (repo.AuditCount, error) {
	filter, err := filter.Normalize()
	if err != nil {
		return repo.AuditCount{}, err
	}
	if limit, err = repo.CheckCount(limit); err != nil {
		return repo.AuditCount{}, err
	}
	found, err := a.selected(ctx, filter, repo.OldestFirst)
	return repo.AuditCount{Entries: int64(min(len(found), limit)), AtLeast: len(found) > limit}, err
}

// exportBuffer is how much of an export is written at once.
const exportBuffer = 64 << 10

func (a *audit) Export(ctx context.Context, filter repo.AuditFilter, w io.Writer) error {
	filter, err := filter.Normalize()
	if err != nil {
		return err
	}
	found, err := a.selected(ctx, filter, repo.OldestFirst)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(ctxio.NewWriter(ctx, w), exportBuffer)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, e := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := encoder.Encode(repo.ExportedEntry(e.AuditEntry)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// told is an audit entry of the store's own, in the unit of what it tells of.
func told(v view, kind repo.EventType, at time.Time, actor string, sessionID, planID repo.ID, details string) {
	entry := repo.AuditEntry{
		ID: repo.NewID(), OccurredAt: at, RecordedAt: at, Type: kind, Actor: actor,
		SessionID: sessionID, PlanID: planID, Details: json.RawMessage(details),
	}
	v.entries().put(keyOf(entry), &repo.SealedEntry{AuditEntry: entry, Nonce: repo.NewID()})
	v.queue(keyOf(entry))
}
