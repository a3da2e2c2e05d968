package main

// Sessions and their usage.
var sessionMutants = []mutant{
	{"sessions/idle, but held", query("SessionCountIdle", always("own.owner")), inPostgres("TestIdleSessions")},
	{"sessions/created twice", query("SessionCreate", dropConflict()), inPool("(Keys|Create|Concurrency)")},
	{"sessions/updated at another version", query("SessionUpdate.updated", always("l.current")), inPool("Update/IfVersion")},
	{"sessions/a patch of what others change", query("SessionMetadataLock", dropLock()), inPool("Concurrency/Patch")},
	{"sessions/deleted beside an append", query("SessionLockWhole", dropLock()), inPool("Concurrency/AppendAndDelete")},
	{"sessions/deleted together, and one is waited for", query("SessionLockFree.locked", dropSkip("c")), inPostgres("TestDeletionTogetherWaitsForNobody")},
	{"sessions/deleted beside a hold", query("HoldGate", dropLock()), inPool("DeletionRaces/HoldAndDelete")},
	{"sessions/deleted although held", in("internal/rules", "Deletable", dropCase("held")), inMemory("Deletion/Hold")},
	{"sessions/deleted although active", in("internal/rules", "Deletable", dropCase("activeAt.Before")), inMemory("Deletion/DeleteIf")},
	{"sessions/deleted although appended to", in("internal/rules", "Deletable", dropCase("conditions.Messages")), inMemory("Deletion/DeleteIf")},
	{"sessions/deleted although in use", query("SessionDelete.fit", always("n.in_use")), inPostgres("TestDryRun")},
	{"sessions/in memory, deleted although in use", in("internal/rules", "Deletable", dropCase("inUse")), inMemory("Deletion/InUse")},
	{"sessions/removed although restored", function("session_remove", never("session_counters")), inPostgres("TestRestoreBesideRemoval")},
	{"sessions/removed although a fork has it", function("session_remove", never("needed.low")), inPostgres("TestRemovalOfALongSession")},
	{"sessions/usage over the budget", in("internal/rules", "addUsageWithin", never("add.Cost")), inPool("Usage")},
	{"sessions/an owner that is empty by mistake", in("internal/rules", "checkListOwner", never("f.Owner")), inMemory("Values/InvalidSessions")},
}

// State: versions, conditions, and the locks of scopes.
var stateMutants = []mutant{
	{"state/scopes that are not locked", query("StateLockShared", doNothing()), inPool("StateRaces")},
	{"state/a scope's condition that is not checked", in("internal/rules", "StateChanges.Apply", neverAll("scope.Conflict")), inPool("State")},
	{"state/a sum that overflows", in("internal/rules", "incremented", dropCase("tooFar")), inPool("State")},
	{"state/an increment beyond its bound", in("internal/rules", "incremented", neverAll("passed")), inPool("State")},
	{"state/a fold of usage that loses a count", in("usage", "move", dropField("IfVersion")), test("usage", "TestInMemory/FoldMeanwhile")},
	{"state/the own state of no session", in(inWrite, "InTx", neverAll("errNoScope")), inPostgres("TestConformanceOfBind/State")},
	{"state/a deletion that does not wait for changes", query("StateOfSessionLock", dropLock()), inPool("StateRaces")},
}
