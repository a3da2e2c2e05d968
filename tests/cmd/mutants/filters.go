package main

const filtersGo = "repo/postgres/filters.go"

var filterMutants = []mutant{
	{
		name: "filters/no filter stands alone", file: filtersGo,
		old:   "first, query := true,",
		new:   "first, query := false,",
		tests: []tests{{"tests/postgres", "^TestPlansOfFilters$"}},
	},
	{
		name: "filters/a filter that is set is left out", file: filtersGo,
		old:   "&1 == 1:",
		new:   "&1 == 0:",
		tests: []tests{{"tests/postgres", pool + "^Audit$"}},
	},
	{
		name: "filters/arguments in the order of the whole query", file: filtersGo,
		old:   "used[i] = args[place]",
		new:   "used[i] = args[min(i, place)]",
		tests: []tests{{"repo/postgres", "^TestSetFilters$"}},
	},
}
