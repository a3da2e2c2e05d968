package main

// Directory and links: no entry written over, no session missed, and nothing shown that was not shared.
var directoryMutants = []mutant{
	{"directory/an entry over what others have written", in("directory", "Directory.changes", dropField("IfVersion")), inDirectory("Overtaken")},
	{"directory/a read mark over a later one", in("directory", "Directory.MarkRead", dropAssign("IfVersion")), inDirectory("Overtaken")},
	{"directory/a read mark that goes back", in("directory", "Directory.MarkRead", dropCase("found.Read")), inDirectory("Read")},
	{"directory/another owner's entry", in("directory", "Directory.look", never("s.session.Owner")), inDirectory("Foreign")},
	{"directory/what has moved is missed", in("directory", "head.stays", returns("true", "stays")), inDirectory("Moved")},
	{"directory/starred meanwhile and missed", in("directory", "listing.elsewhere", always("version", "l.place.Starred")), inDirectory("StarredMeanwhile")},
	{"directory/links among conversations", in("directory", "listing.elsewhere", never("share.IsLink")), inDirectory("List")},
	{"directory/an index that has not all is taken for all", in("directory", "listing.search", always("whole", "few")), inDirectory("Large")},
	{"share/expired", in("share", "Links.Open", never("now.Before")), inShare("Refused")},
	{"share/another secret", in("share", "Links.Open", never("subtle.ConstantTimeCompare")), inShare("Refused")},
	{"share/what is later", in("share", "Show.of", never("m.Sequence", "link.At")), inShare("Shown")},
	{"share/another owner's revoked", in("share", "Links.Revoke", never("fork.Owner")), inShare("Refused")},
	{"share/a hold keeps a link", in("share", "Links.Revoke", swap("recordKey", "`other`")), inShare("Held")},
}

func inDirectory(part string) killer { return test("directory", "TestDirectory/"+part) }

func inShare(part string) killer { return test("share", "TestShare/"+part) }
