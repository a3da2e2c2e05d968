package main

const (
	fencesGo   = "repo/postgres/fences.go"
	fenceRaces = pool + "^(Fences|FenceRaces)$"
)

var fenceMutants = []mutant{
	{
		name: "fences/one message under any token", file: "queries/messages.sql",
		old:   "    ) AND coalesce(nullif(@fence::bigint, 0) = c.fence, NOT c.fenced_only)",
		new:   "    ) AND coalesce(@fence::bigint = c.fence, true) IS NOT NULL",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/plain appends under any token", file: "queries/messages.sql",
		old:   "            nullif((CAST(@fences AS bigint[]))[array_position(CAST(@session_ids AS uuid[]), c.session_id)], 0) = c.fence,",
		new:   "            nullif((CAST(@fences AS bigint[]))[array_position(CAST(@session_ids AS uuid[]), c.session_id)], 0) > 0,",
		tests: []tests{{inPostgres, fenceRaces}, {inPostgres, "^TestFencedGroups$"}},
	},
	{
		name: "fences/an append that waits under any token", file: "queries/messages.sql",
		old:   "        AND NOT l.known AND l.admitted\n        AND l.next_sequence = coalesce(sqlc",
		new:   "        AND NOT l.known\n        AND l.next_sequence = coalesce(sqlc",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/a group under any token", file: "queries/messages.sql",
		old:   "        AND NOT l.known AND l.admitted\n        AND l.next_sequence = coalesce(l.expected",
		new:   "        AND NOT l.known\n        AND l.next_sequence = coalesce(l.expected",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/appends joined whatever their tokens", file: "repo/postgres/group.go",
		old:   "a.single || a.fence != last.fence ||",
		new:   "a.single ||",
		tests: []tests{{inPostgres, fenceRaces}, {inPostgres, "^TestFencedGroups$"}},
	},
	{
		name: "fences/turns under any token", file: "repo/rules/turn.go",
		old:   "	if err := v.Fence.Check(t.Fence); err != nil {",
		new:   "	if err := v.Fence.Check(t.Fence); err != nil && v.Next < 0 {",
		tests: []tests{{"repo/memory", "^TestConformance$/^Fences$"}},
	},
	{
		name: "fences/appends beside turns under any token", file: "repo/postgres/turn_ledger.go",
		old:   "Check(a.fence); a.err != nil {",
		new:   "Check(a.fence); a.err != nil && counter.next < 0 {",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/a session that is not told", file: fencesGo,
		old:   "	p.add(tell)\n",
		new:   "	_ = tell\n",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/told with the snapshot of the lock", file: fencesGo,
		old:   "	p.add(lock)\n",
		new:   "	p.add(lock)\n	p.add(tell)\n	tell = lock\n",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/the lease before the session", file: fencesGo,
		old:   "	p.add(lock)\n",
		new:   "	_ = lock\n",
		tests: []tests{{inPostgres, "^TestFenceLocksTheSessionFirst$"}},
	},
	{
		name: "fences/caught up with a lease that somebody takes", file: "queries/fences.sql",
		old:   "    WHERE l.name = @name::text AND l.kind = 'session' AND l.token > k.fence\n    FOR SHARE OF l\n",
		new:   "    WHERE l.name = @name::text AND l.kind = 'session' AND l.token > k.fence\n",
		tests: []tests{{inPostgres, "^TestFenceOfASessionMadeMeanwhile$"}},
	},
	{
		name: "fences/a transition under any token", file: plansSQL,
		old:   "AND p.version = @version\n        AND coalesce(nullif(@fence::bigint, 0) = p.fence, true)",
		new:   "AND p.version = @version\n        AND coalesce(nullif(@fence::bigint, 0) > 0, true)",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/a progress under any token", file: plansSQL,
		old:   "AND p.state = 'processing' AND coalesce(nullif(@fence::bigint, 0) = p.fence, true)",
		new:   "AND p.state = 'processing' AND coalesce(nullif(@fence::bigint, 0) > 0, true)",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/cancelled under any token", file: "repo/postgres/plan_move.go",
		old:   "		if err := admitPlan(ctx, q, id, cause.Fence); err != nil {",
		new:   "		if err := admitPlan(ctx, q, id, 0); err != nil {",
		tests: []tests{{inPostgres, fenceRaces}},
	},
	{
		name: "fences/a policy that memory does not keep", file: "repo/memory/append.go",
		old:   "t.fenceOf(r, 0).Check(0); err != nil {",
		new:   "t.fenceOf(r, 0).Check(0); err != nil && r.fence < 0 {",
		tests: []tests{{"repo/memory", "^TestConformance$/^Fences$"}},
	},
}
