package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (p plans) Counts(ctx context.Context, namespace string, page repo.Page) (repo.List[repo.PlanCount], error) {
	if is, err := rules.SelectsInView(p.options.view, &namespace); !is {
		return repo.List[repo.PlanCount]{}, err
	}
	list, err := rules.CountList(namespace, page)
	return run(ctx, unless(err, p.read), func(t *tables) (repo.List[repo.PlanCount], error) {
		after := strings.SplitN(list.After, "\x00", 3)
		place := repo.PlanCount{Namespace: after[0], Stage: repo.Stage{Phase: repo.Phase(after[1]), State: repo.PlanState(after[2])}}
		counts := map[repo.PlanCount]repo.PlanCount{}
		for _, r := range t.plans.all() {
			key := repo.PlanCount{Namespace: r.Namespace, Stage: r.Stage}
			if namespace != "" && namespace != r.Namespace || compareCounts(key, place) <= 0 {
				continue
			}
			count := cmp.Or(counts[key], key)
			count.Count = min(count.Count+1, limits.MaxPlanCount)
			if since := rules.WaitsSince(r.Plan); r.State == repo.PlanQueued && !since.After(t.now()) && (count.Oldest.IsZero() || since.Before(count.Oldest)) {
				count.Oldest = since
			}
			counts[key] = count
		}
		return pageOf(list, slices.Collect(maps.Values(counts)), compareCounts, same)
	})
}

func compareCounts(a, b repo.PlanCount) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.State, b.State))
}
