package main

const inScheduler = "repo/postgres/internal/scheduler"

// The queues of appends: order, withdrawal, and which waits for which.
var schedulerMutants = []mutant{
	{"scheduler/submitted without the lock", in(inScheduler, "Scheduler.accept", unlocked("s.mu")), raced(test(inScheduler, "TestRandom"))},
	{"scheduler/withdrawn, and carried out", in(inScheduler, "Scheduler.withdraw", dropCall("q.room.leave")), test(inScheduler, "(TestWithdraw|TestRandom)")},
	{"scheduler/left, and told to be withdrawn", in(inScheduler, "Scheduler.withdraw", returns("ErrWithdrawn", "ErrLeft")), test(inScheduler, "(TestWithdraw|TestRandom)")},
	{"scheduler/left while it is carried out", in(inScheduler, "Scheduler.Submit", never("s.stay")), test(inScheduler, "TestStay")},
	{"scheduler/answered at the same moment, and told to be left", in(inScheduler, "Scheduler.withdraw", dropCase("t.done")), test(inScheduler, "TestAnsweredAtTheSameMoment")},
	{"scheduler/a batch without callers goes on", in(inScheduler, "Batch.cancelIfIdle", never("waiting")), test(inScheduler, "TestBatchIsCancelled")},
	{"scheduler/Close does not wait", in(inScheduler, "Scheduler.Close", dropCall("s.submitting.Wait")), test(inScheduler, "TestCloseWaitsForTheLocked")},
	{"scheduler/more waits than are allowed", in(inScheduler, "Scheduler.mayWait", shift("s.waits")), test(inScheduler, "(TestLockedKey|TestManyLockedKeys)")},
	{"scheduler/held keys take the others' room", in(inScheduler, "Scheduler.settle", dropCall("s.move", "s.apart")), test(inScheduler, "(TestLockedKeysTakeNoRoom|TestManyLockedKeys)")},
	{"scheduler/more groups than the budget has places", in(inScheduler, "Budget.take", always("b.places")), test(inScheduler, "TestBudget")},
	{"scheduler/a place of the budget that does not come back", in(inScheduler, "Scheduler.after", never("b.placed")), test(inScheduler, "TestBudget")},
	{"scheduler/a group that is stuck delays all others", in(inScheduler, "Scheduler.mayGroup", never("s.lateIn")), test(inScheduler, "TestStuckGroup.*")},
	{"scheduler/two groups of what is shared", in(inScheduler, "Scheduler.mayShare", always("s.sharing")), test(inScheduler, "(TestShares|TestRandom)")},
}
