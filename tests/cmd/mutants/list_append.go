package main

// Appends: one writer of a session at a time, each message once.
var appendMutants = []mutant{
	{"append/a group takes no lock", query("MessageAppendMany", dropLock()), inPostgres("TestLockedSessionIsSkipped")},
	{"append/a group waits for a lock", query("MessageAppendMany", dropSkip()), inPostgres("TestLockedSessionIsSkipped")},
	{"append/a plain group waits for a lock", query("MessageAppendPlain", dropSkip()), inPostgres("TestLockedSessionIsSkipped")},
	{"append/a lone message takes no lock", query("MessageAppendOne", dropLock()), inPostgres("TestLockedSessionIsSkipped")},
	{"append/a waiting append takes no lock", query("MessageAppend", dropLock()), inPostgres("TestWaitingAppendSeesTheTransaction")},
	{"append/a held session is a missing one", query("MessageAppendMany", never("there")), inPostgres("TestLockedSessionIsSkipped")},
	{"append/at any sequence", query("MessageAppendMany.advanced", always("l.expected")), inPool("Append")},
	{"append/known by its id in another session", query("MessageAppendMany.known", always("m.session_id")), inPool("Append")},
	{"append/one refused append fails its group", in(inRepo, "group.run", neverAll("isRejection", "tasks")), inPostgres("TestRejectedAppendFailsNoOther")},
	{"append/an id that was stored during the wait", in(inRepo, "group.run", never("uniqueMessageID")), inPostgres("TestWaitingAppendSeesTheTransaction")},
	{"append/bound, and no lock before the look", in(inRepo, "bound.append", never("a.repeatable")), inPostgres("TestBoundAppendOfOneID")},
	{"append/in memory, at any sequence", in("repo/memory", "sessions.store", never("expected", "next")), inMemory("Append")},
}
