package postgres

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s *sessions) List(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.List[repo.Session], error) {
	if !filter.IdleSince.IsZero() {
		return s.listIdle(ctx, filter, page)
	}
	if filter.ByActivity {
		return s.listActive(ctx, filter, page)
	}
	list, err := rules.SessionList(filter, page)
	if err != nil {
		return repo.List[repo.Session]{}, err
	}
	var fit fits
	rows, err := run(ctx, filtered(fit.in(s.exec.read)), queries.SessionList, db.SessionListParams{
		Namespace:      list.Filter.Namespace,
		Owner:          toNullable(list.Filter.Owner),
		Actor:          toNullable(list.Filter.Actor),
		CreatedFrom:    list.Filter.CreatedFrom,
		CreatedBefore:  rules.Until(list.Filter.CreatedBefore),
		AfterCreatedAt: list.After.CreatedAt,
		AfterID:        toUUID(list.After.ID),
		MaxRows:        int32(list.Limit) + 1, // one extra row tells whether there is a next page
	})
	if err != nil {
		return repo.List[repo.Session]{}, err
	}
	list.Limit = fit.limit(list.Limit, len(rows))
	sessions, next, err := rules.PageOf(list, rows,
		func(row db.SessionListRow) (repo.Session, error) { return sessionOf(db.SessionGetRow(row)), nil })
	return repo.List[repo.Session]{Items: sessions, Next: next}, err
}

func (s *sessions) listActive(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.List[repo.Session], error) {
	list, err := rules.ActiveSessionList(filter, page)
	if err != nil {
		return repo.List[repo.Session]{}, err
	}
	after := list.After
	params := db.SessionListActiveParams{
		Namespace:   list.Filter.Namespace,
		Owner:       toNullable(list.Filter.Owner),
		AfterMinute: after.CreatedAt.Truncate(time.Minute),
		AfterAt:     after.CreatedAt,
		AfterID:     toUUID(after.ID),
		AfterCoarse: after.Coarse,
		BelowAt:     after.CreatedAt.Truncate(time.Minute),
		BelowID:     toUUID(repo.ID{}),
		MaxRows:     int32(list.Limit) + 1, // one extra row tells whether there is a next page
		LastRow:     int32(list.Limit),
	}
	if after.Coarse {
		params.BelowAt, params.BelowID = params.AfterAt, params.AfterID
	}
	var fit fits
	rows, err := run(ctx, filtered(fit.in(s.exec.read)), queries.SessionListActive, params)
	if err != nil {
		return repo.List[repo.Session]{}, err
	}
	list.Limit = fit.limit(list.Limit, len(rows))
	return rules.ActivePage(list, rows, func(row db.SessionListActiveRow) rules.ActiveSession {
		session := sessionOf(db.SessionGetRow{
			Session: row.Session, ChangedAt: row.ChangedAt, NextSequence: row.NextSequence, FencedOnly: row.FencedOnly, Plans: row.Plans,
		})
		return rules.ActiveSession{Session: session, Place: rules.Place{CreatedAt: row.Place.UTC(), ID: session.ID, Coarse: row.Coarse}}
	})
}

func (s *sessions) listIdle(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.List[repo.Session], error) {
	list, err := rules.IdleSessionList(filter, page)
	if err != nil {
		return repo.List[repo.Session]{}, err
	}
	var fit fits
	rows, err := run(ctx, fit.in(s.exec.read), queries.SessionListIdle, db.SessionListIdleParams{
		Namespace: list.Filter.Namespace, IdleSince: list.Filter.IdleSince, AfterAt: list.After.CreatedAt, AfterID: toUUID(list.After.ID),
		MaxRows: int32(list.Limit) + 1, // one extra row tells whether there is a next page
	})
	if err != nil {
		return repo.List[repo.Session]{}, err
	}
	list.Limit = fit.limit(list.Limit, len(rows))
	return rules.ActivePage(list, rows, func(row db.SessionListIdleRow) rules.ActiveSession {
		session := sessionOf(db.SessionGetRow{
			Session: row.Session, ChangedAt: row.ChangedAt, NextSequence: row.NextSequence, FencedOnly: row.FencedOnly, Plans: row.Plans,
		})
		return rules.ActiveSession{Session: session, Place: rules.Place{CreatedAt: row.ActiveAt.UTC(), ID: session.ID}}
	})
}

func (s *sessions) Namespaces(ctx context.Context, page repo.Page) (repo.List[string], error) {
	list, err := rules.NamespaceList(page)
	if err != nil {
		return repo.List[string]{}, err
	}
	rows, err := run(ctx, s.exec.read, func(ctx context.Context, q db.DBTX, after string) ([]string, error) {
		return queries.NamespaceList(ctx, q, db.NamespaceListParams{MaxRows: int32(list.Limit) + 1, After: after}) // one extra row tells whether there is a next page
	}, list.After)
	if err != nil {
		return repo.List[string]{}, err
	}
	found, next, err := rules.PageOf(list, rows, func(namespace string) (string, error) { return namespace, nil })
	return repo.List[string]{Items: found, Next: next}, err
}
