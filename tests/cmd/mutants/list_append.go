package main

// Appends: one writer of a session at a time, each message once.
var appendMutants = []mutant{
	{"append/a group takes no lock", query("TurnLockCounters", dropLock("f.session_id")), inPostgres("TestLockedSessionIsSkipped")},
	{"append/a group waits for a lock", query("TurnLockCounters", dropSkip("f.session_id")), inPostgres("TestLockedSessionIsSkipped")},
	{"append/a group waits for a lock at a hint", query("TurnLockCounters", dropSkip("n.hint")), inPostgres("TestLockedSessionIsSkipped")},
	{"append/a lone message waits for a lock", query("MessageAppendOne", dropSkip("hint")), inPostgres("TestLockedSessionIsSkipped")},
	{"append/a hint to any row", query("TurnLockCounters", always("t.session_id", "n.session_id")), inPostgres("TestHintOfAnotherRow")},
	{"append/a lone hint to any row", query("MessageAppendOne", always("l.session_id", "hint")), inPostgres("TestHintOfAnotherRow")},
	{"append/a wrong hint is kept", in(inWrite, "writer.sendLone", dropCall("w.hints.Forget")), inPostgres("TestHintOfAnotherRow")},
	{"append/at any sequence", query("MessageAppendOne", always("expected")), inPool("Append")},
	{"append/a group at any sequence", in("internal/rules", "Turn.Add", never("t.Expected", "rows.Next")), inPostgres("TestGroupOfExpectedSequences")},
	{"append/one refused append fails its group", in(inCommit, "Group.Run", neverAll("conn.IsRejection", "tasks")), inPostgres("TestRejectedAppendFailsNoOther")},
	{"append/a message that a trigger leaves out", query("MessageCheck", never("stored", "missing")), inPostgres("TestRowsThatATriggerLeavesOut")},
	{"append/a counter that a trigger leaves out", query("MessageCheck", never("session_counters")), inPostgres("TestCounterThatATriggerLeavesOut")},
	{"append/a lone message that a trigger leaves out", query("MessageAppendOne", always("rows_left_out")), inPostgres("TestRowsThatATriggerLeavesOut")},
	{"append/a part that a trigger leaves out", query("StreamPartCheck", never("stored", "missing")), inPostgres("TestRowsThatATriggerLeavesOut")},
	{"append/a turn that a trigger leaves out", query("TurnInsert", never("stored", "cardinality")), inPostgres("TestRowsThatATriggerLeavesOut")},
	{"append/what a trigger says", in("repo/postgres/internal/conn", "withoutValues", dropCase("isWithin")), inPostgres("TestWhatATriggerSays")},
	{"append/what a trigger refuses is tried again", in("repo/postgres/internal/conn", "translatePgError", never("refusal", "nil")), inPostgres("TestWhatATriggerSays")},
	{"append/its messages stay when a session goes", dropTrigger("session_counters_delete"), inPostgres("TestDeletionLeavesNothing")},
	{"append/in memory, at any sequence", in("internal/rules", "Turn.Add", never("t.Expected", "rows.Next")), inMemory("Append")},
}
