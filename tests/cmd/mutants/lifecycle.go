package main

var lifecycleMutants = []mutant{
	{
		name: "lifecycle/one reversion too many", file: "repo/validate_plan.go",
		old:   "p.ReversionCount >= MaxReversions",
		new:   "p.ReversionCount > MaxReversions",
		tests: []tests{{"repo", "^TestMoved$"}, {"repo/memory", "^TestConformance$/^Lifecycle$"}},
	},
	{
		name: "lifecycle/any version will do", file: "repo/validate_plan.go",
		old:   "!allowed || cause.Version != 0 && cause.Version != p.Version",
		new:   "!allowed",
		tests: []tests{{"repo", "^TestMoved$"}, {"repo/memory", "^TestConformance$/^Lifecycle$"}},
	},
	{
		name: "lifecycle/a transition that keeps its version", file: "repo/validate_plan.go",
		old:   "	p.Version++\n",
		new:   "",
		tests: []tests{{"repo", "^TestMoved$"}},
	},
	{
		name: "lifecycle/an error that a cancellation takes away", file: "repo/validate_plan.go",
		old:   "		p.CancelReason = cause.Reason // the error it may stand at stays\n",
		new:   "		p.CancelReason = cause.Reason\n		p.ErrorMessage, p.ErrorDetails = \"\", nil\n",
		tests: []tests{{"repo", "^TestMoved$"}},
	},
	{
		name: "lifecycle/alive again below whatever parent", file: "repo/validate_plan.go",
		old:   "allowed && !p.Live() && to.Live() && !p.ParentID.IsZero()",
		new:   "allowed && p.Live() && to.Live() && !p.ParentID.IsZero()",
		tests: []tests{{"repo/memory", "^TestConformance$/^Lifecycle$"}},
	},
	{
		name: "lifecycle/resumed at its beginning", file: "repo/lifecycle.go",
		old:   "executeErrored:    executeQueued,",
		new:   "executeErrored:    strategizeQueued,",
		tests: []tests{{"repo", "^TestLifecycle$"}},
	},
	{
		name: "lifecycle/an applied plan that is alive", file: "repo/lifecycle.go",
		old:   "return s.State != StateApplied && s.State != StateCancelled",
		new:   "return s.State != StateCancelled",
		tests: []tests{{"repo", "^TestStages$"}},
	},
	{
		name: "lifecycle/constrained in any phase", file: "repo/lifecycle.go",
		old:   "	case StateApplied, StateConstrained:\n		return s.Phase == PhaseApply",
		new:   "	case StateApplied, StateConstrained:\n		return s.Phase != \"\"",
		tests: []tests{{"repo", "^TestStages$"}},
	},
	{
		name: "lifecycle/applied again", file: "repo/lifecycle.go",
		old:   "		applyProcessing:  applyProcessing,\n		applyComplete:    applyComplete,\n		applyErrored:     applyErrored,\n		applyCancelled:   applyCancelled,\n		applyApplied:     applyApplied,\n		applyConstrained: applyConstrained,",
		new:   "		applyProcessing:  applyQueued,\n		applyComplete:    applyComplete,\n		applyErrored:     applyErrored,\n		applyCancelled:   applyCancelled,\n		applyApplied:     applyApplied,\n		applyConstrained: applyConstrained,",
		tests: []tests{{"repo", "^TestLifecycle$"}},
	},
	{
		name: "lifecycle/a failure that is told as a change", file: "repo/lifecycle.go",
		old:   "	case t == TransitionFail:\n		return EventPlanErrored\n",
		new:   "",
		tests: []tests{{"repo", "^TestTransition"}, {"repo/memory", "^TestConformance$/^(Lifecycle|Audit)$"}},
	},
}
