-- Leases. A row, leases, is the lease of a key and the counter of its fences: what changes it locks it first, in a
-- statement of its own, and reads the clock in the next one. So the time, like the fence, is later than what those
-- before it did.

-- name: LeaseMake :exec
-- Index: leases_pkey, session_holds_pkey. The first statement of an acquisition makes a row that is free, unless it
-- sees one. A clock in it would keep a distributed engine from handing it to the node: see MessageInsert.
INSERT INTO leases (namespace, kind, name, fence, acquired_at, expires_at)
SELECT @namespace::text, @kind::text, @name::text, 0, '-infinity', '-infinity'
FROM session_holds h
LEFT JOIN leases l ON l.namespace = @namespace::text AND l.kind = @kind::text AND l.name = @name::text
WHERE h.namespace = '' AND h.owner = '' AND h.session_id = '00000000-0000-0000-0000-000000000000' AND l.fence IS NULL
ON CONFLICT (namespace, kind, name) DO NOTHING;

-- name: LeaseLock :exec
-- Index: leases_pkey. The second one locks the row. If its snapshot shows another owner that holds the lease, it
-- returns at once.
SELECT FROM leases l
WHERE l.namespace = @namespace::text AND l.kind = @kind::text AND l.name = @name::text
    AND (l.owner IS NULL OR l.owner = @owner::text OR l.expires_at <= statement_timestamp())
FOR NO KEY UPDATE;

-- name: LeaseTake :exec
-- Index: leases_pkey, session_counters_pkey, plans_pkey or plans_root_id_id_key. Gives the lease to owner unless
-- another owner holds it. If owner holds it already, its fence stays. A new fence is larger than the one before, than
-- the fence of the session or plan that the key names, and than the time in microseconds since 1970: the row and the
-- fence may be new.
UPDATE leases l
SET owner = @owner::text, fence = CASE WHEN l.expires_at > c.now THEN l.fence
    ELSE greatest(l.fence + 1, c.fence + 1, c.microseconds) END,
    acquired_at = CASE WHEN l.expires_at > c.now THEN l.acquired_at ELSE c.now END,
    expires_at = greatest(l.expires_at, c.until)
FROM (
    SELECT statement_timestamp() AS now, statement_timestamp() + make_interval(secs => @ttl_seconds::float8) AS until,
        (extract(epoch FROM statement_timestamp()) * 1000000)::bigint AS microseconds, max(f.fence) AS fence
    FROM (
        SELECT s.fence FROM session_counters s WHERE s.session_id = sqlc.narg(session_id)::uuid
        UNION ALL SELECT p.fence FROM plans p WHERE p.id = sqlc.narg(plan_id)::uuid
    ) AS f
) AS c
WHERE l.namespace = @namespace::text AND l.kind = @kind::text AND l.name = @name::text
    AND (l.owner = @owner::text OR l.expires_at <= c.now);

-- name: LeaseGet :one
-- Index: leases_pkey. Returns the lease, of any owner, also if it has expired. A free row is none.
SELECT l.owner::text AS owner, l.fence, l.acquired_at, l.expires_at
FROM leases l
WHERE l.namespace = @namespace::text AND l.kind = @kind::text AND l.name = @name::text AND l.owner IS NOT NULL;

-- name: LeaseListHeld :many
-- Index: leases_pkey. Returns the leases that are held.
SELECT l.name, l.owner::text AS owner, l.fence, l.acquired_at, l.expires_at
FROM leases l
WHERE l.namespace = @namespace::text AND l.kind = @kind::text AND l.name = ANY(@names::text[])
    AND l.expires_at > statement_timestamp();

-- name: LeaseListEnded :many
-- Index: leases_pkey. The poll of callers that wait for leases: it returns the places, from 1, of the fences that
-- are not held, and, where the fence is 0, of the keys that are free or held by the owner.
SELECT n.place::bigint AS place
FROM ROWS FROM (
    unnest((SELECT @namespaces::text[])), unnest((SELECT @kinds::text[])), unnest((SELECT @names::text[])),
    unnest((SELECT @owners::text[])), unnest((SELECT @fences::bigint[]))
) WITH ORDINALITY AS n (namespace, kind, name, owner, fence, place)
LEFT JOIN LATERAL (
    SELECT l.owner, l.fence FROM leases l
    WHERE l.namespace = n.namespace AND l.kind = n.kind AND l.name = n.name
        AND l.expires_at > statement_timestamp() LIMIT 1
) AS h ON true
WHERE CASE WHEN n.fence = 0 THEN coalesce(h.owner = n.owner, true) ELSE h.fence IS DISTINCT FROM n.fence END;

-- name: LeaseLockFence :exec
-- Index: leases_pkey. Comes before LeaseRenew.
SELECT FROM leases l
WHERE l.namespace = @namespace::text AND l.kind = @kind::text AND l.name = @name::text
    AND l.fence = @fence FOR NO KEY UPDATE;

-- name: LeaseRenew :many
-- Index: leases_pkey. Renews leases without waiting: it returns the renewed ones, with their places in the arguments
-- from 1. It leaves out leases that are locked by others, or lost: the lease with this fence has expired, or was
-- released. It never shortens a life: the owner may have another holder, with a longer one. For a process, it is sent
-- after PlanByIndex, and planned once: see claims.sql. hints are where the rows were when they were last renewed: see
-- MessageAppendOne.
WITH asked AS MATERIALIZED (
    SELECT a.namespace, a.kind, a.name, a.fence, a.seconds, a.hint, a.place
    FROM ROWS FROM (
        unnest(@namespaces::text[]), unnest(@kinds::text[]), unnest(@names::text[]), unnest(@fences::bigint[]),
        unnest(@ttls_seconds::float8[]), unnest(@hints::tid[])
    ) WITH ORDINALITY AS a (namespace, kind, name, fence, seconds, hint, place)
), free AS MATERIALIZED (
    SELECT a.place, statement_timestamp() + make_interval(secs => a.seconds) AS until, a.fence, coalesce(
        (
            SELECT h.ctid FROM leases h
            WHERE h.ctid = a.hint AND h.namespace = a.namespace AND h.kind = a.kind AND h.name = a.name
            FOR NO KEY UPDATE SKIP LOCKED
        ),
        (
            SELECT h.ctid FROM leases h
            WHERE h.namespace = a.namespace AND h.kind = a.kind AND h.name = a.name
            FOR NO KEY UPDATE SKIP LOCKED
        )
    ) AS at
    FROM asked a
)
UPDATE leases l
SET expires_at = greatest(l.expires_at, f.until)
FROM free f
WHERE l.ctid = f.at AND l.fence = f.fence AND l.expires_at > statement_timestamp()
RETURNING f.place::bigint AS place, l.owner::text AS owner, l.fence, l.acquired_at, l.expires_at, l.ctid::tid AS hint;

-- name: LeaseRelease :execrows
-- Index: leases_pkey. Frees the row. The trigger plan_claim_release ends the claim of a plan.
UPDATE leases l SET owner = NULL, acquired_at = statement_timestamp(), expires_at = '-infinity'
WHERE l.namespace = @namespace::text AND l.kind = @kind::text AND l.name = @name::text AND l.fence = @fence
    AND l.owner IS NOT NULL;

-- name: LeaseReleaseAll :many
-- Index: leases_namespace_owner_kind_name_idx, sessions_pkey, plans_pkey or plans_root_id_id_key. Returns the keys of
-- some, and the number of all. view: see LeaseList. The leases of one are in up to two namespaces.
WITH released AS (
    UPDATE leases l SET owner = NULL, acquired_at = statement_timestamp(), expires_at = '-infinity'
    WHERE l.namespace = ANY(@namespaces::text[]) AND l.owner = @owner::text AND CASE
            WHEN sqlc.narg(view)::text IS NULL THEN true
            WHEN l.kind = 'session' THEN (SELECT s.namespace FROM sessions s
                WHERE s.id = l.name::uuid) = sqlc.narg(view)::text
            WHEN l.kind = 'plan' THEN (SELECT p.namespace FROM plans p
                WHERE p.id = l.name::uuid) = sqlc.narg(view)::text
            ELSE l.namespace = sqlc.narg(view)::text
        END
    RETURNING l.kind, l.name
)
SELECT r.kind, r.name, count(*) OVER () AS released FROM released r LIMIT 1000;

-- name: LeaseSweep :exec
-- Index: leases_namespace_acquired_at_idx, leases_pkey. Removes a few rows that have been free for a day: more than the
-- release that it follows has freed. It skips locked rows.
DELETE FROM leases l
USING (
    SELECT f.namespace, f.kind, f.name FROM leases f
    WHERE f.namespace = @namespace::text AND f.owner IS NULL
        AND f.acquired_at < statement_timestamp() - interval '1 day'
    ORDER BY f.acquired_at LIMIT 4 FOR UPDATE SKIP LOCKED
) AS old
WHERE l.namespace = old.namespace AND l.kind = old.kind AND l.name = old.name;

-- name: LeaseList :many
-- Index: leases_pkey or leases_namespace_owner_kind_name_idx, sessions_pkey, plans_pkey or plans_root_id_id_key. The
-- query is rewritten before it is sent: see audit_lists.sql. view: the lease of a session or a plan is in the namespace
-- local; the namespace of the session or the plan decides.
SELECT l.kind, l.name, l.owner::text AS owner, l.fence, l.acquired_at, l.expires_at,
(l.expires_at <= statement_timestamp())::boolean AS expired
FROM leases l
WHERE l.namespace = @namespace::text AND l.owner IS NOT NULL
    AND (l.kind, l.name) > (@after_kind::text, @after_name::text)
    AND (sqlc.narg(name)::text IS NULL OR l.name = sqlc.narg(name)::text)
    AND (sqlc.narg(owner)::text IS NULL OR l.owner = sqlc.narg(owner)::text)
    AND (sqlc.narg(kind)::text IS NULL OR l.kind = sqlc.narg(kind)::text)
    AND (l.expires_at <= statement_timestamp()) = ANY(@has_expired::boolean[])
    AND (sqlc.narg(view)::text IS NULL OR CASE l.kind
        WHEN 'session' THEN (SELECT s.namespace FROM sessions s WHERE s.id = l.name::uuid)
        WHEN 'plan' THEN (SELECT p.namespace FROM plans p WHERE p.id = l.name::uuid)
        ELSE l.namespace
    END = sqlc.narg(view)::text)
ORDER BY l.kind, l.name LIMIT @max_rows;
