package main

// Inspector: a viewer sees only what is theirs, and each view is recorded.
var inspectorMutants = []mutant{
	{"inspector/contents for viewers that may not read them", in("inspect", "look.content", never("shown")), test("inspect", "TestContents")},
	{"inspector/contents that are not recorded", in("inspect", "look.contents", never("l.access.Contents")), test("inspect", "TestContents")},
	{"inspector/characters that steer", in("inspect", "visible", always("IndexFunc")), test("inspect", "TestSteering")},
	{"inspector/actions without their form", in("inspect", "look.act", never("subtle.ConstantTimeCompare")), test("inspect", "TestActions")},
	{"inspector/actions for viewers that may do nothing", in("inspect", "look.asked", never("l.access.Actions")), test("inspect", "TestActions")},
	{"inspector/a tenant sees everything", in("inspect", "Inspector.ServeHTTP", never("has")), test("inspect", "TestTenant")},
	{"inspector/usage of one namespace for that of another", in("inspect", "look.usage", never("l.chosen")), test("inspect", "TestUsage")},
	{"inspector/names that no entry holds", in("inspect", "Inspector.ServeHTTP", never("MaxNameBytes")), test("inspect", "TestDenyByDefault")},
	{"inspector/a secret that is cut at its beginning", in("inspect", "look.stream", neverAll("cut")), test("inspect", "TestCutSecret")},
}
