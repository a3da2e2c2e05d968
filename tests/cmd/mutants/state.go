package main

const (
	stateSQL   = "queries/state.sql"
	stateRules = "repo/rules/state.go"
	stateTests = "^State$"
)

var stateMutants = []mutant{
	{
		name: "state/scopes that are not locked", file: stateSQL,
		old:   "ON CONFLICT (id) DO UPDATE SET version = state_scopes.version WHERE false;",
		new:   "ON CONFLICT (id) DO NOTHING;",
		tests: []tests{{"tests/postgres", pool + "^StateRaces$"}},
	},
	{
		name: "state/a version for each key", file: stateSQL,
		old:   "ELSE s.version + 1 END,",
		new:   "ELSE s.version + (SELECT count(*) FROM changes) END,",
		tests: []tests{{"tests/postgres", pool + stateTests}},
	},
	{
		name: "state/a condition of a key that is not checked", file: stateSQL,
		old:   "WHERE c.expected >= 0 AND c.expected <> c.version\n            OR c.op",
		new:   "WHERE c.op",
		tests: []tests{{"tests/postgres", pool + stateTests}},
	},
	{
		name: "state/a condition of a scope that is not checked", file: stateSQL,
		old:   "s.name <> s.stored_name OR s.expected >= 0 AND s.expected <> s.version",
		new:   "s.name <> s.stored_name",
		tests: []tests{{"tests/postgres", pool + stateTests}},
	},
	{
		name: "state/another scope with the same id", file: stateSQL,
		old:   "WHERE s.version IS NULL OR s.name <> s.stored_name OR",
		new:   "WHERE s.version IS NULL OR",
		tests: []tests{{"tests/postgres", pool + stateTests}},
	},
	{
		name: "state/scopes that a failed call leaves", file: stateSQL,
		old:        "WHERE s.id = w.id AND w.version = 0 AND (NOT w.changed OR EXISTS (SELECT FROM faults))",
		new:        "WHERE s.id = w.id AND w.version = 0 AND NOT w.changed",
		tests:      []tests{{"tests/postgres", pool + stateTests}},
		equivalent: "a scope at version 0 is the same to everybody as none; deleting it keeps the table small",
	},
	{
		name: "state/a sum that overflows", file: stateSQL,
		old:   "AND c.number + c.by BETWEEN -9223372036854775808 AND 9223372036854775807",
		new:   "AND true",
		tests: []tests{{"tests/postgres", pool + stateTests}},
	},
	{
		name: "state/an erased scope whose versions begin anew", file: stateSQL,
		old:   "THEN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint ELSE",
		new:   "THEN 1 ELSE",
		tests: []tests{{"tests/postgres", pool + stateTests}},
	},
	{
		name: "state/a deletion that does not wait for changes", file: "repo/postgres/sessions.go",
		old:   "return queries.StateOfSessionLock(ctx, q, toUUID(id))",
		new:   "return queries.StateOfSessionLock(ctx, q, toUUID(repo.NewID()))",
		tests: []tests{{"tests/postgres", pool + "^StateRaces$"}},
	},
	{
		name: "state/a read without a bound of its bytes", file: stateSQL,
		old:   "sum(f.bytes) OVER (ORDER BY f.place, f.key) AS total",
		new:   "f.bytes AS total",
		tests: []tests{{"tests/postgres", pool + stateTests}},
	},
	{
		name: "state/a prefix that ends too early", file: stateRules,
		old:   "		last = 0xE000 // surrogates are not characters",
		new:   "		last = 0xFFFD",
		tests: []tests{{"tests/postgres", pool + stateTests}},
	},
}
