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
		name: "actions/a page that begins with the last one's end", file: actionsSQL,
		old:   "a.name > @after_name",
		new:   "a.name >= @after_name",
		tests: []tests{{"tests/postgres", pool + "^Actions$"}},
	},
	{
		name: "actions/a tag that narrows nothing down", file: actionsSQL,
		old:   "@tag::text = ANY (a.tags)",
		new:   "@tag::text <> ''",
		tests: []tests{{"tests/postgres", pool + "^Actions$"}},
	},
	{
		name: "actions/an update that leaves an argument too many", file: actionsSQL,
		old:   "d.position >= cardinality(@argument_names::text[])",
		new:   "d.position > cardinality(@argument_names::text[])",
		tests: []tests{{"tests/postgres", pool + "^Actions$"}},
	},
}
