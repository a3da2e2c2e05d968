-- Fences: the largest fence that was given for the lease of a session or a plan, in the row that a write locks anyway.
-- An acquisition sends these statements in one transaction: FenceLock…, LeaseLock, LeaseTake, Fence…, LeaseGet. A
-- transaction that locks both locks the session or plan first, and then the lease: a transaction that has written to a
-- session may acquire its lease, and the other way round.

-- name: FenceLockSession :exec
-- Index: session_counters_pkey, leases_pkey. Locks a session whose lease is free, and waits for the writes under way.
-- If it is held, no fence is given, and nothing is waited for.
SELECT FROM session_counters c
WHERE c.session_id = @session_id AND NOT EXISTS (
    SELECT FROM leases l WHERE l.namespace = @namespace::text AND l.kind = 'session' AND l.name = c.session_id::text
        AND l.expires_at > statement_timestamp()
) FOR NO KEY UPDATE OF c;

-- name: FenceSession :exec
-- Index: session_counters_pkey, leases_pkey or leases_namespace_owner_kind_name_idx. Tells the session of the fence
-- that owner was given. It is a statement of its own: its snapshot is later than the wait for the lease, and has a
-- session that was created meanwhile. One that is created later still looks at the lease itself: FenceCatchUpSession.
UPDATE session_counters c SET fence = l.fence
FROM leases l
WHERE c.session_id = @session_id AND c.fence < l.fence
    AND l.namespace = @namespace::text AND l.kind = 'session' AND l.name = c.session_id::text
        AND l.owner = @owner::text;

-- name: FenceCatchUpSession :one
-- Index: session_counters_pkey, leases_pkey. Tells the session of a fence that it was not told of, because it did not
-- exist, and returns the latest that it knows, and where its row is. It returns no row if it does not exist now. The
-- lease is locked, because an acquisition may be under way that does not see the session.
WITH locked AS MATERIALIZED (
    SELECT c.session_id, c.fence, c.ctid::tid AS hint FROM session_counters c
        WHERE c.session_id = @session_id FOR NO KEY UPDATE
), given AS MATERIALIZED (
    SELECT l.fence FROM locked k, leases l
    WHERE l.namespace = @namespace::text AND l.kind = 'session' AND l.name = k.session_id::text AND l.fence > k.fence
        AND l.owner IS NOT NULL
    FOR SHARE OF l
), told AS (
    UPDATE session_counters c SET fence = g.fence FROM given g WHERE c.session_id = @session_id
    RETURNING c.ctid::tid AS hint
)
SELECT coalesce(g.fence, k.fence)::bigint AS fence, coalesce((SELECT t.hint FROM told t), k.hint)::tid AS hint
    FROM locked k LEFT JOIN given g ON true;

-- name: FenceLockPlan :exec
-- Index: plans_pkey, leases_pkey. Like FenceLockSession.
SELECT FROM plans p
WHERE p.id = @plan_id AND NOT EXISTS (
    SELECT FROM leases l WHERE l.namespace = @namespace::text AND l.kind = 'plan' AND l.name = p.id::text
        AND l.expires_at > statement_timestamp()
) FOR NO KEY UPDATE OF p;

-- name: FencePlan :exec
-- Index: plans_pkey, leases_pkey or leases_namespace_owner_kind_name_idx. Like FenceSession.
UPDATE plans p SET fence = l.fence
FROM leases l
WHERE p.id = @plan_id AND p.fence < l.fence
    AND l.namespace = @namespace::text AND l.kind = 'plan' AND l.name = p.id::text AND l.owner = @owner::text;

-- name: FenceCatchUpPlan :one
-- Index: plans_pkey, leases_pkey. Like FenceCatchUpSession.
WITH locked AS MATERIALIZED (
    SELECT p.id, p.fence FROM plans p WHERE p.id = @plan_id FOR NO KEY UPDATE
), given AS MATERIALIZED (
    SELECT l.fence FROM locked k, leases l
    WHERE l.namespace = @namespace::text AND l.kind = 'plan' AND l.name = k.id::text AND l.fence > k.fence
        AND l.owner IS NOT NULL
    FOR SHARE OF l
), told AS (
    UPDATE plans p SET fence = g.fence FROM given g WHERE p.id = @plan_id
)
SELECT coalesce(g.fence, k.fence)::bigint AS fence FROM locked k LEFT JOIN given g ON true;
