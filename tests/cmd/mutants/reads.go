package main

const (
	readsSQL = "queries/reads.sql"
	readGo   = "repo/postgres/read.go"
)

var readMutants = []mutant{
	{
		name: "read/a session by its key, and another one", file: "repo/by_key.go",
		old:   "reflect.DeepEqual(message, found.Messages[0])",
		new:   "reflect.DeepEqual(message.SessionID, found.Messages[0].SessionID)",
		tests: []tests{{"repo/memory", conformance + "^Keys$"}},
	},
	{
		name: "read/a session by its key that was deleted meanwhile", file: "repo/by_key.go",
		old:   "		case errors.Is(err, ErrNotFound):",
		new:   "		case errors.Is(err, ErrClosed):",
		tests: []tests{{"repo/memory", conformance + "^Keys$"}},
	},
	{
		name: "read/each session, cut as it was read with others", file: "repo/each_session.go",
		old:   "if session != nil && session.Cut && i > 0 {",
		new:   "if session != nil && session.Cut && i < 0 {",
		tests: []tests{{"repo/memory", "^TestAmounts$/^Amounts$/^EachSession$"}},
	},
	{
		name: "read/each session, as many at a time as there are", file: "repo/each_session.go",
		old:   "errors.Is(err, ErrLimit) && count > 1 {",
		new:   "errors.Is(err, ErrLimit) && count < 1 {",
		tests: []tests{{"repo/memory", "^TestAmounts$/^Amounts$/^EachSession$"}},
	},
	{
		name: "read/each session, more messages than one read may ask for", file: "repo/each_session.go",
		old:   "page.Limit = max(1, min(MaxPageSize, MaxReadMessages/count))",
		new:   "page.Limit = MaxPageSize",
		tests: []tests{{"repo/memory", "^TestAmounts$/^Amounts$/^EachSession$"}},
	},
	{
		name: "read/typed values that cannot be read again", file: "repo/values.go",
		old:   "if err != nil || json.Unmarshal(text, new(T)) != nil {",
		new:   "if err != nil {",
		tests: []tests{{"repo/memory", conformance + "^State$"}},
	},
	{
		name: "read/a session's value that the state does not have", file: "repo/state.go",
		old:   "	if !found {\n		return nil\n	}\n	return s.Values[i].Value",
		new:   "	if !found && i == len(s.Values) {\n		return nil\n	}\n	return s.Values[i].Value",
		tests: []tests{{"repo", "^TestScopeStateValue$"}},
	},
	{
		name: "read/a follower that goes on after its Next was given up", file: "repo/follower.go",
		old:   "context.AfterFunc(ctx, func() { f.cancel(ErrClosed) })()",
		new:   "context.AfterFunc(ctx, func() {})()",
		tests: []tests{{"repo", "^TestFollowerEnds$"}},
	},
	{
		name: "read/a follower that begins before it is asked", file: "repo/follower.go",
		old:   "	f.items = follow(f.ctx) ",
		new:   "	f.items = follow(f.ctx)\n	f.next, f.stop = iter.Pull2(f.items) ",
		tests: []tests{{"repo", "^TestFollowerHoldsNothingBefore$"}},
	},
	{
		name: "read/since without its own moment", file: readsSQL,
		old:   "CASE WHEN m.created_at < i.at THEN m.sequence + 1",
		new:   "CASE WHEN m.created_at <= i.at THEN m.sequence + 1",
		tests: []tests{{inPostgres, pool + "^Read$"}},
	},
	{
		name: "read/since, one message after the other", file: readsSQL,
		old:   "messages.sequence = s.low + (s.high - s.low) / 2",
		new:   "messages.sequence = s.low",
		tests: []tests{{inPostgres, "^TestReadSinceReadsFewBlocks$"}},
	},
	{
		name: "read/one message fewer than asked for", file: readsSQL,
		old:   "    LIMIT @max_messages::bigint\n) AS m\nWHERE",
		new:   "    LIMIT @max_messages::bigint - 1\n) AS m\nWHERE",
		tests: []tests{{inPostgres, pool + "^Read$"}},
	},
	{
		name: "read/one message more than asked for", file: readsSQL,
		old:   "    LIMIT @max_messages::bigint\n) AS m\nWHERE",
		new:   "    LIMIT @max_messages::bigint + 1\n) AS m\nWHERE",
		tests: []tests{{inPostgres, pool + "^Read$"}},
	},
	{
		name: "read/messages although none are asked for", file: readGo,
		old:   "	if params.MaxMessages > 0 {\n",
		new:   "	if params.MaxMessages >= 0 {\n",
		tests: []tests{{inPostgres, "^TestPlansOfReads$"}},
	},
	{
		name: "read/a part that is not needed", file: "repo/postgres/parts.go",
		old:   "case begins && within == \"\" && !slices.Contains(parts, name):",
		new:   "case begins && within == \"\" && name != \"many\" && !slices.Contains(parts, name):",
		tests: []tests{{inPostgres, "^TestPlansOfReads$"}},
	},
	{
		name: "read/cut at the wrong end", file: readsSQL,
		old:   "SELECT q.place, CASE WHEN @backwards::boolean THEN -q.sequence",
		new:   "SELECT q.place, CASE WHEN @backwards::boolean THEN q.sequence",
		tests: []tests{{inPostgres, "^TestReadStopsAtItsBound$"}},
	},
	{
		name: "read/cut without the sessions' order", file: readsSQL,
		old:   "                ORDER BY r.place, m.sequence\n",
		new:   "                ORDER BY m.sequence\n",
		tests: []tests{{inPostgres, pool + "^Read$"}},
	},
	{
		name: "read/at any level", file: readsSQL,
		old:   "WHERE (@any_level::boolean OR current_setting('transaction_isolation') = 'read committed') AND (\n    m.most_bytes",
		new:   "WHERE (@any_level::boolean OR current_setting('transaction_isolation') <> '') AND (\n    m.most_bytes",
		tests: []tests{{inPostgres, "^TestReadChecksItsLevel$"}},
	},
	{
		name: "read/another level, and not said", file: readGo,
		old:   "		if err == nil && scanner.otherLevel {\n",
		new:   "		if false {\n",
		tests: []tests{{inPostgres, "^TestReadAtAnotherDefaultLevel$"}},
	},
	{
		name: "read/any number of bytes", file: "repo/rules/read.go",
		old:   "		if size >= repo.MaxReadBytes {\n",
		new:   "		if size >= 2*repo.MaxReadBytes {\n",
		tests: []tests{{"repo/memory", conformance + "^Read$"}},
	},
	{
		name: "read/sizes of all messages", file: readsSQL,
		old:   "    WHERE q.total >= @max_bytes::bigint\n    LIMIT 1\n",
		new:   "    WHERE q.total >= @max_bytes::bigint\n    ORDER BY q.total LIMIT 1\n",
		tests: []tests{{inPostgres, "^TestReadStopsAtItsBound$"}},
	},
	{
		name: "read/all messages, to leave some out", file: readsSQL,
		old:   "    m.most_bytes <= @small_bytes::bigint\n",
		new:   "    m.most_bytes <= 1000 * @small_bytes::bigint\n",
		tests: []tests{{inPostgres, "^TestReadStopsAtItsBound$"}},
	},
	{
		name: "read/cut, and not said", file: readGo,
		old:   "entry.Cut = int64(len(entry.Messages)) < s.asked[i]; entry.Cut",
		new:   "entry.Cut = int64(len(entry.Messages)) < s.asked[i] && len(entry.Messages) == 0; entry.Cut",
		tests: []tests{{inPostgres, pool + "^Read$"}},
	},
	{
		name: "read/a content that is read to be left out", file: readsSQL,
		old:   "THEN messages.content ELSE '' END AS content",
		new:   "THEN messages.content ELSE left(messages.content, 0) END AS content",
		tests: []tests{{inPostgres, "^TestReadLeavesOutWhatIsNotAskedFor$"}},
	},
	{
		name: "read/planned for each", file: readsSQL,
		old:   "FROM unnest((SELECT @ids::uuid[]))",
		new:   "FROM unnest(@ids::uuid[])",
		tests: []tests{{inPostgres, "^TestReadIsPlannedOnce$"}},
	},
	{
		name: "read/a session's state for a shared one", file: readGo,
		old:   "case i >= own && name != nil && *name == s.read.Scopes[i-own]:",
		new:   "case i >= own:",
		tests: []tests{{inPostgres, pool + "^Read$"}},
	},
	{
		name: "read/any amount of state", file: readsSQL,
		old:   "CASE WHEN v.total <= @max_state_bytes::bigint THEN v.value END",
		new:   "CASE WHEN v.total <= 2 * @max_state_bytes::bigint THEN v.value END",
		tests: []tests{{inPostgres, pool + "^State$"}},
	},
	{
		name: "read/more messages than the bound", file: "repo/rules/read.go",
		old:   "count > repo.MaxReadMessages/max(1, sessions)",
		new:   "count > repo.MaxReadMessages",
		tests: []tests{{"repo/memory", conformance + "^Read$"}},
	},
	{
		name: "read/memory that looks twice", file: "repo/memory/read.go",
		old:   "				messages[i] = slices.Clone(selectMessages(r.messages, read))\n",
		new:   "				messages[i] = slices.Clone(selectMessages(r.messages, read))\n				t.mu.Unlock()\n				t.mu.Lock()\n",
		tests: []tests{{"repo/memory", conformance + "^Concurrency$/^Read$"}},
	},
	{
		name: "reads/a plain read of several snapshots", file: "repo/postgres/isolation.go",
		old:   "SET transaction_isolation TO 'repeatable read'",
		new:   "SET transaction_isolation TO 'read committed'",
		tests: []tests{{"tests/postgres", pool + "^Concurrency$/^Read$"}},
	},
	{
		name: "reads/a plain read without a message that is too large", file: "repo/postgres/read_plain.go",
		old:   "if int64(len(messages)) < s.asked[0] {",
		new:   "if false {",
		tests: []tests{{"tests/postgres", "^TestPlainRead$"}},
	},
	{
		name: "reads/a plain read without a value that is too large", file: "repo/postgres/read_plain.go",
		old:   "return !s.partial && keys",
		new:   "return keys",
		tests: []tests{{"tests/postgres", "^TestPlainRead$"}},
	},
	{
		name: "reads/a plain read of too few keys", file: "repo/postgres/read_plain.go",
		old:   "&& keys < smallStateKeys, nil",
		new:   "&& keys >= 0, nil",
		tests: []tests{{"tests/postgres", "^TestPlainRead$"}},
	},
}
