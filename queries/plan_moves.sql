-- name: PlanGetMany :many
-- Index: plans_pkey. Returns whole plans, in no order. LIMIT makes the planner look up each plan separately.
SELECT d.* FROM unnest(@ids::uuid[]) AS a (id),
LATERAL (SELECT * FROM plans WHERE plans.id = a.id LIMIT 1) AS d;

-- name: PlanLock :exec
-- Index: plans_pkey. Waits for a plan's row, and locks it, before PlanTransition.
SELECT FROM plans p WHERE p.id = @id FOR NO KEY UPDATE;

-- name: PlanTransition :many
-- Index: plans_pkey, plan_claims_pkey, leases_pkey. Makes transitions of plans, other than cancellations, if their
-- stages and versions are as the caller read them, and their fences (0 for none) the latest, and adds them to the
-- histories. It returns the plans that it has moved, with their places in the arguments from 1. It waits for no lock:
-- it leaves out plans that are locked, or whose claim or its lease is, which the trigger plan_queue_move deletes. With
-- waits, for one plan that is locked already, the trigger waits for these. Sent after PlanByIndex, and planned once:
-- see claims.sql.
WITH asked AS MATERIALIZED (
    SELECT a.id, a.from_phase, a.from_state, a.version, a.fence, a.to_phase, a.to_state, a.transition, a.error_message,
    a.error_details,
        a.reversion_count, a.attempt, a.delay_micros, a.deadline, a.actor, a.reason, a.event_type, a.details, a.place
    FROM ROWS FROM (
        unnest((SELECT @ids::uuid[])), unnest((SELECT @from_phases::text[])), unnest((SELECT @from_states::text[])),
        unnest((SELECT @versions::bigint[])), unnest((SELECT @fences::bigint[])), unnest((SELECT @to_phases::text[])),
        unnest((SELECT @to_states::text[])), unnest((SELECT @transitions::text[])),
        unnest((SELECT @error_messages::text[])),
        unnest((SELECT @error_details::text[])), unnest((SELECT @reversion_counts::integer[])),
        unnest((SELECT @attempts::integer[])),
        unnest((SELECT @delays_micros::bigint[])), unnest((SELECT @deadlines::timestamptz[])),
        unnest((SELECT @actors::text[])),
        unnest((SELECT @reasons::text[])), unnest((SELECT @event_types::text[])), unnest((SELECT @details::text[]))
    ) WITH ORDINALITY AS a (
        id, from_phase, from_state, version, fence, to_phase, to_state, transition, error_message, error_details,
        reversion_count, attempt, delay_micros, deadline, actor, reason, event_type, details, place
    )
), free AS MATERIALIZED (
    SELECT a.place, p.id, statement_timestamp() AS now,
    statement_timestamp() + nullif(a.delay_micros, 0) * interval '1 microsecond' AS not_before
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT plans.id FROM plans
        WHERE plans.id = a.id AND plans.phase = a.from_phase AND plans.state = a.from_state
            AND plans.version = a.version AND coalesce(nullif(a.fence, 0) = plans.fence, true)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS p
    CROSS JOIN LATERAL (
        SELECT (SELECT c.lease_namespace FROM plan_claims c WHERE c.plan_id = p.id
            AND a.from_state = 'processing') AS namespace OFFSET 0
    ) AS k
    WHERE CASE WHEN k.namespace IS NOT NULL AND NOT (SELECT @waits::boolean) THEN
        CASE WHEN (SELECT true FROM leases h WHERE h.namespace = k.namespace AND h.kind = 'plan'
            AND h.name = p.id::text) THEN (
            SELECT true FROM leases h
            WHERE h.namespace = k.namespace AND h.kind = 'plan' AND h.name = p.id::text FOR UPDATE SKIP LOCKED
        ) ELSE true END
        AND (SELECT true FROM plan_claims c WHERE c.plan_id = p.id FOR UPDATE SKIP LOCKED)
    ELSE true END
), moved AS (
    UPDATE plans p
    SET phase = a.to_phase, state = a.to_state, version = p.version + 1,
        error_message = nullif(a.error_message, ''), error_details = CAST(nullif(a.error_details, '') AS json),
        reversion_count = a.reversion_count, attempt = a.attempt,
        deadline = nullif(a.deadline, '10000-01-01 00:00:00+00'),
        not_before = f.not_before, cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(p.updated_at, f.now)
    FROM free f JOIN asked a ON a.place = f.place
    WHERE p.id = f.id AND p.id = ANY(ARRAY(SELECT o.id FROM free o)) -- otherwise the planner may read all plans
    RETURNING p.id, p.namespace, p.version, p.updated_at, p.not_before, p.last_completed_step, p.last_checkpoint_id,
    a.place, a.transition, a.from_phase, a.from_state, a.to_phase, a.to_state, nullif(a.actor, '') AS actor,
        nullif(a.reason, '') AS reason, a.event_type, a.details
), noted AS (
    INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor, reason,
        created_at)
    SELECT m.id, m.version, m.transition, m.from_phase, m.from_state, m.to_phase, m.to_state, m.actor, m.reason,
    m.updated_at
    FROM moved m
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, details)
    SELECT statement_timestamp(), audit_new_id(), m.event_type, m.namespace, m.actor, m.id, CAST(m.details AS json)
    FROM moved m
)
SELECT m.place::bigint AS place, m.updated_at, m.not_before, m.last_completed_step, m.last_checkpoint_id FROM moved m;
