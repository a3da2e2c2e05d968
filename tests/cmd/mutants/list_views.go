package main

// Views: what belongs to another namespace is not found.
var viewMutants = []mutant{
	{"views/a session of another namespace", in(inRepo, "base.others", never("b.found")), inViews("Sessions.Append")},
	{"views/a plan of another namespace", in(inRepo, "base.found", neverAll("rules.IsInView")), inViews("Plans.Transition")},
	{"views/in memory, a session of another namespace", in("repo/memory", "handle.session", neverAll("rules.IsInView")), inApart("Sessions.Append")},
	{"views/in memory, a plan of another namespace", in("repo/memory", "handle.plan", neverAll("rules.IsInView")), inApart("Plans.Transition")},
	{"views/a list of another namespace", in("internal/rules", "SelectsInView", neverAll("view")), inApart("Sessions.List")},
	{"views/what was made in another namespace", in("internal/rules", "FoundSession", neverAll("IsInView")), inApart("Sessions.Create")},
	{"views/a session that a turn creates meanwhile", in(inRepo, "turnCall.existing", dropCase("in.view")), inViews("Creations")},
	{"views/in memory, a session that a turn creates meanwhile", in("repo/memory", "sessions.sessionOf", dropAssign("rules.InOtherNamespace")), inApart("CreationBehind")},
	{"views/a stream of another namespace", query("StreamFind", always("s.namespace")), inPostgres("TestViewsApart")},
	{"views/a lease of another namespace's session", query("LeaseReleaseAll", always("view", "l.kind")), inViews("Leases.ReleaseAll")},
	{"spread/a place that another process has given", in(".", "give", dropField("IfVersion")), inPostgres("TestProcessesPlace")},
	{"spread/a place that was lost", in(".", "Spread.place", dropAssign("wanted", "has")), inPostgres("TestPlacesAreLost")},
	{"spread/stores in another order", in(".", "NewSpread", neverAll("is", "mark")), test(".", "TestSpreadRefuses")},
	{"views/restored to another namespace", query("SessionImport.free", never("i.namespace_hash")), inViews("Restored")},
}

func inApart(part string) killer { return test("repo/memory", "TestViewsApart/"+part) }

func inViews(part string) killer { return inPostgres("TestViewsApart/" + part) }
