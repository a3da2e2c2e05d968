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
	// One row more than asked for tells whether there is a next page.
	byActor := db.SessionListByActorParams{
		Namespace:      filter.Namespace,
		Actor:          filter.Actor,
		CreatedFrom:    filter.CreatedFrom,
		CreatedBefore:  before,
		AfterCreatedAt: afterTime,
		AfterID:        toUUID(afterID),
		MaxRows:        int32(limit) + 1,
	}
	var found []repo.Session
	err = s.exec.read(ctx, func(q db.DBTX) error {
		found = make([]repo.Session, 0, limit+1)
		if filter.Actor != "" {
			rows, err := queries.SessionListByActor(ctx, q, byActor)
			for _, row := range rows {
				found = append(found, sessionOf(db.SessionGetRow(row)))
			}
			return err
		}
		rows, err := queries.SessionList(ctx, q, db.SessionListParams{
			Namespace:      byActor.Namespace,
			CreatedFrom:    byActor.CreatedFrom,
			CreatedBefore:  byActor.CreatedBefore,
			AfterCreatedAt: byActor.AfterCreatedAt,
			AfterID:        byActor.AfterID,
			MaxRows:        byActor.MaxRows,
		})
		for _, row := range rows {
			found = append(found, sessionOf(db.SessionGetRow(row)))
		}
		return err
	})
	if err != nil {
		return repo.SessionPage{}, err
	}
	if len(found) <= limit {
		return repo.SessionPage{Sessions: found}, nil
	}
	found = found[:limit]
	return repo.SessionPage{Sessions: found, Next: filter.CursorAfter(found[limit-1])}, nil
}
