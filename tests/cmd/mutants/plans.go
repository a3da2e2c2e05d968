package main

const (
	plansSQL = "queries/plans.sql"
	// pool is the conformance suite on a pool; what follows names a part of it.
	pool = "^TestConformanceOfPool$/"
)

var planMutants = []mutant{
	{
		name: "plans/a transition without its version", file: plansSQL,
		old:   "AND p.state = @from_state AND p.version = @version\n    RETURNING p.id, p.version",
		new:   "AND p.state = @from_state AND @version::bigint IS NOT NULL\n    RETURNING p.id, p.version",
		tests: []tests{{"tests/plans", "^TestStaleVersion$"}},
	},
	{
		name: "plans/a transition without its stage", file: plansSQL,
		old:        "WHERE p.id = @id AND p.phase = @from_phase AND p.state = @from_state AND p.version = @version\n    RETURNING p.id, p.version",
		new:        "WHERE p.id = @id AND @from_phase::text <> @from_state::text AND p.version = @version\n    RETURNING p.id, p.version",
		tests:      []tests{{"tests/plans", "^TestStaleVersion$"}, {"tests/postgres", pool + "^(PlanRaces|Lifecycle)$"}},
		equivalent: "every transition makes another version, so that a version has one stage only",
	},
	{
		name: "plans/cancelled without its descendants", file: plansSQL,
		old:   "FROM tree t JOIN family f ON f.parent_id = t.id",
		new:   "FROM tree t JOIN family f ON f.parent_id = t.id AND false",
		tests: []tests{{"tests/postgres", pool + "^(PlanRaces|Lifecycle|Plans)$"}},
	},
	{
		name: "plans/cancelled wherever it is by now", file: plansSQL,
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
		name: "plans/history after a version, not from it", file: plansSQL,
		old:   "AND h.version >= @from_version\nORDER BY h.version",
		new:   "AND h.version > @from_version\nORDER BY h.version",
		tests: []tests{{"tests/postgres", pool + "^Lifecycle$"}},
	},
	{
		name: "plans/progress of one that is not processing", file: plansSQL,
		old:   "WHERE p.id = @id AND p.state = 'processing'",
		new:   "WHERE p.id = @id",
		tests: []tests{{"tests/postgres", pool + "^Lifecycle$"}},
	},
	{
		name: "plans/made of another version of its action", file: plansSQL,
		old:   "WHERE a.name = @action_name AND a.version = @action_version AND a.state = 'available' AND a.reusable",
		new:   "WHERE a.name = @action_name AND a.state = 'available' AND a.reusable",
		tests: []tests{{"tests/postgres", pool + "^PlanRaces$"}},
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
