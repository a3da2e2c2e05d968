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
		name: "lifecycle/resumed at its beginning", file: "repo/lifecycle.go",
		old:   "executeErrored:    executeQueued,",
		new:   "executeErrored:    strategizeQueued,",
		tests: []tests{{"repo", "^TestLifecycle$"}},
	},
}
