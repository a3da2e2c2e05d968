package main

// History: what a message follows, what a transcript has, and what forks keep.
var historyMutants = []mutant{
	{"history/a message behind a switch follows the last one", query("MessageAppendOne", always("c.follows")), inPool("History/Switch")},
	{"history/a switch is for ever", query("MessageAdvance", dropSet("follows")), inPool("History/Switch")},
	{"history/a switch that is not stored", in(inWrite, "ledger.writeBranches", neverAll("sessions")), inPool("History/Switch")},
	{"history/a rewound session is as others", in(inWrite, "ledger.writeBranches", neverAll("l.branching")), inPool("History/Rewind")},
	{"history/a head that is not compared", in("internal/rules", "Turn.Add", never("t.Head", "rows.Head")), inMemory("History/Head")},
	{"history/after what there is not", in("internal/rules", "Turn.Add", never("rows.HasAfter")), inMemory("History/AfterInvalid")},
	{"history/a digest without what the turn follows", in("internal/rules", "Turn.digest", neverAll("t.After")), inMemory("History/AfterRepeated")},
	{"history/a transcript is all messages", query("MessageListFrom", never("session_branches")), inPool("History/Rewind")},
	{"history/a deletion beside a fork that it does not see", query("ForkLock", never("session_id")), inPostgres("TestForkBesideSnapshot")},
	{"history/a fork of what is not in the transcript", query("ForkFind", always("p.low")), inPool("History/(Fork|Model)")},
	{"history/a deletion takes what forks have", function("session_counters_delete", never("related")), inPool("History/DeleteForked")},
	{"history/a parent that lives loses what it has", function("session_prune", never("alive")), inPool("History/(DeleteForked|Model)")},
	{"history/what is left of a session is its own", query("MessageGet", never("c.session_id", "NOT")), inPool("History/DeleteForked")},
	{"redact/a hold that is not looked at", in("internal/rules", "Redactions", dropCase("m.Held")), inMemory("Redact/Held")},
	{"redact/what another namespace has", in("internal/rules", "Redactions", dropCase("m.Foreign")), inPostgres("TestRedactInAView")},
	{"redact/a retry that is compared with what is gone", in("internal/rules", "MessageConflict", never("stored.Kind")), inMemory("Redact/Retries")},
	{"redact/a digest by which it is guessed", query("RedactMessages", never("t.message_count")), inPostgres("TestRedactedIsNowhere")},
	{"redact/parts that stay", query("RedactParts", never("s.session_id")), inPostgres("TestRedactedIsNowhere")},
	{"history/an export without what a message follows", in("internal/export", "Reader.readNext", dropAssign("message.Follows")), inMemory("History/Model")},
}
