package main

// What the schema itself refuses, of any writer.
var schemaMutants = []mutant{
	{"schema/a usage counted twice", dropConstraint("session_usages_pkey"), inPostgres("TestConstraints")},
	{"schema/a cost above the budget", dropRule("sessions_cost_within_budget_check"), inPostgres("TestConstraints")},
	{"schema/a stage that is none", dropRule("plans_stage_check"), inPostgres("TestConstraints")},
	{"schema/a leaf that hides nothing", dropConstraint("audit_leaves_hidden_check"), inPostgres("TestConstraints")},
	{"schema/a list by activity that is exact to the minute", query("SessionListActive.page", always("n.coarse")), inPool("Activity")},
	{"schema/activity goes back", executed("session_activity_move", always("active_at")), inPool("Activity")},
}

// Migrations: one migrator at a time, in order, and no data destroyed.
var migrationMutants = []mutant{
	{"migrations/without the lock", in("schema", "locker.SessionLock", always("locked")), test("tests/migrate", "(TestLockTimeout|TestMigratorsInOneProcessApplyEachVersionOnce)")},
	{"migrations/committed without the lock", in("schema", "versionTable.checkLock", never("held")), test("tests/migrate", "TestVersionIsNotCommittedWithoutTheLock")},
	{"migrations/the versions are not read again under the lock", in("schema", "Migrator.Run", dropAssign("m.read")), test("tests/migrate", "(TestMigratorsInOneProcessApplyEachVersionOnce|TestWaitingMigratorTakesOverFromAKilledOne)")},
	{"migrations/a newer database that refuses the library", in("schema", "checkKnown", never("ahead.Oldest")), test("schema", "TestPlan.*")},
	{"migrations/a gap", in("schema", "plan", never("checkGap")), test("schema", "TestPlan.*")},
	{"migrations/reverted oldest first", in("schema", "plan", dropCall("slices.Reverse")), test("schema", "TestPlan.*")},
	{"migrations/a read that could change something", in("schema", "readOnly", dropField("ReadOnly")), test("tests/migrate", "TestReadingIsReadOnly")},
	{"migrations/data destroyed without permission", in("schema", "source.prepare", dropCall("delete")), test("tests/migrate", "TestDownWithLiveDataRefuses")},
	{"migrations/tables behind the schema that was asked for", in("internal/pgsettings", "Place.CheckSchema", never("p.versions", "name")), inPostgres("TestStoresInSchemasAreApart")},
}
