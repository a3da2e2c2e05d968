package main

const migrate = "tests/migrate"

var migratorMutants = []mutant{
	{
		name: "migrator/ahead, whatever it allows", file: "schema/plan.go",
		old:   "		if ahead.Oldest > latest {\n			return ahead\n		}\n",
		new:   "",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/ahead, and refused for that", file: "schema/plan.go",
		old:   "		if ahead.Oldest > latest {",
		new:   "		if ahead.Oldest >= latest {",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/a newer version reverted", file: "schema/plan.go",
		old:   "		if direction == DirectionDown {\n			ahead.Revert = true\n			return ahead\n		}\n",
		new:   "",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/a version that it does not know", file: "schema/plan.go",
		old:   "		if row.version < latest && !slices.ContainsFunc(",
		new:   "		if row.version < 0 && !slices.ContainsFunc(",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/the latest word counts alone", file: "schema/plan.go",
		old:   "		oldest = max(oldest, row.oldestLibrary)",
		new:   "		oldest = row.oldestLibrary",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/reverted oldest first", file: "schema/plan.go",
		old:   "return cmp.Compare(b.Version, a.Version)",
		new:   "return cmp.Compare(a.Version, b.Version)",
		tests: []tests{{"schema", "^TestPlan$"}},
	},
	{
		name: "migrator/over a gap", file: "schema/plan.go",
		old:   "	} else if err := checkGap(migrations, applied); err != nil {\n		return nil, err\n	}",
		new:   "	}",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/a name that is cut off", file: "schema/grants.go",
		old:   "		case len(name) > maxNameBytes:",
		new:   "		case len(name) > maxNameBytes+1:",
		tests: []tests{{"schema", "^TestGrantsRefusesNames$"}},
	},
	{
		name: "migrator/one role of two names", file: "schema/grants.go",
		old:   "		taken[name] = true\n",
		new:   "",
		tests: []tests{{"schema", "^TestGrantsRefusesNames$"}},
	},
	{
		name: "migrator/without the lock", file: "schema/lock.go",
		old:   "		if locked {\n			return l.prepare(ctx, conn)",
		new:   "		if locked || true {\n			return l.prepare(ctx, conn)",
		tests: []tests{{migrate, "^(TestLockTimeout|TestMigratorsInOneProcessApplyEachVersionOnce)$"}},
	},
	{
		name: "migrator/committed without the lock", file: "schema/versions.go",
		old:   "	if !held {\n		return ErrPooled",
		new:   "	if false {\n		return ErrPooled",
		tests: []tests{{migrate, "^TestVersionIsNotCommittedWithoutTheLock$"}},
	},
	{
		name: "migrator/not looked again under the lock", file: "schema/run.go",
		old:   "	steps, err = m.read(ctx, db, target)\n	if err != nil || len(steps) == 0 {\n		return nil, err\n	}\n	provider",
		new:   "	provider",
		tests: []tests{{migrate, "^(TestMigratorsInOneProcessApplyEachVersionOnce|TestWaitingMigratorTakesOverFromAKilledOne)$"}},
	},
	{
		name: "migrator/waits for tables as long as they are kept", file: "schema/lock.go",
		old:   "fmt.Sprintf(\"%dms\", l.tables.Milliseconds())",
		new:   "\"0\"",
		tests: []tests{{migrate, "^(TestWaitingVersionLetsWritersPass|TestBusyTablesEndTheRun)$"}},
	},
	{
		name: "migrator/gives up the first time", file: "schema/run.go",
		old:   "		if !isBusy(err) || ctx.Err() != nil {",
		new:   "		if true {",
		tests: []tests{{migrate, "^(TestWaitingVersionLetsWritersPass|TestBusyTablesEndTheRun)$"}},
	},
	{
		name: "migrator/under a service's timeouts", file: "schema/lock.go",
		old:   "conn.ExecContext(ctx, ownSettingsSQL)",
		new:   "conn.ExecContext(ctx, \"SELECT 1 FROM (SELECT 1) AS s WHERE false\")",
		tests: []tests{{migrate, "^TestMigratorsOwnSettings$"}},
	},
	{
		name: "migrator/version 3 reverted with its holds", file: "schema/guard.go",
		old:   "	if err == nil && table != \"\" {",
		new:   "	if err != nil && table != \"\" {",
		tests: []tests{{"tests/audit", "^TestDownRefusesHoldsAndCheckpoints$"}},
	},
	{
		name: "migrator/a path that leads elsewhere", file: "schema/settings.go",
		old:   "	case first != current:\n",
		new:   "	case first == \"\" && current != \"\":\n",
		tests: []tests{{migrate, "^(TestMigratorsSettings|TestOpenWithASearchPathThatLeadsNowhere)$"}},
	},
	{
		name: "migrator/a read that could change something", file: "schema/connect.go",
		old:   "ReadOnly: true, Isolation",
		new:   "Isolation",
		tests: []tests{{migrate, "^TestReadingIsReadOnly$"}},
	},
	{
		name: "migrator/data loss that nobody allowed", file: "schema/connect.go",
		old:   "	delete(s.config.RuntimeParams, allowDataLossSetting)\n",
		new:   "",
		tests: []tests{{migrate, "^TestDownWithLiveDataRefuses$"}},
	},
}
