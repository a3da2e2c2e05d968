package main

var lifecycleMutants = []mutant{
	{
		name: "lifecycle/one reversion too many", file: "repo/rules/lifecycle.go",
		old:   "p.ReversionCount >= repo.MaxReversions",
		new:   "p.ReversionCount > repo.MaxReversions",
		tests: []tests{{"repo/rules", "^TestMoved$"}, {"repo/memory", "^TestConformance$/^Lifecycle$"}},
	},
	{
		name: "lifecycle/the version is not checked", file: "repo/rules/lifecycle.go",
		old:   "!allowed || cause.Version != 0 && cause.Version != p.Version",
		new:   "!allowed",
		tests: []tests{{"repo/rules", "^TestMoved$"}, {"repo/memory", "^TestConformance$/^Lifecycle$"}},
	},
	{
		name: "lifecycle/a transition that keeps its version", file: "repo/rules/lifecycle.go",
		old:   "	p.Version++\n",
		new:   "",
		tests: []tests{{"repo/rules", "^TestMoved$"}},
	},
	{
		name: "lifecycle/a cancellation removes the error", file: "repo/rules/lifecycle.go",
		old:   "		p.CancelReason = cause.Reason // an error that it has is kept\n",
		new:   "		p.CancelReason = cause.Reason\n		p.ErrorMessage, p.ErrorDetails = \"\", nil\n",
		tests: []tests{{"repo/rules", "^TestMoved$"}},
	},
	{
		name: "lifecycle/reverted below any parent", file: "repo/rules/lifecycle.go",
		old:   "allowed && !p.Live() && to.Live() && !p.ParentID.IsZero()",
		new:   "allowed && p.Live() && to.Live() && !p.ParentID.IsZero()",
		tests: []tests{{"repo/memory", "^TestConformance$/^Lifecycle$"}},
	},
	{
		name: "lifecycle/resumed at its beginning", file: "repo/rules/lifecycle.go",
		old:   "executeErrored:    executeQueued,",
		new:   "executeErrored:    strategizeQueued,",
		tests: []tests{{"repo/rules", "^TestLifecycle$"}},
	},
	{
		name: "lifecycle/an applied plan is live", file: "repo/stage.go",
		old:   "return s.State != StateApplied && s.State != StateCancelled",
		new:   "return s.State != StateCancelled",
		tests: []tests{{"repo/rules", "^TestStages$"}},
	},
	{
		name: "lifecycle/constrained in another phase", file: "repo/rules/lifecycle.go",
		old:   "Stage{Phase: repo.PhaseApply, State: repo.StateConstrained}",
		new:   "Stage{Phase: repo.PhaseExecute, State: repo.StateConstrained}",
		tests: []tests{{"repo/rules", "^TestStages$"}},
	},
	{
		name: "lifecycle/applied again", file: "repo/rules/lifecycle.go",
		old:   "		stages[stage] = stage\n",
		new:   "		stages[stage] = to\n",
		tests: []tests{{"repo/rules", "^TestLifecycle$"}},
	},
	{
		name: "lifecycle/a failure is recorded as a change", file: "repo/rules/lifecycle.go",
		old:   "	case t == repo.TransitionFail, t == repo.TransitionExpire && to.State == repo.StateErrored:\n		return repo.EventPlanErrored\n",
		new:   "",
		tests: []tests{{"repo/rules", "^TestTransition"}, {"repo/memory", "^TestConformance$/^(Lifecycle|Audit)$"}},
	},
}
