package memory

import (
	"context"
	"strings"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Lists look at every session of the store and sort the ones that the filter selects: there is no index to maintain.

func (s sessions) List(ctx context.Context, filter repo.SessionFilter,
	page repo.Page,
) (repo.List[repo.Session], error) {
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
	filter = list.Filter
	after := &sessionRow{Session: repo.Session{CreatedAt: list.After.CreatedAt, ID: list.After.ID}}
	return run(ctx, unless(err, s.read), func(t *tables) (repo.List[repo.Session], error) {
		found := t.sessionsIn(filter.Namespace, func(r *sessionRow) bool {
			return (filter.Owner == "" || r.Owner == filter.Owner) && (filter.Actor == "" || r.Actor == filter.Actor) &&
				!r.CreatedAt.Before(filter.CreatedFrom) &&
				(filter.CreatedBefore.IsZero() || r.CreatedAt.Before(filter.CreatedBefore)) &&
				compareAge(r, after) < 0
		})
		newestFirst := func(a, b *sessionRow) int { return compareAge(b, a) }
		return pageOf(list, found, newestFirst, func(r *sessionRow) repo.Session { return s.snapshot(t, r) })
	})
}

// activeList is a list by activity.
type activeList = rules.List[repo.SessionFilter, rules.Place, rules.ActiveSession]

func (s sessions) listActive(ctx context.Context, filter repo.SessionFilter,
	page repo.Page,
) (repo.List[repo.Session], error) {
	list, err := rules.ActiveSessionList(filter, page)
	lastFirst := func(a, b *sessionRow) int { return compareActivity(b, a) }
	return s.byActivity(ctx, list, err, lastFirst, func(r *sessionRow) bool {
		return list.Filter.Owner == "" || r.Owner == list.Filter.Owner
	})
}

func (s sessions) listIdle(ctx context.Context, filter repo.SessionFilter,
	page repo.Page,
) (repo.List[repo.Session], error) {
	list, err := rules.IdleSessionList(filter, page)
	return s.byActivity(ctx, list, err, compareActivity,
		func(r *sessionRow) bool { return r.idleSince().Before(list.Filter.IdleSince) })
}

func (s sessions) byActivity(
	ctx context.Context, list activeList, checked error, compare func(a, b *sessionRow) int,
	selects func(*sessionRow) bool,
) (repo.List[repo.Session], error) {
	after := &sessionRow{Session: repo.Session{ID: list.After.ID, UpdatedAt: list.After.CreatedAt}}
	return run(ctx, unless(checked, s.read), func(t *tables) (repo.List[repo.Session], error) {
		found := t.sessionsIn(list.Filter.Namespace, func(r *sessionRow) bool { return compare(r, after) > 0 && selects(r) })
		return rules.ActivePage(pageOf(list, found, compare, func(r *sessionRow) rules.ActiveSession {
			return rules.ActiveSession{Session: s.snapshot(t, r), Place: rules.Place{CreatedAt: r.UpdatedAt, ID: r.ID}}
		}))
	})
}

func (s sessions) Namespaces(ctx context.Context, page repo.Page) (repo.List[string], error) {
	list, err := rules.NamespaceList(page)
	return run(ctx, unless(err, s.read), func(t *tables) (repo.List[string], error) {
		var all []string
		for name := range t.namespaces.all() {
			if name > list.After && rules.IsInView(s.options.view, name) {
				all = append(all, name)
			}
		}
		return pageOf(list, all, strings.Compare, same)
	})
}
