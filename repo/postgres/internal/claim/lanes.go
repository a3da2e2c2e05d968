package claim

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// Lane is what a claim asks for: a namespace, a phase, a priority, and an action or "" for any.
type Lane struct {
	namespace, phase, action string
	priority                 int16
}

// maxActionLanes bounds the lanes by action that replace a lane of any action.
const maxActionLanes = 1000

// drawn returns the namespaces of a claim in an order by lot, so that each has the same chance to be the first.
func drawn(claim repo.Claim) []string {
	namespaces := slices.Clone(claim.Namespaces)
	rand.Shuffle(len(namespaces), func(i, j int) { namespaces[i], namespaces[j] = namespaces[j], namespaces[i] })
	return namespaces
}

// LanesIn returns the lanes of a claim in namespaces.
func LanesIn(claim repo.Claim, namespaces []string) (lanes []Lane) {
	actions := claim.Actions
	if len(actions) == 0 {
		actions = []string{""}
	}
	for _, namespace := range namespaces {
		for _, phase := range claim.Phases {
			for _, action := range actions {
				for priority := range int16(limits.MaxPriority + 1) {
					lanes = append(lanes, Lane{namespace, string(phase), action, priority})
				}
			}
		}
	}
	return lanes
}

// LaneColumns returns lanes as the arguments of a query.
func LaneColumns(lanes []Lane) (namespaces, phases, actions []string, priorities []int16) {
	for _, l := range lanes {
		namespaces, phases, actions = append(namespaces, l.namespace), append(phases, l.phase), append(actions, l.action)
		priorities = append(priorities, l.priority)
	}
	return namespaces, phases, actions, priorities
}

// LanesAnywhere returns up to maxRows lanes of the namespaces behind one, with these, and other namespaces that have
// claims which may have expired.
func LanesAnywhere(ctx context.Context, q db.DBTX, claim repo.Claim, after string,
	maxRows int,
) (namespaces, others []string, lanes []Lane, err error) {
	params := db.PlanLanesParams{
		LeaseNamespace: convert.LeaseNamespace, After: after, Actions: claim.Actions,
		MaxRows: int32(maxRows),
	}
	for _, phase := range claim.Phases {
		params.Phases = append(params.Phases, string(phase))
	}
	if len(params.Actions) == 0 {
		params.Actions = []string{""}
	}
	rows, err := queries.PlanLanes(ctx, q, params)
	for _, row := range rows {
		switch {
		case row.Phase == "":
			others = append(others, row.Namespace)
			continue
		case !slices.Contains(namespaces, row.Namespace):
			namespaces = append(namespaces, row.Namespace)
		}
		lanes = append(lanes, Lane{row.Namespace, row.Phase, row.Action, row.Priority})
	}
	others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(namespaces, name) })
	return namespaces, others, lanes, err
}

// actionLanes returns a lane for each action that has plans in a lane for any, and is not at its limit.
func actionLanes(ctx context.Context, q db.DBTX, ofAny []Lane) (lanes []Lane, err error) {
	params := db.PlanActionLanesParams{MaxRows: maxActionLanes}
	params.Namespaces, params.Phases, _, params.Priorities = LaneColumns(ofAny)
	rows, err := queries.PlanActionLanes(ctx, q, params)
	for _, row := range rows {
		l := ofAny[row.Place-1]
		l.action = row.Action
		lanes = append(lanes, l)
	}
	return lanes, err
}
