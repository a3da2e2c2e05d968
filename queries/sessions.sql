-- name: SessionCreate :one
-- Index: sessions_pkey, sessions_namespace_key_key, session_ids_pkey. Creates the session, its counter row, its row of
-- session_activity and, if audited, an entry in the audit trail. It returns no row if a session with this id or key exists, or
-- one with this id was deleted; the caller then finds out (SessionListTaken).
--
-- chosen: the caller chose the id, which is noted. If the session with the id is deleted at the same time, the deletion has
-- noted it by then: the statement fails with a violation of session_ids_pkey, and is sent again. A function writes the entry:
-- an INSERT here would open eight indexes for each session, audited or not, which is a third of the statement's time.
WITH created AS (
    INSERT INTO sessions (id, namespace, key, owner, actor, automation_profile, metadata, budget_nanos)
    SELECT
        @id, @namespace, sqlc.narg(key), sqlc.narg(owner), sqlc.narg(actor), sqlc.narg(automation_profile),
        CAST(@metadata::text AS json), sqlc.narg(budget_nanos)::bigint
    WHERE NOT EXISTS (SELECT FROM session_ids i WHERE i.id = @id)
    ON CONFLICT DO NOTHING
    RETURNING id, namespace, owner, created_at, updated_at
), noted AS (
    INSERT INTO session_ids (id) SELECT c.id FROM created c WHERE @chosen::boolean
), counted AS (
    INSERT INTO session_counters (session_id, updated_at, fenced_only)
    SELECT c.id, c.updated_at, @fenced_only::boolean FROM created c
), active AS (
    INSERT INTO session_activity (session_id, namespace, owner, active_at)
    SELECT c.id, c.namespace, c.owner, c.updated_at FROM created c
)
SELECT c.created_at, c.updated_at FROM created c
WHERE NOT @audited::boolean OR audit_session_created(c.id, c.namespace, sqlc.narg(actor), c.created_at);

-- name: SessionImport :execrows
-- Index: sessions_pkey, sessions_namespace_key_key, session_ids_pkey. Creates a session from a document, with an id that its
-- caller chose, as SessionCreate does; restores says that the session with the id may have been deleted. The counter's
-- updated_at begins at -infinity. The document's time may be ahead of the clock, which must not affect later messages, so only
-- the session's row has it.
WITH created AS (
    INSERT INTO sessions (
        id, namespace, key, owner, actor, automation_profile, metadata,
        input_tokens, output_tokens, cost_nanos, budget_nanos, created_at, updated_at
    )
    SELECT
        @id, @namespace, sqlc.narg(key), sqlc.narg(owner), sqlc.narg(actor), sqlc.narg(automation_profile), CAST(@metadata::text AS json),
        @input_tokens::bigint, @output_tokens::bigint, @cost_nanos::bigint, sqlc.narg(budget_nanos)::bigint,
        @created_at::timestamptz, @updated_at::timestamptz
    WHERE @restores::boolean OR NOT EXISTS (SELECT FROM session_ids i WHERE i.id = @id)
    ON CONFLICT DO NOTHING
    RETURNING id, namespace, owner, created_at, updated_at
), noted AS (
    INSERT INTO session_ids (id) SELECT c.id FROM created c WHERE NOT @restores::boolean
), active AS (
    INSERT INTO session_activity (session_id, namespace, owner, active_at)
    SELECT c.id, c.namespace, c.owner, c.updated_at FROM created c
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, session_id, details)
    SELECT statement_timestamp(), audit_new_id(), 'session_created', c.namespace, sqlc.narg(actor), c.id, '{"imported":true}' FROM created c WHERE @audited::boolean
)
INSERT INTO session_counters (session_id, updated_at) SELECT c.id, '-infinity' FROM created c;

-- name: SessionGet :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey. Appends change only the counter row, so every
-- query of sessions joins it. plans are the linked plans, each as its id, phase and state.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans
FROM sessions s JOIN session_counters c ON c.session_id = s.id
WHERE s.id = @id;

-- name: SessionFind :one
-- Index: sessions_namespace_key_key.
SELECT s.id FROM sessions s WHERE s.namespace = @namespace AND s.key = @key::text;

-- name: SessionListTaken :many
-- Index: sessions_pkey, sessions_namespace_key_key, session_counters_pkey, session_plans_pkey, plans_pkey. Returns the sessions
-- with the id and with the key, as SessionGet does.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans
FROM (SELECT @id::uuid AS id UNION SELECT k.id FROM sessions k WHERE k.namespace = @namespace AND k.key = sqlc.narg(key)::text) AS t
JOIN sessions s ON s.id = t.id
JOIN session_counters c ON c.session_id = s.id;

-- name: SessionWasDeleted :one
-- Index: session_ids_pkey. Reports whether a session that does not exist had this id.
SELECT EXISTS (SELECT FROM session_ids i WHERE i.id = @id);

-- name: SessionExport :many
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey, state_scopes_session_id_idx, state_values_pkey.
-- The session, as SessionGet returns it, and its own state, as they were at one moment: a row with the session and the version
-- of its state, or 0 if it has none, and then a row with each key, ordered by key. In each, the columns of the other kind of
-- row are null, so that the session's metadata is not repeated. The rows are not scanned into the generated struct: see
-- repo/postgres/state_export.go.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans,
    coalesce((SELECT o.version FROM state_scopes o WHERE o.session_id = s.id), 0)::bigint AS scope_version,
    NULL::text AS state_key, NULL::json AS state_value, NULL::bigint AS state_version, NULL::timestamptz AS state_updated_at
FROM sessions s JOIN session_counters c ON c.session_id = s.id
WHERE s.id = @id
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    v.key, v.value, v.version, v.updated_at
FROM state_scopes o JOIN state_values v ON v.scope_id = o.id
WHERE o.session_id = @id
ORDER BY state_key NULLS FIRST;

-- name: SessionExists :one
-- Index: session_counters_pkey.
SELECT EXISTS (SELECT FROM session_counters WHERE session_id = @id);

-- name: SessionList :many
-- Index: sessions_namespace_created_at_idx, sessions_namespace_owner_created_at_idx or sessions_namespace_actor_created_at_idx, backwards, then session_counters_pkey, session_plans_pkey, plans_pkey.
-- Newest first. The query is rewritten before it is sent: see audit_lists.sql.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans
FROM sessions s JOIN session_counters c ON c.session_id = s.id
WHERE s.namespace = @namespace
    AND (sqlc.narg(owner)::text IS NULL OR s.owner = sqlc.narg(owner)::text)
    AND (sqlc.narg(actor)::text IS NULL OR s.actor = sqlc.narg(actor)::text)
    AND s.created_at >= @created_from
    AND s.created_at < @created_before
    AND (s.created_at, s.id) < (@after_created_at::timestamptz, @after_id::uuid)
ORDER BY s.created_at DESC, s.id DESC LIMIT @max_rows;

-- name: SessionListActive :many
-- Index: session_activity_namespace_active_at_idx or session_activity_namespace_owner_active_at_idx, backwards, then sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey.
-- Last active first. Rewritten like SessionList. 1001 is more than any max_rows. For an unknown limit the planner expects a
-- tenth of the table, and would plan each page anew, which takes as long as reading it, or choose a parallel plan.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans,
    a.active_at
FROM (
    SELECT a.session_id, a.active_at FROM session_activity a
    WHERE a.namespace = @namespace
    AND (sqlc.narg(owner)::text IS NULL OR a.owner = sqlc.narg(owner)::text)
    AND (a.active_at, a.session_id) < (@after_active_at::timestamptz, @after_id::uuid)
    ORDER BY a.active_at DESC, a.session_id DESC LIMIT 1001
) AS a
JOIN sessions s ON s.id = a.session_id
JOIN session_counters c ON c.session_id = a.session_id
ORDER BY a.active_at DESC, a.session_id DESC LIMIT @max_rows;

-- name: SessionUpdate :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey. Changes only what is set, and returns the whole
-- session. If the session does not have the version that is given, it changes nothing and current is false; if the new budget
-- is below the cost, it changes nothing and fits is false. updated_at is that of appends. If fenced_only is set, the counter
-- row must be locked. The UPDATE finds the row as it was when the statement began. PostgreSQL checks the constraints on a row
-- made from that version before it notices that a newer one is locked. So both columns of a constraint are set from the locked
-- row.
WITH locked AS (
    SELECT s.*, (NOT @set_budget::boolean OR coalesce(sqlc.narg(budget_nanos)::bigint >= s.cost_nanos, true))::boolean AS fits,
        coalesce(s.version = sqlc.narg(if_version)::bigint, true)::boolean AS current
    FROM sessions s WHERE s.id = @id FOR NO KEY UPDATE
), updated AS (
    UPDATE sessions s
    SET version = s.version + 1, actor = CASE WHEN @set_actor::boolean THEN sqlc.narg(actor)::text ELSE s.actor END,
        automation_profile = CASE WHEN @set_automation_profile::boolean THEN sqlc.narg(automation_profile)::text ELSE s.automation_profile END,
        metadata = coalesce(CAST(sqlc.narg(metadata)::text AS json), s.metadata),
        budget_nanos = CASE WHEN @set_budget::boolean THEN sqlc.narg(budget_nanos)::bigint ELSE l.budget_nanos END, cost_nanos = l.cost_nanos
    FROM locked l WHERE s.id = l.id AND l.fits AND l.current
    RETURNING s.*
), fenced AS (
    UPDATE session_counters c SET fenced_only = sqlc.narg(fenced_only)::boolean
    FROM updated u WHERE c.session_id = u.id AND sqlc.narg(fenced_only)::boolean IS NOT NULL
    RETURNING c.fenced_only
), stored AS (
    SELECT u.*, true AS fits, true AS current FROM updated u
    UNION ALL
    SELECT l.* FROM locked l WHERE NOT (l.fits AND l.current)
)
SELECT s.*, greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence,
    coalesce((SELECT f.fenced_only FROM fenced f), c.fenced_only)::boolean AS fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans
FROM stored s JOIN session_counters c ON c.session_id = s.id;

-- name: SessionMetadataLock :one
-- Index: sessions_pkey. Locks the session for SessionUpdate, and returns what a patch is applied to.
SELECT s.version, s.metadata FROM sessions s WHERE s.id = @id FOR NO KEY UPDATE;

-- name: SessionAddUsage :one
-- Index: sessions_pkey, session_usages_pkey. Checks the budget and adds the usage, once for each usage id. The totals are
-- computed from the locked row, since a second scan could see an older version. SessionUpdate explains why it sets the budget.
--
-- The known_ columns are the amounts that were stored with the id when the statement began. If the id was stored while the
-- statement waited for the lock, the unique key prevents a second row, and nothing is added. If the usage is neither added nor
-- known, it was either stored meanwhile or exceeds the budget; the caller finds out which.
WITH locked AS (
    SELECT s.id, s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos,
        coalesce(s.cost_nanos::numeric + @cost_nanos::bigint <= s.budget_nanos, true)::boolean AS fits
    FROM sessions s WHERE s.id = @id FOR NO KEY UPDATE
), known AS (
    SELECT u.input_tokens, u.output_tokens, u.cost_nanos FROM session_usages u
    WHERE u.session_id = @id AND u.id = @usage_id
), noted AS (
    INSERT INTO session_usages (session_id, id, input_tokens, output_tokens, cost_nanos)
    SELECT @id, @usage_id, @input_tokens::bigint, @output_tokens::bigint, @cost_nanos::bigint
    FROM locked l WHERE l.fits AND NOT EXISTS (SELECT FROM known)
    ON CONFLICT (session_id, id) DO NOTHING
    RETURNING session_id
), added AS (
    UPDATE sessions s
    SET input_tokens = l.input_tokens + @input_tokens::bigint, output_tokens = l.output_tokens + @output_tokens::bigint,
        cost_nanos = l.cost_nanos + @cost_nanos::bigint, budget_nanos = l.budget_nanos
    FROM locked l, noted n WHERE s.id = @id AND n.session_id = @id
    RETURNING s.id
)
SELECT l.input_tokens, l.output_tokens, l.cost_nanos, l.budget_nanos, EXISTS (SELECT FROM added)::boolean AS added,
    k.input_tokens AS known_input_tokens, k.output_tokens AS known_output_tokens, k.cost_nanos AS known_cost_nanos
FROM locked l LEFT JOIN known k ON true;

-- name: SessionUsageGet :one
-- Index: session_usages_pkey, sessions_pkey. Returns the usage that was added with an id, and the totals.
SELECT u.input_tokens AS known_input_tokens, u.output_tokens AS known_output_tokens, u.cost_nanos AS known_cost_nanos,
    s.input_tokens, s.output_tokens, s.cost_nanos
FROM session_usages u JOIN sessions s ON s.id = u.session_id
WHERE u.session_id = @id AND u.id = @usage_id;

-- name: SessionLockWhole :one
-- Index: session_counters_pkey, sessions_pkey. Locks the session before a deletion. It waits for the appends and the links to
-- plans that are under way.
SELECT c.next_sequence FROM session_counters c
JOIN sessions s ON s.id = c.session_id
WHERE c.session_id = @id FOR UPDATE;

-- name: SessionDelete :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, state_scopes_session_id_idx, state_values_pkey. The cascade
-- uses messages_pkey, session_usages_pkey, session_turns_pkey and the keys of the session's state. The session and its state
-- must be locked, so that the counts are those of the rows that the cascade deletes. next_sequence is the number of messages,
-- since sequences have no gaps. The id is noted, so that it is not given again.
WITH counted AS (
    SELECT c.session_id, c.next_sequence, (SELECT count(*) FROM session_plans l WHERE l.session_id = @id)::bigint AS plans,
        (SELECT s.namespace FROM sessions s WHERE s.id = @id) AS namespace,
        (SELECT count(*) FROM state_scopes o JOIN state_values v ON v.scope_id = o.id WHERE o.session_id = @id)::bigint AS state_keys
    FROM session_counters c WHERE c.session_id = @id
), deleted AS (
    DELETE FROM sessions s WHERE s.id = @id
), noted AS (
    INSERT INTO session_ids (id) SELECT n.session_id FROM counted n ON CONFLICT DO NOTHING
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, session_id, details)
    SELECT statement_timestamp(), audit_new_id(), 'entity_deleted', n.namespace, n.session_id,
        format('{"entity":"session","messages":%s,"plans":%s,"state_keys":%s}', n.next_sequence, n.plans, n.state_keys)::json
    FROM counted n WHERE @audited::boolean
)
SELECT n.next_sequence, n.plans, n.state_keys FROM counted n;

-- name: SessionLock :one
-- Index: session_counters_pkey. Locks the session for appends, and waits for those under way.
SELECT next_sequence FROM session_counters WHERE session_id = @id FOR UPDATE;
