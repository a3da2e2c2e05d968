package main

// Approvals: one outcome, by a decider, used once for what was asked.
var approvalMutants = []mutant{
	{"approvals/who is first is not looked at", in("approval", "record.changes", never("conditions")), test("approval", "TestApprovals/TwoDecide")},
	{"approvals/a seal that is not compared", in("approval", "load", always("found.Sum")), test("approval", "TestApprovals/Changed")},
	{"approvals/another text is shown", in("approval", "Approvals.listed", never("r.Sum")), test("approval", "TestApprovals/Changed")},
	{"approvals/anybody decides", in("approval", "Approvals.mayDecide", never("err", "allowed")), test("approval", "TestApprovals/Who")},
	{"approvals/the asker decides", in("approval", "Approvals.mayDecide", never("SelfApproval")), test("approval", "TestApprovals/Who")},
	{"approvals/anybody withdraws", in("approval", "Approvals.mayDecide", never("Withdraw")), test("approval", "TestApprovals/Who")},
	{"approvals/a vote that counts twice", in("approval", "decided", neverAll("Open", "said")), test("approval", "TestApprovals/Quorum")},
	{"approvals/other arguments", in("approval", "permits", never("ArgumentsHash")), test("approval", "TestApprovals/Life")},
	{"approvals/a use without a decision", in("approval", "permits", always("Approved")), test("approval", "TestApprovals/Life")},
	{"approvals/an expiry that is not looked at", in("approval", "write", never("expired")), test("approval", "TestApprovals/Ended")},
	{"approvals/a plan that is not woken", in("approval", "Approvals.move", never("NotBefore")), test("approval", "TestApprovals/PlanProcessing")},
	{"approvals/another tenant's session", in("approval", "Approvals.Ask", never("session.Namespace")), test("approval", "TestApprovals/Tenants")},
	{"approvals/what is left of a session expires its new request", in("approval", "Approvals.expire", always("entryOf")), test("approval", "TestApprovals/MadeAgain")},
	{"approvals/the caller's part is left out", in("approval", "Approvals.carryOut", never("Decided")), test("approval", "TestApprovals/HookConflict")},
	{"approvals/another request was shown", in("approval", "Approvals.mayDecide", never("r.Sum")), test("approval", "TestApprovals/Shown")},
	{"approvals/another tenant's plan", in("approval", "Approvals.planOf", never("Namespace")), test("approval", "TestApprovals/ForeignPlan")},
	{"approvals/a quorum below one", in("approval", "Approvals.check", never("Quorum", "MaxQuorum")), test("approval", "TestApprovals/Zero")},
	{"approvals/one failure stops the sweep", in("approval", "Approvals.Expire", never("done")), test("approval", "TestApprovals/Sweep")},
}
