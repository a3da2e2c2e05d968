package main

const inPlans = "tests/plans"

// Plans: no transition twice, none from another version, no child of what has ended.
var planMutants = []mutant{
	{"plans/a transition of another version", query("PlanTransition", always("p.version")), test(inPlans, "TestStaleVersion")},
	{"plans/a transition in a group of another version", query("PlanTransitionMany.free", always("plans.version")), test(inPlans, "TestStaleVersion")},
	{"plans/a group waits for a plan", query("PlanTransitionMany.free", dropSkip("plans")), inPostgres("TestTransitionsBesideALockedOne/plan")},
	{"plans/cancelled without its descendants", query("PlanCancel.tree", never("f.parent_id")), inPool("(PlanRaces|Lifecycle|Plans)")},
	{"plans/cancelled at another version", query("PlanCancel.live", always("is_target")), test(inPlans, "TestStaleVersion")},
	{"plans/cancelled without its descendants' locks", query("PlanCancel", dropLock()), inPostgres("TestCancelOfAChildThatMoves")},
	{"plans/progress of a plan that is not processing", query("PlanProgress", always("p.state")), inPool("Lifecycle")},
	{"plans/made from another version of the action", query("PlanCreate.usable", always("a.version")), inPostgres("TestUseOfAnActionThatChanges")},
	{"plans/two uses of an action that is not reusable", query("PlanCreate.once", dropLock()), inPool("PlanRaces/(Use|NotReusable)")},
	{"plans/a use whose key is taken fails", query("PlanCreate.created", dropConflict()), inPostgres("TestConformanceOfBind/Use")},
	{"plans/a repeated use is refused", in(inRepo, "plans.Use", never("stopsUse")), inPool("Use")},
	{"plans/a different use with the key", in(inRepo, "plans.existing", never("rules.UseConflict")), inPool("Use")},
	{"plans/a child made without the tree's lock", in(inRepo, "underParent", swap("queries.PlanLockTree", "queries.PlanExists")), inPool("PlanRaces/SpawnAndCancel")},
	{"plans/reverted without the tree's lock", in(inRepo, "plans.moveBelowLive", swap("queries.PlanLockTree", "queries.PlanExists")), test(inPlans, "TestRevertWhileParentIsCancelled")},
	{"plans/a group moves what needs a live parent", in(inRepo, "moving.decide", never("rules.NeedsLiveParent")), inPool("(Lifecycle|PlanRaces)")},
	{"plans/overtaken by the same", in(inRepo, "plans.overtaken", never("rules.IsThere")), test(inPlans, "TestTwoMovesToOneStage")},
	{"plans/a queued plan, and no claim is woken", in(inRepo, "plans.tellQueued", dropCall("p.exec.queued")), inPostgres("TestTransitionsWakeWorkers")},
	{"plans/made below a parent that has ended", in("repo/rules", "PutBelow", never("parent.Live")), test("repo/rules", "TestPutBelow")},
}

// Claims and the work on them: one worker for each plan, and no plan lost.
var claimMutants = []mutant{
	{"claims/a plan that two claim", query("PlanClaim.free", dropLock("plans")), inPool("ClaimRaces")},
	{"claims/a plan whose lease somebody holds", query("PlanClaim.free", always("h.expires_at")), inPool("Claims")},
	{"claims/attempts without end", query("PlanClaim.candidates", always("k.attempt")), inPool("Claims")},
	{"claims/a plan that is committed late is never found", in(inRepo, "queueHeads.from", always("begun.Before")), inPostgres("TestPlanCommittedLateIsClaimed")},
	{"claims/a plan that another owner gets", in(inRepo, "claimer.claimAll", swap("row.Place", "1")), inPostgres("TestClaimsShareStatements")},
	{"claims/a release that nobody sees", dropTrigger("plan_claim_release"), inPool("Claims")},
	{"claims/work on a claim whose answer was lost is left", in("repo", "Work", never("ErrUnknownOutcome")), inMemory("Work")},
	{"claims/work that was moved to another stage is ended", in("repo", "worker.end", dropField("Version")), inMemory("Work")},
	{"claims/a panic leaves the lease", in("repo", "worker.work", never("moved")), inMemory("Work")},
}
