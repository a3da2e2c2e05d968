-- name: PlanClaimLater :exec
-- Index: plan_claims_pkey. Notes when leases end that were renewed. The times at which claims are to be looked at are
-- scattered a little, also where one statement sets many: they are read from a time on. It skips locked rows.
UPDATE plan_claims c
SET check_at = (
    SELECT n.held_until + abs(hashtext(n.id::text) % 10000) * interval '1 microsecond'
    FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@held_untils::timestamptz[])) AS n (id, held_until)
        WHERE n.id = c.plan_id
)
WHERE c.plan_id = ANY(ARRAY( -- with a join the planner would rather read all
    SELECT k.plan_id FROM unnest((SELECT @ids::uuid[])) AS n (id)
    CROSS JOIN LATERAL (SELECT plan_claims.plan_id FROM plan_claims
        WHERE plan_claims.plan_id = n.id FOR UPDATE SKIP LOCKED) AS k
));

-- name: PlanClaimLease :exec
-- Index: leases_pkey. Takes leases, except for ones that were acquired between the snapshot and the lock of
-- PlanClaimLock: the next statements leave out what has no lease.
INSERT INTO leases (namespace, kind, name, owner, fence, acquired_at, expires_at)
SELECT @lease_namespace::text, 'plan', n.id::text, n.owner, n.fence, @now::timestamptz, @until::timestamptz
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@owners::text[]), unnest(@fences::bigint[])) AS n (id, owner, fence)
ON CONFLICT (namespace, kind, name) DO UPDATE SET
    owner = excluded.owner, fence = excluded.fence, acquired_at = excluded.acquired_at, expires_at = excluded.expires_at
    WHERE leases.expires_at <= excluded.acquired_at;

-- name: PlanClaimStart :many
-- Index: plans_pkey, leases_pkey. Starts the plans whose leases were taken, which it returns whole, in no order.
-- PlanClaimNote, PlanClaimHistory and PlanClaimTell find them by their versions.
UPDATE plans p
SET state = 'processing', not_before = NULL, version = n.version, attempt = n.attempt, fence = n.fence,
    error_message = NULL, error_details = NULL, cancelled_at = NULL, cancel_reason = NULL,
    updated_at = greatest(p.updated_at, @now::timestamptz)
FROM ROWS FROM (unnest((SELECT @ids::uuid[])), unnest((SELECT @versions::bigint[])),
    unnest((SELECT @attempts::integer[])), unnest((SELECT @fences::bigint[])))
    AS n (id, version, attempt, fence)
WHERE p.id = n.id AND p.id = ANY(ARRAY(SELECT unnest(@ids::uuid[]))) -- otherwise the planner may read all plans
    AND (SELECT l.fence FROM leases l WHERE l.namespace = @lease_namespace::text AND l.kind = 'plan'
        AND l.name = n.id::text) = n.fence
RETURNING p.*;

-- name: PlanClaimNote :exec
-- Index: plan_claims_pkey, plans_pkey.
WITH started AS MATERIALIZED (
    SELECT n.id, n.owner, n.bytes, p.namespace, p.action_name, p.phase, p.attempt, p.max_attempts
    FROM ROWS FROM (unnest((SELECT @ids::uuid[])), unnest((SELECT @versions::bigint[])),
        unnest((SELECT @owners::text[])), unnest((SELECT @bytes::integer[])))
        AS n (id, version, owner, bytes)
    CROSS JOIN LATERAL (
        SELECT plans.namespace, plans.action_name, plans.phase, plans.attempt, plans.max_attempts FROM plans
        WHERE plans.id = n.id AND plans.version = n.version LIMIT 1
    ) AS p
)
INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, lease_namespace, attempt, max_attempts, bytes,
    check_at)
SELECT s.id, s.namespace, s.action_name, s.phase, s.owner, @lease_namespace::text, s.attempt, s.max_attempts, s.bytes,
    c.until + abs(hashtext(s.id::text) % 10000) * interval '1 microsecond'
FROM started s CROSS JOIN (SELECT @until::timestamptz AS until) AS c
ON CONFLICT (plan_id) DO UPDATE SET
    owner = excluded.owner, lease_namespace = excluded.lease_namespace, attempt = excluded.attempt,
    max_attempts = excluded.max_attempts, check_at = excluded.check_at;

-- name: PlanClaimError :exec
-- Index: plans_pkey.
UPDATE plans p
SET state = 'errored', version = p.version + 1, error_message = n.reason, error_details = NULL,
    cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(p.updated_at, @now::timestamptz)
FROM ROWS FROM (unnest((SELECT @ids::uuid[])), unnest((SELECT @reasons::text[]))) AS n (id, reason)
WHERE p.id = n.id AND p.id = ANY(ARRAY(SELECT unnest(@ids::uuid[])));

-- name: PlanClaimHistory :exec
-- Index: plans_pkey. What the others have done. An empty reason is none.
WITH done AS MATERIALIZED (
    SELECT n.id, n.version, n.transition, n.from_state, n.to_state, n.actor, n.reason, p.phase, p.updated_at
    FROM ROWS FROM (
        unnest((SELECT @ids::uuid[])), unnest((SELECT @versions::bigint[])), unnest((SELECT @transitions::text[])),
        unnest((SELECT @from_states::text[])), unnest((SELECT @to_states::text[])), unnest((SELECT @actors::text[])),
        unnest((SELECT @reasons::text[]))
    ) AS n (id, version, transition, from_state, to_state, actor, reason)
    CROSS JOIN LATERAL (SELECT plans.phase, plans.updated_at FROM plans WHERE plans.id = n.id
        AND plans.version >= n.version LIMIT 1) AS p
)
INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor, reason,
    created_at)
SELECT d.id, d.version, d.transition, d.phase, d.from_state, d.phase, d.to_state, d.actor, nullif(d.reason, ''),
d.updated_at FROM done d;

-- name: PlanClaimTell :exec
-- Index: plans_pkey. The entries of the same, each plan's in their order.
WITH done AS MATERIALIZED (
    SELECT n.id, n.version, n.transition, n.from_state, n.to_state, n.actor, p.phase, p.namespace
    FROM ROWS FROM (
        unnest((SELECT @ids::uuid[])), unnest((SELECT @versions::bigint[])), unnest((SELECT @transitions::text[])),
        unnest((SELECT @from_states::text[])), unnest((SELECT @to_states::text[])), unnest((SELECT @actors::text[]))
    ) AS n (id, version, transition, from_state, to_state, actor)
    CROSS JOIN LATERAL (SELECT plans.phase, plans.namespace FROM plans WHERE plans.id = n.id
        AND plans.version >= n.version LIMIT 1) AS p
)
INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, details)
SELECT c.now + interval '1 microsecond' * (d.transition = 'start')::integer, audit_new_id(),
    CASE d.to_state WHEN 'errored' THEN 'plan_errored' ELSE 'plan_phase_changed' END, d.namespace, d.actor, d.id,
    format('{"transition":"%s","from":"%s/%s","to":"%s/%s","version":%s}', d.transition, d.phase, d.from_state, d.phase,
        d.to_state, d.version)::json
FROM done d CROSS JOIN (SELECT @now::timestamptz AS now) AS c;
