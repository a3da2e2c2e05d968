package main

const (
	postgresPkg = "repo/postgres"
	errorsGo    = "repo/postgres/errors.go"
	inPostgres  = "tests/postgres"
)

var errorMutants = []mutant{
	{
		name: "errors/an answer that is translated", file: errorsGo,
		old:   "	if a, ok := errors.AsType[*answer](err); ok {\n		return a.err",
		new:   "	if a, ok := errors.AsType[*answer](err); ok && at == unsent {\n		return a.err",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/ours, translated again", file: errorsGo,
		old:   "	if err == nil || isOurs(err) {",
		new:   "	if err == nil {",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/no row is a failure", file: errorsGo,
		old:   "	if isNoRows(err) { // an answer",
		new:   "	if isNoRows(err) && at == unsent { // an answer",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/doubt about what was not sent", file: errorsGo,
		old:   "	if at == committing && pgconn.SafeToRetry(err) && ",
		new:   "	if at == reading && pgconn.SafeToRetry(err) && ",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a connection that ended was closed before", file: errorsGo,
		old:   " && !errors.Is(err, pgconn.ErrConnClosed) {",
		new:   " {",
		tests: []tests{{postgresPkg, "^TestTranslate$"}, {inPostgres, "^TestUnansweredCommit$"}},
	},
	{
		name: "errors/a closed pool is a database that is away", file: errorsGo,
		old:   "	case errors.Is(err, puddle.ErrClosedPool):\n",
		new:   "	case errors.Is(err, puddle.ErrClosedPool) && at == committing:\n",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/rolled back, and in doubt", file: errorsGo,
		old:   "	case errors.Is(err, pgx.ErrTxCommitRollback):\n",
		new:   "	case errors.Is(err, pgx.ErrTxCommitRollback) && at == unsent:\n",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/unanswered, and said not to be written", file: errorsGo,
		old:   "	case at == committing:\n		return &storeError{repo.ErrUnknownOutcome, err}\n",
		new:   "",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/an ended context is a database that is away", file: errorsGo,
		old:   "	case ctx.Err() != nil:\n		return fmt",
		new:   "	case ctx.Err() != nil && at == committing:\n		return fmt",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/an answer that ended the connection is one", file: errorsGo,
		old:   "	if at == committing && endsConnection(pgErr) {",
		new:   "	if at == unsent && endsConnection(pgErr) {",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a severity in the server's language", file: errorsGo,
		old:   "	severity := pgErr.SeverityUnlocalized\n",
		new:   "	severity := pgErr.Severity\n",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a pooler that leaves the English out", file: errorsGo,
		old:   "	return pgErr.Code == adminShutdown || pgErr.Code == crashShutdown",
		new:   "	return pgErr.Code == adminShutdown",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a deadlock that is no contention", file: errorsGo,
		old:   "	case serializationFailure, deadlockDetected, lockNotAvailable:",
		new:   "	case serializationFailure, lockNotAvailable:",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a serialization failure that is no contention", file: errorsGo,
		old:   "	case serializationFailure, deadlockDetected, lockNotAvailable:",
		new:   "	case deadlockDetected, lockNotAvailable:",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a database that is not there is away", file: errorsGo,
		old:   "invalidSchemaName, invalidCatalogName:",
		new:   "invalidSchemaName:",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a right that is a failure", file: errorsGo,
		old:   "	case insufficientRight:\n		return &storeError{repo.ErrPermission, pgErr}\n",
		new:   "",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a login that is tried again", file: errorsGo,
		old:   "	case \"28\": // invalid authorization specification: the login\n		return &storeError{repo.ErrPermission, pgErr}\n",
		new:   "",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a taken key is a bad value", file: errorsGo,
		old:   "		if pgErr.Code == uniqueViolation {\n			return &storeError{repo.ErrConflict, pgErr}\n		}\n",
		new:   "",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/a missing month is a bad entry", file: errorsGo,
		old:   "		if lacksPartition(pgErr) {",
		new:   "		if lacksPartition(pgErr) && at == unsent {",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "errors/any check is a missing month", file: "repo/postgres/audit_partitions.go",
		old:   "pgErr.Code == checkViolation && pgErr.ConstraintName == \"\" && ",
		new:   "pgErr.Code == checkViolation && ",
		tests: []tests{{postgresPkg, "^TestIsNoPartition$"}},
	},
	{
		name: "errors/with the values of rows", file: errorsGo,
		old:   "		Message:             pgErr.Message,\n",
		new:   "		Message:             pgErr.Message,\n		Detail:              pgErr.Detail,\n",
		tests: []tests{{postgresPkg, "^TestTranslate$"}},
	},
	{
		name: "retry/an attempt too many", file: "repo/postgres/retry.go",
		old:   "	if attempt >= maxAttempts {",
		new:   "	if attempt > maxAttempts {",
		tests: []tests{{postgresPkg, "^TestPause$"}},
	},
	{
		name: "retry/with an ended context", file: "repo/postgres/retry.go",
		old:   "	case <-ctx.Done():\n		return false",
		new:   "	case <-ctx.Done():\n		return true",
		tests: []tests{{postgresPkg, "^TestPause$"}},
	},
	{
		name: "retry/pauses that do not grow", file: "repo/postgres/retry.go",
		old:   "firstPause << (attempt - 1)",
		new:   "firstPause",
		tests: []tests{{postgresPkg, "^TestPause$"}},
	},
	{
		name: "retry/contention that is final", file: "repo/postgres/retry.go",
		old:   "errors.Is(err, repo.ErrContention) || errors.Is(err, repo.ErrUnavailable) || errors.As(err, &doubt)",
		new:   "errors.Is(err, repo.ErrUnavailable) || errors.As(err, &doubt)",
		tests: []tests{{postgresPkg, "^TestIsPassing$"}},
	},
	{
		name: "retry/a database that is away for good", file: "repo/postgres/retry.go",
		old:   "errors.Is(err, repo.ErrContention) || errors.Is(err, repo.ErrUnavailable) || errors.As(err, &doubt)",
		new:   "errors.Is(err, repo.ErrContention) || errors.As(err, &doubt)",
		tests: []tests{{postgresPkg, "^TestIsPassing$"}},
	},
	{
		name: "retry/a doubt that is not found out", file: "repo/postgres/retry.go",
		old:   "errors.Is(err, repo.ErrUnavailable) || errors.As(err, &doubt)",
		new:   "errors.Is(err, repo.ErrUnavailable) || doubt != nil",
		tests: []tests{{postgresPkg, "^TestIsPassing$"}},
	},
	{
		name: "retry/an unknown outcome that leaves no doubt", file: "repo/postgres/retry.go",
		old:   "	case errors.Is(err, repo.ErrUnknownOutcome):\n		return &doubtError{err}\n",
		new:   "	case errors.Is(err, repo.ErrUnknownOutcome):\n		return err\n",
		tests: []tests{{postgresPkg, "^TestAfterDoubt$"}},
	},
	{
		name: "retry/surely not written, this time", file: "repo/postgres/retry.go",
		old:   "		return &doubtError{&storeError{repo.ErrUnknownOutcome, stored.cause}}",
		new:   "		return err",
		tests: []tests{{postgresPkg, "^TestAfterDoubt$"}},
	},
	{
		name: "retry/an ended context behind a doubt", file: "repo/postgres/retry.go",
		old:   "		return &doubtError{&storeError{repo.ErrUnknownOutcome, err}}",
		new:   "		return err",
		tests: []tests{{postgresPkg, "^TestAfterDoubt$"}},
	},
	{
		name: "retry/settled, and in doubt", file: "repo/postgres/retry.go",
		old:   "		return doubt.err\n",
		new:   "		return doubt\n",
		tests: []tests{{postgresPkg, "^TestAfterDoubt$"}},
	},
}

var executorMutants = []mutant{
	{
		name: "executor/the doubt of an attempt is forgotten", file: "repo/postgres/executor.go",
		old:   "			unsure = true\n",
		new:   "",
		tests: []tests{{inPostgres, "^TestLostUsageCountsOnce$"}},
	},
	{
		name: "executor/not there yet is never", file: "repo/postgres/executor.go",
		old:   "		case unsure && (errors.Is(err, repo.ErrNotFound) || errors.Is(err, errNotMoved)):",
		new:   "		case unsure && errors.Is(err, errNotMoved):",
		tests: []tests{{inPostgres, "^TestLateAttemptOfPlans$"}},
	},
	{
		name: "executor/not so far yet is never", file: "repo/postgres/executor.go",
		old:   "		case unsure && (errors.Is(err, repo.ErrNotFound) || errors.Is(err, errNotMoved)):",
		new:   "		case unsure && errors.Is(err, repo.ErrNotFound):",
		tests: []tests{{inPostgres, "^TestLateAttemptOfPlans$"}},
	},
	{
		name: "executor/found and not read is not written", file: "repo/postgres/executor.go",
		old:   "{ return settled(afterDoubt(true, err)) }",
		new:   "{ return settled(afterDoubt(false, err)) }",
		tests: []tests{{inPostgres, "^TestStoredButUnread$"}},
	},
	{
		name: "executor/tried once", file: "repo/postgres/executor.go",
		old:   "		if !isPassing(err) || ctx.Err() != nil || !pause(ctx, attempt) {\n			return settled(err)",
		new:   "		if attempt > 0 {\n			return settled(err)",
		tests: []tests{{inPostgres, "^TestLostUsageCountsOnce$"}},
	},
	{
		name: "executor/used inside its own unit of work", file: "repo/postgres/executor.go",
		old:   "	if inside.Is(ctx, p.link.pool) {",
		new:   "	if inside.Is(ctx, p) {",
		tests: []tests{{inPostgres, "^TestInsideOwnTransaction$"}},
	},
	{
		name: "executor/bound, and no lock before the look", file: "repo/postgres/executor.go",
		old:   "		if a.repeatable {\n			if _, err := queries.SessionLock",
		new:   "		if a.repeatable && a.single {\n			if _, err := queries.SessionLock",
		tests: []tests{{inPostgres, "^TestBoundSeesOthers$"}},
	},
	{
		name: "executor/bound, and sees what was", file: "repo/postgres/executor.go",
		old:   "	return b.read(ctx, statements)\n}\n\n// atomically",
		new:   "	return nil\n}\n\n// atomically",
		tests: []tests{{inPostgres, "^TestBoundSeesOthers$"}},
	},
	{
		name: "executor/bound, and half of it stays", file: "repo/postgres/executor.go",
		old:        "	if err := statements(savepoint); err != nil {",
		new:        "	if err := statements(b.tx); err != nil {",
		tests:      []tests{{inPostgres, "^TestHalfOfAnOperation$"}},
		equivalent: "the savepoint is before the statements, whichever of the two sends them, and is rolled back to",
	},
	{
		name: "isolation/whatever the default is", file: "repo/postgres/isolation.go",
		old:   "	isolated.Queue(beReadCommitted)",
		new:   "	isolated.Queue(\"SELECT 1\")",
		tests: []tests{{inPostgres, "^TestEachIsolationLevel$"}},
	},
	{
		name: "isolation/transactions of whatever level", file: "repo/postgres/isolation.go",
		old:   "pgx.TxOptions{IsoLevel: pgx.ReadCommitted}",
		new:   "pgx.TxOptions{}",
		tests: []tests{{inPostgres, "^TestEachIsolationLevel$"}},
	},
	{
		name: "isolation/a commit that failed behind a tag", file: "repo/postgres/isolation.go",
		old:   "	if closed := results.Close(); err == nil {\n		err = closed\n	}\n	return tag, err",
		new:   "	_ = results.Close()\n	return tag, err",
		tests: []tests{{inPostgres, "^TestErrorsOfCommits$"}},
	},
	{
		name: "isolation/a commit that failed behind a row", file: "repo/postgres/isolation.go",
		old:   "	if closed := r.results.Close(); closed != nil && (err == nil || isNoRows(err)) {",
		new:   "	if closed := r.results.Close(); closed != nil && isNoRows(err) {",
		tests: []tests{{inPostgres, "^TestErrorsOfCommits$"}},
	},
	{
		name: "isolation/a commit that failed behind rows", file: "repo/postgres/isolation.go",
		old:   "	return r.err\n}",
		new:   "	return nil\n}",
		tests: []tests{{inPostgres, "^TestErrorsOfCommits$"}},
	},
	{
		name: "tx/contention that is the caller's", file: "repo/postgres/tx.go",
		old:   "		if !errors.Is(err, repo.ErrContention) || ctx.Err() != nil || !pause(ctx, attempt) {",
		new:   "		if !errors.Is(err, repo.ErrContention) || attempt > 0 {",
		tests: []tests{{inPostgres, "^TestInTxIsRunAgain$"}},
	},
	{
		name: "tx/run again for whatever reason", file: "repo/postgres/tx.go",
		old:   "		if !errors.Is(err, repo.ErrContention) || ctx.Err() != nil",
		new:   "		if err == nil || errors.Is(err, repo.ErrClosed) || ctx.Err() != nil",
		tests: []tests{{inPostgres, "^TestInTxIsRunAgain$"}},
	},
	{
		name: "tx/a commit with an ended context", file: "repo/postgres/tx.go",
		old:        "	if ctx.Err() != nil {\n		return translate(ctx, ctx.Err(), reading)\n	}\n",
		new:        "",
		tests:      []tests{{inPostgres, pool + "^Transactions$"}},
		equivalent: "the driver sends nothing with a context that has ended, and says so",
	},
	{
		name: "tx/an unanswered commit is none", file: "repo/postgres/tx.go",
		old:   "	return translate(ctx, tx.Commit(ctx), committing)",
		new:   "	return translate(ctx, tx.Commit(ctx), reading)",
		tests: []tests{{inPostgres, "^TestUnansweredCommit$"}},
	},
	{
		name: "tx/begun once", file: "repo/postgres/tx.go",
		old:   "		if !isPassing(err) || ctx.Err() != nil || !pause(ctx, attempt) {\n			return nil, err",
		new:   "		if attempt > 0 {\n			return nil, err",
		tests: []tests{{inPostgres, "^TestBeginIsTriedAgain$"}},
	},
}

const sessionsSQL = "queries/sessions.sql"

var usageMutants = []mutant{
	{
		name: "usage/a lost answer is forgotten", file: "repo/postgres/usage.go",
		old:   "		lost = lost || errors.Is(",
		new:   "		lost = lost && errors.Is(",
		tests: []tests{{inPostgres, "^TestLateUsageIsNotRefused$"}},
	},
	{
		name: "usage/refused while an attempt is on its way", file: "repo/postgres/usage.go",
		old:   "	if lost {\n		return &storeError{repo.ErrUnknownOutcome, errLateAttempt}\n	}\n",
		new:   "",
		tests: []tests{{inPostgres, "^TestLateUsageIsNotRefused$"}},
	},
	{
		name: "usage/no session yet is never one", file: "repo/postgres/usage.go",
		old:   "	case isNoRows(err):\n		return repo.Usage{}, refusedUsage(lost, sessionNotFound(id))",
		new:   "	case isNoRows(err):\n		return repo.Usage{}, sessionNotFound(id)",
		tests: []tests{{inPostgres, "^TestLateUsageOfANewSession$"}},
	},
	{
		name: "usage/past its type", file: "repo/postgres/usage.go",
		old:   "	case hasCode(err, outOfRange):\n		return repo.Usage{}, &repo.InvalidError{Field: \"usage\", Reason: \"would pass 2^63-1 in total\"}\n",
		new:   "",
		tests: []tests{{inPostgres, pool + "^Concurrency$/^UsageOverflow$"}},
	},
	{
		name: "usage/another one under the same id", file: "repo/postgres/usage.go",
		old:   "		if err := add.Conflict(id, known); err != nil {\n			return repo.Usage{}, err\n		}\n",
		new:   "		_ = known\n",
		tests: []tests{{inPostgres, pool + "^Usage$"}},
	},
	{
		name: "usage/stored during the wait, and not looked for", file: "repo/postgres/usage.go",
		old:   "	case given || lost:",
		new:   "	case given && lost:",
		tests: []tests{{inPostgres, pool + "^Concurrency$/^UsageID$"}, {inPostgres, "^TestUsageCountsOnce$"}},
	},
	{
		name: "usage/another one stored during the wait", file: "repo/postgres/usage.go",
		old:   "	if conflict != nil {\n		return repo.Usage{}, true, conflict\n	}\n",
		new:   "	_ = conflict\n",
		tests: []tests{{inPostgres, "^TestUsageStoredDuringTheWait$"}},
	},
	{
		name: "usage/past the budget", file: sessionsSQL,
		old:   "    WHERE l.fits AND NOT EXISTS (SELECT FROM known)",
		new:   "    WHERE l.fits IS NOT NULL AND NOT EXISTS (SELECT FROM known)",
		tests: []tests{{inPostgres, pool + "^Usage$"}},
	},
	{
		name: "usage/without the session's lock", file: sessionsSQL,
		old:   "    WHERE s.id = @id\n    FOR NO KEY UPDATE\n), known AS (",
		new:   "    WHERE s.id = @id\n), known AS (",
		tests: []tests{{inPostgres, pool + "^Concurrency$/^(Budget|Usage)$"}},
	},
	{
		name: "usage/added and not noted", file: sessionsSQL,
		old:   "    FROM locked l, noted n\n    WHERE s.id = @id AND n.session_id = @id",
		new:   "    FROM locked l\n    WHERE s.id = @id",
		tests: []tests{{inPostgres, pool + "^Usage$"}},
	},
	{
		name: "usage/noted twice at once", file: sessionsSQL,
		old:   "    ON CONFLICT (session_id, id) DO NOTHING\n    RETURNING session_id\n",
		new:   "    RETURNING session_id\n",
		tests: []tests{{inPostgres, pool + "^Concurrency$/^UsageID$"}, {inPostgres, "^TestUsageCountsOnce$"}},
	},
	{
		name: "usage/a budget as it was before the wait", file: sessionsSQL,
		old:   "        budget_nanos = l.budget_nanos,\n        updated_at = greatest(s.updated_at, clock_timestamp())\n    FROM locked l, noted n",
		new:   "        updated_at = greatest(s.updated_at, clock_timestamp())\n    FROM locked l, noted n",
		tests: []tests{{inPostgres, "^TestBudgetRaisedDuringTheWait$"}},
	},
	{
		name: "sessions/an update below the cost", file: sessionsSQL,
		old:   "    WHERE s.id = l.id AND l.fits\n",
		new:   "    WHERE s.id = l.id\n",
		tests: []tests{{inPostgres, pool + "^Update$"}},
	},
	{
		name: "sessions/a page that begins with the last one's end", file: sessionsSQL,
		old:   "    AND s.created_at < @created_before\n    AND (s.created_at, s.id) < (",
		new:   "    AND s.created_at < @created_before\n    AND (s.created_at, s.id) <= (",
		tests: []tests{{inPostgres, pool + "^List$"}},
	},
	{
		name: "sessions/up to and with", file: sessionsSQL,
		old:   "    AND s.created_at < @created_before\n",
		new:   "    AND s.created_at <= @created_before\n",
		tests: []tests{{inPostgres, pool + "^List$"}},
	},
	{
		name: "sessions/made twice", file: sessionsSQL,
		old:   "    ON CONFLICT (id) DO NOTHING\n    RETURNING id, created_at, updated_at",
		new:   "    RETURNING id, created_at, updated_at",
		tests: []tests{{inPostgres, pool + "^Sessions$"}},
	},
	{
		name: "sessions/imported, and ahead of the clock", file: sessionsSQL,
		old:   "SELECT c.id, '-infinity' FROM created c;",
		new:   "SELECT c.id, c.updated_at FROM created c;",
		tests: []tests{{inPostgres, pool + "^Port$"}},
	},
	{
		name: "sessions/deleted beside an append", file: sessionsSQL,
		old:   "WHERE c.session_id = @id\nFOR UPDATE;",
		new:   "WHERE c.session_id = @id;",
		tests: []tests{{inPostgres, pool + "^Concurrency$/^AppendAndDelete$"}, {inPostgres, "^TestBoundSeesOthers$"}},
	},
	{
		name: "sessions/a clock that steps back", file: sessionsSQL,
		old:   "        updated_at = greatest(s.updated_at, clock_timestamp())\n    FROM locked l, noted n",
		new:   "        updated_at = clock_timestamp()\n    FROM locked l, noted n",
		tests: []tests{{"tests/clock", "^TestClockStepsBack$"}},
	},
}
