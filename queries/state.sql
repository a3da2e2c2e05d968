-- name: StateLockOwn :exec
-- Index: sessions_pkey, state_scopes_pkey. Locks the own scopes of sessions for a change, in the order of their ids,
-- and creates missing ones, at version 0, at which a scope is as none. WHERE false: rows that exist are locked, not
-- updated. A session that does not exist gets none. It is a statement of its own: the snapshot of the next one then
-- has what was committed during the wait. The subqueries hide the arrays from the planner, which would otherwise make
-- a plan for each call.
WITH there AS (
    SELECT s.id FROM unnest((SELECT @session_ids::uuid[])) AS w (id),
    LATERAL (SELECT sessions.id FROM sessions WHERE sessions.id = w.id LIMIT 1) AS s
)
INSERT INTO state_scopes (id, session_id, version) SELECT t.id, t.id, 0 FROM there t
ORDER BY t.id
ON CONFLICT (id) DO UPDATE SET version = state_scopes.version WHERE false;

-- name: StateLockShared :exec
-- Index: state_scopes_namespace_name_key. Like StateLockOwn, for shared scopes, in the order of their namespaces and
-- names. ids are for scopes that do not exist.
INSERT INTO state_scopes (id, namespace, name, version)
SELECT w.id, w.namespace, w.name, 0
FROM ROWS FROM (
    unnest((SELECT @ids::uuid[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @names::text[]))
) AS w (id, namespace, name)
ORDER BY w.namespace COLLATE "C", w.name COLLATE "C"
ON CONFLICT (namespace, name) DO UPDATE SET version = state_scopes.version WHERE false;

-- name: StateList :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key, sessions_pkey, state_values_pkey. The keys after
-- a key and from first up to before, ordered by their bytes; a row with an empty key if there is none.
SELECT (@session_id::uuid IS NULL OR EXISTS (SELECT FROM sessions t WHERE t.id = @session_id::uuid))::boolean AS known,
    coalesce(s.version, 0)::bigint AS scope_version, coalesce(v.key, '')::text AS key, v.value,
    coalesce(v.version, 0)::bigint AS version, coalesce(v.updated_at, 'epoch')::timestamptz AS updated_at
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (
    SELECT t.id, t.version FROM state_scopes t WHERE t.session_id = @session_id::uuid
    UNION ALL
    SELECT t.id, t.version FROM state_scopes t WHERE t.namespace = @namespace::text AND t.name = @name::text
    LIMIT 1
) AS s ON true
LEFT JOIN LATERAL (
    SELECT t.key, t.value, t.version, t.updated_at FROM state_values t
    WHERE t.scope_id = s.id AND t.key >= @first::text AND t.key > @after::text AND t.key < @before::text
    ORDER BY t.key LIMIT @max_rows::integer
) AS v ON true
ORDER BY v.key;

-- name: StateErase :one
-- Index: state_scopes_namespace_name_key, state_scopes_pkey, and in the cascade state_values_pkey. Deletes a shared
-- scope, and returns the number of its keys. The scope must be locked: see StateLockShared, which has created it at
-- version 0 if it did not exist.
WITH counted AS (
    SELECT s.id, s.version, (SELECT count(*) FROM state_values v WHERE v.scope_id = s.id) AS keys
    FROM state_scopes s WHERE s.namespace = @namespace::text AND s.name = @name::text
), deleted AS (
    DELETE FROM state_scopes s USING counted n WHERE s.id = n.id
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, details)
    SELECT statement_timestamp(), audit_new_id(), 'entity_deleted', @namespace::text,
    format('{"entity":"state_scope","id":"%s","keys":%s}', n.id, n.keys)::json
    FROM counted n WHERE n.version > 0
)
SELECT coalesce(max(n.keys), 0)::bigint AS keys FROM counted n;

-- name: StateOfSessionLock :exec
-- Index: state_scopes_session_id_idx. Locks sessions' own state before they are deleted, in the order in which all lock
-- scopes.
SELECT s.id FROM state_scopes s WHERE s.session_id = ANY (@session_ids::uuid[]) ORDER BY s.session_id FOR UPDATE;

-- name: StateScopeImport :exec
-- Index: state_scopes_pkey. Creates the state of a session that is being imported.
INSERT INTO state_scopes (id, session_id, version) VALUES (@session_id, @session_id, @version);

-- name: StateImport :exec
-- Index: state_values_pkey.
INSERT INTO state_values (scope_id, key, value, version, updated_at)
SELECT @session_id, n.key, n.value::json, n.version, n.updated_at
FROM ROWS FROM (unnest(@keys::text[]), unnest(@new_values::text[]), unnest(@versions::bigint[]),
    unnest(@updated_ats::timestamptz[]))
    AS n (key, value, version, updated_at);
