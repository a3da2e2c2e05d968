-- name: TurnLimitWait :one
-- Index: session_holds_pkey. Bounds the rest of the transaction's waits for locks, unless the setting is below that. It
-- reads the row that is always there, so that a distributed engine sets it where the locks are. It returns the setting
-- before, in milliseconds.
SELECT (extract(epoch FROM current_setting('lock_timeout')::interval) * 1000)::bigint AS was,
    (CASE WHEN current_setting('lock_timeout')::interval NOT BETWEEN interval '1 ms' AND (@bound::text)::interval
        THEN set_config('lock_timeout', @bound::text, true) END IS NOT NULL)::boolean AS bounded FROM session_holds
WHERE session_holds.namespace = '' AND session_holds.owner = ''
    AND session_holds.session_id = '00000000-0000-0000-0000-000000000000';

-- name: TurnAwaitCounters :exec
-- Index: session_counters_pkey. Waits for the counter rows of sessions, in the order given, and locks them.
SELECT FROM unnest((SELECT @session_ids::uuid[])) AS n (session_id), LATERAL (
    SELECT FROM session_counters t WHERE t.session_id = n.session_id FOR UPDATE
) AS c;

-- name: TurnLockCounters :many
-- Index: session_counters_pkey. Locks the counter rows of sessions, in the order given, and skips locked ones. The
-- answer has a row for each session that exists. locked says that its row was skipped. lock_timeout is the setting of
-- that name, in milliseconds. other_level says that transactions are not read committed by default. updated_at is what
-- an append sets.
--
-- hints are where the rows may be (null: unknown), and hint is where one is: see MessageAppendOne.
--
-- What a turn depends on is read by statements of the same transaction that come after the locks, so that they see what
-- was committed before.
--
-- A SELECT around an argument hides its value from the planner. With the values a custom plan, for just these ids or
-- without a look-up, would seem cheaper than a generic one, and the planner would plan each statement anew, which costs
-- more than to run it. LIMIT makes it look up each id separately. If most sessions are short it would otherwise choose
-- a join, which reads a long session from end to end.
SELECT n.session_id::uuid AS session_id, c.locked::boolean AS locked, c.next_sequence::bigint AS next_sequence,
c.fence::bigint AS fence, c.fenced_only::boolean AS fenced_only, c.follows,
    greatest(c.updated_at, statement_timestamp())::timestamptz AS updated_at, c.hint::tid AS hint,
    statement_timestamp()::timestamptz AS now,
    (SELECT extract(epoch FROM current_setting('lock_timeout')::interval) * 1000)::bigint AS lock_timeout,
    (SELECT current_setting('default_transaction_isolation') <> 'read committed')::boolean AS other_level
FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @hints::tid[]))) AS n (session_id, hint),
LATERAL (
    SELECT h.* FROM (
        SELECT false AS locked, t.next_sequence, t.fence, t.fenced_only, t.follows, t.updated_at, t.ctid::tid AS hint
            FROM session_counters t
        WHERE t.ctid = n.hint AND t.session_id = n.session_id FOR UPDATE SKIP LOCKED
    ) AS h
    UNION ALL
    SELECT i.* FROM (
        SELECT false AS locked, f.next_sequence, f.fence, f.fenced_only, f.follows, f.updated_at, f.ctid::tid AS hint
            FROM session_counters f
        WHERE f.session_id = n.session_id FOR UPDATE SKIP LOCKED
    ) AS i
    UNION ALL
    SELECT true, there.next_sequence, there.fence, there.fenced_only, there.follows, there.updated_at, there.ctid::tid
        FROM session_counters there
    WHERE there.session_id = n.session_id
    LIMIT 1
) AS c;

-- name: TurnAwaitUsages :exec
-- Index: sessions_pkey. Waits for the rows that have the usage of sessions, in the order given, and locks them.
SELECT FROM unnest((SELECT @session_ids::uuid[])) AS n (session_id), LATERAL (
    SELECT FROM sessions WHERE sessions.id = n.session_id FOR NO KEY UPDATE
) AS s;

-- name: TurnLockUsages :many
-- Index: sessions_pkey. Locks the rows that have the usage of sessions, in the order given, and skips locked ones.
SELECT n.session_id::uuid AS session_id, s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos
FROM unnest((SELECT @session_ids::uuid[])) AS n (session_id), LATERAL (
    SELECT sessions.input_tokens, sessions.output_tokens, sessions.cost_nanos, sessions.budget_nanos FROM sessions
    WHERE sessions.id = n.session_id FOR NO KEY UPDATE SKIP LOCKED
) AS s;

-- name: TurnAwaitScopes :exec
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key. Waits for the rows of scopes, in the order
-- given, and locks them. hints: see TurnLockScopes.
SELECT FROM ROWS FROM (
    unnest((SELECT @session_ids::uuid[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @names::text[])),
    unnest((SELECT @hints::tid[]))
) AS n (session_id, namespace, name, hint), LATERAL (
    SELECT FROM (
        SELECT FROM state_scopes t WHERE t.ctid = n.hint
            AND (t.session_id = n.session_id OR t.namespace = n.namespace AND t.name = n.name) FOR NO KEY UPDATE
    ) AS h
    UNION ALL
    SELECT FROM (SELECT FROM state_scopes t WHERE t.session_id = n.session_id FOR NO KEY UPDATE) AS o
    UNION ALL
    SELECT FROM (
        SELECT FROM state_scopes t WHERE t.namespace = n.namespace AND t.name = n.name FOR NO KEY UPDATE
    ) AS s
    LIMIT 1
) AS c;

-- name: TurnLockScopes :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key. Like TurnLockCounters, for the rows of scopes,
-- which have their places in the arrays: a scope has a session, or a namespace and a name. now is the database's clock
-- after the lock. hints are where the rows may be (null: not known), and hint is where one is: an open snapshot keeps
-- each version of it, and an index leads over all of them. lock_timeout is the setting of that name in milliseconds.
SELECT n.place::bigint AS place, c.id::uuid AS id, c.locked::boolean AS locked, c.version::bigint AS version,
    c.hint::tid AS hint, clock_timestamp()::timestamptz AS now,
    (SELECT extract(epoch FROM current_setting('lock_timeout')::interval) * 1000)::bigint AS lock_timeout
FROM ROWS FROM (
    unnest((SELECT @session_ids::uuid[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @names::text[])),
    unnest((SELECT @hints::tid[]))
) WITH ORDINALITY AS n (session_id, namespace, name, hint, place), LATERAL (
    SELECT w.* FROM (
        SELECT t.id, t.version, false AS locked, t.ctid::tid AS hint FROM state_scopes t WHERE t.ctid = n.hint
            AND (t.session_id = n.session_id OR t.namespace = n.namespace AND t.name = n.name)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS w
    UNION ALL
    SELECT o.* FROM (
        SELECT t.id, t.version, false AS locked, t.ctid::tid AS hint FROM state_scopes t
        WHERE t.session_id = n.session_id FOR NO KEY UPDATE SKIP LOCKED
    ) AS o
    UNION ALL
    SELECT h.* FROM (
        SELECT t.id, t.version, false AS locked, t.ctid::tid AS hint FROM state_scopes t
        WHERE t.namespace = n.namespace AND t.name = n.name FOR NO KEY UPDATE SKIP LOCKED
    ) AS h
    UNION ALL
    SELECT t.id, t.version, true, t.ctid::tid FROM state_scopes t WHERE t.session_id = n.session_id
    UNION ALL
    SELECT t.id, t.version, true, t.ctid::tid FROM state_scopes t WHERE t.namespace = n.namespace AND t.name = n.name
    LIMIT 1
) AS c;

-- name: TurnFind :many
-- Index: session_turns_pkey. Returns the turns that are stored.
SELECT t.session_id, t.id, t.digest, t.first_sequence, t.message_count, t.plan_id
FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @ids::text[]))) AS n (session_id, id), LATERAL (
    SELECT session_turns.session_id, session_turns.id, session_turns.digest, session_turns.first_sequence,
    session_turns.message_count, session_turns.plan_id
    FROM session_turns
    WHERE session_turns.session_id = n.session_id AND session_turns.id = n.id LIMIT 1
) AS t;

-- name: TurnFindPlaces :many
-- Index: messages_pkey, session_branches_pkey. For turns that follow a message: whether the message with this sequence
-- is in the session, on any of its branches, or among a fork's inherited ones; and whether the session has a row of
-- session_branches. LIMIT is explained at TurnLockCounters.
SELECT n.session_id::uuid AS session_id, n.sequence::bigint AS sequence,
    coalesce((SELECT true FROM messages m WHERE m.session_id = n.session_id AND m.sequence = n.sequence LIMIT 1), (
        SELECT true FROM session_branches b, session_path(b.session_id, b.base - 1, n.sequence, NULL, NULL) AS p (owner,
            low, high)
        WHERE b.session_id = n.session_id AND n.sequence < b.base AND n.sequence >= p.low AND n.sequence <= p.high
        LIMIT 1
    ), false)::boolean AS found,
    coalesce((SELECT true FROM session_branches b WHERE b.session_id = n.session_id LIMIT 1),
        false)::boolean AS branched
FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @sequences::bigint[]))) AS n (session_id,
    sequence);

-- name: TurnFindMessages :many
-- Index: messages_session_id_id_key. Returns the messages that are stored.
SELECT n.session_id::uuid AS session_id, n.id::uuid AS id
FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @ids::uuid[]))) AS n (session_id, id), LATERAL (
    SELECT FROM messages m WHERE m.session_id = n.session_id AND m.id = n.id LIMIT 1
) AS stored;

-- name: TurnFindUsages :many
-- Index: session_usages_pkey. Returns the usages that are stored.
SELECT u.session_id, u.id, u.input_tokens, u.output_tokens, u.cost_nanos
FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @ids::uuid[]))) AS n (session_id, id), LATERAL (
    SELECT session_usages.session_id, session_usages.id, session_usages.input_tokens, session_usages.output_tokens,
    session_usages.cost_nanos
    FROM session_usages WHERE session_usages.session_id = n.session_id AND session_usages.id = n.id LIMIT 1
) AS u;

-- name: TurnFindValues :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key, state_values_pkey. Returns the keys that exist,
-- with their places. scopes are the places of the keys' scopes, of which each is looked up once. hints are where the
-- rows may be, and scope_hints where the scopes' may be: see TurnLockScopes.
WITH found AS MATERIALIZED (
    SELECT n.place, s.id
    FROM ROWS FROM (
        unnest((SELECT @session_ids::uuid[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @names::text[])),
        unnest((SELECT @scope_hints::tid[]))
    ) WITH ORDINALITY AS n (session_id, namespace, name, hint, place), LATERAL (
        SELECT t.id FROM state_scopes t WHERE t.ctid = n.hint
            AND (t.session_id = n.session_id OR t.namespace = n.namespace AND t.name = n.name)
        UNION ALL
        SELECT t.id FROM state_scopes t WHERE t.session_id = n.session_id
        UNION ALL
        SELECT t.id FROM state_scopes t WHERE t.namespace = n.namespace AND t.name = n.name
        LIMIT 1
    ) AS s
)
SELECT n.place::bigint AS place, v.value, v.version, v.hint::tid AS hint
FROM ROWS FROM (
    unnest((SELECT @scopes::bigint[])), unnest((SELECT @keys::text[])), unnest((SELECT @hints::tid[]))
) WITH ORDINALITY AS n (scope, key, hint, place)
JOIN found f ON f.place = n.scope, LATERAL (
    SELECT t.value, t.version, t.ctid::tid AS hint FROM state_values t
    WHERE t.ctid = n.hint AND t.scope_id = f.id AND t.key = n.key
    UNION ALL
    SELECT i.value, i.version, i.ctid::tid FROM state_values i WHERE i.scope_id = f.id AND i.key = n.key
    LIMIT 1
) AS v;

-- name: TurnInsert :exec
-- Index: session_turns_pkey. Stores turns. The counter rows of their sessions are locked.
WITH stored AS (
    INSERT INTO session_turns (session_id, id, digest, first_sequence, message_count, plan_id)
    SELECT n.session_id, n.id, n.digest, n.first_sequence, n.message_count, n.plan_id
    FROM ROWS FROM (
        unnest(@session_ids::uuid[]), unnest(@ids::text[]), unnest(@digests::bytea[]),
        unnest(@first_sequences::bigint[]), unnest(@message_counts::integer[]), unnest(@plan_ids::uuid[])
    ) AS n (session_id, id, digest, first_sequence, message_count, plan_id)
    RETURNING true
)
SELECT rows_left_out('session_turns') WHERE (SELECT count(*) FROM stored) <> cardinality(@ids::text[]);

-- name: TurnBranch :exec
-- Index: session_branches_pkey. Notes that sessions have branches. Their counter rows are locked.
WITH stored AS (
    INSERT INTO session_branches (session_id) SELECT n.session_id FROM unnest(@session_ids::uuid[]) AS n (session_id)
    ON CONFLICT (session_id) DO UPDATE SET session_id = excluded.session_id
    RETURNING true
)
SELECT rows_left_out('session_branches') WHERE (SELECT count(*) FROM stored) <> cardinality(@session_ids::uuid[]);

-- name: TurnRewind :exec
-- Index: session_counters_pkey. Sets what the next message of sessions follows, -2 for the one before. Their rows are
-- locked.
WITH stored AS (
    UPDATE session_counters c
    SET follows = nullif(n.follows, -2), updated_at = greatest(c.updated_at, statement_timestamp())
    FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @follows::bigint[]))) AS n (session_id,
        follows)
    WHERE c.session_id = n.session_id
    RETURNING true
)
SELECT rows_left_out('session_counters') WHERE (SELECT count(*) FROM stored) <> cardinality(@session_ids::uuid[]);

-- name: TurnAdvanceScopes :many
-- Index: state_scopes by ctid. Sets the versions of scopes whose rows are locked, where hints say, and returns where
-- they are now: see MessageAdvance.
UPDATE state_scopes s
SET version = 0 + (CAST(@versions AS bigint[]))[array_position(CAST(@ids AS uuid[]), s.id)],
    updated_at = greatest(s.updated_at, @now::timestamptz)
WHERE s.ctid = ANY (CAST((SELECT CAST(@hints AS tid[])) AS tid[]))
RETURNING s.id, s.ctid::tid AS hint;

-- name: TurnSetValues :many
-- Index: state_values by ctid, state_values_pkey. Sets keys of scopes whose rows are locked, and returns where the rows
-- are now, with their places. hints are where they may be: see TurnLockScopes.
WITH given AS MATERIALIZED (
    SELECT n.* FROM ROWS FROM (
        unnest(@scope_ids::uuid[]), unnest(@keys::text[]), unnest(@key_values::text[]), unnest(@versions::bigint[])
    ) WITH ORDINALITY AS n (scope_id, key, value, version, place)
), changed AS (
    UPDATE state_values v
    SET value = n.value::json, version = n.version, updated_at = greatest(v.updated_at, statement_timestamp())
    FROM given n
    WHERE v.ctid = ANY (CAST((SELECT CAST(@hints AS tid[])) AS tid[])) AND v.scope_id = n.scope_id AND v.key = n.key
    RETURNING n.place, v.ctid::tid AS hint
), stored AS (
    INSERT INTO state_values (scope_id, key, value, version)
    SELECT n.scope_id, n.key, n.value::json, n.version FROM given n
    WHERE NOT EXISTS (SELECT FROM changed c WHERE c.place = n.place)
    ON CONFLICT (scope_id, key) DO UPDATE
    SET value = excluded.value, version = excluded.version,
    updated_at = greatest(state_values.updated_at, excluded.updated_at)
    RETURNING scope_id, key, ctid::tid AS hint
)
SELECT n.place::bigint AS place, coalesce(c.hint, s.hint)::tid AS hint
FROM given n LEFT JOIN changed c ON c.place = n.place LEFT JOIN stored s ON s.scope_id = n.scope_id AND s.key = n.key
WHERE c.hint IS NOT NULL OR s.hint IS NOT NULL OR rows_left_out('state_values');

-- name: TurnRemoveValues :exec
-- Index: state_values_pkey. Removes keys of scopes whose rows are locked.
DELETE FROM state_values v
USING ROWS FROM (unnest((SELECT @scope_ids::uuid[])), unnest((SELECT @keys::text[]))) AS n (scope_id, key)
WHERE v.scope_id = n.scope_id AND v.key = n.key;

-- name: TurnInsertUsages :exec
-- Index: session_usages_pkey. Stores usages. The rows of their sessions are locked.
WITH stored AS (
    INSERT INTO session_usages (session_id, id, input_tokens, output_tokens, cost_nanos)
    SELECT n.session_id, n.id, n.input_tokens, n.output_tokens, n.cost_nanos
    FROM ROWS FROM (
        unnest(@session_ids::uuid[]), unnest(@ids::uuid[]),
        unnest(@input_tokens::bigint[]), unnest(@output_tokens::bigint[]), unnest(@cost_nanos::bigint[])
    ) AS n (session_id, id, input_tokens, output_tokens, cost_nanos)
    RETURNING true
)
SELECT rows_left_out('session_usages') WHERE (SELECT count(*) FROM stored) <> cardinality(@ids::uuid[]);

-- name: TurnSetUsages :exec
-- Index: sessions_pkey. Sets the usage of sessions whose rows are locked.
UPDATE sessions s
SET input_tokens = n.input_tokens, output_tokens = n.output_tokens, cost_nanos = n.cost_nanos
FROM ROWS FROM (
    unnest((SELECT @session_ids::uuid[])),
    unnest((SELECT @input_tokens::bigint[])), unnest((SELECT @output_tokens::bigint[])),
    unnest((SELECT @cost_nanos::bigint[]))
) AS n (session_id, input_tokens, output_tokens, cost_nanos)
WHERE s.id = n.session_id;

-- name: TurnScopeVersions :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key. Returns the versions of the scopes that exist,
-- with their places in the arrays.
SELECT n.place::bigint AS place, s.version
FROM ROWS FROM (
    unnest((SELECT @session_ids::uuid[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @names::text[]))
) WITH ORDINALITY AS n (session_id, namespace, name, place), LATERAL (
    SELECT t.version FROM state_scopes t WHERE t.session_id = n.session_id
    UNION ALL
    SELECT t.version FROM state_scopes t WHERE t.namespace = n.namespace AND t.name = n.name
    LIMIT 1
) AS s;

-- name: TurnAwaitActions :exec
-- Index: actions_pkey. Waits for actions that turns use, and locks them.
SELECT FROM unnest((SELECT @names::text[])) AS n (name),
LATERAL (SELECT FROM actions WHERE actions.name = n.name FOR SHARE) AS a;

-- name: TurnFindActions :many
-- Index: actions_pkey. Locks actions that turns use, and returns the ones that it gets, with their versions.
SELECT a.name, a.version
FROM unnest((SELECT @names::text[])) AS n (name), LATERAL (
    SELECT actions.name, actions.version FROM actions WHERE actions.name = n.name FOR SHARE SKIP LOCKED
) AS a;

-- name: TurnLockStreams :many
-- Index: none. Takes the advisory locks of the keys of streams, like StreamTurn, and returns the places, from 1, of
-- the ones that it gets.
SELECT n.place::bigint AS place
FROM ROWS FROM (unnest((SELECT @namespaces::text[])), unnest((SELECT @keys::text[]))) WITH ORDINALITY AS n (namespace,
    key, place)
WHERE CASE WHEN @waits::boolean THEN pg_advisory_xact_lock(hashtextextended(n.key, hashtext(n.namespace))) IS NOT NULL
    ELSE pg_try_advisory_xact_lock(hashtextextended(n.key, hashtext(n.namespace))) END;

-- name: TurnFindStreams :many
-- Index: streams_open_key. Returns the streams of keys that are open, also if they have expired, with the places of the
-- keys.
SELECT n.place::bigint AS place, s.id, s.session_id, (s.expires_at <= statement_timestamp())::boolean AS expired
FROM ROWS FROM (unnest((SELECT @namespaces::text[])), unnest((SELECT @keys::text[]))) WITH ORDINALITY AS n (namespace,
    key, place), LATERAL (
    SELECT streams.id, streams.session_id, streams.expires_at FROM streams
    WHERE streams.namespace = n.namespace AND streams.key = n.key AND streams.status = 'open' LIMIT 1
) AS s;

-- name: TurnCreatePlans :many
-- Index: plans_pkey. PlanCreate for plans of turns, with its parameters as objects of a JSON array: of reusable actions
-- whose rows are locked, without parents and keys, for sessions whose counter rows are locked.
WITH asked AS MATERIALIZED (
    SELECT a.plan, (a.plan ->> 'ID')::uuid AS id, (a.plan ->> 'SessionID')::uuid AS session_id,
    a.plan ->> 'Namespace' AS namespace,
        a.plan ->> 'Phase' AS phase, a.plan ->> 'State' AS state, a.plan ->> 'Actor' AS actor
    FROM jsonb_array_elements(CAST(@plans::text AS jsonb)) AS a (plan)
), created AS (
    INSERT INTO plans (
        id, name, namespace, session_id, action_name, root_id, attempt, max_attempts, priority, not_before, deadline,
        keep_micros, phases,
        description, definition_of_done, phase, state, automation_profile, automation_profile_source,
        automation_snapshot, trace,
        argument_names, argument_values, invariants, invariant_sources, projects, project_aliases, project_read_onlys
    )
    SELECT a.id, a.plan ->> 'Name', a.namespace, a.session_id, a.plan ->> 'ActionName', a.id,
    (a.plan ->> 'Attempt')::integer,
        (a.plan ->> 'MaxAttempts')::integer, (a.plan ->> 'Priority')::smallint, (a.plan ->> 'NotBefore')::timestamptz,
        greatest(statement_timestamp(),
            (a.plan ->> 'NotBefore')::timestamptz) + nullif((a.plan ->> 'MaxAgeMicros')::bigint,
        0) * interval '1 microsecond',
        (a.plan ->> 'KeepMicros')::bigint, (a.plan ->> 'Phases')::smallint, a.plan ->> 'Description',
        a.plan ->> 'DefinitionOfDone', a.phase, a.state,
        a.plan ->> 'AutomationProfile', a.plan ->> 'AutomationProfileSource', (a.plan ->> 'AutomationSnapshot')::json,
        a.plan ->> 'Trace', ARRAY(SELECT jsonb_array_elements_text(a.plan -> 'ArgumentNames')),
        ARRAY(SELECT jsonb_array_elements_text(a.plan -> 'ArgumentValues')),
        ARRAY(SELECT jsonb_array_elements_text(a.plan -> 'Invariants')),
        ARRAY(SELECT jsonb_array_elements_text(a.plan -> 'InvariantSources')),
        ARRAY(SELECT jsonb_array_elements_text(a.plan -> 'Projects')),
        ARRAY(SELECT jsonb_array_elements_text(a.plan -> 'ProjectAliases')),
        ARRAY(SELECT jsonb_array_elements_text(a.plan -> 'ProjectReadOnlys'))::boolean[]
    FROM asked a
    RETURNING id, created_at, updated_at
), projects AS (
    INSERT INTO plan_projects (project, plan_id)
    SELECT DISTINCT n.project, a.id FROM asked a, jsonb_array_elements_text(a.plan -> 'Projects') AS n (project)
), noted AS (
    INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state, actor, created_at)
    SELECT a.id, 1, 'use', a.phase, a.state, a.actor, statement_timestamp() FROM asked a
), linked AS (
    INSERT INTO session_plans (session_id, plan_id) SELECT a.session_id, a.id FROM asked a
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, session_id, details)
    SELECT statement_timestamp(), audit_new_id(), 'plan_created', a.namespace, a.actor, a.id, a.session_id,
    (a.plan ->> 'Details')::json
    FROM asked a
)
SELECT c.id, c.created_at, c.updated_at FROM created c;

-- name: TurnOpenStreams :many
-- Index: streams_namespace_key_began_key, backwards. StreamOpen for keys that are locked, and that have no open stream.
WITH asked AS MATERIALIZED (
    SELECT n.id, n.namespace, n.key, n.owner, n.session_id, n.ttl,
    greatest((extract(epoch FROM statement_timestamp()) * 1000000)::bigint, (
        SELECT s.fence + 1 FROM streams s WHERE s.namespace = n.namespace AND s.key = n.key
            ORDER BY s.began DESC LIMIT 1
    )) AS fence
    FROM ROWS FROM (
        unnest(@ids::uuid[]), unnest(@namespaces::text[]), unnest(@keys::text[]), unnest(@owners::text[]),
        unnest(@session_ids::uuid[]), unnest(@ttls::interval[])
    ) AS n (id, namespace, key, owner, session_id, ttl)
)
INSERT INTO streams (id, namespace, key, owner, opener, session_id, began, fence, ttl, opened_at, expires_at)
SELECT a.id, a.namespace, a.key, a.owner, a.id, a.session_id, a.fence, a.fence, a.ttl, statement_timestamp(),
statement_timestamp() + a.ttl * 1.125
FROM asked a
RETURNING id, fence, opened_at, expires_at;

-- name: TurnCheckWork :exec
-- Index: plans_pkey, streams_pkey or streams_open_key. Fails unless the plans were made, and the streams opened,
-- under these ids.
SELECT rows_left_out('plans')
WHERE (SELECT count(*) FROM unnest((SELECT @plan_ids::uuid[])) AS n (id),
    LATERAL (SELECT FROM plans WHERE plans.id = n.id LIMIT 1) AS p)
        <> cardinality(@plan_ids::uuid[])
    OR (
        SELECT count(*) FROM ROWS FROM (
            unnest((SELECT @namespaces::text[])), unnest((SELECT @keys::text[])), unnest((SELECT @openers::uuid[]))
        ) AS n (namespace, key, opener), LATERAL (
            SELECT FROM streams
            WHERE streams.namespace = n.namespace AND streams.key = n.key AND streams.status = 'open'
                AND streams.opener = n.opener LIMIT 1
        ) AS s
    ) <> cardinality(@keys::text[]);
