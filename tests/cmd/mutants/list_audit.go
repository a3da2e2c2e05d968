package main

const (
	inWriter = "audit"
	inSpool  = "audit/internal/spool"
)

// The audit trail: nothing is lost, and nothing is changed unnoticed.
var auditMutants = []mutant{
	{"audit/a pruned entry is recorded again", query("AuditRecord.given", never("l.entry_id")), inPool("AuditStore")},
	{"audit/an entry is recorded twice", query("AuditRecord", dropConflict()), inPostgres("TestEntryRecordedAtOnce")},
	{"audit/two sealers work at once", query("AuditSealLock", swap("'agentstore.audit_seal'", "gen_random_uuid()::text")), inPool("AuditStore/SealAlone")},
	{"audit/sealed in the wrong order", query("AuditUnsealed", reverse()), inPool("AuditStore")},
	{"audit/strays are not found", query("AuditStrays", swap("false", "true")), inAudit("TestTampering")},
	{"audit/lost entries are not found", query("AuditLost", never("audit_entries")), inAudit("TestTampering")},
	{"audit/a prune that any role can imitate", function("audit_refuse", always("current_user")), inAudit("TestImmutable")},
	{"audit/a prune of what is on hold", query("AuditPruneBatch.deleted", always("j.held")), inPool("AuditStore")},
	{"audit/a prune of what is not sealed", query("AuditPruneBatch.deleted", always("j.sealed")), test("tests/audit", "TestPrune.*")},
	{"audit/leaves that a replica's settings change", notAlways("audit_leaves_refuse"), inAudit("TestImmutable")},
	{"audit/hashes can be truncated", dropTrigger("audit_hashes_refuse"), inAudit("TestImmutable")},

	{"audit/an entry that was changed", in(inWriter, "verification.leaf", never("LeafHash", "leaf.Hash")), test(inWriter, "TestVerifyFindsTampering")},
	{"audit/a prune that does not cover it", in(inWriter, "uncovered", never("rules.Covers")), test(inWriter, "TestVerifyForgedPrunes")},
	{"audit/sealed after its prune", in(inWriter, "uncovered", never("leaf.Sequence")), test(inWriter, "TestVerifyForgedPrunes")},
	{"audit/another root", in(inWriter, "verification.grow", never("at.root")), test(inWriter, "(TestVerifyFindsTampering|TestVerifyAgainstHeldCheckpoint)")},
	{"audit/shorter than the checkpoint held", in(inWriter, "verification.compareHeld", never("v.held")), test(inWriter, "TestVerifyAgainstHeldCheckpoint")},
	{"audit/a prune that is not what was sealed", in(inWriter, "verification.provePrunes", never("tlog.CheckRecord")), test(inWriter, "TestVerifyForgedPrunes")},

	{"audit/accepted, and told to be none", in(inWriter, "Writer.RecordWait", returns("ctx.Err()", "repo.ErrUnknownOutcome")), test(inWriter, "TestRecordWaitContext")},
	{"audit/goes on behind a half that was not written", in(inWriter, "Writer.record", never("half")), test(inWriter, "(TestFailureOfAHalf|TestHalfInTheSpoolGoesFirst)")},
	{"audit/a spool emptied before all is done", in(inSpool, "File.Done", never("f.read")), test(inWriter, "TestSpoolRoundTrip")},
	{"audit/a spool of two processes", in(inSpool, "lock", swap("syscall.LOCK_EX", "syscall.LOCK_SH")), test(inWriter, "TestSpoolOfTwoProcesses")},
}
