package main

const messagesSQL = "queries/messages.sql"

// What appends in groups changes often: of this there is as much as is promised.
var appendMutants = []mutant{
	{
		name: "append/the doubt of a group is forgotten", file: "repo/postgres/group.go",
		old:   "t.Item.unsure = t.Item.unsure || unsure",
		new:   "t.Item.unsure = t.Item.unsure || unsure && false",
		tests: []tests{{inPostgres, "^TestLostAppendIsMadeAgain$"}},
	},
	{
		name: "append/not as many messages yet is never", file: "repo/postgres/group.go",
		old:   "case s.unsure() && s.mayFitLater(row):",
		new:   "case s.unsure() && s.mayFitLater(row) && g.waits:",
		tests: []tests{{inPostgres, "^TestLateAttempt$"}},
	},
	{
		name: "append/one that the database refuses fails all", file: "repo/postgres/group.go",
		old:   "case isRejection(err) && (",
		new:   "case isRejection(err) && false && (",
		tests: []tests{{inPostgres, "^TestRejectedAppendFailsNoOther$"}},
	},
	{
		name: "append/an id that was stored during the wait", file: "repo/postgres/group.go",
		old:   "case violates(err, uniqueMessageID) && attempt",
		new:   "case violates(err, uniqueMessageID) && attempt < 0 && attempt",
		tests: []tests{{inPostgres, pool + "^Concurrency$/^(AppendOneID|AppendOverlapping)$"}},
	},
	{
		name: "append/an id given twice in one statement", file: "repo/postgres/group.go",
		old:   " || a.repeatable && givesAgain(given, a) {",
		new:   " {",
		tests: []tests{{inPostgres, "^TestOneBadAppendFailsNoOther$"}},
	},
	{
		name: "append/left, and said to be withdrawn", file: "repo/postgres/appender.go",
		old:   "case errors.Is(err, scheduler.ErrWithdrawn) && !a.unsure:",
		new:   "case ctx.Err() != nil && !a.unsure:",
		tests: []tests{{inPostgres, "^TestWithdrawnAndUnknown$"}},
	},
	{
		name: "append/a group that takes no lock", file: messagesSQL,
		old:   "        WHERE session_counters.session_id = s.session_id\n        FOR UPDATE SKIP LOCKED\n",
		new:   "        WHERE session_counters.session_id = s.session_id\n",
		tests: []tests{{inPostgres, "^TestLockedSessionIsSkipped$"}},
	},
	{
		name: "append/a group that waits for a lock", file: messagesSQL,
		old:   "        WHERE session_counters.session_id = s.session_id\n        FOR UPDATE SKIP LOCKED\n",
		new:   "        WHERE session_counters.session_id = s.session_id\n        FOR UPDATE\n",
		tests: []tests{{inPostgres, "^TestLockedSessionIsSkipped$"}},
	},
	{
		name: "append/a lone message that takes no lock", file: messagesSQL,
		old:   "WHERE l.session_id = @session_id FOR UPDATE SKIP LOCKED\n",
		new:   "WHERE l.session_id = @session_id\n",
		tests: []tests{{inPostgres, "^TestLockedSessionIsSkipped$"}},
	},
	{
		name: "append/one that waits, and takes no lock", file: messagesSQL,
		old:   "    FOR UPDATE OF c\n",
		new:   "",
		tests: []tests{{inPostgres, "^TestBoundSeesOthers$"}},
	},
	{
		name: "append/past the expected sequence", file: messagesSQL,
		old:   "AND l.next_sequence = coalesce(l.expected, l.next_sequence)",
		new:   "AND l.next_sequence >= coalesce(l.expected, l.next_sequence)",
		tests: []tests{{inPostgres, pool + "^Append$"}},
	},
	{
		name: "append/known by its id in another session", file: messagesSQL,
		old:   "SELECT FROM messages m WHERE m.session_id = n.session_id AND m.id = n.id LIMIT 1",
		new:   "SELECT FROM messages m WHERE m.id = n.id LIMIT 1",
		tests: []tests{{inPostgres, pool + "^Append$"}},
	},
	{
		name: "messages/read from behind the place", file: messagesSQL,
		old:   "sequence >= @from_sequence",
		new:   "sequence > @from_sequence",
		tests: []tests{{inPostgres, pool + "^Messages$"}},
	},
	{
		name: "messages/read before the place, and with it", file: messagesSQL,
		old:   "sequence < @before_sequence",
		new:   "sequence <= @before_sequence",
		tests: []tests{{inPostgres, pool + "^Messages$"}},
	},
	{
		name: "messages/stored ones in any order", file: messagesSQL,
		old:   "ORDER BY n.ordinality;",
		new:   "ORDER BY n.ordinality DESC;",
		tests: []tests{{inPostgres, pool + "^Append$"}},
	},
	{
		name: "messages/imported behind whatever there is", file: messagesSQL,
		old:        "WHERE c.session_id = @session_id AND c.next_sequence = @first_sequence::bigint",
		new:        "WHERE c.session_id = @session_id AND @first_sequence::bigint >= 0",
		tests:      []tests{{inPostgres, pool + "^Port$"}},
		equivalent: "an import adds to a session that no other transaction sees yet, one part after the other",
	},
}
