package memory

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
)

// query is one page of a list.
type query struct {
	filter repo.SessionFilter
	// after has the CreatedAt and ID that the page before ended with: those
	// selected are older.
	after record
	// limit is the most records to return.
	limit int
}

func (q *query) selects(r *record) bool {
	s, f := &r.session, &q.filter
	return s.Namespace == f.Namespace &&
		(f.Actor == "" || s.Actor == f.Actor) &&
		!s.CreatedAt.Before(f.CreatedFrom) &&
		(f.CreatedBefore.IsZero() || s.CreatedAt.Before(f.CreatedBefore)) &&
		older(r, &q.after) < 0
}

func (s *sessions) List(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.SessionPage, error) {
	filter, err := filter.Normalize()
	if err != nil {
		return repo.SessionPage{}, err
	}
	limit, err := repo.CheckLimit(page.Limit)
	if err != nil {
		return repo.SessionPage{}, err
	}
	at, id, err := filter.Place(page.After)
	if err != nil {
		return repo.SessionPage{}, err
	}
	v, err := s.at.read(ctx)
	if err != nil {
		return repo.SessionPage{}, err
	}
	defer s.at.unlock()
	// One more than asked for tells whether there is a next page.
	found := v.list(&query{
		filter: filter,
		after:  record{session: repo.Session{CreatedAt: at, ID: id}},
		limit:  limit + 1,
	})
	result := repo.SessionPage{Sessions: make([]repo.Session, 0, min(len(found), limit))}
	for _, r := range found[:min(len(found), limit)] {
		result.Sessions = append(result.Sessions, r.snapshot(v))
	}
	if len(found) > limit {
		result.Next = filter.CursorAfter(result.Sessions[limit-1])
	}
	return result, nil
}
