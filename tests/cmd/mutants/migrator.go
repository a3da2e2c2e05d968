package main

const migrate = "tests/migrate"

var migratorMutants = []mutant{
	{
		name: "migrator/a newer database that refuses the library is accepted", file: "schema/plan.go",
		old:   "		if ahead.Oldest > latest {\n			return ahead\n		}\n",
		new:   "",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/a newer database that allows the library is refused", file: "schema/plan.go",
		old:   "		if ahead.Oldest > latest {",
		new:   "		if ahead.Oldest >= latest {",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/a newer version is reverted", file: "schema/plan.go",
		old:   "		if direction == DirectionDown {\n			ahead.Revert = true\n			return ahead\n		}\n",
		new:   "",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/an unknown version is accepted", file: "schema/plan.go",
		old:   "		if row.version < latest && !slices.ContainsFunc(",
		new:   "		if row.version < 0 && !slices.ContainsFunc(",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/only the newest declaration counts", file: "schema/plan.go",
		old:   "		oldest = max(oldest, row.oldestLibrary)",
		new:   "		oldest = row.oldestLibrary",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/reverted oldest first", file: "schema/plan.go",
		old:   "		slices.Reverse(steps)\n",
		new:   "",
		tests: []tests{{"schema", "^TestPlan$"}},
	},
	{
		name: "migrator/a gap is accepted", file: "schema/plan.go",
		old:   "	} else if err := checkGap(migrations, applied); err != nil {\n		return nil, err\n	}",
		new:   "	}",
		tests: []tests{{"schema", "^TestPlan"}},
	},
	{
		name: "migrator/a target without a step is accepted", file: "schema/plan.go",
		old:   "	if target.steps < 1 {",
		new:   "	if target.steps < 0 {",
		tests: []tests{{"schema", "^TestPlan$"}},
	},
	{
		name: "migrator/a name that PostgreSQL truncates", file: "schema/grants.go",
		old:   "		case len(name) > maxNameBytes:",
		new:   "		case len(name) > maxNameBytes+1:",
		tests: []tests{{"schema", "^TestGrantsRefusesNames$"}},
	},
	{
		name: "migrator/two roles with one name", file: "schema/grants.go",
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
		name: "migrator/the versions are not read again under the lock", file: "schema/run.go",
		old:   "	steps, err = m.read(ctx, db, target)\n	if err != nil || len(steps) == 0 {\n		return nil, err\n	}\n	if err := m.makeSchema",
		new:   "	if err := m.makeSchema",
		tests: []tests{{migrate, "^(TestMigratorsInOneProcessApplyEachVersionOnce|TestWaitingMigratorTakesOverFromAKilledOne)$"}},
	},
	{
		name: "migrator/waits for tables without a limit", file: "schema/lock.go",
		old:   "fmt.Sprintf(\"%dms\", l.tables.Milliseconds())",
		new:   "\"0\"",
		tests: []tests{{migrate, "^(TestWaitingVersionLetsWritersPass|TestBusyTablesEndTheRun)$"}},
	},
	{
		name: "migrator/gives up after one attempt", file: "schema/run.go",
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
		name: "migrator/a search_path whose first schema does not exist is accepted", file: "internal/pgsettings/place.go",
		old:   "	case first != p.current:\n",
		new:   "	case first == \"\" && p.current != \"\":\n",
		tests: []tests{{migrate, "^(TestMigratorsSettings|TestOpenWithASearchPathThatLeadsNowhere)$"}},
	},
	{
		name: "migrator/another schema than was asked for", file: "internal/pgsettings/place.go",
		old:   "	case first != name:\n",
		new:   "	case first == \"\":\n",
		tests: []tests{{"tests/postgres", "^TestOpenRefusesSchemas$"}},
	},
	{
		name: "migrator/tables behind the schema that was asked for", file: "internal/pgsettings/place.go",
		old:   "	case p.versions != \"\" && p.versions != name:\n",
		new:   "	case false:\n",
		tests: []tests{{"tests/postgres", "^TestStoresInSchemasAreApart$"}},
	},
	{
		name: "migrator/two spellings of one schema", file: "internal/pgsettings/place.go",
		old:   "			name = given\n",
		new:   "			return true\n",
		tests: []tests{{"tests/postgres", "^TestStoresInSchemasAreApart$"}},
	},
	{
		name: "migrator/a read that could change something", file: "schema/connect.go",
		old:   "ReadOnly: true, Isolation",
		new:   "Isolation",
		tests: []tests{{migrate, "^TestReadingIsReadOnly$"}},
	},
	{
		name: "migrator/data is destroyed without AllowDataLoss", file: "schema/connect.go",
		old:   "	delete(s.config.RuntimeParams, allowDataLossSetting)\n",
		new:   "",
		tests: []tests{{migrate, "^TestDownWithLiveDataRefuses$"}},
	},
}
