package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

func (s *sessions) List(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.SessionPage, error) {
	if filter.Order == repo.ByActivity {
		return s.listActive(ctx, filter, page)
	}
	list, err := rules.SessionList(filter, page)
	if err != nil {
		return repo.SessionPage{}, err
	}
	rows, err := run(ctx, filtered(s.exec.read), queries.SessionList, db.SessionListParams{
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
		return repo.SessionPage{}, err
	}
	sessions, next, err := rules.PageOf(list, rows,
		func(row db.SessionListRow) (repo.Session, error) { return sessionOf(db.SessionGetRow(row)), nil })
	return repo.SessionPage{Sessions: sessions, Next: next}, err
}

func (s *sessions) listActive(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.SessionPage, error) {
	list, err := rules.ActiveSessionList(filter, page)
	if err != nil {
		return repo.SessionPage{}, err
	}
	rows, err := run(ctx, filtered(s.exec.read), queries.SessionListActive, db.SessionListActiveParams{
		Namespace:     list.Filter.Namespace,
		Owner:         toNullable(list.Filter.Owner),
		AfterActiveAt: list.After.CreatedAt,
		AfterID:       toUUID(list.After.ID),
		MaxRows:       int32(list.Limit) + 1, // one extra row tells whether there is a next page
	})
	if err != nil {
		return repo.SessionPage{}, err
	}
	return rules.ActivePage(list, rows, func(row db.SessionListActiveRow) rules.ActiveSession {
		return rules.ActiveSession{ActiveAt: row.ActiveAt.UTC(), Session: sessionOf(db.SessionGetRow{
			Session: row.Session, ChangedAt: row.ChangedAt, NextSequence: row.NextSequence, FencedOnly: row.FencedOnly, Plans: row.Plans,
		})}
	})
}
