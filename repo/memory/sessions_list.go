package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s sessions) List(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.List[repo.Session], error) {
	if is, err := rules.SelectsInView(s.options.view, &filter.Namespace); !is {
		return repo.List[repo.Session]{}, err
	}
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
	after := &sessionRow{Session: repo.Session{CreatedAt: list.After.CreatedAt, ID: list.After.ID}}
	return run(ctx, s.read, func(t *tables) (repo.List[repo.Session], error) {
		// One more than asked for tells whether there is a next page.
		found := t.listSessions(list.Filter, after, list.Limit+1)
		return rules.PageOf(list, found, func(r *sessionRow) (repo.Session, error) { return s.snapshot(t, r), nil })
	})
}

// listSessions returns the newest rows before after that the filter selects, newest
// first.
func (t *tables) listSessions(filter repo.SessionFilter, after *sessionRow, limit int) []*sessionRow {
	selects := func(r *sessionRow) bool {
		return r.Namespace == filter.Namespace &&
			(filter.Owner == "" || r.Owner == filter.Owner) &&
			(filter.Actor == "" || r.Actor == filter.Actor) &&
			!r.CreatedAt.Before(filter.CreatedFrom) &&
			(filter.CreatedBefore.IsZero() || r.CreatedAt.Before(filter.CreatedBefore)) &&
			compareAge(r, after) < 0
	}
	if t.base == nil {
		return t.listCommitted(filter, after, selects, limit)
	}
	found := t.base.listCommitted(filter, after, func(r *sessionRow) bool {
		_, changed := t.sessions.rows[r.ID]
		return !changed && selects(r)
	}, limit)
	for _, r := range t.sessions.rows {
		if r != nil && selects(r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *sessionRow) int { return compareAge(b, a) })
	return found[:min(len(found), limit)]
}

func (t *tables) listCommitted(filter repo.SessionFilter, after *sessionRow, selects func(*sessionRow) bool, limit int) (found []*sessionRow) {
	list := t.byAge[filter.Namespace]
	// The session that the page before ended with may be gone; its place is not.
	end, _ := slices.BinarySearchFunc(list, after, compareAge)
	for i := end - 1; i >= 0 && len(found) < limit && !list[i].CreatedAt.Before(filter.CreatedFrom); i-- {
		if selects(list[i]) {
			found = append(found, list[i])
		}
	}
	return found
}

// listActive looks at every session of the store and sorts those that the filter
// selects, so that appends maintain no index.
func (s sessions) listActive(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.List[repo.Session], error) {
	list, err := rules.ActiveSessionList(filter, page)
	if err != nil {
		return repo.List[repo.Session]{}, err
	}
	filter = list.Filter
	after := &sessionRow{Session: repo.Session{ID: list.After.ID, UpdatedAt: list.After.CreatedAt}}
	return run(ctx, s.read, func(t *tables) (repo.List[repo.Session], error) {
		found := t.sessions.where(func(r *sessionRow) bool {
			return r.Namespace == filter.Namespace && (filter.Owner == "" || r.Owner == filter.Owner) && compareActivity(r, after) < 0
		})
		slices.SortFunc(found, func(a, b *sessionRow) int { return compareActivity(b, a) })
		// One more than asked for tells whether there is a next page.
		found = found[:min(len(found), list.Limit+1)]
		return rules.ActivePage(rules.PageOf(list, found, func(r *sessionRow) (rules.ActiveSession, error) {
			return rules.ActiveSession{Session: s.snapshot(t, r), Place: rules.Place{CreatedAt: r.UpdatedAt, ID: r.ID}}, nil
		}))
	})
}

// listIdle looks at every session, too.
func (s sessions) listIdle(ctx context.Context, filter repo.SessionFilter, page repo.Page) (repo.List[repo.Session], error) {
	list, err := rules.IdleSessionList(filter, page)
	if err != nil {
		return repo.List[repo.Session]{}, err
	}
	after := &sessionRow{Session: repo.Session{ID: list.After.ID, UpdatedAt: list.After.CreatedAt}}
	return run(ctx, s.read, func(t *tables) (repo.List[repo.Session], error) {
		found := t.sessions.where(func(r *sessionRow) bool {
			return r.Namespace == list.Filter.Namespace && r.idleSince().Before(list.Filter.IdleSince) && compareActivity(r, after) > 0
		})
		slices.SortFunc(found, compareActivity)
		// One more than asked for tells whether there is a next page.
		found = found[:min(len(found), list.Limit+1)]
		return rules.ActivePage(rules.PageOf(list, found, func(r *sessionRow) (rules.ActiveSession, error) {
			return rules.ActiveSession{Session: s.snapshot(t, r), Place: rules.Place{CreatedAt: r.UpdatedAt, ID: r.ID}}, nil
		}))
	})
}

func (s sessions) Namespaces(ctx context.Context, page repo.Page) (repo.List[string], error) {
	list, err := rules.NamespaceList(page)
	return run(ctx, unless(err, s.read), func(t *tables) (repo.List[string], error) {
		all := map[string]bool{}
		for _, r := range t.sessions.all() {
			if r.Namespace > list.After && rules.IsInView(s.options.view, r.Namespace) {
				all[r.Namespace] = true
			}
		}
		sorted := slices.Sorted(maps.Keys(all))
		return rules.PageOf(list, sorted[:min(len(sorted), list.Limit+1)], func(namespace string) (string, error) { return namespace, nil })
	})
}
