package main

const (
	streamsSQL    = "queries/streams.sql"
	streamsTests  = "^Streams$"
	streamsFollow = "^StreamsFollow$"
)

var streamMutants = []mutant{
	{
		name: "streams/a held stream is tried without patience", file: "repo/postgres/streams_append.go",
		old:   "} else if patience > 0 && time.Since(t.Item.skipped) >= patience {",
		new:   "} else if false {",
		tests: []tests{{"tests/postgres", "^TestLockTimeoutOfAttempts$"}},
	},
	{
		name: "streams/an append with any fence", file: streamsSQL,
		old:   "(s.fence = n.fence AND s.status = 'open'",
		new:   "(n.fence > 0 AND s.status = 'open'",
		tests: []tests{{"tests/postgres", pool + streamsTests}},
	},
	{
		name: "streams/an append at any sequence", file: streamsSQL,
		old:   " AND s.next_sequence = n.first_sequence) AS fits",
		new:   ") AS fits",
		tests: []tests{{"tests/postgres", pool + streamsTests}},
	},
	{
		name: "streams/an append after the end", file: streamsSQL,
		old:   "AND s.status = 'open' AND s.next_sequence",
		new:   "AND s.next_sequence",
		tests: []tests{{"tests/postgres", pool + streamsTests}},
	},
	{
		name: "streams/an append after the expiry", file: streamsSQL,
		old:   "s.expires_at <= clock_timestamp() AS expired,\n        (s.fence",
		new:   "false AS expired,\n        (s.fence",
		tests: []tests{{"tests/postgres", "^TestStreamAppendAtExpiry$"}},
	},
	{
		name: "streams/an append that reads the clock twice", file: streamsSQL,
		old:   "AND s.next_sequence = n.first_sequence) AS fits",
		new:   "AND s.next_sequence = n.first_sequence AND s.expires_at > clock_timestamp()) AS fits",
		tests: []tests{{"tests/postgres", "^TestStreamAppendAtExpiry$"}},
	},
	{
		name: "streams/an append that waits for a row", file: streamsSQL,
		old:   "FOR NO KEY UPDATE SKIP LOCKED",
		new:   "FOR NO KEY UPDATE",
		tests: []tests{{"tests/postgres", "^TestLockedStreamStopsNoOther$"}},
	},
	{
		name: "streams/opened without the turn", file: streamsSQL,
		old:   "SELECT pg_advisory_xact_lock(hashtextextended(@key::text, hashtext('stream')));",
		new:   "SELECT hashtextextended(@key::text, hashtext('stream'));",
		tests: []tests{{"tests/postgres", "^TestStreamFenceAfterTheWait$"}},
	},
	{
		name: "streams/two fences for one call", file: streamsSQL,
		old:   "fence = CASE WHEN streams.opener = excluded.opener THEN streams.fence ELSE excluded.fence END",
		new:   "fence = excluded.fence",
		tests: []tests{{"tests/postgres", "^TestStreamOpenedTwice$"}},
	},
	{
		name: "streams/goes on after the expiry", file: streamsSQL,
		old:   "WHERE s.key = @key AND s.status = 'open' AND s.expires_at <= clock_timestamp();",
		new:   "WHERE s.key = @key AND s.status = 'open' AND s.expires_at IS NULL;",
		tests: []tests{{"tests/postgres", "^TestStreamOpenedTwice$"}},
	},
	{
		name: "streams/ended with any fence", file: streamsSQL,
		old:   "l.fence = @fence::bigint AND l.status",
		new:   "@fence::bigint > 0 AND l.status",
		tests: []tests{{"tests/postgres", pool + streamsTests}},
	},
	{
		name: "streams/ended twice", file: streamsSQL,
		old:   "AND l.status = 'open' AND l.expires_at > c.now",
		new:   "AND l.expires_at > c.now",
		tests: []tests{{"tests/postgres", pool + streamsTests}},
	},
	{
		name: "streams/an end that is not polled", file: streamsSQL,
		old:   "streams.status = 'open' AND streams.expires_at > clock_timestamp() AS lives",
		new:   "streams.expires_at > clock_timestamp() AS lives",
		tests: []tests{{"tests/postgres", "^TestStreamEndIsPolled$"}},
	},
	{
		name: "streams/an expiry that is not polled", file: streamsSQL,
		old:   "streams.status = 'open' AND streams.expires_at > clock_timestamp() AS lives",
		new:   "streams.status = 'open' AS lives",
		tests: []tests{{"tests/postgres", "^TestStreamUnannounced$"}},
	},
	{
		name: "streams/parts that are removed before their time", file: streamsSQL,
		old:   "WHERE s.expires_at <= clock_timestamp() AND s.expires_at > 'epoch'",
		new:   "WHERE s.expires_at <= clock_timestamp() + interval '1 day' AND s.expires_at > 'epoch'",
		tests: []tests{{"tests/postgres", "^TestStreamSweep$"}},
	},
	{
		name: "streams/removers that wait for one another", file: streamsSQL,
		old:   "    LIMIT @max_rows::bigint\n    FOR UPDATE SKIP LOCKED\n), doomed",
		new:   "    LIMIT @max_rows::bigint\n    FOR UPDATE\n), doomed",
		tests: []tests{{"tests/postgres", "^TestStreamRemovalLeavesLockedOut$"}},
	},
	{
		name: "streams/other parts at the same place", file: "repo/postgres/streams.go",
		old:   "case !rules.SameParts(a.parts, stored):",
		new:   "case false:",
		tests: []tests{{"tests/postgres", pool + streamsTests}},
	},
	{
		name: "streams/a gap in what is joined", file: "repo/postgres/streams_append.go",
		old:   " || last.last().next() != t.Item.stream.Next:",
		new:   ":",
		tests: []tests{{"tests/postgres", "^TestStreamJoinedAppends$"}},
	},
	{
		name: "streams/an end before the last part", file: "repo/postgres/streams_follow.go",
		old:   "case complete && status == repo.StreamFinished:",
		new:   "case status == repo.StreamFinished:",
		tests: []tests{{"tests/postgres", pool + streamsFollow}},
	},
	{
		name: "streams/parts of a stream that has expired", file: "repo/memory/streams_follow.go",
		old:   "case !row.ExpiresAt.After(now):",
		new:   "case row.ExpiresAt.IsZero():",
		tests: []tests{{"repo/memory", "^TestConformance$/" + streamsFollow}},
	},
	{
		name: "streams/any fence in memory", file: "repo/rules/stream.go",
		old:   "case stored.Fence != s.Fence:",
		new:   "case stored.Fence < 0:",
		tests: []tests{{"repo/memory", "^TestConformance$/" + streamsTests}},
	},
	{
		name: "streams/a read that is another stream's", file: "repo/memory/streams_follow.go",
		old:   "case row == nil || row.Key != key:",
		new:   "case row == nil:",
		tests: []tests{{"repo/memory", "^TestConformance$/" + streamsFollow}},
	},
	{
		name: "streams/a writer ahead that goes on after what is in doubt", file: "repo/work.go",
		old:   " || errors.Is(err, ErrUnknownOutcome)",
		new:   "",
		tests: []tests{{"repo", "^TestPartWriterRepeats$"}},
	},
	{
		name: "streams/a writer ahead that waits for ever for an answer", file: "repo/part_writer.go",
		old:   "late := ctx.Err() != nil",
		new:   "late := w.ctx.Err() != nil",
		tests: []tests{{"repo", "^TestPartWriterWaitsForNoAnswer$"}},
	},
	{
		name: "streams/a writer ahead that keeps the caller's memory", file: "repo/part_writer.go",
		old:   "part = bytes.Clone(part)",
		new:   "part = bytes.TrimLeft(part, \"\")",
		tests: []tests{{"repo", "^TestPartWriterJoins$"}},
	},
	{
		name: "streams/a writer ahead without a bound of bytes", file: "repo/part_writer.go",
		old:   "if len(w.waiting) == MaxParts || len(w.waiting) > 0 && w.size+len(part) > maxWaitingBytes {",
		new:   "if len(w.waiting) == MaxParts {",
		tests: []tests{{"repo", "^TestPartWriterIsBounded$"}},
	},
	{
		name: "streams/a flush before the last append has ended", file: "repo/part_writer.go",
		old:   "return w.stream.Next >= added })",
		new:   "return len(w.waiting) == 0 })",
		tests: []tests{{"repo", "^TestPartWriterJoins$"}},
	},
	{
		name: "streams/a flush that waits for what others write after it", file: "repo/part_writer.go",
		old:   "return w.stream.Next >= added })",
		new:   "return w.stream.Next >= w.added })",
		tests: []tests{{"repo", "^TestPartWriterFlushesWhatWasWritten$"}},
	},
	{
		name: "streams/parts of streams that live are removed", file: streamsSQL,
		old:   "WHERE s.expires_at = 'epoch' AND (SELECT true FROM stream_parts",
		new:   "WHERE (SELECT true FROM stream_parts",
		tests: []tests{{"tests/postgres", "^TestStreamSweep$"}},
	},
	{
		name: "streams/streams that live are removed", file: streamsSQL,
		old:   "WHERE s.expires_at = 'epoch'\n        AND (SELECT true FROM stream_parts p WHERE p.stream_id = s.id LIMIT 1) IS NULL",
		new:   "WHERE (SELECT true FROM stream_parts p WHERE p.stream_id = s.id LIMIT 1) IS NULL",
		tests: []tests{{"tests/postgres", pool + streamsFollow}},
	},
}
