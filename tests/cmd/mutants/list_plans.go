package main

const inPlans = "tests/plans"

// Plans: no transition twice, none from another version, no child of what has ended.
var planMutants = []mutant{
	{"plans/a transition of another version", query("PlanTransition", always("p.version")), test(inPlans, "TestStaleVersion")},
	{"plans/a transition in a group of another version", query("PlanTransitionMany.free", always("plans.version")), test(inPlans, "TestStaleVersion")},
	{"plans/a group waits for a plan", query("PlanTransitionMany.free", dropSkip("plans")), inPostgres("TestTransitionsBesideALockedOne/plan")},
	{"plans/cancelled without its descendants", function("plan_tree", never("f.parent_id")), inPool("(PlanRaces|Lifecycle|Plans)")},
	{"plans/cancelled at another version", query("PlanCancel.live", always("is_target")), test(inPlans, "TestStaleVersion")},
	{"plans/cancelled without its descendants' locks", query("PlanCancel", dropLock()), inPostgres("TestCancelOfAChildThatMoves")},
	{"plans/progress of a plan that is not processing", query("PlanProgress", always("p.state")), inPool("Lifecycle")},
	{"plans/a given trace is replaced", in("internal/observed", "observer.use", never("use.Trace")), test("internal/observed", "TestTrace")},
	{"plans/made from another version of the action", query("PlanCreate.usable", always("a.version")), inPostgres("TestUseOfAnActionThatChanges")},
	{"plans/two uses of an action that is not reusable", query("PlanCreate.once", dropLock()), inPool("PlanRaces/(Use|NotReusable)")},
	{"plans/a pattern that takes as long as it takes", in("internal/rules", "argument.matches", never("pattern.ErrLarge", "steps")), test("internal/rules", "TestPatternCosts")},
	{"plans/a use whose key is taken fails", query("PlanCreate.created", dropConflict()), inPostgres("TestConformanceInTx/Use")},
	{"plans/a repeated use is refused", in(inRepo, "plans.Use", never("stopsUse")), inPool("Use")},
	{"plans/a different use with the key", in(inRepo, "plans.existing", never("rules.UseConflict")), inPool("Use")},
	{"plans/a child made without the tree's lock", in(inRepo, "underParent", swap("queries.PlanLockTree", "queries.PlanExists")), inPool("PlanRaces/SpawnAndCancel")},
	{"plans/reverted without the tree's lock", in(inRepo, "plans.moveBelowLive", swap("queries.PlanLockTree", "queries.PlanExists")), test(inPlans, "TestRevertWhileParentIsCancelled")},
	{"plans/a group moves what needs a live parent", in(inRepo, "moving.decide", never("rules.NeedsLiveParent")), inPool("(Lifecycle|PlanRaces)")},
	{"plans/overtaken by the same", in(inRepo, "plans.overtaken", never("rules.IsThere")), test(inPlans, "TestTwoMovesToOneStage")},
	{"plans/a queued plan, and no claim is woken", in(inRepo, "plans.tellMoved", dropCall("p.exec.queued")), inPostgres("TestTransitionsWakeWorkers")},
	{"plans/one that has completed its last phase is not final", in("internal/rules", "Next", never("p.Phases", "at", "allowed")), inMemory("Lifecycle/Phases")},
	{"plans/made below a parent that has ended", in("internal/rules", "PutBelow", never("parent.Live")), test("internal/rules", "TestPutBelow")},
}

// Claims and the work on them: one worker for each plan, and no plan lost.
var claimMutants = []mutant{
	{"claims/a plan that two claim", query("PlanClaimLock", dropLock("plans")), inPool("ClaimRaces")},
	{"claims/what is locked hides what is behind it", in(inClaim, "choosing.in", swap("maxClaimLooks", "1")), inPostgres("TestClaimsBehindWhatCannotBeTaken")},
	{"claims/attempts without end", in("internal/rules", "Expired", neverAll("p.MaxAttempts")), inPool("Claims")},
	{"claims/a limit that is counted without its lock", query("PlanLimitLock", dropLock()), test("tests/faults", "TestLimitsOfKilledWorkers")},
	{"claims/a limit whose lock somebody else has", in(inClaim, "choosing.limited", neverAll("locked")), test("tests/faults", "TestLimitsOfKilledWorkers")},
	{"claims/more than the limit", in("internal/rules", "Rooms.Take", dropAssign("key")), inPool("Claims/Limit")},
	{"claims/more of an action than its limit", in("internal/rules", "Rooms.limitsOf", swap("c.Action", `""`)), inPool("Claims/ActionLimit")},
	{"claims/an answer without end", in("internal/rules", "Choice.fitting", neverAll("limits.MaxReadBytes")), inPool("Claims/Bytes")},
	{"claims/more is locked than is taken", in("internal/rules", "Choice.Tries", neverAll("largest")), test("internal/rules", "TestTriesBesideLocks")},
	{"claims/a plan that is started without its lease", query("PlanClaimStart", always("l.token")), inPostgres("TestClaimsBesideLostLeases")},
	{"claims/a plan that is not due", in("internal/rules", "IsDue", always("WaitsSince")), inMemory("Claims/Due")},
	{"claims/failures without end", in("internal/rules", "Moved", always("p.Attempt")), inPool("Claims/Retry")},
	{"claims/a final failure is tried again", in("internal/rules", "Moved", never("cause.Final")), inPool("Claims/Retry")},
	{"plans/deleted while one below is busy", query("PlanDelete.busy", never("l.state", "'processing'")), inPool("PlanEnds/Delete")},
	{"plans/deleted beside a hold", in(inRepo, "plans.Delete", swap("queries.HoldGate", "queries.PlanByIndex")), inPostgres("TestPlanDeletionBesideAHold")},
	{"plans/deleted below one that is kept, while one is busy", query("PlanDeleteKept.doomed", always("d.busy")), inPool("PlanEnds/Keep")},
	{"claims/a plan that is committed late is never found", in(inClaim, "queueHeads.from", always("begun.Before")), inPostgres("TestPlanCommittedLateIsClaimed")},
	{"claims/a plan that another owner gets", in(inClaim, "Claimer.claimAll", swap("row.place", "0")), inPostgres("TestClaimsShareStatements")},
	{"claims/a release that nobody sees", dropTrigger("plan_claim_release"), inPool("Claims")},
	{"claims/work on a claim whose answer was lost is left", in("repo", "Work", never("ErrUnknownOutcome")), inMemory("Work")},
	{"claims/work that was moved to another stage is ended", in("repo", "worker.end", dropField("Version")), inMemory("Work")},
	{"claims/work that was not moved keeps its lease", in("repo", "worker.work", never("moved")), inMemory("Work")},
	{"claims/a panic ends the process", in("repo", "worker.call", never("recover")), inMemory("Work")},
	{"claims/work that runs is begun again", in("repo", "worker.look", never("w.isBusy")), inMemory("Work")},
	{"claims/work that was stopped has failed", in("repo", "worker.work", swap("stopped", "false", "w.end")), inMemory("Work")},
	{"claims/a worker whose plan is cancelled is not told", in(inRepo, "plans.cancel", dropCall("p.exec.freed")), inPostgres("TestCancelReachesAnotherProcess")},
	{"claims/a worker that is not told of a transition", in(inRepo, "plans.tellMoved", dropCall("p.exec.freed")), inPostgres("TestEndsAreAnnounced")},
}
