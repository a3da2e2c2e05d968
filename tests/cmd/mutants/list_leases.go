package main

// Leases and fences: one holder at a time, and no write of one before.
var leaseMutants = []mutant{
	{"leases/shortened by a renewal", query("LeaseRenew", last("greatest")), inPool("Leases")},
	{"leases/renewed after the expiry", query("LeaseRenew", always("l.expires_at")), inPool("LeaseRaces")},
	{"leases/renewed after it expired", query("LeaseRenew", always("l.expires_at")), inPostgres("TestLeaseRenewedTooLate")},
	{"leases/a context that waits for timers", in("repo", "heldContext.Err", dropCall("c.held.check")), test("repo", "TestHold.*")},
	{"leases/held to the last moment", in("repo", "HeldLease.left", swap("marginPart", "1_000_000")), test("repo", "TestHold.*")},
	{"fences/one message under any token", query("MessageAppendOne", always("@fence")), inPool("(Fences|FenceRaces)")},
	{"fences/messages under any token", query("MessageAppend", always("@fences")), inPostgres("TestFencedGroups")},
	{"fences/appends joined whatever their tokens", in(inRepo, "statements", never("a.fence")), inPostgres("TestFencedGroups")},
	{"fences/turns under any token", in("repo/rules", "Turn.Add", never("v.Fence.Check")), inMemory("Fences")},
	{"fences/a transition under any token", query("PlanTransition", always("@fence")), inPool("(Fences|FenceRaces)")},
	{"fences/cancelled under any token", in(inRepo, "plans.cancel", never("admitPlan")), inPool("(Fences|FenceRaces)")},
	{"fences/the lease is locked before the session", query("FenceLockSession", dropLock()), inPostgres("TestFenceLocksTheSessionFirst")},
	{"fences/a lease that somebody takes meanwhile", query("FenceCatchUpSession.given", dropLock()), inPostgres("TestFenceOfASessionMadeMeanwhile")},
}
