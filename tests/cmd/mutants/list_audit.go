package main

const (
	inWriter = "audit"
	inSpool  = "audit/internal/spool"
)

// The audit trail: nothing is lost, and nothing is changed unnoticed.
var auditMutants = []mutant{
	{"audit/an entry that a trigger refuses stops the writer", in(inWriter, "isRefused", swap("repo.ErrConflict", "repo.ErrInvalid")), inAudit("TestWriterSetsAsideWhatATriggerRefuses")},
	{"audit/a batch with an entry that a trigger leaves out is written in part", query("AuditRecord", always("rows_left_out")), inAudit("TestWriterSetsAsideWhatATriggerRefuses")},
	{"audit/a pruned entry is recorded again", query("AuditRecord.given", never("l.entry_id")), inPool("AuditLog")},
	{"audit/an entry is recorded twice", query("AuditRecord", dropConflict()), inPostgres("TestEntryRecordedAtOnce")},
	{"audit/two sealers work at once", query("AuditSealLock", swap("'agentstore.audit_seal'", "gen_random_uuid()::text")), inPool("AuditLog/SealAlone")},
	{"audit/sealed in the wrong order", query("AuditUnsealed", reverse()), inPool("AuditLog")},
	{"audit/strays are not found", query("AuditStrays", swap("false", "true")), inAudit("TestTampering")},
	{"audit/lost entries are not found", query("AuditLost", never("audit_entries")), inAudit("TestTampering")},
	{"audit/a prune that any role can imitate", function("audit_refuse", always("current_user")), inAudit("TestImmutable")},
	{"audit/a prune of what is on hold", query("AuditPruneBatch.deleted", always("j.held")), inPool("AuditLog")},
	{"audit/a prune of what is not sealed", query("AuditPruneBatch.deleted", always("j.sealed")), test("tests/audit", "TestPrune.*")},
	{"audit/an entry whose fields are replaced", function("audit_hide", always("becomes", "NULL")), inAudit("TestImmutableWithinPrune")},
	{"audit/an erasure that changes what an entry is", dropTrigger("audit_entries_hide"), inAudit("TestImmutableWithinPrune")},
	{"audit/an erasure that makes salts up", function("audit_hide", always("NEW.salts")), inAudit("TestImmutableWithinPrune")},
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
	{"audit/redaction looks into a crowd", in(inWriter, "scan.until", dropCall("s.takeIf")), test(inWriter, "TestRedactCrowded")},
	{"audit/a spool of two processes", in(inSpool, "lock", swap("syscall.LOCK_EX", "syscall.LOCK_SH")), test(inWriter, "TestSpoolOfTwoProcesses")},
}
