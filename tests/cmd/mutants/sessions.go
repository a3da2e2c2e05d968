package main

const (
	sessionsGo   = "repo/postgres/sessions.go"
	sessionRules = "repo/rules/session.go"
	namesSchema  = "schema/migrations/0008_session_names.sql"
)

var sessionMutants = []mutant{
	{
		name: "names/a key with another id is accepted", file: sessionRules,
		old:   "		if !s.ID.IsZero() && s.ID != id {",
		new:   "		if s.ID == id {",
		tests: []tests{{"repo/memory", conformance + "^Keys$"}},
	},
	{
		name: "names/a key leads to a session without it", file: sessionRules,
		old:   "		if s.Key != \"\" { // which",
		new:   "		if s.Key == \"\" && false { // which",
		tests: []tests{{"repo/memory", conformance + "^Keys$"}},
	},
	{
		name: "names/the owner is ignored in memory", file: "repo/memory/sessions_list.go",
		old:   "			(filter.Owner == \"\" || r.Owner == filter.Owner) &&\n",
		new:   "",
		tests: []tests{{"repo/memory", conformance + "^Keys$"}},
	},
	{
		name: "names/a cursor is accepted with another owner", file: "repo/rules/list.go",
		old:   "		key = append(key, f.Owner)\n",
		new:   "",
		tests: []tests{{"repo/memory", conformance + "^Keys$"}},
	},
	{
		name: "names/a created session is missing from its owner's list", file: sessionsSQL,
		old:   " WHERE c.owner IS NOT NULL\n), told AS (\n    INSERT INTO audit_entries (occurred_at, id, type, actor, session_id)\n",
		new:   " WHERE c.owner = ''\n), told AS (\n    INSERT INTO audit_entries (occurred_at, id, type, actor, session_id)\n",
		tests: []tests{{inPostgres, pool + "^Keys$"}},
	},
	{
		name: "names/an imported session is missing from its owner's list", file: sessionsSQL,
		old:   " WHERE c.owner IS NOT NULL\n), told AS (\n    INSERT INTO audit_entries (occurred_at, id, type, actor, session_id, details)\n",
		new:   " WHERE c.owner = ''\n), told AS (\n    INSERT INTO audit_entries (occurred_at, id, type, actor, session_id, details)\n",
		tests: []tests{{inPostgres, pool + "^Keys$"}},
	},
	{
		name: "names/a page repeats the end of the previous one", file: sessionsSQL,
		old:   "(o.created_at, o.session_id) < (",
		new:   "(o.created_at, o.session_id) <= (",
		tests: []tests{{inPostgres, pool + "^Keys$"}},
	},
	{
		name: "names/a lost creation is reported as a conflict", file: "repo/postgres/executor.go",
		old:   "		case unsure && errors.Is(err, errExists):",
		new:   "		case unsure && errors.Is(err, errExists) && errors.Is(err, errNotMoved):",
		tests: []tests{{inPostgres, "^TestLostCreation$"}},
	},
	{
		name: "names/a generated id may be another session's", file: sessionsGo,
		old:   "	own := new.ID.IsZero() && new.Key == \"\"\n",
		new:   "	own := new.ID.IsZero() && new.Key == \"\" && false\n",
		tests: []tests{{inPostgres, "^TestLostCreation$"}},
	},
	{
		name: "names/a session that was deleted meanwhile is not created", file: sessionsGo,
		old:   "		if !errors.Is(err, repo.ErrNotFound) || !pause(ctx, attempt) {\n",
		new:   "		if attempt > 0 {\n",
		tests: []tests{{inPostgres, "^TestCreationOfADeletedSession$"}},
	},
	{
		name: "names/one caller creates, and the others conflict", file: "repo/by_key.go",
		old:   "k.key.Key, ExistingAny\n",
		new:   "k.key.Key, ExistingSame\n",
		tests: []tests{{inPostgres, "^TestAppendOrCreate$"}},
	},
	{
		name: "names/a revert does not wait for a writer", file: namesSchema,
		old:   "LOCK TABLE sessions, session_owners IN ACCESS EXCLUSIVE MODE;\n",
		new:   "",
		tests: []tests{{"tests/migrate", "^TestDownWaitsForAWriterOfNames$"}},
	},
}
