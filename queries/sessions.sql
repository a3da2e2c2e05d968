-- name: SessionCreate :one
-- Index: sessions_pkey, sessions_namespace_key_key, session_ids_pkey. Creates the session, its counter row, its row of
-- session_activity and, if audited, an entry in the audit trail. It returns no row if a session with this id or key
-- exists, or one with this id was deleted; the caller then finds out (SessionListTaken).
--
-- chosen: the caller chose the id, which is noted. If the session with the id is deleted at the same time, the deletion
-- has noted it by then: the statement fails with a violation of session_ids_pkey, and is sent again. A function writes
-- the entry: an INSERT here would open nine indexes for each session, audited or not, which is a third of the
-- statement's time.
WITH free AS MATERIALIZED (
    SELECT true AS is_free WHERE NOT EXISTS (SELECT FROM session_ids i WHERE i.id = @id)
), created AS (
    INSERT INTO sessions (id, namespace, key, owner, actor, automation_profile, metadata, budget_nanos)
    SELECT
        @id, @namespace, sqlc.narg(key), sqlc.narg(owner), sqlc.narg(actor), sqlc.narg(automation_profile),
        CAST(@metadata::text AS json), sqlc.narg(budget_nanos)::bigint
    FROM free
    ON CONFLICT DO NOTHING
    RETURNING id, namespace, owner, created_at, updated_at
), noted AS (
    INSERT INTO session_ids (id, namespace_hash) SELECT c.id, hashtextextended(c.namespace, 0) FROM created c
        WHERE @chosen::boolean
), counted AS (
    INSERT INTO session_counters (session_id, next_sequence, updated_at, fenced_only)
    SELECT c.id, @next_sequence::bigint, c.updated_at, @fenced_only::boolean FROM created c
), active AS (
    INSERT INTO session_activity (session_id, namespace, owner, active_at)
    SELECT c.id, c.namespace, c.owner, c.updated_at FROM created c
)
SELECT c.created_at, c.updated_at FROM created c
WHERE NOT @audited::boolean OR audit_session_created(c.id, c.namespace, sqlc.narg(actor), c.created_at);

-- name: SessionImport :one
-- Index: sessions_pkey, sessions_namespace_key_key, session_ids_pkey. Creates a session from a document, with an id
-- that its caller chose, as SessionCreate does; restores says that the session with the id may have been deleted, from
-- this namespace. The counter's updated_at begins at -infinity. The document's time may be ahead of the clock, which
-- must not affect later messages, so only the session's row has it.
WITH free AS MATERIALIZED (
    SELECT true AS is_free WHERE NOT EXISTS (
        SELECT FROM session_ids i WHERE i.id = @id AND (NOT @restores::boolean
            OR i.namespace_hash <> hashtextextended(@namespace, 0))
    )
), created AS (
    INSERT INTO sessions (
        id, namespace, key, owner, actor, automation_profile, metadata,
        input_tokens, output_tokens, cost_nanos, budget_nanos, created_at, updated_at, imported_at
    )
    SELECT
        @id, @namespace, sqlc.narg(key), sqlc.narg(owner), sqlc.narg(actor), sqlc.narg(automation_profile),
        CAST(@metadata::text AS json),
        @input_tokens::bigint, @output_tokens::bigint, @cost_nanos::bigint, sqlc.narg(budget_nanos)::bigint,
        @created_at::timestamptz, @updated_at::timestamptz, statement_timestamp()
    FROM free
    ON CONFLICT DO NOTHING
    RETURNING id, namespace, owner, created_at, updated_at
), noted AS (
    INSERT INTO session_ids (id, namespace_hash) SELECT c.id, hashtextextended(c.namespace, 0) FROM created c
        WHERE NOT @restores::boolean
), active AS (
    INSERT INTO session_activity (session_id, namespace, owner, active_at)
    SELECT c.id, c.namespace, c.owner, c.updated_at FROM created c
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, session_id, details)
    SELECT statement_timestamp(), audit_new_id(), 'session_created', c.namespace, sqlc.narg(actor), c.id,
    '{"imported":true}' FROM created c WHERE @audited::boolean
), counted AS (
    INSERT INTO session_counters (session_id, next_sequence, updated_at) SELECT c.id, @next_sequence::bigint,
    '-infinity' FROM created c
)
SELECT count(*) FROM created;

-- name: SessionGet :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey. Appends change only the counter row, so
-- every query of sessions joins it. plans are the linked plans, each as its id, phase and state.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l
        JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans
FROM sessions s JOIN session_counters c ON c.session_id = s.id
WHERE s.id = @id;

-- name: SessionFind :one
-- Index: sessions_namespace_key_key.
SELECT s.id FROM sessions s WHERE s.namespace = @namespace AND s.key = @key::text;

-- name: SessionListTaken :many
-- Index: sessions_pkey, sessions_namespace_key_key, session_counters_pkey, session_plans_pkey, plans_pkey. Returns the
-- sessions with the id and with the key, as SessionGet does.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l
        JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans
FROM (SELECT @id::uuid AS id UNION SELECT k.id FROM sessions k WHERE k.namespace = @namespace
    AND k.key = sqlc.narg(key)::text) AS t
JOIN sessions s ON s.id = t.id
JOIN session_counters c ON c.session_id = s.id;

-- name: SessionWasDeleted :one
-- Index: session_ids_pkey. Reports whether a session that does not exist had this id, and if a namespace is given, in
-- another one.
SELECT EXISTS (
    SELECT FROM session_ids i
    WHERE i.id = @id
        AND (sqlc.narg(other_than)::text IS NULL
            OR i.namespace_hash <> hashtextextended(sqlc.narg(other_than)::text, 0))
);

-- name: SessionExport :many
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey, state_scopes_session_id_idx,
-- state_values_pkey, session_branches_pkey. The session, as SessionGet returns it, and its own state, as they were at
-- one moment: a row with the session and the version of its state, or 0 if it has none, and then a row with each key,
-- ordered by key. In each, the columns of the other kind of row are null, so that the session's metadata is not
-- repeated. The rows are not scanned into the generated struct: see repo/postgres/state_export.go.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l
        JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans,
    coalesce((SELECT b.base FROM session_branches b WHERE b.session_id = s.id), 0)::bigint AS base, c.follows,
    coalesce((SELECT o.version FROM state_scopes o WHERE o.session_id = s.id), 0)::bigint AS scope_version,
    NULL::text AS state_key, NULL::json AS state_value, NULL::bigint AS state_version,
    NULL::timestamptz AS state_updated_at
FROM sessions s JOIN session_counters c ON c.session_id = s.id
WHERE s.id = @id
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
NULL, NULL, NULL, v.key, v.value, v.version, v.updated_at
FROM state_scopes o JOIN state_values v ON v.scope_id = o.id
WHERE o.session_id = @id
ORDER BY state_key NULLS FIRST;

-- name: SessionExists :one
-- Index: session_counters_pkey.
SELECT EXISTS (SELECT FROM session_counters WHERE session_id = @id);

-- name: SessionLook :one
-- Index: session_counters_pkey, session_branches_pkey. Whether a session exists, and whether it has branches or is a
-- fork, and then its first sequence.
SELECT EXISTS (SELECT FROM session_counters c WHERE c.session_id = @id)::boolean AS found,
    EXISTS (SELECT FROM session_branches b WHERE b.session_id = @id)::boolean AS branched,
    coalesce((SELECT b.base FROM session_branches b WHERE b.session_id = @id), 0)::bigint AS base;

-- name: SessionList :many
-- Index: sessions_namespace_created_at_idx, sessions_namespace_owner_created_at_idx or
-- sessions_namespace_actor_created_at_idx, backwards, then session_counters_pkey, session_plans_pkey, plans_pkey.
-- Newest first. The query is rewritten before it is sent: see audit_lists.sql. With a join the planner might read all
-- counter rows for each page.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l
        JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans
FROM sessions s, LATERAL (SELECT n.updated_at, n.next_sequence, n.fenced_only FROM session_counters n
    WHERE n.session_id = s.id LIMIT 1) AS c
WHERE s.namespace = @namespace
    AND (sqlc.narg(owner)::text IS NULL OR s.owner = sqlc.narg(owner)::text)
    AND (sqlc.narg(actor)::text IS NULL OR s.actor = sqlc.narg(actor)::text)
    AND s.created_at >= @created_from
    AND s.created_at < @created_before
    AND (s.created_at, s.id) < (@after_created_at::timestamptz, @after_id::uuid)
ORDER BY s.created_at DESC, s.id DESC LIMIT @max_rows;

-- name: SessionListActive :many
-- Index: session_activity_namespace_active_at_idx or session_activity_namespace_owner_active_at_idx, backwards, then
-- session_counters_pkey, sessions_pkey, session_plans_pkey, plans_pkey. Last active first. Rewritten like SessionList.
-- active_at is in the minute of the last activity, whose exact time has the counter row, and is not later. So a page
-- needs the sessions of whole minutes: the rest of the minute in which the page before ended (which begins at
-- after_minute), and from there on (below_at, below_id) down to the beginning of the minute that completes the page
-- (edge). Up to 1,000 are before that minute. If more than 5,000 are in it, it is coarse: its order is by active_at,
-- and stays so until the list has left it (after_coarse; below is then the place itself).
--
-- 1001 is more than any max_rows. For an unknown limit the planner expects a tenth of the table, and would plan each
-- page anew, which takes as long as reading it, or choose a parallel plan; a SELECT around an argument hides its value.
-- LIMIT 1 makes it look up each counter row, where it would otherwise read the whole table.
WITH edge AS (
    SELECT date_trunc('minute', e.active_at) AS minute FROM (
        SELECT a.active_at, a.session_id FROM session_activity a
        WHERE a.namespace = @namespace
        AND (sqlc.narg(owner)::text IS NULL OR a.owner = sqlc.narg(owner)::text)
        AND (a.active_at, a.session_id) < (@below_at::timestamptz, @below_id::uuid)
        ORDER BY a.active_at DESC, a.session_id DESC LIMIT 1001
    ) AS e ORDER BY e.active_at DESC, e.session_id DESC LIMIT 1 OFFSET @last_row
), below AS MATERIALIZED (
    SELECT a.session_id, a.active_at FROM session_activity a
    WHERE a.namespace = @namespace
    AND (sqlc.narg(owner)::text IS NULL OR a.owner = sqlc.narg(owner)::text)
    AND (a.active_at, a.session_id) < (@below_at::timestamptz, @below_id::uuid)
    AND a.active_at >= coalesce((SELECT e.minute FROM edge e), '-infinity')
    ORDER BY a.active_at DESC, a.session_id DESC LIMIT 6001
), rest AS (
    SELECT a.session_id, a.active_at FROM session_activity a
    WHERE a.namespace = @namespace
    AND (sqlc.narg(owner)::text IS NULL OR a.owner = sqlc.narg(owner)::text)
    AND a.active_at >= (SELECT @after_minute::timestamptz) AND a.active_at <= (SELECT @after_at::timestamptz)
        AND NOT (SELECT @after_coarse::boolean)
    ORDER BY a.active_at DESC, a.session_id DESC LIMIT 10000
), candidates AS (
    SELECT b.session_id, b.active_at, b.active_at >= @after_minute
        OR b.active_at < (SELECT e.minute + interval '1 minute' FROM edge e)
            AND (SELECT count(*) > 6000 FROM below) AS coarse
    FROM below b
    UNION ALL
    SELECT r.session_id, r.active_at, false FROM rest r
), page AS (
    SELECT n.session_id, n.coarse, c.updated_at, c.next_sequence, c.fenced_only,
        CASE WHEN n.coarse THEN n.active_at ELSE greatest(n.active_at, c.updated_at) END AS place
    FROM candidates n,
        LATERAL (SELECT c.updated_at, c.next_sequence, c.fenced_only FROM session_counters c
            WHERE c.session_id = n.session_id LIMIT 1) AS c
)
SELECT sqlc.embed(s), greatest(s.updated_at, a.updated_at)::timestamptz AS changed_at,
a.next_sequence::bigint AS next_sequence, a.fenced_only::boolean AS fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l
        JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans,
    a.place::timestamptz AS place, a.coarse::boolean AS coarse
FROM (
    SELECT p.* FROM page p
    WHERE (p.place, p.session_id) < (@after_at::timestamptz, @after_id::uuid)
    ORDER BY p.place DESC, p.session_id DESC LIMIT 1001
) AS a
JOIN sessions s ON s.id = a.session_id
ORDER BY a.place DESC, a.session_id DESC LIMIT @max_rows;

-- name: SessionListIdle :many
-- Index: session_activity_namespace_active_at_idx, sessions_pkey, session_counters_pkey, session_plans_pkey,
-- plans_pkey. active_at is in the minute of the last activity, and not later: of that minute sessions are read that are
-- not idle.
SELECT sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at, c.next_sequence, c.fenced_only,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l
        JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans,
    a.active_at AS place, false::boolean AS coarse
FROM (
    SELECT i.session_id, i.active_at FROM session_activity i,
        LATERAL (SELECT greatest(o.updated_at, o.imported_at) AS updated_at FROM sessions o
            WHERE o.id = i.session_id LIMIT 1) AS own,
        LATERAL (SELECT n.updated_at FROM session_counters n WHERE n.session_id = i.session_id LIMIT 1) AS counter
    WHERE i.namespace = @namespace AND i.active_at < @idle_since::timestamptz
        AND (i.active_at, i.session_id) > (@after_at::timestamptz, @after_id::uuid)
        AND greatest(own.updated_at, counter.updated_at) < @idle_since::timestamptz
    ORDER BY i.active_at, i.session_id LIMIT 1001
) AS a
JOIN sessions s ON s.id = a.session_id
JOIN session_counters c ON c.session_id = a.session_id
ORDER BY a.active_at, a.session_id LIMIT @max_rows;

-- name: NamespaceList :many
-- Index: sessions_namespace_created_at_idx. The namespaces of sessions after one, in the index's order. Each is looked
-- up from the one before, and the sessions between them are not read.
WITH RECURSIVE found AS (
    (SELECT s.namespace FROM sessions s WHERE s.namespace > @after ORDER BY s.namespace LIMIT 1)
    UNION ALL
    (SELECT n.namespace FROM found f, LATERAL (
        SELECT s.namespace FROM sessions s WHERE s.namespace > f.namespace ORDER BY s.namespace LIMIT 1
    ) AS n)
)
SELECT f.namespace::text FROM found f LIMIT @max_rows;

-- name: SessionUpdate :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey. Changes only what is set, and returns
-- the whole session. If the session does not have the version that is given, it changes nothing and current is false;
-- if the new budget is below the cost, it changes nothing and fits is false. updated_at is the appends'. If
-- fenced_only is set, the counter row must be locked. The UPDATE finds the row as it was when the statement began.
-- PostgreSQL checks the constraints on a row made from that version before it notices that a newer one is locked. So
-- both columns of a constraint are set from the locked row.
WITH locked AS (
    SELECT s.*, (NOT @set_budget::boolean OR coalesce(sqlc.narg(budget_nanos)::bigint >= s.cost_nanos,
        true))::boolean AS fits, coalesce(s.version = sqlc.narg(if_version)::bigint, true)::boolean AS current
    FROM sessions s WHERE s.id = @id FOR NO KEY UPDATE
), updated AS (
    UPDATE sessions s
    SET version = s.version + 1, actor = CASE WHEN @set_actor::boolean THEN sqlc.narg(actor)::text ELSE s.actor END,
        automation_profile = CASE WHEN @set_automation_profile::boolean THEN sqlc.narg(automation_profile)::text
            ELSE s.automation_profile END,
        metadata = coalesce(CAST(sqlc.narg(metadata)::text AS json), s.metadata),
        budget_nanos = CASE WHEN @set_budget::boolean THEN sqlc.narg(budget_nanos)::bigint ELSE l.budget_nanos END,
        cost_nanos = l.cost_nanos
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
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l
        JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans
FROM stored s JOIN session_counters c ON c.session_id = s.id;

-- name: SessionMetadataLock :one
-- Index: sessions_pkey. Locks the session for SessionUpdate, and returns what a patch is applied to.
SELECT s.version, s.metadata FROM sessions s WHERE s.id = @id FOR NO KEY UPDATE;

-- name: HoldGate :exec
-- Index: session_holds_pkey. Locks what every new hold changes, before a deletion: no hold begins until the transaction
-- ends.
SELECT h.reason FROM session_holds h
WHERE h.namespace = '' AND h.owner = '' AND h.session_id = '00000000-0000-0000-0000-000000000000' FOR SHARE;

-- name: HoldChange :exec
-- Index: session_holds_pkey. Waits for the deletions under way, and keeps others waiting until the hold is committed.
-- A transaction that finds the same time before and after it has locked the row has seen all holds.
UPDATE session_holds
SET created_at = greatest((created_at AT TIME ZONE 'UTC' + interval '1 microsecond') AT TIME ZONE 'UTC',
    statement_timestamp())
WHERE namespace = '' AND owner = '' AND session_id = '00000000-0000-0000-0000-000000000000';

-- name: HoldInsert :execrows
-- Index: session_holds_pkey, session_counters_pkey. One that exists keeps its reason. No row: there is no such session,
-- or the hold exists.
WITH there AS MATERIALIZED (
    SELECT true AS is_there WHERE @namespace::text <> ''
        OR EXISTS (SELECT FROM session_counters c WHERE c.session_id = @session_id::uuid)
)
INSERT INTO session_holds (namespace, owner, session_id, reason) SELECT @namespace, @owner, @session_id::uuid, @reason
    FROM there
ON CONFLICT DO NOTHING;

-- name: HoldDelete :exec
-- Index: session_holds_pkey.
DELETE FROM session_holds WHERE namespace = @namespace AND owner = @owner AND session_id = @session_id
    AND (namespace <> '' OR session_id <> '00000000-0000-0000-0000-000000000000');

-- name: HoldList :many
-- Index: session_holds_pkey, sessions_pkey. In its order, behind a place; the first place is what deletions lock. In a
-- view the holds of its namespace, and of the sessions in it.
SELECT h.namespace, h.owner, h.session_id, h.reason, h.created_at FROM session_holds h
WHERE (h.namespace, h.owner, h.session_id) > (@after_namespace::text, @after_owner::text, @after_session_id::uuid)
    AND (sqlc.narg(view)::text IS NULL
        OR CASE h.namespace WHEN '' THEN (SELECT s.namespace FROM sessions s WHERE s.id = h.session_id)
            ELSE h.namespace END = sqlc.narg(view)::text)
ORDER BY h.namespace, h.owner, h.session_id LIMIT @max_rows;

-- name: SessionLockWhole :one
-- Index: session_counters_pkey, sessions_pkey. Locks the session before a deletion. It waits for the appends and the
-- links to plans that are under way.
SELECT c.next_sequence FROM session_counters c
JOIN sessions s ON s.id = c.session_id
WHERE c.session_id = @id FOR UPDATE;

-- name: SessionLockFree :many
-- Index: session_counters_pkey, sessions_pkey. The same of several sessions. It skips locked ones, and says which it
-- has locked.
WITH locked AS MATERIALIZED (
    SELECT c.session_id FROM session_counters c JOIN sessions s ON s.id = c.session_id
    WHERE c.session_id = ANY (@ids::uuid[]) FOR UPDATE SKIP LOCKED
)
SELECT c.session_id, EXISTS (SELECT FROM locked l WHERE l.session_id = c.session_id) AS locked
FROM session_counters c WHERE c.session_id = ANY (@ids::uuid[]);

-- name: SessionDelete :one
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey, state_scopes_session_id_idx,
-- state_values_pkey, session_holds_pkey, streams_session_id_status_id_idx, session_branches_pkey,
-- session_branches_parent_id_idx. The cascade uses the keys of the session's state, and a trigger the keys of messages,
-- session_usages and session_turns. The session and its state must be locked, so that the counts are of the deleted
-- rows. messages is the number of its own messages, since sequences have no gaps; forked says that forks of it may keep
-- some of them. The id is noted, so that it is not given again. Nothing is done if the session is held (HoldGate must
-- be locked), has another version than if_version, another next sequence than if_messages, or was appended to at
-- idle_since or later, or is in use.
WITH counted AS (
    SELECT c.session_id, c.next_sequence, ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/'
        || p.namespace FROM session_plans l JOIN plans p ON p.id = l.plan_id
            WHERE l.session_id = @id ORDER BY l.plan_id) AS plans,
        s.namespace, s.version, greatest(s.updated_at, c.updated_at, s.imported_at) AS active_at,
        ((SELECT true FROM session_holds h WHERE h.namespace = s.namespace AND h.owner IN ('', coalesce(s.owner, ''))
                AND h.session_id = '00000000-0000-0000-0000-000000000000' LIMIT 1) IS TRUE
            OR (SELECT true FROM session_holds h WHERE h.namespace = '' AND h.owner = ''
                AND h.session_id = @id LIMIT 1) IS TRUE) AS held,
        coalesce(CASE WHEN sqlc.narg(idle_since)::timestamptz IS NOT NULL THEN session_in_use(@id) END, '') AS in_use,
        (SELECT count(*) FROM state_scopes o JOIN state_values v ON v.scope_id = o.id
            WHERE o.session_id = @id)::bigint AS state_keys,
        coalesce((SELECT true FROM streams t WHERE t.session_id = @id LIMIT 1), false)::boolean AS has_streams,
        coalesce((SELECT b.base FROM session_branches b WHERE b.session_id = @id), 0)::bigint AS base,
        coalesce((SELECT true FROM session_branches b WHERE b.parent_id = @id LIMIT 1), false)::boolean AS forked
    FROM session_counters c JOIN sessions s ON s.id = c.session_id WHERE c.session_id = @id
), fit AS (
    SELECT n.* FROM counted n
    WHERE NOT n.held AND coalesce(n.version = sqlc.narg(if_version)::bigint, true)
        AND coalesce(n.active_at < sqlc.narg(idle_since)::timestamptz, true)
        AND n.in_use = '' AND coalesce(n.next_sequence = sqlc.narg(if_messages)::bigint, true)
), deleted AS (
    DELETE FROM sessions s WHERE s.id = (SELECT f.session_id FROM fit f)
), noted AS (
    INSERT INTO session_ids (id, namespace_hash) SELECT n.session_id, hashtextextended(n.namespace, 0)
        FROM fit n ON CONFLICT DO NOTHING
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, session_id, details)
    SELECT statement_timestamp(), audit_new_id(), 'entity_deleted', n.namespace, n.session_id,
        format('{"entity":"session","messages":%s,"plans":%s,"state_keys":%s}', n.next_sequence - n.base,
            cardinality(n.plans), n.state_keys)::json
    FROM fit n WHERE @audited::boolean
)
SELECT (n.next_sequence - n.base)::bigint AS messages, n.plans::text[] AS plans, n.state_keys, n.has_streams, n.forked,
n.held::boolean AS held, n.in_use::text AS in_use, n.version, n.next_sequence, n.active_at::timestamptz AS active_at
FROM counted n;

-- name: SessionRemains :one
-- Index: session_remains_pkey. Whether deletions have left something to be removed.
SELECT coalesce((SELECT true FROM session_remains r ORDER BY r.session_id LIMIT 1), false)::boolean;

-- name: SessionRemove :one
-- Index: session_remains_pkey. Removes up to max_rows of the remains of one session, whose row is unlocked: see the
-- trigger.
UPDATE session_remains r SET batch = @max_rows::bigint
WHERE r.session_id = (SELECT n.session_id FROM session_remains n ORDER BY n.session_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING r.removed;

-- name: SessionRemoveOf :one
-- Index: session_remains_pkey. The same of one session.
UPDATE session_remains r SET batch = @max_rows::bigint WHERE r.session_id = @id RETURNING r.removed;

-- name: SessionLock :one
-- Index: session_counters_pkey. Locks the session for appends, and waits for those under way.
SELECT next_sequence FROM session_counters WHERE session_id = @id FOR UPDATE;
