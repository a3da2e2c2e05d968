package main

const (
	movesSQL = "queries/plan_moves.sql"
	movesGo  = "repo/postgres/plan_moves.go"
)

var moveMutants = []mutant{
	{
		name: "moves/a group that waits for a plan", file: movesSQL,
		old:   "FOR NO KEY UPDATE SKIP LOCKED",
		new:   "FOR NO KEY UPDATE",
		tests: []tests{{"tests/postgres", "^TestTransitionsBesideALockedOne$/^plan$"}},
	},
	{
		name: "moves/a group that waits for a lease", file: movesSQL,
		old:   "h.kind = 'plan' FOR UPDATE SKIP LOCKED",
		new:   "h.kind = 'plan'",
		tests: []tests{{"tests/postgres", "^TestTransitionsBesideALockedOne$/^lease$"}},
	},
	{
		name: "moves/a group that waits for a claim", file: movesSQL,
		old:   "c.plan_id = p.id FOR UPDATE SKIP LOCKED",
		new:   "c.plan_id = p.id",
		tests: []tests{{"tests/postgres", "^TestTransitionsBesideALockedOne$/^claim$"}},
	},
	{
		name: "moves/a stale token", file: movesSQL,
		old:   "AND coalesce(nullif(a.fence, 0) = plans.fence, true)",
		new:   "",
		tests: []tests{{"tests/postgres", "^TestTransitionsShareStatements$"}},
	},
	{
		name: "moves/a plan that was moved meanwhile", file: movesSQL,
		old:   "AND plans.phase = a.from_phase AND plans.state = a.from_state AND plans.version = a.version",
		new:   "AND plans.phase = a.from_phase",
		tests: []tests{{"tests/plans", "^TestStaleVersion$"}},
	},
	{
		name: "moves/one by one", file: movesGo,
		old:   "GroupRows: 100,",
		new:   "GroupRows: 1,",
		tests: []tests{{"tests/postgres", "^TestTransitionsShareStatements$"}},
	},
	{
		name: "moves/made again after a lost answer", file: movesGo,
		old:   "			t.Item.err = err\n",
		new:   "			_ = t\n",
		tests: []tests{{"tests/postgres", "^TestLostAnswersOfTransitions$"}},
	},
	{
		name: "moves/planned each time", file: movesGo,
		old:   "func(q db.DBTX) error { return queries.PlanByIndex(b.Context(), q) },",
		new:   "func(q db.DBTX) error { _, err := q.Exec(b.Context(), \"SELECT 1\"); return err },",
		tests: []tests{{"tests/postgres", "^TestTransitionsArePlannedOnce$"}},
	},
	{
		name: "moves/a dead parent", file: movesGo,
		old:   " || rules.NeedsLiveParent(stored, m.transition)",
		new:   "",
		tests: []tests{{"tests/postgres", "^TestConformanceOfPool$/^(Lifecycle|PlanRaces)$"}},
	},
	{
		name: "moves/waiters that are not told", file: "repo/postgres/plan_move.go",
		old:   "	if one.moves {\n		p.tellQueued(one.moved)\n	}\n",
		new:   "",
		tests: []tests{{"tests/postgres", "^TestTransitionsWakeWorkers$"}},
	},
	{
		name: "moves/plans that share memory", file: movesGo,
		old:   "		plans[t.Item.id] = stored[1:]\n",
		new:   "",
		tests: []tests{{"tests/postgres", "^TestTransitionsShareNoMemory$"}},
	},
	{
		name: "moves/made for a caller that has given up", file: movesGo,
		old:   "return !t.Item.take() })",
		new:   "t.Item.take(); return false })",
		tests: []tests{{"tests/postgres", "^TestTransitionsGivenUpUnsent$"}},
	},
}
