package main

const actionsSQL = "queries/actions.sql"

var actionMutants = []mutant{
	{
		name: "actions/updated without a lock", file: actionsSQL,
		old:   "WHERE a.name = @name FOR NO KEY UPDATE;",
		new:   "WHERE a.name = @name;",
		tests: []tests{{"tests/postgres", pool + "^(PlanRaces|Actions)$"}},
	},
	{
		name: "actions/a page repeats the last action of the one before", file: actionsSQL,
		old:   "a.name > @after_name",
		new:   "a.name >= @after_name",
		tests: []tests{{"tests/postgres", pool + "^Actions$"}},
	},
	{
		name: "actions/the tag filter has no effect", file: actionsSQL,
		old:   "@tag::text = ANY (a.tags)",
		new:   "@tag::text <> ''",
		tests: []tests{{"tests/postgres", pool + "^Actions$"}},
	},
	{
		name: "actions/an update leaves an argument behind", file: actionsSQL,
		old:   "d.position >= cardinality(@argument_names::text[])",
		new:   "d.position > cardinality(@argument_names::text[])",
		tests: []tests{{"tests/postgres", pool + "^Actions$"}},
	},
}
