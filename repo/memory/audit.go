package memory

import (
	"bytes"
	"cmp"
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
	at, sealed := t.log.byEntry[entry.ID]
	var same bool
	if stored := t.entries.get(entry.ID); stored != nil {
		same = rules.SameStored(*stored, entry)
	} else if sealed { // pruned, it does not come back
		leaf := t.log.leaves[at]
		same = rules.SameKept(repo.AuditEntry{
			OccurredAt: leaf.OccurredAt, Type: leaf.Kept.Type, Namespace: leaf.Kept.Namespace, PlanID: leaf.Kept.PlanID,
			SessionID: leaf.Kept.SessionID,
		}, entry)
	} else {
		return false, nil
	}
	if !same {
		return false, &repo.ExistsError{Kind: "audit entry", ID: entry.ID}
	}
	return true, nil
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
	distinct, twice := rules.DistinctEntries(entries)
	return run(ctx, unless(cmp.Or(err, twice), a.write), func(t *tables) (auditlog.Recorded, error) {
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
		return copyOf(&found.AuditEntry), nil
	})
}

func (a audit) List(ctx context.Context, filter repo.AuditFilter, page repo.Page) (repo.List[repo.AuditEntry], error) {
	if is, err := rules.SelectsInView(a.options.view, &filter.Namespace); !is {
		return repo.List[repo.AuditEntry]{}, err
	}
	list, err := rules.AuditList(filter, page)
	compare := oldestFirst
	if !filter.OldestFirst {
		compare = func(a, b *auditlog.Entry) int { return oldestFirst(b, a) }
	}
	after := &auditlog.Entry{AuditEntry: repo.AuditEntry{OccurredAt: list.After.CreatedAt, ID: list.After.ID}}
	return run(ctx, unless(err, a.read), func(t *tables) (repo.List[repo.AuditEntry], error) {
		found := slices.DeleteFunc(t.selected(list.Filter), func(e *auditlog.Entry) bool { return compare(e, after) <= 0 })
		return pageOf(list, found, compare, func(e *auditlog.Entry) repo.AuditEntry { return copyOf(&e.AuditEntry) })
	})
}

// selected returns what the filter selects, in no order.
func (t *tables) selected(filter repo.AuditFilter) []*auditlog.Entry {
	return t.entries.where(func(e *auditlog.Entry) bool { return rules.Selects(filter, e.AuditEntry) })
}

func oldestFirst(a, b *auditlog.Entry) int {
	return cmp.Or(a.OccurredAt.Compare(b.OccurredAt), a.ID.Compare(b.ID))
}

func (a audit) Count(ctx context.Context, filter repo.AuditFilter, limit int) (count int64, more bool, err error) {
	if is, err := rules.SelectsInView(a.options.view, &filter.Namespace); !is {
		return 0, false, err
	}
	filter, wrong := rules.NormalizeAuditFilter(filter)
	limit, err = rules.CheckCount(limit)
	found, err := run(ctx, unless(cmp.Or(wrong, err), a.read), func(t *tables) (int, error) {
		return len(t.selected(filter)), nil
	})
	return int64(min(found, limit)), found > limit, err
}

func (a audit) Export(ctx context.Context, filter repo.AuditFilter, w io.Writer) error {
	if is, err := rules.SelectsInView(a.options.view, &filter.Namespace); !is {
		return err
	}
	filter, err := rules.NormalizeAuditFilter(filter)
	found, err := run(ctx, unless(err, a.read), func(t *tables) ([]*auditlog.Entry, error) {
		return t.selected(filter), nil
	})
	if err != nil {
		return err
	}
	export := rules.NewAuditExport(ctx, w)
	for _, e := range slices.SortedFunc(slices.Values(found), oldestFirst) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := export.Write(e.AuditEntry); err != nil {
			return err
		}
	}
	return export.Close()
}
