-- name: PlanByIndex :exec
-- Index: none. Comes before PlanClaim and PlanTransitionMany, in a transaction that has nothing else. The server keeps their
-- plans until it next looks at the tables. A table that was empty then, and now is long, would be read as a whole meanwhile, by
-- each of them. And it would plan each anew, since it compares the kept plan with the first ones, which were for an empty
-- table.
SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true);

-- name: PlanClaim :many
-- Index: plan_claims_namespace_check_at_idx, plan_claims_pkey, plan_queue_namespace_phase_since_idx, plan_queue_namespace_phase_action_name_since_idx, plans_pkey or plans_root_id_id_key, leases_pkey.
-- Claims up to one plan for each element of owners, who may be the same: first those whose claim has expired, then queued ones,
-- of each namespace in the order of their waiting, the namespaces in turns. A lane is a namespace, a phase, and an action or ''
-- for any. Returns whole plans in the order in which they were claimed; place is that of the owner, from 1. What is sorted is
-- bounded by depth, the number of plans that are looked at in each lane. It is larger than their number, because others may
-- have the first ones.
--
-- It waits for nobody: it skips plans that are locked, and leases whose row is. Whoever acquires the lease of a plan has the
-- lock of the plan, so that it has no row that others are making. Locking a lease also shows whether it was renewed since the
-- statement began. Plans are locked one by one, until there are enough. The trigger plan_queue_move takes them from the queue,
-- and deletes what plans leave behind that have no attempt left.
--
-- A token is larger than all that were given for the plan: see LeaseTake.
--
-- It looks at what is queued since a time. What was claimed has left dead entries at the head of the index, which stay while a
-- snapshot is open that is older, and each claim would walk over them. The answer says since when the first plan has waited that was
-- found queued.
--
-- It is planned once: planning takes longer than a claim. PlanByIndex asks for that. Without it, in a caller's transaction, a
-- plan for any arguments must not look dearer than one for those of a call: so arguments are hidden behind SELECT. Of a limit
-- that it does not know the planner expects a tenth of what is there, and would join the whole queue. So within it stands the
-- largest that one claim may have.
WITH lanes AS MATERIALIZED (
    SELECT n.place, n.namespace, n.phase, n.action
    FROM ROWS FROM (
        unnest((SELECT @places::integer[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @phases::text[])), unnest((SELECT @actions::text[]))
    ) AS n (place, namespace, phase, action)
), due AS MATERIALIZED (
    -- Locked, so that no two claims look at the same one; a few more than are asked for, since the leases of some were renewed.
    SELECT d.plan_id, d.owner, d.lease_namespace, d.attempt, d.max_attempts, d.check_at, d.phase, l.place
    FROM (SELECT lanes.place, lanes.namespace FROM lanes GROUP BY lanes.place, lanes.namespace) AS l
    CROSS JOIN LATERAL (
        SELECT c.plan_id, c.owner, c.lease_namespace, c.attempt, c.max_attempts, c.check_at, c.phase FROM (
            SELECT c.plan_id, c.owner, c.lease_namespace, c.attempt, c.max_attempts, c.check_at, c.phase
            FROM plan_claims c
            WHERE c.namespace = l.namespace AND c.check_at <= statement_timestamp()
                AND (
                    SELECT true FROM lanes a
                    WHERE a.namespace = c.namespace AND a.phase = c.phase AND (a.action = '' OR a.action = c.action_name) LIMIT 1
                )
            ORDER BY c.check_at LIMIT 108 FOR UPDATE OF c SKIP LOCKED
        ) AS c
        LIMIT (SELECT @due_depth::integer)
    ) AS d
), looked AS MATERIALIZED (
    -- When a lease that was renewed ends. Null: it has ended.
    SELECT d.plan_id, d.owner, d.lease_namespace, d.attempt, d.max_attempts, d.check_at, d.phase, d.place, (
        SELECT h.expires_at FROM leases h
        WHERE h.namespace = d.lease_namespace AND h.kind = 'plan' AND h.name = d.plan_id::text AND h.expires_at > statement_timestamp()
    ) AS held_until
    FROM due d
), later AS (
    -- With a join the planner would rather read all claims.
    UPDATE plan_claims c
    SET check_at = (SELECT k.held_until FROM looked k WHERE k.plan_id = c.plan_id)
    WHERE c.plan_id = ANY(ARRAY(SELECT k.plan_id FROM looked k WHERE k.held_until IS NOT NULL))
), waiting AS (
    SELECT w.plan_id, w.phase, w.since, l.place
    FROM lanes l CROSS JOIN LATERAL (
        (
            SELECT q.plan_id, q.phase, q.since FROM (
                SELECT q.plan_id, q.phase, q.since FROM plan_queue q
                WHERE l.action = '' AND q.namespace = l.namespace AND q.phase = l.phase AND q.since >= (SELECT @since::timestamptz)
                ORDER BY q.since, q.plan_id LIMIT 356
            ) AS q
            LIMIT (SELECT @depth::integer)
        ) UNION ALL (
            SELECT q.plan_id, q.phase, q.since FROM (
                SELECT q.plan_id, q.phase, q.since FROM plan_queue q
                WHERE l.action <> '' AND q.namespace = l.namespace AND q.phase = l.phase AND q.action_name = l.action
                    AND q.since >= (SELECT @since::timestamptz)
                ORDER BY q.since, q.plan_id LIMIT 356
            ) AS q
            LIMIT (SELECT @depth::integer)
        )
    ) AS w
), candidates AS (
    SELECT k.plan_id, k.phase, 'processing' AS state, k.owner, 0 AS turn, k.place, k.check_at AS since
    FROM looked k WHERE k.held_until IS NULL AND k.attempt < k.max_attempts
    UNION ALL
    SELECT w.plan_id, w.phase, 'queued' AS state, NULL AS owner,
        row_number() OVER (PARTITION BY w.place ORDER BY w.since, w.plan_id) AS turn, w.place, w.since
    FROM waiting w
), free AS (
    -- Read, and locked, only as far as the next part asks for. The token of the lease's row is 0 if there is none, and null if
    -- somebody holds it or has it locked.
    SELECT p.id, p.phase, p.state, p.version, p.attempt, p.namespace, p.action_name, p.updated_at, c.owner, greatest(p.fence, h.token) AS latest
    FROM (SELECT * FROM candidates ORDER BY candidates.turn, candidates.place, candidates.since, candidates.plan_id) AS c
    CROSS JOIN LATERAL (
        SELECT plans.id, plans.phase, plans.state, plans.version, plans.attempt, plans.namespace, plans.action_name, plans.updated_at,
            plans.fence
        FROM plans
        WHERE plans.id = c.plan_id AND plans.phase = c.phase AND plans.state = c.state FOR NO KEY UPDATE SKIP LOCKED
    ) AS p
    CROSS JOIN LATERAL (
        SELECT CASE WHEN (SELECT true FROM leases h WHERE h.namespace = @lease_namespace::text AND h.kind = 'plan' AND h.name = p.id::text) THEN (
            SELECT h.token FROM leases h
            WHERE h.namespace = @lease_namespace::text AND h.kind = 'plan' AND h.name = p.id::text AND h.expires_at <= statement_timestamp()
            FOR NO KEY UPDATE SKIP LOCKED
        ) ELSE 0 END AS token OFFSET 0
    ) AS h
    WHERE h.token IS NOT NULL LIMIT 100
), picked AS MATERIALIZED (
    SELECT f.*, row_number() OVER () AS place, ((SELECT @owners::text[]))[row_number() OVER ()] AS claimant,
        greatest(f.latest + 1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + row_number() OVER ())::bigint AS token
    FROM (SELECT * FROM free LIMIT cardinality((SELECT @owners::text[]))) AS f
), leased AS (
    INSERT INTO leases (namespace, kind, name, owner, token, acquired_at, expires_at)
    SELECT @lease_namespace::text, 'plan', k.id::text, k.claimant, k.token, statement_timestamp(),
        statement_timestamp() + make_interval(secs => @ttl_seconds::float8)
    FROM picked k
    ON CONFLICT (namespace, kind, name) DO UPDATE SET
        owner = excluded.owner, token = excluded.token, acquired_at = excluded.acquired_at, expires_at = excluded.expires_at
        WHERE leases.expires_at <= excluded.acquired_at
    RETURNING name, acquired_at, expires_at
), claimed AS (
    UPDATE plans p
    SET phase = k.phase, state = 'processing', version = k.version + CASE k.state WHEN 'queued' THEN 1 ELSE 2 END,
        attempt = k.attempt + CASE k.state WHEN 'queued' THEN 0 ELSE 1 END, fence = k.token,
        error_message = NULL, error_details = NULL, cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(k.updated_at, l.acquired_at)
    FROM picked k JOIN leased l ON l.name = k.id::text
    WHERE p.id = k.id
    RETURNING p.id, p.namespace, p.action_name, p.phase, p.version, p.attempt, p.updated_at, p.reversion_count,
        p.last_completed_step, p.last_checkpoint_id, k.state AS from_state, k.owner AS before, k.claimant, k.place, k.token, l.acquired_at, l.expires_at
), noted AS (
    INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, lease_namespace, attempt, max_attempts, check_at)
    SELECT m.id, m.namespace, m.action_name, m.phase, m.claimant, @lease_namespace::text, m.attempt, @max_attempts::integer, m.expires_at
    FROM claimed m
    ON CONFLICT (plan_id) DO UPDATE SET
        owner = excluded.owner, lease_namespace = excluded.lease_namespace, attempt = excluded.attempt, max_attempts = excluded.max_attempts,
        check_at = excluded.check_at
), spent AS (
    UPDATE plans p
    SET phase = s.phase, state = 'errored', version = s.version + 1,
        error_message = format('the claim of %s expired in attempt %s of %s', s.owner, s.attempt, s.max_attempts), error_details = NULL,
        cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(s.updated_at, statement_timestamp())
    FROM (
        SELECT n.id, n.phase, n.version, n.updated_at, k.owner, k.attempt, k.max_attempts
        FROM looked k
        CROSS JOIN LATERAL (
            SELECT plans.id, plans.phase, plans.version, plans.updated_at FROM plans
            WHERE plans.id = k.plan_id AND plans.phase = k.phase AND plans.state = 'processing' FOR NO KEY UPDATE SKIP LOCKED
        ) AS n
        WHERE k.held_until IS NULL AND k.attempt >= k.max_attempts
            AND CASE WHEN (SELECT true FROM leases h WHERE h.namespace = k.lease_namespace AND h.kind = 'plan' AND h.name = n.id::text) THEN (
                SELECT true FROM leases h
                WHERE h.namespace = k.lease_namespace AND h.kind = 'plan' AND h.name = n.id::text AND h.expires_at <= statement_timestamp()
                FOR NO KEY UPDATE SKIP LOCKED
            ) ELSE true END
    ) AS s
    WHERE p.id = s.id
    RETURNING p.id, p.namespace, p.phase, p.version, p.updated_at, p.error_message
), steps AS MATERIALIZED (
    SELECT m.id, m.version - 1 AS version, 'expire' AS transition, m.phase, 'processing' AS from_state, 'queued' AS to_state,
        format('the claim of %s expired in attempt %s', m.before, m.attempt - 1) AS reason, m.updated_at, m.claimant AS actor, m.namespace
    FROM claimed m WHERE m.from_state = 'processing'
    UNION ALL
    SELECT m.id, m.version, 'start', m.phase, 'queued', 'processing', NULL, m.updated_at, m.claimant, m.namespace FROM claimed m
    UNION ALL
    SELECT s.id, s.version, 'expire', s.phase, 'processing', 'errored', s.error_message, s.updated_at, ((SELECT @owners::text[]))[1], s.namespace FROM spent s
), remembered AS (
    INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor, reason, created_at)
    SELECT t.id, t.version, t.transition, t.phase, t.from_state, t.phase, t.to_state, t.actor, t.reason, t.updated_at
    FROM steps t
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, details)
    -- The two of a plan in their order.
    SELECT statement_timestamp() + interval '1 microsecond' * (t.transition = 'start')::integer, audit_new_id(),
        CASE t.to_state WHEN 'errored' THEN 'plan_errored' ELSE 'plan_phase_changed' END, t.namespace, t.actor, t.id,
        format('{"transition":"%s","from":"%s/%s","to":"%s/%s","version":%s}',
            t.transition, t.phase, t.from_state, t.phase, t.to_state, t.version)::json
    FROM (SELECT * FROM steps ORDER BY steps.id, steps.version) AS t
)
SELECT sqlc.embed(plans), m.phase, m.version, m.attempt, m.updated_at, m.reversion_count, m.last_completed_step, m.last_checkpoint_id,
    m.token, m.place, m.acquired_at, m.expires_at, coalesce((SELECT min(w.since) FROM waiting w), statement_timestamp())::timestamptz AS first_since
FROM claimed m CROSS JOIN LATERAL (SELECT * FROM plans WHERE plans.id = m.id LIMIT 1) AS plans
ORDER BY m.place;

-- name: PlanClaimable :many
-- Index: plan_queue_namespace_phase_since_idx, plan_queue_namespace_phase_action_name_since_idx, plan_claims_namespace_check_at_idx.
-- Returns the lanes, by their places in the arguments from 1, in which a claim may find something. It is the poll of those who
-- wait: a look-up in each lane. The planner would turn EXISTS into a scan of the whole table, and does so without an order,
-- too.
SELECT n.place::bigint AS place
FROM ROWS FROM (
    unnest(@namespaces::text[]), unnest(@phases::text[]), unnest(@actions::text[])
) WITH ORDINALITY AS n (namespace, phase, action, place)
WHERE coalesce(
        (
            SELECT true FROM plan_queue q
            WHERE n.action = '' AND q.namespace = n.namespace AND q.phase = n.phase
            ORDER BY q.since, q.plan_id LIMIT 1
        ),
        (
            SELECT true FROM plan_queue q
            WHERE n.action <> '' AND q.namespace = n.namespace AND q.phase = n.phase AND q.action_name = n.action
            ORDER BY q.since, q.plan_id LIMIT 1
        ),
        (
            SELECT true FROM plan_claims c
            WHERE c.namespace = n.namespace AND c.check_at <= statement_timestamp()
                AND c.phase = n.phase AND (n.action = '' OR c.action_name = n.action)
            LIMIT 1
        )
    );
