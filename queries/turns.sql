-- name: TurnLimitWait :exec
-- Index: none. Bounds the rest of the transaction's waits for locks to 20 ms, unless the setting is below that.
SELECT set_config('lock_timeout', '20ms', true)
WHERE current_setting('lock_timeout')::interval NOT BETWEEN interval '1 ms' AND interval '20 ms';

-- name: TurnLimitQueue :exec
-- Index: none. Like TurnLimitWait, but 250 ms: for the first row of a transaction, while it keeps nobody from another.
SELECT set_config('lock_timeout', '250ms', true)
WHERE current_setting('lock_timeout')::interval NOT BETWEEN interval '1 ms' AND interval '250 ms';

-- name: TurnLockCounters :many
-- Index: session_counters_pkey. Locks the counter rows of sessions, in the order given, and either waits for each or skips
-- those that are locked. The answer has a row for each session that exists. held says that its row was skipped. hint is where
-- the row is: see MessageAppendOne. lock_timeout is the setting of that name, in milliseconds. other_level says that transactions
-- are not read committed by default.
--
-- What a turn depends on is read by statements of the same transaction that come after the locks, so that they see what was
-- committed before. A SELECT around an argument hides its value from the planner: see MessageAppend.
WITH locked AS (
    SELECT s.session_id, c.next_sequence, c.fence, c.fenced_only, c.hint
    FROM unnest((SELECT @session_ids::uuid[])) AS s (session_id), LATERAL (
        SELECT t.next_sequence, t.fence, t.fenced_only, t.ctid::tid AS hint FROM session_counters t
        WHERE t.session_id = s.session_id
        FOR UPDATE SKIP LOCKED
    ) AS c
    WHERE NOT (SELECT @waits::boolean)
    UNION ALL
    SELECT s.session_id, c.next_sequence, c.fence, c.fenced_only, c.hint
    FROM unnest((SELECT @session_ids::uuid[])) AS s (session_id), LATERAL (
        SELECT t.next_sequence, t.fence, t.fenced_only, t.ctid::tid AS hint FROM session_counters t
        WHERE t.session_id = s.session_id
        FOR UPDATE
    ) AS c
    WHERE (SELECT @waits::boolean)
)
SELECT s.session_id::uuid AS session_id, (l.session_id IS NULL)::boolean AS held,
    coalesce(l.next_sequence, 0)::bigint AS next_sequence,
    coalesce(l.fence, 0)::bigint AS fence, coalesce(l.fenced_only, false)::boolean AS fenced_only,
    coalesce(l.hint, '(0,0)')::tid AS hint,
    (extract(epoch FROM current_setting('lock_timeout')::interval) * 1000)::bigint AS lock_timeout,
    (current_setting('default_transaction_isolation') <> 'read committed')::boolean AS other_level
FROM unnest((SELECT @session_ids::uuid[])) AS s (session_id)
LEFT JOIN locked l ON l.session_id = s.session_id
WHERE l.session_id IS NOT NULL
    OR (SELECT true FROM session_counters there WHERE there.session_id = s.session_id LIMIT 1);

-- name: TurnLockUsages :many
-- Index: sessions_pkey. Locks the rows that have the usage of sessions, in the order given, and skips those that are locked, or
-- waits for them if it is sent without that part (repo/postgres/parts.go).
SELECT n.session_id::uuid AS session_id, s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos
FROM unnest((SELECT @session_ids::uuid[])) AS n (session_id), LATERAL (
    SELECT sessions.input_tokens, sessions.output_tokens, sessions.cost_nanos, sessions.budget_nanos FROM sessions
    WHERE sessions.id = n.session_id FOR NO KEY UPDATE
    -- with skips
    SKIP LOCKED
    -- end of skips
) AS s;

-- name: TurnLockScopes :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key, state_scopes_pkey. Like TurnLockUsages, for the rows of
-- scopes, which have their places in the arrays: see StateChange. held says that a row was skipped. now is the database's clock
-- after the lock.
SELECT n.place::bigint AS place, s.id::uuid AS id, (c.version IS NULL)::boolean AS held, coalesce(c.version, 0)::bigint AS version,
    clock_timestamp()::timestamptz AS now
FROM ROWS FROM (
    unnest((SELECT @session_ids::uuid[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @names::text[]))
) WITH ORDINALITY AS n (session_id, namespace, name, place), LATERAL (
    SELECT t.id FROM state_scopes t WHERE t.session_id = n.session_id
    UNION ALL
    SELECT t.id FROM state_scopes t WHERE t.namespace = n.namespace AND t.name = n.name
    LIMIT 1
) AS s
LEFT JOIN LATERAL (
    SELECT state_scopes.version FROM state_scopes WHERE state_scopes.id = s.id FOR NO KEY UPDATE
    -- with skips
    SKIP LOCKED
    -- end of skips
) AS c ON true;

-- name: TurnFind :many
-- Index: session_turns_pkey. Returns those of the turns that are stored.
SELECT t.session_id, t.id, t.digest
FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @ids::text[]))) AS n (session_id, id), LATERAL (
    SELECT session_turns.session_id, session_turns.id, session_turns.digest FROM session_turns
    WHERE session_turns.session_id = n.session_id AND session_turns.id = n.id LIMIT 1
) AS t;

-- name: TurnListMessages :many
-- Index: session_turns_pkey, messages_pkey, forwards. Returns the messages of a turn, of which there are max_rows, and none if
-- it is not stored: its session may have been deleted since it was found.
SELECT m.* FROM messages m
WHERE m.session_id = @session_id AND m.sequence >= (
    SELECT t.first_sequence FROM session_turns t
    WHERE t.session_id = @session_id AND t.id = @id
)
ORDER BY m.sequence LIMIT @max_rows;

-- name: TurnFindMessages :many
-- Index: messages_session_id_id_key. Returns those of the messages that are stored.
SELECT n.session_id::uuid AS session_id, n.id::uuid AS id
FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @ids::uuid[]))) AS n (session_id, id), LATERAL (
    SELECT FROM messages m WHERE m.session_id = n.session_id AND m.id = n.id LIMIT 1
) AS stored;

-- name: TurnFindUsages :many
-- Index: session_usages_pkey. Returns those of the usages that are stored.
SELECT u.session_id, u.id, u.input_tokens, u.output_tokens, u.cost_nanos
FROM ROWS FROM (unnest((SELECT @session_ids::uuid[])), unnest((SELECT @ids::uuid[]))) AS n (session_id, id), LATERAL (
    SELECT session_usages.session_id, session_usages.id, session_usages.input_tokens, session_usages.output_tokens, session_usages.cost_nanos
    FROM session_usages WHERE session_usages.session_id = n.session_id AND session_usages.id = n.id LIMIT 1
) AS u;

-- name: TurnFindValues :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key, state_values_pkey. Returns those of the keys that exist,
-- with their places. scopes are the places of the keys' scopes, of which each is looked up once.
WITH found AS MATERIALIZED (
    SELECT n.place, s.id
    FROM ROWS FROM (
        unnest((SELECT @session_ids::uuid[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @names::text[]))
    ) WITH ORDINALITY AS n (session_id, namespace, name, place), LATERAL (
        SELECT t.id FROM state_scopes t WHERE t.session_id = n.session_id
        UNION ALL
        SELECT t.id FROM state_scopes t WHERE t.namespace = n.namespace AND t.name = n.name
        LIMIT 1
    ) AS s
)
SELECT n.place::bigint AS place, v.value, v.version
FROM ROWS FROM (unnest((SELECT @scopes::bigint[])), unnest((SELECT @keys::text[]))) WITH ORDINALITY AS n (scope, key, place)
JOIN found f ON f.place = n.scope, LATERAL (
    SELECT state_values.value, state_values.version FROM state_values
    WHERE state_values.scope_id = f.id AND state_values.key = n.key LIMIT 1
) AS v;

-- name: TurnInsert :exec
-- Index: session_turns_pkey. Stores turns. The counter rows of their sessions are locked.
INSERT INTO session_turns (session_id, id, digest, first_sequence)
SELECT n.session_id, n.id, n.digest, n.first_sequence
FROM ROWS FROM (
    unnest(@session_ids::uuid[]), unnest(@ids::text[]), unnest(@digests::bytea[]), unnest(@first_sequences::bigint[])
) AS n (session_id, id, digest, first_sequence);

-- name: TurnAdvanceScopes :exec
-- Index: state_scopes_pkey. Sets the versions of scopes whose rows are locked.
UPDATE state_scopes s
SET version = n.version, updated_at = greatest(s.updated_at, statement_timestamp())
FROM ROWS FROM (unnest((SELECT @ids::uuid[])), unnest((SELECT @versions::bigint[]))) AS n (id, version)
WHERE s.id = n.id;

-- name: TurnSetValues :exec
-- Index: state_values_pkey. Sets keys of scopes whose rows are locked.
INSERT INTO state_values (scope_id, key, value, version)
SELECT n.scope_id, n.key, n.value::json, n.version
FROM ROWS FROM (
    unnest(@scope_ids::uuid[]), unnest(@keys::text[]), unnest(@key_values::text[]), unnest(@versions::bigint[])
) AS n (scope_id, key, value, version)
ON CONFLICT (scope_id, key) DO UPDATE
SET value = excluded.value, version = excluded.version, updated_at = greatest(state_values.updated_at, excluded.updated_at);

-- name: TurnRemoveValues :exec
-- Index: state_values_pkey. Removes keys of scopes whose rows are locked.
DELETE FROM state_values v
USING ROWS FROM (unnest((SELECT @scope_ids::uuid[])), unnest((SELECT @keys::text[]))) AS n (scope_id, key)
WHERE v.scope_id = n.scope_id AND v.key = n.key;

-- name: TurnInsertUsages :exec
-- Index: session_usages_pkey. Stores usages. The rows of their sessions are locked.
INSERT INTO session_usages (session_id, id, input_tokens, output_tokens, cost_nanos)
SELECT n.session_id, n.id, n.input_tokens, n.output_tokens, n.cost_nanos
FROM ROWS FROM (
    unnest(@session_ids::uuid[]), unnest(@ids::uuid[]),
    unnest(@input_tokens::bigint[]), unnest(@output_tokens::bigint[]), unnest(@cost_nanos::bigint[])
) AS n (session_id, id, input_tokens, output_tokens, cost_nanos);

-- name: TurnSetUsages :exec
-- Index: sessions_pkey. Sets the usage of sessions whose rows are locked.
UPDATE sessions s
SET input_tokens = n.input_tokens, output_tokens = n.output_tokens, cost_nanos = n.cost_nanos
FROM ROWS FROM (
    unnest((SELECT @session_ids::uuid[])),
    unnest((SELECT @input_tokens::bigint[])), unnest((SELECT @output_tokens::bigint[])), unnest((SELECT @cost_nanos::bigint[]))
) AS n (session_id, input_tokens, output_tokens, cost_nanos)
WHERE s.id = n.session_id;

-- name: TurnScopeVersions :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key. Returns the versions of those of the scopes that exist,
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
