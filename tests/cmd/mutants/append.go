package main

const messagesSQL = "queries/messages.sql"

// The code of group commits changes often, so these mutants cover only what is promised.
var appendMutants = []mutant{
	{
		name: "append/a lock timeout that forgets a doubt", file: "repo/postgres/group.go",
		old:   "settled(afterDoubt(t.Item.unsure, &storeError{repo.ErrContention, errLockTimeout}))",
		new:   "&storeError{repo.ErrContention, errLockTimeout}",
		tests: []tests{{inPostgres, "^TestLockTimeoutAfterALostAnswer$"}},
	},
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
		tests: []tests{{inPostgres, "^TestFirstAttemptArrivesLate$"}},
	},
	{
		name: "append/a refused append fails its group", file: "repo/postgres/group.go",
		old:   "case isRejection(err) && (",
		new:   "case isRejection(err) && false && (",
		tests: []tests{{inPostgres, "^TestRejectedAppendFailsNoOther$"}},
	},
	{
		name: "append/an append that a trigger refuses fails its group", file: "repo/postgres/group.go",
		old:   "	return ok && !endsConnection(pgErr) && !slices",
		new:   "	return ok && (errors.Is(err, repo.ErrInvalid) || errors.Is(err, repo.ErrConflict)) && !endsConnection(pgErr) && !slices",
		tests: []tests{{inPostgres, "^TestRejectedAppendFailsNoOther$"}},
	},
	{
		name: "append/what tells of the moment is refused for good", file: "repo/postgres/group.go",
		old:   "!endsConnection(pgErr) && !slices.Contains(circumstances, class(pgErr))",
		new:   "!endsConnection(pgErr) && true",
		tests: []tests{{inPostgres, "^TestAppendRefusedForTheMoment$"}},
	},
	{
		name: "append/retried forever", file: "repo/postgres/group.go",
		old:   "g.patient && patience > 0 && time",
		new:   "g.patient && patience < 0 && time",
		tests: []tests{{inPostgres, "^TestLockTimeoutIsTheSessionsOwn$"}},
	},
	{
		name: "append/an id that was stored during the wait", file: "repo/postgres/group.go",
		old:   "case violates(err, uniqueMessageID) && attempt",
		new:   "case violates(err, uniqueMessageID) && attempt < 0 && attempt",
		tests: []tests{{inPostgres, "^TestWaitingAppendSeesTheTransaction$"}},
	},
	{
		name: "append/an id given twice in one statement", file: "repo/postgres/group.go",
		old:        " || a.repeatable && givesAgain(given, a) {",
		new:        " {",
		tests:      []tests{{inPostgres, "^TestOneBadAppendFailsNoOther$"}},
		equivalent: "the unique key makes the statement fail, and its appends are sent one by one",
	},
	{
		name: "append/an append at the server is reported as withdrawn", file: "repo/postgres/appender.go",
		old:   "case errors.Is(err, scheduler.ErrWithdrawn) && !a.unsure:",
		new:   "case ctx.Err() != nil && !a.unsure:",
		tests: []tests{{inPostgres, "^TestWithdrawnAndUnknown$"}},
	},
	{
		name: "append/a lock timeout that is in seconds", file: messagesSQL,
		old:   "current_setting('lock_timeout')::interval) * 1000 ELSE",
		new:   "current_setting('lock_timeout')::interval) ELSE",
		tests: []tests{{inPostgres, "^TestLockTimeoutOfSettings$"}},
	},
	{
		name: "append/Close that waits for no operation", file: "repo/postgres/gate.go",
		old:   "	g.inside.Wait()\n",
		new:   "",
		tests: []tests{{inPostgres, "^TestCloseUnderLoad$"}},
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
		name: "append/a waiting append takes no lock", file: messagesSQL,
		old:   "    FOR UPDATE OF c\n",
		new:   "",
		tests: []tests{{inPostgres, "^TestWaitingAppendSeesTheTransaction$"}},
	},
	{
		name: "append/an outdated expected sequence is accepted", file: messagesSQL,
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
		name: "append/a call that is not stored after a wait", file: messagesSQL,
		old:   "    FROM advanced a, unnest((SELECT @call_ids::text[])) WITH ORDINALITY AS n (call_id, ordinality)\n    WHERE n.call_id <> ''\n",
		new:   "    FROM advanced a, unnest((SELECT @call_ids::text[])) WITH ORDINALITY AS n (call_id, ordinality)\n    WHERE false\n",
		tests: []tests{{inPostgres, "^TestEachAppendStoresItsCalls$"}},
	},
	{
		name: "append/a call that is not stored in a group", file: messagesSQL,
		old:   "(SELECT cardinality(@call_ids::text[]) > 0)",
		new:   "(SELECT cardinality(@call_ids::text[]) > 1)",
		tests: []tests{{inPostgres, "^TestEachAppendStoresItsCalls$"}},
	},
	{
		name: "append/a call that is not stored by an import", file: messagesSQL,
		old:   "    FROM advanced a, unnest(@call_ids::text[]) WITH ORDINALITY AS n (call_id, ordinality)\n    WHERE n.call_id <> ''\n",
		new:   "    FROM advanced a, unnest(@call_ids::text[]) WITH ORDINALITY AS n (call_id, ordinality)\n    WHERE false\n",
		tests: []tests{{inPostgres, "^TestEachAppendStoresItsCalls$"}},
	},
	{
		name: "append/a call in a statement that stores none", file: "repo/postgres/group_statement.go",
		old:   "return !t.Item.skipped.IsZero() || t.Item.hasCall()",
		new:   "return !t.Item.skipped.IsZero()",
		tests: []tests{{inPostgres, "^TestEachAppendStoresItsCalls$"}},
	},
	{
		name: "append/the kind of another message", file: "repo/postgres/convert.go",
		old:   "append(append(column, make([]string, place-len(column))...), value)",
		new:   "append(column, value)",
		tests: []tests{{inPostgres, "^TestEachAppendStoresItsCalls$"}},
	},
	{
		name: "messages/those of a call in any order", file: messagesSQL,
		old:   "ORDER BY c.sequence\n",
		new:   "ORDER BY c.sequence DESC\n",
		tests: []tests{{inPostgres, pool + "^Messages$"}},
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
		name: "messages/stored messages in any order", file: messagesSQL,
		old:   "ORDER BY n.ordinality;",
		new:   "ORDER BY n.ordinality DESC;",
		tests: []tests{{inPostgres, pool + "^Append$"}},
	},
	{
		name: "messages/imported after existing messages", file: messagesSQL,
		old:        "WHERE c.session_id = @session_id AND c.next_sequence = @first_sequence::bigint",
		new:        "WHERE c.session_id = @session_id AND @first_sequence::bigint >= 0",
		tests:      []tests{{inPostgres, pool + "^Export$"}},
		equivalent: "an import inserts, one chunk after the other, into a session that no other transaction sees",
	},
}
