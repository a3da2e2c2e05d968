package main

var liveMutants = []mutant{
	{
		name: "live/the last event is sent again", file: "live/position.go",
		old:   "		at.sequence++\n",
		new:   "",
		tests: []tests{{"live", "^(TestPosition|TestResume|TestStreamResume)$"}},
	},
	{
		name: "live/an event is left out", file: "live/position.go",
		old:   "		at.sequence++\n",
		new:   "		at.sequence += 2\n",
		tests: []tests{{"live", "^(TestPosition|TestResume)$"}},
	},
	{
		name: "live/ids that are almost sequences", file: "live/position.go",
		old:   " && strconv.FormatInt(at.sequence, 10) == text",
		new:   "",
		tests: []tests{{"live", "^(TestPosition|TestStreamStatuses)$"}},
	},
	{
		name: "live/the part of another stream", file: "live/position.go",
		old:   "	return p.StreamID.String() + \".\" + strconv",
		new:   "	return strconv",
		tests: []tests{{"live", "^(TestStream|TestStreamResume)$"}},
	},
	{
		name: "live/the newest stream, whichever was read", file: "live/feed.go",
		old:   "	case at.stream.IsZero():",
		new:   "	default:",
		tests: []tests{{"live", "^TestStream$"}},
	},
	{
		name: "live/waits for what is ahead", file: "live/feed.go",
		old:   "	if at.sequence > session.MessageCount {",
		new:   "	if at.sequence < 0 {",
		tests: []tests{{"live", "^TestPosition$"}},
	},
	{
		name: "live/pages of other origins", file: "live/origin.go",
		old:   "		return false // a page",
		new:   "		return true // a page",
		tests: []tests{{"live", "^TestOrigins$"}},
	},
	{
		name: "live/an origin that contains one", file: "live/origin.go",
		old:   "slices.Contains(h.options.Origins, strings.ToLower(origin))",
		new:   "slices.ContainsFunc(h.options.Origins, func(o string) bool { return strings.HasPrefix(strings.ToLower(origin), o) })",
		tests: []tests{{"live", "^TestOrigins$"}},
	},
	{
		name: "live/the text of an error is public", file: "live/errors.go",
		old:   "		text = http.StatusText(err.Status)",
		new:   "		text = err.Error()",
		tests: []tests{{"live", "^TestAuthorize$"}},
	},
	{
		name: "live/names that make fields", file: "live/event.go",
		old:   "	if strings.ContainsAny(event.Name, \"\\r\\n\\x00\") {",
		new:   "	if strings.Contains(event.Name, \"\\x00\") {",
		tests: []tests{{"live", "^(TestMessageOption|FuzzEvent)$"}},
	},
	{
		name: "live/data that makes fields", file: "live/event.go",
		old:   "	i := bytes.IndexAny(b, \"\\r\\n\")",
		new:   "	i := bytes.IndexByte(b, '\\n')",
		tests: []tests{{"live", "^(TestMessageOption|FuzzEvent)$"}},
	},
	{
		name: "live/slow readers are waited for", file: "live/response.go",
		old:   "	if err := r.limit(time.Now().Add(r.options.WriteTimeout)); err != nil {",
		new:   "	if err := r.limit(time.Time{}); err != nil {",
		tests: []tests{{"live", "^TestSlowReaders$"}},
	},
	{
		name: "live/writes after a failure", file: "live/response.go",
		old:   "		r.cancel(err)\n",
		new:   "",
		tests: []tests{{"live", "^TestGoneReader$"}},
	},
	{
		name: "live/a deadline for idle responses", file: "live/response.go",
		old:   "	return r.limit(time.Time{})",
		new:   "	return nil",
		tests: []tests{{"live", "^TestHTTP2Idle$"}},
	},
	{
		name: "live/no heartbeat after the first", file: "live/response.go",
		old:   "	r.beats.Reset(r.options.Heartbeat)\n",
		new:   "",
		tests: []tests{{"live", "^TestHeartbeat$"}},
	},
	{
		name: "live/new events wait for others", file: "live/response.go",
		old:   "flush || r.waiting >= unflushed {",
		new:   "r.waiting >= unflushed {",
		tests: []tests{{"live", "^TestEvents$"}},
	},
	{
		name: "live/those who leave keep their seat", file: "live/seats.go",
		old:   "		if s.readers[taken.reader]--; s",
		new:   "		if s",
		tests: []tests{{"live", "^TestLimits$"}},
	},
	{
		name: "live/a shutdown waits for ever", file: "live/seats.go",
		old:   "		taken.cancel(errShutdown)",
		new:   "		_ = taken",
		tests: []tests{{"live", "^TestShutdown$"}},
	},
	{
		name: "live/a shutdown waits for nobody", file: "live/seats.go",
		old:   "	if len(s.taken) == 0 {\n		close(s.empty)\n	}\n}\n\nfunc (s *seats) isClosing",
		new:   "	close(s.empty)\n}\n\nfunc (s *seats) isClosing",
		tests: []tests{{"live", "^(TestShutdown|TestShutdownTimeout)$"}},
	},
	{
		name: "live/what has ended is asked for again", file: "live/handler.go",
		old:   "	if at.ended {",
		new:   "	if false {",
		tests: []tests{{"live", "^(TestPosition|TestStreamStatuses)$"}},
	},
}
