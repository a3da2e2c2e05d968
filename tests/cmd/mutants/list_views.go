package main

// Views: what belongs to another namespace is not found.
var viewMutants = []mutant{
	{"views/a session of another namespace", in("internal/view", "view.sessions", always("found.Session.Namespace")), inApart("Sessions.Append")},
	{"views/what was made in another namespace", in("internal/view", "sessions.made", dropCase("session.Namespace")), inApart("Sessions.Create")},
	{"views/a session that a turn creates meanwhile", in("repo/postgres", "turnCall.existing", never("in.view", "s.Namespace")), inViews("Creations")},
	{"views/in memory, a session that a turn creates meanwhile", in("repo/memory", "sessions.appendTurn", never("s.options.view", "r.Namespace")), inApart("CreationBehind")},
	{"views/a stream of another namespace", query("StreamFind", always("s.namespace")), inPostgres("TestViewsApart")},
	{"views/a lease of another namespace's session", query("LeaseReleaseAll", always("view", "l.kind")), inViews("Leases.ReleaseAll")},
	{"shards/a connection of another shard", in("internal/pgsettings", "ShareSchemas", always("schema", "now")), inPostgres("TestShardsShareConnections")},
	{"views/restored to another namespace", query("SessionImport.free", never("i.namespace_hash")), inViews("Restored")},
}

func inApart(part string) killer { return test("repo/memory", "TestViewsApart/"+part) }

func inViews(part string) killer { return inPostgres("TestViewsApart/" + part) }
