package main

// Streams: one writer, no gap, and no part after the end.
var streamMutants = []mutant{
	{"streams/parts with any fence", in(inRepo, "partsRun.fits", always("r.row.Fence")), inPool("Streams")},
	{"streams/parts at any sequence", in(inRepo, "partsRun.fits", always("r.row.NextSequence")), inPool("Streams")},
	{"streams/parts that wait for a row", query("StreamLockFree", dropSkip()), inPostgres("TestLockedStreamStopsNoOther")},
	{"streams/opened before parts that the snapshot does not show", in(inRepo, "streams.sendOpen", never("next.BySnapshot")), inPostgres("TestStreamOpenedWithAnOldSnapshot")},
	{"streams/two fences for one call", query("StreamOpen", never("streams.opener")), inPostgres("TestStreamOpenedTwice")},
	{"streams/ended with any fence", query("StreamEnd.ended", always("t.fence")), inPool("Streams")},
	{"streams/parts of streams that live are removed", query("StreamPartRemove", always("s.expires_at")), inPostgres("TestStreamSweep")},
	{"streams/streams expire before their time", query("StreamExpire", always("statement_timestamp")), inPostgres("TestStreamSweep")},
	{"streams/an end before the last part", in(inRepo, "foundParts", always("complete", "StreamFinished")), inPool("StreamsFollow")},
	{"streams/a stream of a session that does not exist", query("StreamOpen", always("session_counters")), inPool("Streams")},
	{"streams/a stream is taken for another session", query("StreamOpen", always("streams.session_id")), inPool("Streams")},
	{"streams/streams live on after their session", dropTrigger("streams_orphan"), inPostgres("TestStreamsGoWithTheirSession")},
	{"streams/all streams are deleted", query("StreamDelete", always("s.key")), inPool("Streams")},
	{"streams/streams that have expired are listed", query("StreamList", always("s.expires_at")), inPool("Streams")},
	{"streams/a writer begins again twice", query("StreamRestart", always("p.size")), inPostgres("TestStreamRestartedTwice")},
	{"streams/a writer ahead goes on after what is in doubt", in("live", "passes", never("ErrUnknownOutcome")), test("live", "TestPartWriterRepeats")},
	{"streams/a writer ahead keeps the caller's memory", in("live", "PartWriter.Write", dropAssign("bytes.Clone")), test("live", "TestPartWriterJoins")},
	{"streams/a flush before the last part is stored", in("live", "PartWriter.Flush", returns("true", "w.stream.Next")), test("live", "TestPartWriter.*")},
}
