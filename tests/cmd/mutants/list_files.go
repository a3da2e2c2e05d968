package main

// fileMutants are those of package files.
var fileMutants = []mutant{
	{"files/bytes that are used", in("files", "sweep.bytes", never("used.Values")), inFiles("Delete")},
	{"files/bytes that were freed", in("files", "Files.keep", never("errFreed")), inFiles("Freed")},
	{"files/a note that a sweep has taken", in("files", "Files.note", dropAssign("IfVersion")), inFiles("GivenUp")},
	{"files/a note that is young", in("files", "sweep.note", neverAll("isOld")), inFiles("FailedSave")},
	{"files/bytes that may be read", in("files", "sweep.bytes", neverAll("isOld")), inFiles("Delete")},
	{"files/a version that is there", in("files", "sweep.references", neverAll("deleted")), inFiles("Forged")},
	{"files/a record that was forged", in("files", "Files.open", neverAll("at.SHA256")), inFiles("Forged")},
	{"files/a hold", in("files", "unheld", neverAll("theirs")), inFiles("Held")},
	{"files/a version behind the fork", in("files", "carry", returns("false", "file.Sequence")), inFiles("Fork")},
	{"files/a reference as it was found", in("files", "end", dropAssign("IfVersion")), inFiles("RestoredMeanwhile")},
}

func inFiles(part string) killer { return test("files", "TestFiles/"+part) }
