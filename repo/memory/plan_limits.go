package memory

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (p plans) SetLimit(ctx context.Context, limit repo.PlanLimit) error {
	limit, err := rules.NormalizeLimit(p.options.view, limit)
	return exec(ctx, unless(err, p.write), func(t *tables) error {
		key := repo.PlanLimit{Namespace: limit.Namespace, Action: limit.Action}
		if limit.AtOnce < 0 {
			t.limits.remove(key)
		} else {
			t.limits.put(key, &limit.AtOnce)
		}
		t.wake(topic{claims: true})
		return nil
	})
}

func (p plans) Limits(ctx context.Context, page repo.Page) (repo.List[repo.PlanLimit], error) {
	list, err := rules.LimitList(p.options.view, page)
	return run(ctx, unless(err, p.read), func(t *tables) (repo.List[repo.PlanLimit], error) {
		var found []repo.PlanLimit
		for key, atOnce := range t.limits.all() {
			if rules.IsInView(p.options.view, key.Namespace) && compareLimits(key, list.After) > 0 {
				key.AtOnce, key.Claimed = *atOnce, t.claimedOf(key.Namespace, key.Action)
				found = append(found, key)
			}
		}
		return pageOf(list, found, compareLimits, same)
	})
}

func compareLimits(a, b repo.PlanLimit) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Action, b.Action))
}

// claimedOf counts the plans of a namespace that are claimed, of an action or of all ("").
func (t *tables) claimedOf(namespace, action string) int {
	return len(t.claims.where(func(c *claimRow) bool {
		p := t.plans.get(c.plan)
		return p.Namespace == namespace && (action == "" || action == p.Action.String())
	}))
}

// rooms returns how many more plans each limit allows to be claimed.
func (t *tables) rooms() rules.Rooms {
	rooms := rules.Rooms{}
	for key, atOnce := range t.limits.all() {
		rooms[key] = *atOnce
	}
	for _, c := range t.claims.all() {
		p := t.plans.get(c.plan)
		rooms.Take(rules.Candidate{Namespace: p.Namespace, Action: p.Action.String()})
	}
	return rooms
}

// turnsOf returns the namespaces in the order in which they are served: by lot, or if any will do,
// from the one on that has waited longest.
func (t *tables) turnsOf(claim repo.Claim, candidates []rules.Candidate) (namespaces []string) {
	if !claim.AllNamespaces {
		namespaces = slices.Clone(claim.Namespaces)
		rand.Shuffle(len(namespaces), func(i, j int) { namespaces[i], namespaces[j] = namespaces[j], namespaces[i] })
		return namespaces
	}
	for _, one := range candidates {
		namespaces = append(namespaces, one.Namespace)
	}
	slices.Sort(namespaces)
	namespaces = slices.Compact(namespaces)
	slices.SortStableFunc(namespaces, func(a, b string) int { return cmp.Compare(t.served[a], t.served[b]) })
	return namespaces
}
