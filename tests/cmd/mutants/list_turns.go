package main

// Turns: what is decided between the locks and the writes.
var turnMutants = []mutant{
	{"turns/a session that a group does not lock", query("TurnLockCounters", dropLock("n.hint")), inPostgres("TestNothingChangesBetweenReadAndWrite")},
	{"turns/a held session is a missing one", query("TurnLockCounters", never("there")), inPostgres("TestHeldSessionStopsNoOtherTurn")},
	{"turns/usage that a group does not lock", query("TurnLockUsages", dropLock()), inPostgres("TestUpdatedSessionsStopNoOtherUsage")},
	{"turns/a sequence that is not compared", in("internal/rules", "Turn.Add", never("t.Expected", "rows.Next")), inPool("TurnRaces/WithAppendsAt")},
	{"turns/an action that changes before the plan is made", query("TurnFindActions", dropLock()), inPostgres("TestActionOfATurnIsLocked")},
	{"turns/a plan by an older action", in(inWrite, "ledger.checkWork", never("version")), inPool("Turns")},
	{"turns/a plan that is not compared", in("internal/rules", "Turn.digest", dropCall("t.Action.String")), inMemory("Turns")},
	{"turns/the plan of a stored turn", in(inWrite, "ledger.writeTurns", swap("a.PlanID", "repo.ID{}")), inPool("Turns")},
	{"turns/a plan that is not announced", in(inRepo, "newsOfTurn", never("plan")), inPostgres("TestEndsAreAnnounced")},
	{"turns/another trace is another turn", in("internal/rules", "Turn.digest", swap("use.Trace", "_")), inMemory("Use/Trace")},
	{"turns/a digest without values", in("internal/rules", "Turn.digest", dropCall("c.Value")), inMemory("Turns")},
	{"turns/the contents of an existing turn", in("internal/rules", "Turn.Again", always("t.Existing")), inMemory("Turns")},
	{"turns/any turn with the id is this one", in("internal/rules", "Turn.Again", never("bytes.Equal", "t.Digest")), inMemory("Turns")},
}
