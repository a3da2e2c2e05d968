-- name: SessionCreate :one
-- Index: sessions_pkey. Makes the session and its counter row in one statement, and
-- an entry of the audit trail that says so.
-- No row: a session with this id exists; the caller reads it and compares.
WITH created AS (
    INSERT INTO sessions (id, namespace, actor, automation_profile, metadata, budget_nanos)
    VALUES (@id, @namespace, sqlc.narg(actor), sqlc.narg(automation_profile), CAST(@metadata::text AS json), sqlc.narg(budget_nanos))
    ON CONFLICT (id) DO NOTHING
    RETURNING id, created_at, updated_at
), counted AS (
    INSERT INTO session_counters (session_id, updated_at)
    SELECT c.id, c.updated_at FROM created c
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, actor, session_id)
    SELECT c.created_at, audit_new_id(), 'session_created', sqlc.narg(actor), c.id FROM created c
)
SELECT c.created_at, c.updated_at FROM created c;

-- name: SessionImport :execrows
-- Index: sessions_pkey. A session as a document has it; no row: the id exists. The counter's
-- updated_at begins before all times: the document's is in the session, and may be
-- ahead of the clock, which messages to come must not be.
WITH created AS (
    INSERT INTO sessions (
        id, namespace, actor, automation_profile, metadata,
        input_tokens, output_tokens, cost_nanos, budget_nanos, created_at, updated_at
    )
    VALUES (
        @id, @namespace, sqlc.narg(actor), sqlc.narg(automation_profile), CAST(@metadata::text AS json),
        @input_tokens, @output_tokens, @cost_nanos, sqlc.narg(budget_nanos), @created_at, @updated_at
    )
    ON CONFLICT (id) DO NOTHING
    RETURNING id, updated_at
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, actor, session_id, details)
    SELECT clock_timestamp(), audit_new_id(), 'session_created', sqlc.narg(actor), c.id, '{"imported":true}' FROM created c
)
INSERT INTO session_counters (session_id, updated_at)
SELECT c.id, '-infinity' FROM created c;

-- name: SessionGet :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey. The counter row holds what an
-- append changes, so it is joined wherever a session is read.
SELECT s.id, s.namespace, s.actor, s.automation_profile, s.metadata,
    s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos, s.created_at,
    greatest(s.updated_at, c.updated_at)::timestamptz AS updated_at, c.next_sequence,
    ARRAY(SELECT l.plan_id FROM session_plans l WHERE l.session_id = s.id ORDER BY l.plan_id)::uuid[] AS plan_ids,
    ARRAY(
        SELECT p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id
    )::text[] AS plan_stages
FROM sessions s
JOIN session_counters c ON c.session_id = s.id
WHERE s.id = @id;

-- name: SessionExists :one
-- Index: session_counters_pkey.
SELECT EXISTS (SELECT FROM session_counters WHERE session_id = @id);

-- name: SessionList :many
-- Index: sessions_namespace_created_at_idx or sessions_namespace_actor_created_at_idx, backwards, then session_counters_pkey,
-- session_plans_pkey, plans_pkey. Newest first. It is not sent as it stands: see the lists of the audit trail.
SELECT s.id, s.namespace, s.actor, s.automation_profile, s.metadata,
    s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos, s.created_at,
    greatest(s.updated_at, c.updated_at)::timestamptz AS updated_at, c.next_sequence,
    ARRAY(SELECT l.plan_id FROM session_plans l WHERE l.session_id = s.id ORDER BY l.plan_id)::uuid[] AS plan_ids,
    ARRAY(
        SELECT p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id
    )::text[] AS plan_stages
FROM sessions s
JOIN session_counters c ON c.session_id = s.id
WHERE s.namespace = @namespace
    AND (sqlc.narg(actor)::text IS NULL OR s.actor = sqlc.narg(actor)::text)
    AND s.created_at >= @created_from
    AND s.created_at < @created_before
    AND (s.created_at, s.id) < (@after_created_at::timestamptz, @after_id::uuid)
ORDER BY s.created_at DESC, s.id DESC
LIMIT @max_rows;

-- name: SessionUpdate :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey. Changes only what is set. A budget below the cost
-- changes nothing: fits is false, and the row is the one that stands.
-- The update finds the row as it was when the statement began; PostgreSQL checks
-- the constraints of what it makes of that before it sees that a newer one was
-- locked. So both columns of a constraint are set from the locked row.
-- It answers with the whole session.
WITH locked AS (
    SELECT s.id, s.namespace, s.actor, s.automation_profile, s.metadata,
        s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos, s.created_at, s.updated_at,
        (NOT @set_budget::boolean OR coalesce(sqlc.narg(budget_nanos)::bigint >= s.cost_nanos, true))::boolean AS fits
    FROM sessions s
    WHERE s.id = @id
    FOR NO KEY UPDATE
), updated AS (
    UPDATE sessions s
    SET actor = CASE WHEN @set_actor::boolean THEN sqlc.narg(actor)::text ELSE s.actor END,
        automation_profile = CASE WHEN @set_automation_profile::boolean THEN sqlc.narg(automation_profile)::text ELSE s.automation_profile END,
        metadata = coalesce(CAST(sqlc.narg(metadata)::text AS json), s.metadata),
        budget_nanos = CASE WHEN @set_budget::boolean THEN sqlc.narg(budget_nanos)::bigint ELSE l.budget_nanos END,
        cost_nanos = l.cost_nanos,
        updated_at = greatest(s.updated_at, clock_timestamp())
    FROM locked l
    WHERE s.id = l.id AND l.fits
    RETURNING s.id, s.namespace, s.actor, s.automation_profile, s.metadata,
        s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos, s.created_at, s.updated_at
), stored AS (
    SELECT u.*, true AS fits FROM updated u
    UNION ALL
    SELECT l.* FROM locked l WHERE NOT l.fits
)
SELECT s.fits, s.id, s.namespace, s.actor, s.automation_profile, s.metadata,
    s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos, s.created_at,
    greatest(s.updated_at, c.updated_at)::timestamptz AS updated_at, c.next_sequence,
    ARRAY(SELECT l.plan_id FROM session_plans l WHERE l.session_id = s.id ORDER BY l.plan_id)::uuid[] AS plan_ids,
    ARRAY(
        SELECT p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id
    )::text[] AS plan_stages
FROM stored s
JOIN session_counters c ON c.session_id = s.id;

-- name: SessionAddUsage :one
-- Index: sessions_pkey, session_usages_pkey. Checks and adds in one statement, once for each usage id. The totals
-- are computed from the locked row: a second scan of it could be older than the lock.
-- For the budget see SessionUpdate.
--
-- known_… are the amounts that are stored under the id, as far as they were when
-- the statement began. One that was stored while it waited for the lock is found by
-- the unique key: nothing is noted then, and so nothing added. Of a row that is neither added
-- nor known, the caller looks which it is: stored meanwhile, or over the budget.
WITH locked AS (
    SELECT s.id, s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos,
        coalesce(s.cost_nanos::numeric + @cost_nanos::bigint <= s.budget_nanos, true)::boolean AS fits
    FROM sessions s
    WHERE s.id = @id
    FOR NO KEY UPDATE
), known AS (
    SELECT u.input_tokens, u.output_tokens, u.cost_nanos FROM session_usages u
    WHERE u.session_id = @id AND u.id = @usage_id
), noted AS (
    INSERT INTO session_usages (session_id, id, input_tokens, output_tokens, cost_nanos)
    SELECT @id, @usage_id, @input_tokens::bigint, @output_tokens::bigint, @cost_nanos::bigint
    FROM locked l
    WHERE l.fits AND NOT EXISTS (SELECT FROM known)
    ON CONFLICT (session_id, id) DO NOTHING
    RETURNING session_id
), added AS (
    UPDATE sessions s
    SET input_tokens = l.input_tokens + @input_tokens::bigint,
        output_tokens = l.output_tokens + @output_tokens::bigint,
        cost_nanos = l.cost_nanos + @cost_nanos::bigint,
        budget_nanos = l.budget_nanos,
        updated_at = greatest(s.updated_at, clock_timestamp())
    FROM locked l, noted n
    WHERE s.id = @id AND n.session_id = @id
    RETURNING s.id
)
SELECT l.input_tokens, l.output_tokens, l.cost_nanos, l.budget_nanos, EXISTS (SELECT FROM added)::boolean AS added,
    k.input_tokens AS known_input_tokens, k.output_tokens AS known_output_tokens, k.cost_nanos AS known_cost_nanos
FROM locked l
LEFT JOIN known k ON true;

-- name: SessionUsageGet :one
-- Index: session_usages_pkey, sessions_pkey. What was added under an id, and the totals.
SELECT u.input_tokens AS known_input_tokens, u.output_tokens AS known_output_tokens, u.cost_nanos AS known_cost_nanos,
    s.input_tokens, s.output_tokens, s.cost_nanos
FROM session_usages u
JOIN sessions s ON s.id = u.session_id
WHERE u.session_id = @id AND u.id = @usage_id;

-- name: SessionLockWhole :one
-- Index: session_counters_pkey, sessions_pkey. Before a deletion: waits for the appends
-- under way, and for those who link plans to the session.
SELECT c.next_sequence FROM session_counters c
JOIN sessions s ON s.id = c.session_id
WHERE c.session_id = @id
FOR UPDATE;

-- name: SessionDelete :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey. The cascade uses messages_pkey and session_usages_pkey. The
-- session is locked, so that what is counted here is what the cascade deletes. The
-- counter is the number of messages: they are dense.
WITH counted AS (
    SELECT c.session_id, c.next_sequence, (SELECT count(*) FROM session_plans l WHERE l.session_id = @id)::bigint AS plans
    FROM session_counters c
    WHERE c.session_id = @id
), deleted AS (
    DELETE FROM sessions s WHERE s.id = @id
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, session_id, details)
    SELECT clock_timestamp(), audit_new_id(), 'entity_deleted', n.session_id,
        format('{"entity":"session","messages":%s,"plans":%s}', n.next_sequence, n.plans)::json
    FROM counted n
)
SELECT n.next_sequence, n.plans FROM counted n;

-- name: SessionLock :one
-- Index: session_counters_pkey. Waits for the appends under way.
SELECT next_sequence FROM session_counters WHERE session_id = @id FOR UPDATE;
