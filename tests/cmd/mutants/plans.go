package main

const (
	plansSQL = "queries/plans.sql"
	// pool matches the conformance suite on a pool. Names of its parts are appended.
	pool = "^TestConformanceOfPool$/"
)

var planMutants = []mutant{
	{
		name: "plans/a transition without its version", file: plansSQL,
		old:   "AND p.state = @from_state AND p.version = @version\n        AND coalesce",
		new:   "AND p.state = @from_state AND @version::bigint IS NOT NULL\n        AND coalesce",
		tests: []tests{{"tests/plans", "^TestStaleVersion$"}},
	},
	{
		name: "plans/a transition without its stage", file: plansSQL,
		old:        "WHERE p.id = @id AND p.phase = @from_phase AND p.state = @from_state AND p.version = @version\n        AND coalesce",
		new:        "WHERE p.id = @id AND @from_phase::text <> @from_state::text AND p.version = @version\n        AND coalesce",
		tests:      []tests{{"tests/plans", "^TestStaleVersion$"}, {"tests/postgres", pool + "^(PlanRaces|Lifecycle)$"}},
		equivalent: "every transition changes the version, so each version has one stage",
	},
	{
		name: "plans/cancelled without its descendants", file: plansSQL,
		old:   "FROM tree t JOIN family f ON f.parent_id = t.id",
		new:   "FROM tree t JOIN family f ON f.parent_id = t.id AND false",
		tests: []tests{{"tests/postgres", pool + "^(PlanRaces|Lifecycle|Plans)$"}},
	},
	{
		name: "plans/cancelled without checking its stage", file: plansSQL,
		old:   "AND EXISTS (SELECT FROM locked o WHERE o.is_target)",
		new:   "AND true",
		tests: []tests{{"tests/plans", "^TestStaleVersion$"}},
	},
	{
		name: "plans/cancelled after it was applied", file: plansSQL,
		old:   "l.state NOT IN ('applied', 'cancelled')",
		new:   "l.state NOT IN ('cancelled')",
		tests: []tests{{"tests/postgres", pool + "^(PlanRaces|Lifecycle|Plans)$"}},
	},
	{
		name: "plans/history backwards", file: plansSQL,
		old:   "AND h.version >= @from_version\nORDER BY h.version",
		new:   "AND h.version >= @from_version\nORDER BY h.version DESC",
		tests: []tests{{"tests/postgres", pool + "^Lifecycle$"}},
	},
	{
		name: "plans/the history begins after the version", file: plansSQL,
		old:   "AND h.version >= @from_version\nORDER BY h.version",
		new:   "AND h.version > @from_version\nORDER BY h.version",
		tests: []tests{{"tests/postgres", pool + "^Lifecycle$"}},
	},
	{
		name: "plans/progress of a plan that is not processing", file: plansSQL,
		old:   "WHERE p.id = @id AND p.state = 'processing'",
		new:   "WHERE p.id = @id",
		tests: []tests{{"tests/postgres", pool + "^Lifecycle$"}},
	},
	{
		name: "plans/the action's version is not checked", file: plansSQL,
		old:   "WHERE a.name = @action_name AND a.version = @action_version AND a.state = 'available' AND a.reusable",
		new:   "WHERE a.name = @action_name AND a.state = 'available' AND a.reusable",
		tests: []tests{{inPostgres, "^TestUseOfAnActionThatChanges$"}},
	},
	{
		name: "plans/listed twice for a project that is linked twice", file: plansSQL,
		old:   "AND l.position = (",
		new:   "AND 0 <= (",
		tests: []tests{{"tests/postgres", pool + "^(Use|Plans)$"}},
	},
	{
		name: "plans/listed oldest first", file: plansSQL,
		old:   "d.state = sqlc.narg(state)::text)\nORDER BY d.id DESC",
		new:   "d.state = sqlc.narg(state)::text)\nORDER BY d.id",
		tests: []tests{{"tests/postgres", pool + "^Plans$"}},
	},
}
