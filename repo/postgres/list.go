package postgres

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// farFuture bounds a list that has no upper bound: later than any time that a
// caller may give.
var farFuture = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *sessions) List(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.SessionPage, error) {
	filter, err := filter.Normalize()
	if err != nil {
		return repo.SessionPage{}, err
	}
	limit, err := repo.CheckLimit(page.Limit)
	if err != nil {
		return repo.SessionPage{}, err
	}
	afterTime, afterID, err := filter.Place(page.After)
	if err != nil {
		return repo.SessionPage{}, err
	}
	before := filter.CreatedBefore
	if before.IsZero() {
		before = farFuture
	}
	rows, err := run(ctx, filtered(s.exec.read), queries.SessionList, db.SessionListParams{
		Namespace:      filter.Namespace,
		Actor:          toNullable(filter.Actor),
		CreatedFrom:    filter.CreatedFrom,
		CreatedBefore:  before,
		AfterCreatedAt: afterTime,
		AfterID:        toUUID(afterID),
		MaxRows:        int32(limit) + 1, // one more tells whether there is a next page
	})
	if err != nil {
		return repo.SessionPage{}, err
	}
	sessions, next, err := pageOf(rows, limit,
		func(row db.SessionListRow) (repo.Session, error) { return sessionOf(db.SessionGetRow(row)), nil },
		filter.CursorAfter)
	return repo.SessionPage{Sessions: sessions, Next: next}, err
}
