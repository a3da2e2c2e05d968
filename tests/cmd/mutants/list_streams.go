package main

// Streams: one writer, no gap, and no part after the end.
var streamMutants = []mutant{
	{"streams/parts with any fence", query("StreamAppendMany.locked", always("s.fence")), inPool("Streams")},
	{"streams/parts at any sequence", query("StreamAppendMany.locked", always("t.next_sequence")), inPool("Streams")},
	{"streams/parts that wait for a row", query("StreamAppendMany", dropSkip()), inPostgres("TestLockedStreamStopsNoOther")},
	{"streams/a part that somebody adds at the same moment", in(inRepo, "partsWriter.send", never("uniquePart")), inPostgres("TestSamePartAtOnce")},
	{"streams/two fences for one call", query("StreamOpen", never("streams.opener")), inPostgres("TestStreamOpenedTwice")},
	{"streams/ended with any fence", query("StreamEnd.ended", always("t.fence")), inPool("Streams")},
	{"streams/parts of streams that live are removed", query("StreamPartRemove", always("s.expires_at")), inPostgres("TestStreamSweep")},
	{"streams/streams expire before their time", query("StreamExpire", always("statement_timestamp")), inPostgres("TestStreamSweep")},
	{"streams/an end before the last part", in(inRepo, "foundParts", always("complete", "StreamFinished")), inPool("StreamsFollow")},
	{"streams/a writer ahead goes on after what is in doubt", in("repo", "passes", never("ErrUnknownOutcome")), test("repo", "TestPartWriterRepeats")},
	{"streams/a writer ahead keeps the caller's memory", in("repo", "PartWriter.Write", dropAssign("bytes.Clone")), test("repo", "TestPartWriterJoins")},
	{"streams/a flush before the last part is stored", in("repo", "PartWriter.Flush", returns("true", "w.stream.Next")), test("repo", "TestPartWriter.*")},
}
