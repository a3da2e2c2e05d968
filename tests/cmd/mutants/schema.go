package main

const (
	plansSchema = "schema/migrations/0002_actions_and_plans.sql"
	auditSchema = "schema/migrations/0003_audit.sql"
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
		name: "schema/leaves that a replica's settings change", file: auditSchema,
		old:   "ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse;",
		new:   "",
		tests: []tests{{"tests/audit", "^TestImmutable$"}},
	},
}
