package postgres

import (
	"context"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// audit implements repo.Audit.
type audit struct{ base }

func (a *audit) Record(ctx context.Context, entries ...repo.AuditEntry) error {
	normal, err := rules.NormalizeEntries(a.view, entries)
	if err != nil {
		return err
	}
	if normal, err = rules.DistinctEntries(normal); err != nil {
		return err
	}
	return a.exec.writeByID(ctx, func(q db.DBTX) error {
		_, err := recordAudit(ctx, q, normal)
		return err
	})
}

// notRecorded is the error of an entry that was neither written nor there. A trigger or a rule
// that does not belong to the trail does that.
func notRecorded() error {
	return &repo.RefusedError{
		Kind:   "database",
		Reason: "left out an audit entry: a trigger of its owner's did not let it in",
	}
}

// recordAudit records distinct entries, and returns how many were new. In a caller's transaction,
// which a failed statement would end, it is known only afterwards that one was left out.
func recordAudit(ctx context.Context, q db.DBTX, entries []repo.AuditEntry) (written int64, err error) {
	params := auditParams(entries)
	_, params.Whole = q.(conn.Alone)
	leftOut := error(&conn.Answer{Err: notRecorded()})
	for range 3 {
		row, err := queries.AuditRecord(ctx, q, params)
		written += row.Written
		switch {
		case params.Whole && conn.Violates(err, conn.LeftOut):
			leftOut = err
			continue
		case err != nil:
			return 0, err
		case row.Differs > 0:
			return 0, &conn.Answer{Err: &repo.ExistsError{Kind: "audit entry", ID: entries[row.Differs-1].ID}}
		case row.Written+row.Known == int64(len(entries)):
			return written, nil
		}
		// Another recorded one meanwhile, which the next statement sees.
	}
	return 0, leftOut
}

func (a *audit) Entry(ctx context.Context, id repo.ID) (repo.AuditEntry, error) {
	row, err := run(ctx, a.exec.read, queries.AuditGet, convert.UUID(id))
	missing := error(&repo.NotFoundError{Kind: "audit entry", ID: id})
	if err == nil && !rules.IsInView(a.view, convert.FromNullable(row.Namespace)) {
		err = missing
	}
	if err != nil {
		return repo.AuditEntry{}, conn.OrMissing(err, missing)
	}
	return auditEntryOf(row), nil
}

func (a *audit) List(ctx context.Context, filter repo.AuditFilter, page repo.Page) (repo.List[repo.AuditEntry], error) {
	if is, err := rules.SelectsInView(a.view, &filter.Namespace); !is {
		return repo.List[repo.AuditEntry]{}, err
	}
	list, err := rules.AuditList(filter, page)
	return listed(a.exec.read, list, err, func(by way) ([]db.AuditEntry, error) {
		return a.list(ctx, by, list.Filter, list.After, list.Limit+1) // one extra row tells whether there is a next page
	}, func(row db.AuditEntry) (repo.AuditEntry, error) { return auditEntryOf(row), nil })
}

func (a *audit) list(
	ctx context.Context, by way, filter repo.AuditFilter, after rules.Place, limit int,
) ([]db.AuditEntry, error) {
	from, before := filter.OccurredFrom, rules.Until(filter.OccurredBefore)
	params := db.AuditListAscendingParams{
		Bound: before, MaxRows: int32(limit),
		PlanID: convert.OptionalUUID(filter.PlanID), SessionID: convert.OptionalUUID(filter.SessionID),
		UserName: convert.Nullable(filter.User),
		Type:     convert.Nullable(filter.Type), Actor: convert.Nullable(filter.Actor),
		Project:   convert.Nullable(filter.Project),
		Namespace: convert.Nullable(filter.Namespace),
	}
	if filter.OldestFirst {
		if after.CreatedAt.Before(from) {
			after = rules.Place{CreatedAt: from} // no id is before zero
		}
		params.AfterOccurredAt, params.AfterID = after.CreatedAt, convert.UUID(after.ID)
		return run(ctx, filtered(by), queries.AuditListAscending, params)
	}
	if !after.CreatedAt.Before(before) {
		after = rules.Place{CreatedAt: before}
	}
	params.Bound, params.AfterOccurredAt, params.AfterID = from, after.CreatedAt, convert.UUID(after.ID)
	return run(ctx, filtered(by), queries.AuditListDescending, db.AuditListDescendingParams(params))
}

func (a *audit) Count(ctx context.Context, filter repo.AuditFilter, limit int) (count int64, more bool, err error) {
	if is, err := rules.SelectsInView(a.view, &filter.Namespace); !is {
		return 0, false, err
	}
	if filter, err = rules.NormalizeAuditFilter(filter); err != nil {
		return 0, false, err
	}
	if limit, err = rules.CheckCount(limit); err != nil {
		return 0, false, err
	}
	count, err = run(ctx, filtered(a.exec.read), queries.AuditCount, db.AuditCountParams{
		OccurredFrom: filter.OccurredFrom, OccurredBefore: rules.Until(filter.OccurredBefore), MaxRows: int32(limit) + 1,
		PlanID: convert.OptionalUUID(filter.PlanID), SessionID: convert.OptionalUUID(filter.SessionID),
		UserName: convert.Nullable(filter.User),
		Actor:    convert.Nullable(filter.Actor), Project: convert.Nullable(filter.Project),
		Type:      convert.Nullable(filter.Type),
		Namespace: convert.Nullable(filter.Namespace),
	})
	return min(count, int64(limit)), count > int64(limit), err
}

// Export reads one page at a time, and holds no connection while it writes.
func (a *audit) Export(ctx context.Context, filter repo.AuditFilter, w io.Writer) error {
	if is, err := rules.SelectsInView(a.view, &filter.Namespace); !is {
		return err
	}
	filter, err := rules.NormalizeAuditFilter(filter)
	if err != nil {
		return err
	}
	export := rules.NewAuditExport(ctx, w)
	err = a.pages(ctx, filter, repo.MaxPageSize, func(rows []db.AuditEntry) error {
		for _, row := range rows {
			if err := export.Write(auditEntryOf(row)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return export.Close()
}

// pages reads the entries that a filter selects, the oldest first, a page at a time.
func (a *audit) pages(ctx context.Context, filter repo.AuditFilter, size int, use func([]db.AuditEntry) error) error {
	filter.OldestFirst = true
	for after := (rules.Place{}); ; {
		var fit fits
		rows, err := a.list(ctx, fit.in(a.exec.read), filter, after, size)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := use(rows); err != nil || len(rows) < size && !fit.cut {
			return err
		}
		last := rows[len(rows)-1]
		after = rules.Place{CreatedAt: last.OccurredAt, ID: last.ID.Bytes}
	}
}

func auditEntryOf(row db.AuditEntry) repo.AuditEntry {
	return repo.AuditEntry{
		ID:         row.ID.Bytes,
		OccurredAt: row.OccurredAt.UTC(),
		RecordedAt: row.RecordedAt.UTC(),
		Type:       row.Type,
		Namespace:  convert.FromNullable(row.Namespace),
		Actor:      convert.FromNullable(row.Actor),
		User:       convert.FromNullable(row.UserName),
		PlanID:     convert.OptionalID(row.PlanID),
		SessionID:  convert.OptionalID(row.SessionID),
		Project:    convert.FromNullable(row.Project),
		Details:    row.Details,
	}
}

func auditParams(entries []repo.AuditEntry) db.AuditRecordParams {
	n := len(entries)
	p := db.AuditRecordParams{
		OccurredAts: make([]time.Time, n), Ids: make([]pgtype.UUID, n), Types: make([]string, n),
		Namespaces: make([]string, n),
		Actors:     make([]string, n), UserNames: make([]string, n), PlanIds: make([]pgtype.UUID, n),
		SessionIds: make([]pgtype.UUID, n),
		Projects:   make([]string, n), Details: make([]string, n),
	}
	for i, e := range entries {
		p.OccurredAts[i], p.Ids[i], p.Types[i], p.Actors[i] = e.OccurredAt, convert.UUID(e.ID), e.Type, e.Actor
		p.Namespaces[i], p.UserNames[i], p.PlanIds[i], p.SessionIds[i] = e.Namespace, e.User, convert.UUID(e.PlanID),
			convert.UUID(e.SessionID)
		p.Projects[i], p.Details[i] = e.Project, string(e.Details)
	}
	return p
}
