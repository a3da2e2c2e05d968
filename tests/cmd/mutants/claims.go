package main

const (
	claimsSQL       = "queries/claims.sql"
	claimsMigration = "schema/migrations/0016_claims.sql"
	waitersGo       = "repo/postgres/internal/follow/waiters.go"
	claimTests      = "^Claims$"
)

var claimMutants = []mutant{
	{
		name: "claims/a lease whose turn somebody has", file: claimsSQL,
		old:   "WHERE pg_try_advisory_xact_lock(hashtextextended(k.name, hashtext('plan')))\n        AND CASE",
		new:   "WHERE CASE",
		tests: []tests{{"tests/postgres", "^TestClaimSkipsWhatIsLocked$"}},
	},
	{
		name: "claims/a held lease that others wait behind", file: claimsSQL,
		old:   "            WHERE h.name = k.name AND h.kind = 'plan' AND h.expires_at <= clock_timestamp()\n",
		new:   "            WHERE h.name = k.name AND h.kind = 'plan'\n",
		tests: []tests{{"tests/postgres", pool + claimTests}},
	},
	{
		name: "claims/no turns of namespaces", file: claimsSQL,
		old:   "ORDER BY candidates.turn, candidates.place,",
		new:   "ORDER BY candidates.state, candidates.place,",
		tests: []tests{{"tests/postgres", pool + claimTests}},
	},
	{
		name: "claims/the first namespace always first", file: "repo/postgres/claims.go",
		old:   "func(i, j int) { namespaces[i], namespaces[j] = namespaces[j], namespaces[i] }",
		new:   "func(int, int) {}",
		tests: []tests{{"tests/postgres", pool + claimTests}},
	},
	{
		name: "claims/an expiry that is not looked at again", file: claimsSQL,
		old:   "WHERE k.held_until IS NULL AND k.attempt >= k.max_attempts",
		new:   "WHERE k.attempt >= k.max_attempts",
		tests: []tests{{"tests/postgres", "^TestClaimLooksAgainWhenTheLeaseEnds$"}},
	},
	{
		name: "claims/looked at again and again", file: claimsSQL,
		old:   "SET check_at = (SELECT k.held_until FROM looked k WHERE k.plan_id = c.plan_id)",
		new:   "SET check_at = c.check_at",
		tests: []tests{{"tests/postgres", "^TestClaimLooksAgainWhenTheLeaseEnds$"}},
	},
	{
		name: "claims/attempts without end", file: claimsSQL,
		old:   "WHERE k.held_until IS NULL AND k.attempt < k.max_attempts",
		new:   "WHERE k.held_until IS NULL",
		tests: []tests{{"tests/postgres", pool + claimTests}},
	},
	{
		name: "claims/an expiry that is one version", file: claimsSQL,
		old:   "version = k.version + CASE k.state WHEN 'queued' THEN 1 ELSE 2 END",
		new:   "version = k.version + 1",
		tests: []tests{{"tests/postgres", pool + claimTests}},
	},
	{
		name: "claims/leases that pile up", file: claimsMigration,
		old:   "            DELETE FROM {schema}.leases WHERE name = {schema}.plan_lease_name(NEW.id) AND kind = 'plan' AND owner = claimant;\n",
		new:   "",
		tests: []tests{{"tests/postgres", "^TestClaimLeavesNothingBehind$"}},
	},
	{
		name: "claims/a release that nobody sees", file: "schema/migrations/0017_queued_plans.sql",
		old:   "SET check_at = '-infinity' WHERE",
		new:   "SET check_at = check_at WHERE",
		tests: []tests{{"tests/postgres", pool + claimTests}},
	},
	{
		name: "claims/a plan that another owner gets", file: "repo/postgres/claims_group.go",
		old:   "one := whose[row.Place-1]",
		new:   "one := whose[0]",
		tests: []tests{{"tests/postgres", "^TestClaimsShareStatements$"}},
	},
	{
		name: "claims/a statement for each claim", file: "repo/postgres/claims_group.go",
		old:   "json.Marshal([]any{claim.Namespaces,",
		new:   "json.Marshal([]any{repo.NewID(), claim.Namespaces,",
		tests: []tests{{"tests/postgres", "^TestClaimsShareStatements$"}},
	},
	{
		name: "claims/planned for small tables", file: "repo/postgres/claims.go",
		old:   "func(q db.DBTX) error { return queries.PlanByIndex(ctx, q) },",
		new:   "func(q db.DBTX) error { _, err := q.Exec(ctx, \"SELECT 1\"); return err },",
		tests: []tests{{"tests/postgres", "^TestClaimPlannedWhenNothingWasQueued$"}},
	},
	{
		name: "claims/planned each time", file: claimsSQL,
		old:   "LIMIT cardinality((SELECT @owners::text[]))",
		new:   "LIMIT cardinality(@owners::text[])",
		tests: []tests{{"tests/postgres", "^TestClaimInTransactionIsPlannedOnce$"}},
	},
	{
		name: "claims/planned anew for a longer queue", file: claimsSQL,
		old:   ", set_config('plan_cache_mode', 'force_generic_plan', true)",
		new:   "",
		tests: []tests{{"tests/postgres", "^TestClaimIsPlannedOnce$"}},
	},
	{
		name: "claims/an expiry that anybody makes", file: "repo/rules/lifecycle.go",
		old:   "known := slices.Contains(Transitions(), transition)",
		new:   "_, known := lifecycle[transition]",
		tests: []tests{{"repo/rules", "^TestExpired$"}},
	},
	{
		name: "claims/a use that is not repeated", file: "repo/rules/use.go",
		old:   "stored.Attempt < u.Attempt",
		new:   "stored.Attempt != u.Attempt",
		tests: []tests{{"repo/memory", "^TestConformance$/" + claimTests}},
	},
	{
		name: "claims/a transaction in memory that wakes nobody", file: "repo/memory/tables.go",
		old:   "	t.base.wakeClaims()\n",
		new:   "",
		tests: []tests{{"repo/memory", "^TestConformance$/^ClaimRaces$"}},
	},
	{
		name: "claims/one woken by a hint about many", file: waitersGo,
		old:   "			wakes = 2\n",
		new:   "			wakes = 0\n",
		tests: []tests{{"repo/postgres/internal/follow", "^TestWaiters"}},
	},
	{
		name: "claims/a hint that is lost meanwhile", file: waitersGo,
		old:   "c.missed = c.looking > 0",
		new:   "c.missed = false",
		tests: []tests{{"repo/postgres/internal/follow", "^TestWaiters"}},
	},
	{
		name: "claims/a hint that is not passed on", file: waitersGo,
		old:   "wakes := 1 // a look",
		new:   "wakes := 0 // a look",
		tests: []tests{{"repo/postgres/internal/follow", "^TestWaiters"}},
	},
}
