-- A claim is a transaction of short statements. Some look, without locks (PlanClaimDue, PlanClaimQueue, and
-- PlanLimitRoom under the locks of the limits). Go chooses (rules.Choice). PlanClaimLock locks the choice, and the
-- others write it. Nothing waits for a lock.
--
-- The plan of a statement is made once: to make it takes longer than to run it. PlanByIndex asks for that. Without it,
-- in a caller's transaction, a plan for any arguments must not look dearer than one for a call's: so arguments are
-- hidden behind SELECT. Of a limit that it does not know the planner expects a tenth of what is there, and would join
-- the whole queue. So within it stands the largest that one claim may have.

-- name: PlanByIndex :exec
-- Index: none. Comes before statements on plans, in a transaction that has nothing else. The server keeps their plans
-- until it next looks at the tables. A table that was empty then, and now is long, would be read as a whole meanwhile,
-- by each of them. And it would plan each anew, since it compares the kept plan with the first ones, which were for an
-- empty table. A distributed engine plans for the values: it cannot without. And to compile a statement that looks dear
-- would take a hundred times as long as to run it.
SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
    set_config('plan_cache_mode', CASE WHEN to_regclass('pg_catalog.pg_dist_schema') IS NULL THEN 'force_generic_plan'
        ELSE 'auto' END, true);

-- name: PlanClaimDue :many
-- Index: plan_claims_namespace_check_at_idx, leases_pkey. Returns the first claims of namespaces, from a time on, that
-- may have expired. held_until is when the lease ends that was renewed, and check_at if none is held.
SELECT c.plan_id, c.namespace, c.action_name, c.phase, (c.attempt >= c.max_attempts)::boolean AS is_last, c.bytes,
c.check_at, coalesce((
        SELECT h.expires_at FROM leases h
        WHERE h.namespace = @lease_namespace::text AND h.kind = 'plan' AND h.name = c.plan_id::text
            AND h.expires_at > statement_timestamp()
    ), c.check_at)::timestamptz AS held_until
FROM ROWS FROM (unnest((SELECT @namespaces::text[])), unnest((SELECT @sinces::timestamptz[]))) AS n (namespace, since)
CROSS JOIN LATERAL (
    SELECT d.plan_id, d.namespace, d.action_name, d.phase, d.attempt, d.max_attempts, d.bytes, d.check_at FROM (
        SELECT p.plan_id, p.namespace, p.action_name, p.phase, p.attempt, p.max_attempts, p.bytes, p.check_at
            FROM plan_claims p
        WHERE p.namespace = n.namespace AND p.check_at BETWEEN n.since AND statement_timestamp()
        ORDER BY p.check_at LIMIT 2100
    ) AS d
    LIMIT (SELECT @depth::integer)
) AS c;

-- name: PlanClaimQueue :many
-- Index: plan_queue_namespace_phase_priority_since_idx, plan_queue_namespace_phase_action_name_priority_since_idx.
-- Returns the first plans of lanes that are due, with the lanes' places in the arguments from 1. A lane is a namespace,
-- a phase, a priority, and an action or '' for any. It is read from a place on, since and after: what was claimed has
-- left dead entries at the head of the index, which stay while a snapshot is open that is older, and each claim would
-- walk over them.
SELECT n.place::bigint AS place, w.plan_id, w.action_name, w.since, w.bytes
FROM ROWS FROM (
    unnest((SELECT @namespaces::text[])), unnest((SELECT @phases::text[])), unnest((SELECT @priorities::smallint[])),
    unnest((SELECT @actions::text[])), unnest((SELECT @sinces::timestamptz[])), unnest((SELECT @afters::uuid[]))
) WITH ORDINALITY AS n (namespace, phase, priority, action, since, after, place)
CROSS JOIN LATERAL (
    (
        SELECT q.plan_id, q.action_name, q.since, q.bytes FROM (
            SELECT q.plan_id, q.action_name, q.since, q.bytes FROM plan_queue q
            WHERE n.action = '' AND q.namespace = n.namespace AND q.phase || '' = n.phase
                AND q.priority + 0 = n.priority
                AND (q.since, q.plan_id) > (n.since, n.after) AND q.since <= statement_timestamp()
                AND coalesce(q.deadline > statement_timestamp(), true)
            ORDER BY q.since, q.plan_id LIMIT 2100
        ) AS q
        LIMIT (SELECT @depth::integer)
    ) UNION ALL (
        SELECT q.plan_id, q.action_name, q.since, q.bytes FROM (
            SELECT q.plan_id, q.action_name, q.since, q.bytes FROM plan_queue q
            WHERE n.action <> '' AND q.namespace = n.namespace AND q.phase = n.phase AND q.action_name = n.action
                AND q.priority = n.priority
                AND (q.since, q.plan_id) > (n.since, n.after) AND q.since <= statement_timestamp()
                AND coalesce(q.deadline > statement_timestamp(), true)
            ORDER BY q.since, q.plan_id LIMIT 2100
        ) AS q
        LIMIT (SELECT @depth::integer)
    )
) AS w;

-- name: PlanClaimLock :many
-- Index: plans_pkey or plans_root_id_id_key, plan_claims_pkey, leases_pkey. Locks plans one by one, until there are
-- most, so that a claim hides none that it does not take, and returns them in their order, each with a fence that is
-- larger than all that were given for it (LeaseTake). It passes over plans that are locked, or not at the stage any
-- more, or whose lease is held, or locked: a renewal may be under way. An acquisition of the lease of a plan has the
-- lock of the plan. is_last: their claims have expired in their last attempts. Others are left to PlanExpire after
-- their deadline.
SELECT p.id, p.version, p.attempt, p.max_attempts, greatest(p.fence + 1, h.fence + 1,
    (extract(epoch FROM statement_timestamp()) * 1000000)::bigint)::bigint AS fence,
    statement_timestamp()::timestamptz AS now
FROM ROWS FROM (unnest((SELECT @ids::uuid[])), unnest((SELECT @phases::text[]))) AS n (id, phase)
CROSS JOIN LATERAL (
    SELECT plans.id, plans.version, plans.attempt, plans.max_attempts, plans.fence FROM plans
    WHERE plans.id = n.id AND plans.phase = n.phase AND plans.state = @state::text
        AND (@is_last::boolean OR coalesce(plans.deadline > statement_timestamp(), true))
        AND (
            SELECT true FROM leases g
            WHERE g.namespace = @lease_namespace::text AND g.kind = 'plan' AND g.name = n.id::text
                AND g.expires_at > statement_timestamp()
        ) IS NULL
    FOR NO KEY UPDATE SKIP LOCKED
) AS p
CROSS JOIN LATERAL (
    -- 0 if there is no lease, and null if it, or the claim, is locked.
    SELECT CASE WHEN @state::text = 'processing' AND (SELECT true FROM plan_claims c
        WHERE c.plan_id = p.id FOR UPDATE SKIP LOCKED) IS NULL THEN NULL
        WHEN (SELECT true FROM leases l WHERE l.namespace = @lease_namespace::text AND l.kind = 'plan'
            AND l.name = p.id::text) THEN (
            SELECT l.fence FROM leases l
            WHERE l.namespace = @lease_namespace::text AND l.kind = 'plan' AND l.name = p.id::text
                AND l.expires_at <= statement_timestamp()
            FOR NO KEY UPDATE SKIP LOCKED
        ) ELSE 0 END AS fence OFFSET 0
) AS h
WHERE h.fence IS NOT NULL LIMIT (SELECT @most::integer);
