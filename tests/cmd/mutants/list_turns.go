package main

// Turns: what is decided between the locks and the writes.
var turnMutants = []mutant{
	{"turns/a session that a group does not lock", query("TurnLockCounters", dropLock("SKIP")), inPostgres("TestNothingChangesBetweenReadAndWrite")},
	{"turns/a session that a transaction does not lock", query("TurnLockCounters", dropWait()), inPostgres("TestNothingChangesBetweenReadAndWrite")},
	{"turns/a held session is a missing one", query("TurnLockCounters", never("there")), inPostgres("TestHeldSessionStopsNoOtherTurn")},
	{"turns/usage that a group does not lock", query("TurnLockUsages", dropLock()), inPostgres("TestNothingChangesBetweenReadAndWrite")},
	{"turns/scopes that a transaction does not lock", query("TurnLockScopes", dropLock()), inPostgres("TestTurnsOfSeveralProcesses")},
	{"turns/a turn that does not meet those before it", in(inRepo, "ledger.decideMore", dropCall("l.values")), inPool("(Turns|TurnRaces)")},
	{"turns/a sequence that nobody compares", in(inRepo, "ledger.decide", never("a.expected", "nil")), inPool("TurnRaces/WithAppendsAt")},
	{"turns/a sequence that is not taken back", in(inRepo, "ledger.accept", dropCall("counter")), inPool("(Turns|TurnRaces)/TogetherOrNot")},
	{"turns/a refused part that others keep", in(inRepo, "ledger.takeBack", dropCall("undo")), inPool("(Turns|TurnRaces)/TogetherOrNot")},
	{"turns/a part with another message under its id", in(inRepo, "ledger.decideWhole", never("a.mayConflict")), inPool("Turns/TogetherOrNot")},
	{"turns/several sessions, held in the queue of one", in(inRepo, "writer.settle", neverAll("t.Item.spans")), inPostgres("TestHeldRowStopsNoOtherOfTurnsTogether")},
	{"turns/a digest without values", in("repo/rules", "Turn.digest", dropCall("c.Value")), inMemory("Turns")},
	{"turns/any turn with the id is this one", in("repo/rules", "Turn.StoredTurn", always("bytes.Equal")), inMemory("Turns")},
}
