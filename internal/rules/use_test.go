package rules_test

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func TestPutBelow(t *testing.T) {
	live := repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanErrored}
	parent := repo.Plan{ID: repo.NewID(), RootID: repo.NewID(), Namespace: "parent's", Stage: live, Depth: limits.MaxPlanDepth - 1, Version: 3}
	for name, test := range map[string]struct {
		spoil    func(*repo.Plan)
		children int64
		want     error
	}{
		"the last child":   {func(*repo.Plan) {}, limits.MaxChildPlans - 1, nil},
		"a child too many": {func(*repo.Plan) {}, limits.MaxChildPlans, &repo.LimitExceededError{Kind: "children", ID: parent.ID, Limit: limits.MaxChildPlans}},
		"too deep": {
			func(p *repo.Plan) { p.Depth++ }, 0,
			&repo.LimitExceededError{Kind: "depth", ID: parent.ID, Limit: limits.MaxPlanDepth},
		},
		"a parent that is not live, first of all": {
			func(p *repo.Plan) { p.State, p.Depth = repo.PlanCancelled, p.Depth+1 }, limits.MaxChildPlans,
			&repo.TransitionConflictError{
				PlanID: parent.ID, Transition: repo.TransitionUse, Version: 3,
				Stage: repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanCancelled},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := parent
			test.spoil(&parent)
			plan := repo.Plan{}
			err := rules.PutBelow(&plan, parent, test.children)
			if test.want != nil {
				if err == nil || err.Error() != test.want.Error() || plan.Depth != 0 {
					t.Errorf("got %v, want %v", err, test.want)
				}
				return
			}
			if err != nil || plan.RootID != parent.RootID || plan.Depth != parent.Depth+1 || plan.Namespace != "parent's" {
				t.Errorf("got %+v, %v", plan, err)
			}
		})
	}
	plan := repo.Plan{Namespace: "its own"}
	if err := rules.PutBelow(&plan, parent, 0); err != nil || plan.Namespace != "its own" {
		t.Errorf("got %+v, %v", plan, err)
	}
}

func TestNewPlanOfAnArchivedAction(t *testing.T) {
	action := repo.Action{Name: repo.ActionName{Namespace: "local", Name: "a"}, Archived: true}
	_, err := rules.NewPlan(t.Context(), repo.NewID(), repo.UseAction{}, action)
	unavailable, ok := errors.AsType[*repo.RefusedError](err)
	if !ok || unavailable.Name != action.Name.String() || unavailable.Reason != "is archived" {
		t.Errorf("got %v", err)
	}
}
