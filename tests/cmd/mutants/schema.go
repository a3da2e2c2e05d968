package main

const (
	plansSchema = "schema/migrations/0002_actions_and_plans.sql"
	auditSchema = "schema/migrations/0003_audit.sql"
	kindsSchema = "schema/migrations/0009_message_kinds.sql"
)

var schemaMutants = []mutant{
	{
		name: "schema/a version 0", file: plansSchema,
		old:   "CONSTRAINT plans_version_check CHECK (version >= 1)",
		new:   "CONSTRAINT plans_version_check CHECK (version >= -1000)",
		tests: []tests{{"tests/postgres", "^TestConstraints$"}},
	},
	{
		name: "schema/a fourth reversion", file: plansSchema,
		old:   "CHECK (reversion_count BETWEEN 0 AND 3)",
		new:   "CHECK (reversion_count BETWEEN 0 AND 4)",
		tests: []tests{{"tests/postgres", "^TestConstraints$"}},
	},
	{
		name: "schema/a child in another tree", file: plansSchema,
		old:   "FOREIGN KEY (root_id, parent_id) REFERENCES plans (root_id, id)",
		new:   "FOREIGN KEY (parent_id) REFERENCES plans (id)",
		tests: []tests{{"tests/postgres", "^TestConstraints$"}},
	},
	{
		name: "schema/a message that says nothing", file: kindsSchema,
		old:   "(content <> '' OR coalesce(",
		new:   "(content <> ' ' OR coalesce(",
		tests: []tests{{"tests/postgres", "^TestConstraints$"}},
	},
	{
		name: "schema/developers left to a version without them", file: kindsSchema,
		old:   "WHERE role = 'developer' OR content = ''",
		new:   "WHERE content = ''",
		tests: []tests{{"tests/migrate", "^TestDownOfMessageKinds$"}},
	},
	{
		name: "schema/sessions that nothing tells apart", file: "schema/migrations/0022_session_incarnations.sql",
		old:   "DEFAULT gen_random_uuid()",
		new:   "DEFAULT NULL",
		tests: []tests{{inPostgres, pool + "^(Stream|Follow)$"}},
	},
	{
		name: "schema/leaves that a replica's settings change", file: auditSchema,
		old:   "ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse;",
		new:   "",
		tests: []tests{{"tests/audit", "^TestImmutable$"}},
	},
}
