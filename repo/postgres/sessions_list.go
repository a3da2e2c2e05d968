package postgres

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

func (s *sessions) List(ctx context.Context, filter repo.SessionFilter,
	page repo.Page,
) (repo.List[repo.Session], error) {
	if is, err := rules.SelectsInView(s.view, &filter.Namespace); !is {
		return repo.List[repo.Session]{}, err
	}
	if !filter.IdleSince.IsZero() {
		return s.listIdle(ctx, filter, page)
	}
	if filter.ByActivity {
		return s.listActive(ctx, filter, page)
	}
	list, err := rules.SessionList(filter, page)
	return listed(s.exec.read, list, err, func(by way) ([]db.SessionListRow, error) {
		return run(ctx, filtered(by), queries.SessionList, db.SessionListParams{
			Namespace:      list.Filter.Namespace,
			Owner:          convert.Nullable(list.Filter.Owner),
			Actor:          convert.Nullable(list.Filter.Actor),
			CreatedFrom:    list.Filter.CreatedFrom,
			CreatedBefore:  rules.Until(list.Filter.CreatedBefore),
			AfterCreatedAt: list.After.CreatedAt,
			AfterID:        convert.UUID(list.After.ID),
			MaxRows:        int32(list.Limit) + 1, // one extra row tells whether there is a next page
		})
	}, func(row db.SessionListRow) (repo.Session, error) {
		return convert.Session(s.view, db.SessionGetRow(row)), nil
	})
}

func (s *sessions) listActive(ctx context.Context, filter repo.SessionFilter,
	page repo.Page,
) (repo.List[repo.Session], error) {
	list, err := rules.ActiveSessionList(filter, page)
	after := list.After
	params := db.SessionListActiveParams{
		Namespace:   list.Filter.Namespace,
		Owner:       convert.Nullable(list.Filter.Owner),
		AfterMinute: after.CreatedAt.Truncate(time.Minute),
		AfterAt:     after.CreatedAt,
		AfterID:     convert.UUID(after.ID),
		AfterCoarse: after.Coarse,
		BelowAt:     after.CreatedAt.Truncate(time.Minute),
		BelowID:     convert.UUID(repo.ID{}),
		MaxRows:     int32(list.Limit) + 1, // one extra row tells whether there is a next page
		LastRow:     int32(list.Limit),
	}
	if after.Coarse {
		params.BelowAt, params.BelowID = params.AfterAt, params.AfterID
	}
	return rules.ActivePage(listed(s.exec.read, list, err, func(by way) ([]db.SessionListActiveRow, error) {
		return run(ctx, filtered(by), queries.SessionListActive, params)
	}, s.active))
}

func (s *sessions) listIdle(ctx context.Context, filter repo.SessionFilter,
	page repo.Page,
) (repo.List[repo.Session], error) {
	list, err := rules.IdleSessionList(filter, page)
	return rules.ActivePage(listed(s.exec.read, list, err, func(by way) ([]db.SessionListIdleRow, error) {
		return run(ctx, by, queries.SessionListIdle, db.SessionListIdleParams{
			Namespace: list.Filter.Namespace, IdleSince: list.Filter.IdleSince, AfterAt: list.After.CreatedAt,
			AfterID: convert.UUID(list.After.ID),
			MaxRows: int32(list.Limit) + 1, // one extra row tells whether there is a next page
		})
	}, func(row db.SessionListIdleRow) (rules.ActiveSession, error) {
		return s.active(db.SessionListActiveRow(row))
	}))
}

func (s *sessions) active(row db.SessionListActiveRow) (rules.ActiveSession, error) {
	session := convert.Session(s.view, db.SessionGetRow{
		Session: row.Session, ChangedAt: row.ChangedAt, NextSequence: row.NextSequence, FencedOnly: row.FencedOnly,
		Plans: row.Plans,
	})
	return rules.ActiveSession{Session: session, Place: rules.Place{
		CreatedAt: row.Place.UTC(), ID: session.ID,
		Coarse: row.Coarse,
	}}, nil
}

func (s *sessions) Namespaces(ctx context.Context, page repo.Page) (repo.List[string], error) {
	list, err := rules.NamespaceList(page)
	if err == nil && s.view != "" {
		found, err := s.List(ctx, repo.SessionFilter{AnyOwner: true}, repo.Page{Limit: 1})
		if len(found.Items) == 0 || list.After >= s.view {
			return repo.List[string]{}, err
		}
		return repo.List[string]{Items: []string{s.view}}, nil
	}
	// one extra row tells whether there is a next page
	return listed(s.exec.read, list, err, func(by way) ([]string, error) {
		return run(ctx, by, queries.NamespaceList, db.NamespaceListParams{MaxRows: int32(list.Limit) + 1, After: list.After})
	}, func(namespace string) (string, error) { return namespace, nil })
}
