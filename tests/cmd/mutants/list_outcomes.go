package main

const (
	inRepo   = "repo/postgres"
	inConn   = inRepo + "/internal/conn"
	inCommit = inRepo + "/internal/commit"
	inWrite  = inRepo + "/internal/write"
	inClaim  = inRepo + "/internal/claim"
)

// What the caller is told: whether something was written, was not, or may have been.
var outcomeMutants = []mutant{
	{"outcomes/an unanswered statement was not written", in(inConn, "Translate", swap("repo.ErrUnknownOutcome", "repo.ErrUnavailable")), test(inConn, "TestTranslate.*")},
	{"outcomes/an answer that ended the connection is final", in(inConn, "translatePgError", never("EndsConnection")), test(inConn, "TestTranslate.*")},
	{"outcomes/a deadlock is not passing", in(inConn, "translatePgError", dropCase("deadlockDetected")), test(inConn, "TestTranslate.*")},
	{"outcomes/surely not written, this time", in(inConn, "AfterDoubt", returns("err", "stored.Cause")), test(inConn, "TestErrorsAfterALostAnswer")},
	{"outcomes/a lost attempt is forgotten", in(inRepo, "pooled.writeByID", dropAssign("unsure")), inPostgres("TestLostCreation")},
	{"outcomes/not there yet is never", in(inRepo, "pooled.writeByID", never("repo.ErrNotFound")), inPostgres("TestFirstAttemptOfPlansArrivesLate")},
	{"outcomes/a lost creation is a conflict", in(inRepo, "pooled.writeByID", never("errExists")), inPostgres("TestLostCreation")},
	{"outcomes/found, not read, and told not to be written", in(inRepo, "pooled.unread", swap("true", "false")), inPostgres("TestReadFailsAfterWrite")},
	{"outcomes/an append at the server is withdrawn", in(inCommit, "Committer.Submit", swap("scheduler.ErrWithdrawn", "scheduler.ErrLeft")), inPostgres("TestWithdrawnAndUnknown")},
	{"outcomes/given up, and told to be in doubt", in(inCommit, "Committer.Submit", always("giveUp")), inPostgres("TestGivenUpBeforeSent")},
	{"outcomes/given up, and sent", in(inCommit, "Group.attempt", always("take")), inPostgres("TestGivenUpBeforeSent")},
	{"outcomes/the doubt of a group is forgotten", in(inCommit, "Group.attempt", dropCall("t.Item.Doubt")), inPostgres("TestLostAppendIsMadeAgain")},
	{"outcomes/not as many messages yet is never", in(inWrite, "Turn.refusal", never("conflict.Expected")), inPostgres("TestFirstAttemptArrivesLate")},
	{"outcomes/the doubt of turns is forgotten", in(inWrite, "writer.sendTurns", swap("accepted", "locked")), inPostgres("TestLostTurns")},
	{"outcomes/a lost transition is made again", in(inRepo, "newMover", swap("true", "false")), inPostgres("TestLostAnswersOfTransitions")},
	{"outcomes/a lease that was acquired late is another's", in(inRepo, "leases.acquire", swap("errNotMoved", "repo.ErrConflict", "conn.Answer")), inPostgres("TestLeaseAttemptArrivesLate")},
	{"outcomes/an unanswered commit is none", in(inRepo, "pooled.transaction", swap("conn.Committing", "conn.Reading")), inPostgres("TestUnansweredCommit")},
	{"outcomes/a transaction that a statement has ended", in(inRepo, "pooled.transaction", never("conn.HasEnded")), inPostgres("TestTxEndedByAStatement")},
	{"outcomes/a commit that failed behind a row", in(inConn, "lastRow.Scan", dropAssign("closed")), inPostgres("TestErrorsOfCommits")},
	{"outcomes/Close waits for no operation", in(inRepo, "gate.close", dropCall("g.inside.Wait")), inPostgres("TestCloseWaitsForATransaction")},
	{"outcomes/a read of several snapshots", in(inConn, "Alone.SendBatch", never("a.Snapshot")), inPool("Concurrency/Read")},
	{"outcomes/a read in a transaction that saw two moments", in(inRepo, "reading.attempt", never("reflect.DeepEqual")), inPool("Concurrency/Read")},
}
