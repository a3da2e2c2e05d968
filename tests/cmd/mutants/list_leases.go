package main

// Leases and fences: one holder at a time, and no write of one before.
var leaseMutants = []mutant{
	{"leases/shortened by a renewal", query("LeaseRenew", last("greatest")), inPostgres("TestConformanceOfBind/Leases")},
	{"leases/renewed after it expired", query("LeaseRenew", always("l.expires_at")), inPostgres("TestLeaseRenewedTooLate")},
	{"leases/a context that waits for timers", in("repo", "heldContext.Err", dropCall("c.held.check")), test("repo", "TestHold.*")},
	{"leases/renewed with the pool's connections", in(inRepo, "leases.renew", never("settled")), inPostgres("TestRenewalsWithoutThePool")},
	{"leases/held to the last moment", in("repo", "HeldLease.left", swap("marginPart", "1_000_000")), test("repo", "TestHold.*")},
	{"leases/a slot that another owner holds", in("internal/rules", "OpenSlots", never("is")), inMemory("LeaseRaces/SlotsHeld")},
	{"leases/an owner with two slots", in("internal/rules", "OpenSlots", never("by.Owner")), inMemory("LeaseRaces/SlotsHeld")},
	{"leases/the one that waits longest is not the first", in("repo/memory", "leases.acquireInTurn", always("mine")), test("repo/memory", "TestLeasesInTurn")},
	{"leases/a hint before the wait", in(inRepo, "live.tell", dropCall("l.lately.add")), inPostgres("TestEndsAreAnnounced")},
	{"leases/a lease that is not renewed is still awaited", query("LeaseListEnded", always("l.expires_at")), inPool("LeaseRaces/WaitsForExpiry")},
	{"leases/a release that is not announced", in(inRepo, "leases.Release", dropCall("l.exec.changed")), inPostgres("TestEndsAreAnnounced")},
	{"fences/one message under any token", query("MessageAppendOne", always("@fence")), inPool("(Fences|FenceRaces)")},
	{"fences/messages under any token", in("internal/rules", "Turn.Add", never("rows.Fence.Check")), inPostgres("TestFencedGroups")},
	{"fences/turns under any token", in("internal/rules", "Turn.Add", never("rows.Fence.Check")), inMemory("Fences")},
	{"fences/a transition under any token", query("PlanTransition.free", always("a.fence")), inPool("(Fences|FenceRaces)")},
	{"fences/cancelled under any token", in(inRepo, "plans.cancel", never("admitPlan")), inPool("(Fences|FenceRaces)")},
	{"fences/the lease is locked before the session", query("FenceLockSession", dropLock()), inPostgres("TestFenceLocksTheSessionFirst")},
	{"fences/a lease that is taken meanwhile", query("FenceCatchUpSession.given", dropLock()), inPostgres("TestFenceOfASessionMadeMeanwhile")},
}
