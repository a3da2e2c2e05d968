package memory

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// remover is removal.Store. It is not for transactions: its tables are the committed ones.
type remover struct{ *handle }

func (r remover) RemoveTurns(ctx context.Context, _, before time.Time, limit int,
	dryRun bool,
) (removed, held int64, next time.Time, err error) {
	_, err = rules.CheckStreamRemoval(limit)
	err = exec(ctx, unless(err, r.write), func(t *tables) error {
		for _, s := range t.sessions.all() {
			for id, turn := range s.turns.all() {
				switch {
				case !turn.at.Before(before):
				case t.held(s.Namespace, s.Owner, s.ID):
					held++
				default:
					removed++
					if !dryRun {
						s.turns.remove(id)
					}
				}
			}
		}
		return nil
	})
	return removed, held, next, err
}

func (r remover) Idle(ctx context.Context, since map[string]time.Time) (sessions int64, longest time.Duration,
	err error,
) {
	err = exec(ctx, r.read, func(t *tables) error {
		for _, s := range t.sessions.all() {
			at, is := since[s.Namespace]
			if is && s.idleSince().Before(at.Truncate(time.Minute)) && !t.held(s.Namespace, s.Owner, s.ID) && t.inUse(s) == "" {
				sessions++
				longest = max(longest, at.Sub(s.UpdatedAt))
			}
		}
		return nil
	})
	return min(sessions, 10_001), longest, err
}

func (t *tables) heldMessages(id repo.ID) bool {
	return len(t.sessions.where(func(s *sessionRow) bool {
		return (s.ID == id || s.hasOf(id)) && t.held(s.Namespace, s.Owner, s.ID)
	})) > 0
}

// hasOf reports whether a fork has messages of a session.
func (r *sessionRow) hasOf(id repo.ID) bool {
	return slices.ContainsFunc(r.inherited, func(m *repo.Message) bool { return m.SessionID == id })
}

// withImported adds the ids of what came with imports of forks.
func (t *tables) withImported(sessions []repo.ID) []repo.ID {
	all := slices.Clone(sessions)
	for _, s := range t.sessions.all() {
		for _, m := range s.inherited {
			if of := t.importers.get(m.SessionID); of != nil && slices.Contains(sessions, *of) &&
				!slices.Contains(all, m.SessionID) {
				all = append(all, m.SessionID)
			}
		}
	}
	return all
}

func (r remover) Kept(ctx context.Context, sessions []repo.ID) (own, all int64, err error) {
	err = exec(ctx, r.read, func(t *tables) error {
		for i, id := range t.withImported(sessions) {
			kept := t.kept(id)
			if all += kept; i < len(sessions) {
				own += kept
			}
		}
		return nil
	})
	return own, all, err
}

// Left: no removal takes longer than a call.
func (r remover) Left(ctx context.Context) (bool, error) {
	return false, exec(ctx, r.read, func(*tables) error { return nil })
}

func (r remover) HeldFork(ctx context.Context, owner string, namespaces []string) (repo.ID, error) {
	return run(ctx, r.read, func(t *tables) (repo.ID, error) {
		for _, s := range t.sessions.all() {
			if s.Owner == owner && owner != "" && slices.Contains(namespaces, s.Namespace) &&
				slices.ContainsFunc(t.withImported([]repo.ID{s.ID}), t.heldMessages) {
				return s.ID, nil
			}
		}
		return repo.ID{}, nil
	})
}

func (r remover) Made(ctx context.Context, sessions []repo.ID) ([]repo.ID, error) {
	return run(ctx, r.read, func(t *tables) (made []repo.ID, err error) {
		for _, top := range t.plans.where(func(p *planRow) bool {
			return !p.SessionID.IsZero() && slices.Contains(sessions, p.SessionID)
		}) {
			for _, p := range t.below(top) {
				if !slices.Contains(made, p.ID) {
					made = append(made, p.ID)
				}
			}
		}
		return made, nil
	})
}

func (r remover) Judge(ctx context.Context, sessions []repo.ID) ([]removal.Judgement, error) {
	return run(ctx, r.read, func(t *tables) (judged []removal.Judgement, err error) {
		for _, id := range sessions {
			if s := t.sessions.get(id); s != nil {
				judged = append(judged, removal.Judgement{
					ID: id, Held: t.held(s.Namespace, s.Owner, id), InUse: t.inUse(s) != "",
					Inherited: s.base(),
				})
			}
		}
		return judged, nil
	})
}

// inUse says by what a session is in use.
func (t *tables) inUse(r *sessionRow) rules.InUse {
	now := t.now()
	open := func(p *planRow) bool { return rules.IsOpen(p.Plan) }
	for _, id := range r.planIDs {
		if slices.ContainsFunc(t.below(t.plans.get(t.plans.get(id).RootID)), open) {
			return rules.InUseByPlan
		}
	}
	if lease := t.leases.get(repo.LeaseKey{Kind: repo.LeaseOfSession, Name: r.ID.String()}); lease != nil &&
		lease.ExpiresAt.After(now) {
		return rules.InUseByLease
	}
	if len(t.streams.where(func(s *streamRow) bool {
		return s.Session == r.ID && s.Status == repo.StreamOpen && s.ExpiresAt.After(now)
	})) > 0 {
		return rules.InUseByStream
	}
	return ""
}

func (r remover) Namespaces(ctx context.Context) ([]string, error) {
	return run(ctx, r.read, func(t *tables) ([]string, error) {
		found := map[string]bool{}
		for _, s := range t.sessions.all() {
			found[s.Namespace] = true
		}
		for key := range t.leases.all() {
			namespace, _ := rules.SplitView(key.Name)
			found[namespace] = true
		}
		for scope := range t.scopes.all() {
			if scope.Name != "" {
				namespace, _ := rules.SplitView(scope.Name)
				found[namespace] = true
			}
		}
		delete(found, limits.PlacesNamespace)
		return slices.Sorted(maps.Keys(found)), nil
	})
}

func (r remover) Has(ctx context.Context, namespace string) (has bool, err error) {
	err = exec(ctx, r.read, func(t *tables) error {
		for _, s := range t.sessions.all() {
			has = has || s.Namespace == namespace
		}
		for _, p := range t.plans.all() {
			has = has || p.Namespace == namespace
		}
		for _, a := range t.actions.all() {
			has = has || a.Name.Server == "" && a.Name.Namespace == namespace
		}
		for key := range t.streamKeys.all() {
			in, _ := rules.SplitView(key)
			has = has || in == namespace
		}
		for scope := range t.scopes.all() {
			in, _ := rules.SplitView(scope.Name)
			has = has || scope.Name != "" && in == namespace
		}
		for key := range t.leases.all() {
			in, _ := rules.SplitView(key.Name)
			has = has || in == namespace && in != repo.DefaultNamespace
		}
		return nil
	})
	return has, err
}

func (r remover) Names(ctx context.Context, after removal.Name) ([]removal.Name, error) {
	compare := func(a, b removal.Name) int {
		if a.Scope != b.Scope {
			return map[bool]int{false: -1, true: 1}[a.Scope]
		}
		return strings.Compare(a.Name, b.Name)
	}
	return run(ctx, r.read, func(t *tables) ([]removal.Name, error) {
		names := slices.DeleteFunc(t.names(), func(n removal.Name) bool { return n.Name == "" || compare(n, after) <= 0 })
		slices.SortFunc(names, compare)
		names = slices.Compact(names)
		return names[:min(len(names), 10_000)], nil
	})
}

// names returns all names, also twice.
func (t *tables) names() (found []removal.Name) {
	add := func(names ...string) {
		for _, name := range names {
			found = append(found, removal.Name{Name: name})
		}
	}
	for scope := range t.scopes.all() {
		_, name := rules.SplitView(scope.Name)
		found = append(found, removal.Name{Scope: true, Name: name})
	}
	for _, s := range t.sessions.all() {
		add(s.Owner, s.Actor)
	}
	for key, l := range t.leases.all() {
		_, name := rules.SplitView(key.Name)
		add(l.Owner, name, rules.WithoutSlot(name))
	}
	for _, s := range t.streams.all() {
		add(s.Owner)
	}
	for _, a := range t.actions.all() {
		add(a.CreatedBy)
	}
	for _, p := range t.plans.all() {
		for _, e := range p.events {
			add(e.Actor)
		}
	}
	for _, c := range t.claims.all() {
		add(c.owner)
	}
	for _, e := range t.entries.all() {
		add(e.Actor, e.User, e.Project)
	}
	return found
}
