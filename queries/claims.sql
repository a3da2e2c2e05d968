-- name: PlanByIndex :exec
-- Index: none. Comes before PlanClaim and PlanTransitionMany, in a transaction that has nothing else. The server keeps their
-- plans until it next looks at the tables. A table that was empty then, and now is long, would be read as a whole meanwhile, by
-- each of them. And it would plan each anew, since it compares the kept plan with the first ones, which were for an empty
-- table. A distributed engine plans for the values: it cannot without. And where many limits make PlanClaim look dear, to compile it
-- would take a hundred times as long as to run it.
SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
    set_config('plan_cache_mode', CASE WHEN to_regclass('pg_catalog.pg_dist_schema') IS NULL THEN 'force_generic_plan' ELSE 'auto' END, true);

-- name: PlanLimitLock :one
-- Index: plan_limits_pkey. Comes before PlanClaim, in the same transaction, so that PlanClaim sees what those who had the locks
-- before have claimed. It waits for nobody: PlanClaim claims nothing where a lock is missing. Nor can it above read committed, where
-- it would not see that. Returns whether a lock was skipped, and whether there are limits, and some of actions.
WITH found AS MATERIALIZED (
    SELECT l.id, l.action_name FROM unnest(@namespaces::text[]) AS n (namespace)
    CROSS JOIN LATERAL (SELECT p.id, p.action_name FROM plan_limits p WHERE p.namespace = n.namespace OFFSET 0) AS l
), locked AS MATERIALIZED (
    SELECT l.id FROM unnest(@namespaces::text[]) AS n (namespace)
    CROSS JOIN LATERAL (
        SELECT p.id FROM plan_limits p
        WHERE p.namespace = n.namespace AND current_setting('transaction_isolation') = 'read committed' FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
)
SELECT set_config('agentstore.limits', coalesce((SELECT string_agg(k.id::text, ',') FROM locked k), ''), true)::text AS locked,
    ((SELECT count(*) FROM found) > (SELECT count(*) FROM locked) AND current_setting('transaction_isolation') = 'read committed')::boolean AS skipped,
    EXISTS (SELECT FROM found)::boolean AS is_limited, EXISTS (SELECT FROM found f WHERE f.action_name <> '')::boolean AS by_action;

-- name: PlanLanes :many
-- Index: plan_queue_namespace_phase_priority_since_idx, plan_queue_namespace_phase_action_name_priority_since_idx, plan_claims_lease_namespace_check_at_idx,
-- plan_claims_namespace_check_at_idx, plan_limits_pkey. Returns up to max_rows lanes in which a claim may find something, of all
-- namespaces that have queued plans, from the one behind after on, and then from the first one on. It skips from one namespace to
-- the next, and passes over those that are at their limit, or whose actions are. A row without a phase is a namespace with a claim that may have expired.
-- Of an action that begins with a slash the namespace is the plans'.
WITH RECURSIVE ahead AS (
    (SELECT q.namespace FROM plan_queue q WHERE q.namespace > @after::text ORDER BY q.namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT q.namespace FROM plan_queue q WHERE q.namespace > a.namespace ORDER BY q.namespace LIMIT 1)
    FROM ahead a WHERE a.namespace IS NOT NULL
), behind AS (
    (SELECT q.namespace FROM plan_queue q ORDER BY q.namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT q.namespace FROM plan_queue q WHERE q.namespace > b.namespace ORDER BY q.namespace LIMIT 1)
    FROM behind b WHERE b.namespace <= @after::text
), walked AS (
    SELECT a.namespace FROM ahead a WHERE a.namespace IS NOT NULL
    UNION ALL
    SELECT b.namespace FROM behind b WHERE b.namespace <= @after::text
)
(SELECT e.namespace::text AS namespace, ''::text AS phase, (-1)::smallint AS priority, ''::text AS action, false::boolean AS by_action
FROM (
    SELECT DISTINCT x.namespace
    FROM (
        SELECT c.namespace FROM plan_claims c
        WHERE c.lease_namespace = @lease_namespace::text AND c.check_at <= statement_timestamp() ORDER BY c.check_at LIMIT 100
    ) AS x
) AS e)
UNION ALL
(SELECT w.namespace::text, g.phase::text, r.priority::smallint, a.action::text, b.by_action::boolean
FROM walked w
CROSS JOIN LATERAL (
    SELECT coalesce((SELECT true FROM plan_limits l WHERE l.namespace = w.namespace AND l.action_name <> ''
            ORDER BY l.action_name LIMIT 1), false) AS by_action,
        NOT coalesce((
            SELECT l.at_once <= (SELECT count(*) FROM (
                SELECT FROM plan_claims c WHERE c.namespace = w.namespace ORDER BY c.check_at LIMIT l.at_once
            ) AS c)
            FROM plan_limits l WHERE l.namespace = w.namespace AND l.action_name = ''
        ), false) AS has_room
    OFFSET 0
) AS b
CROSS JOIN LATERAL (
    SELECT e.action FROM (SELECT DISTINCT CASE WHEN n LIKE '/%' THEN w.namespace || n ELSE n END AS action FROM unnest(@actions::text[]) AS n) AS e
    WHERE b.has_room AND NOT (b.by_action AND coalesce((
        SELECT l.at_once <= (SELECT count(*) FROM plan_claims c WHERE c.namespace = w.namespace AND c.action_name = e.action)
        FROM plan_limits l WHERE l.namespace = w.namespace AND l.action_name = e.action
    ), false)) OFFSET 0
) AS a
CROSS JOIN LATERAL (
    SELECT p AS phase FROM unnest(@phases::text[]) AS p
    WHERE CASE WHEN b.by_action AND a.action = '' THEN (
        -- Somewhere between those that are at their limits.
        SELECT true FROM (
            SELECT f.action_name AS before, lead(f.action_name, 1, '~') OVER (ORDER BY f.action_name) AS behind
            FROM (
                SELECT '' COLLATE "C" AS action_name
                UNION ALL
                SELECT l.action_name FROM plan_limits l
                WHERE l.namespace = w.namespace AND l.action_name <> ''
                    AND l.at_once <= (SELECT count(*) FROM plan_claims c WHERE c.namespace = l.namespace AND c.action_name = l.action_name)
            ) AS f
        ) AS e
        WHERE (
            SELECT true FROM plan_queue q
            WHERE q.namespace = w.namespace AND q.phase = p AND q.action_name > e.before AND q.action_name < e.behind ORDER BY q.action_name LIMIT 1
        ) LIMIT 1
    ) ELSE true END OFFSET 0
) AS g
CROSS JOIN LATERAL (SELECT i AS priority FROM generate_series(3, 0, -1) AS i OFFSET 0) AS r
WHERE coalesce(
        (
            SELECT q.since FROM plan_queue q
            WHERE a.action = '' AND q.namespace = w.namespace AND q.phase || '' = g.phase AND q.priority + 0 = r.priority
            ORDER BY q.since, q.plan_id LIMIT 1
        ),
        (
            SELECT q.since FROM plan_queue q
            WHERE a.action <> '' AND q.namespace = w.namespace AND q.phase = g.phase AND q.action_name = a.action AND q.priority = r.priority
            ORDER BY q.since, q.plan_id LIMIT 1
        )
    ) <= statement_timestamp()
LIMIT @max_rows);

-- name: PlanActionLanes :many
-- Index: plan_queue_namespace_phase_action_name_priority_since_idx, plan_limits_pkey, plan_claims_namespace_check_at_idx. Returns the lanes, one for each action that has
-- plans that are due and is not at its limit, of lanes for any action, by their places in the arguments from 1. It skips from one
-- action to the next.
WITH RECURSIVE asked AS (
    SELECT n.namespace, n.phase, n.priority, n.place
    FROM ROWS FROM (unnest(@namespaces::text[]), unnest(@phases::text[]), unnest(@priorities::smallint[])) WITH ORDINALITY AS n (namespace, phase, priority, place)
), queued AS (
    SELECT a.namespace, a.phase, a.priority, a.place, (
        SELECT q.action_name FROM plan_queue q
        WHERE q.namespace = a.namespace AND q.phase = a.phase ORDER BY q.action_name LIMIT 1
    ) AS action_name FROM asked a
    UNION ALL
    SELECT u.namespace, u.phase, u.priority, u.place, (
        SELECT q.action_name FROM plan_queue q
        WHERE q.namespace = u.namespace AND q.phase = u.phase AND q.action_name > u.action_name ORDER BY q.action_name LIMIT 1
    ) FROM queued u WHERE u.action_name IS NOT NULL
)
SELECT u.place::bigint AS place, u.action_name::text AS action
FROM queued u
WHERE u.action_name IS NOT NULL
    AND NOT coalesce((
        SELECT l.at_once <= (
            SELECT count(*) FROM plan_claims c WHERE c.namespace = u.namespace AND c.action_name = u.action_name
        )
        FROM plan_limits l WHERE l.namespace = u.namespace AND l.action_name = u.action_name
    ), false)
    AND (
        SELECT q.since FROM plan_queue q
        WHERE q.namespace = u.namespace AND q.phase = u.phase AND q.action_name = u.action_name AND q.priority = u.priority
        ORDER BY q.since, q.plan_id LIMIT 1
    ) <= statement_timestamp()
LIMIT @max_rows;

-- name: PlanLimitSet :exec
-- Index: plan_limits_pkey. A negative number removes the limit.
WITH removed AS (
    DELETE FROM plan_limits l WHERE @at_once::integer < 0 AND l.namespace = @namespace AND l.action_name = @action_name
), stored AS (
    INSERT INTO plan_limits (namespace, action_name, at_once)
    SELECT @namespace, @action_name, @at_once::integer WHERE @at_once::integer >= 0
    ON CONFLICT (namespace, action_name) DO UPDATE SET at_once = excluded.at_once
    RETURNING true
)
SELECT count(*) FROM stored;

-- name: PlanLimitList :many
-- Index: plan_limits_pkey, plan_claims_namespace_check_at_idx. The limits behind a place, with the number of plans that are claimed; in a
-- view those of its namespace.
SELECT l.namespace, l.action_name, l.at_once, (
    SELECT count(*) FROM plan_claims c WHERE c.namespace = l.namespace AND (l.action_name = '' OR c.action_name = l.action_name)
)::bigint AS claimed
FROM (
    SELECT p.namespace, p.action_name, p.at_once FROM plan_limits p
    WHERE (p.namespace, p.action_name) > (@namespace::text, @action_name::text) AND p.namespace = coalesce(sqlc.narg(view)::text, p.namespace)
    ORDER BY p.namespace, p.action_name LIMIT @max_rows
) AS l
ORDER BY l.namespace, l.action_name;

-- name: PlanClaim :many
-- Index: plan_claims_namespace_check_at_idx, plan_claims_pkey, plan_queue_namespace_phase_priority_since_idx, plan_queue_namespace_phase_action_name_priority_since_idx, plans_pkey or plans_root_id_id_key, leases_pkey, plan_limits_pkey.
-- Claims up to one plan for each element of owners, who may be the same: first those whose claim has expired, then queued ones,
-- of each namespace by priority and in the order of their waiting, the namespaces in turns. A lane is a namespace, a phase, a
-- priority, and an action or '' for any. Returns whole plans in the order in which they were claimed; place is that of the owner, from 1. What is sorted is
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
-- A lane is read from a place on, since and after. The claims that are due of each namespace are read from a time on: so
-- the times at which claims are to be looked at are scattered a little, also where one statement sets those of many. What was claimed has left dead entries at the head of the index, which stay while a
-- snapshot is open that is older, and each claim would walk over them. The answer says since when the first plan has waited that was
-- found queued, or where lanes that are full would have been read from.
--
-- It is planned once: planning takes longer than a claim. PlanByIndex asks for that. Without it, in a caller's transaction, a
-- plan for any arguments must not look dearer than one for those of a call: so arguments are hidden behind SELECT. Of a limit
-- that it does not know the planner expects a tenth of what is there, and would join the whole queue. So within it stands the
-- largest that one claim may have.
WITH lanes AS MATERIALIZED (
    SELECT n.place, n.namespace, n.phase, n.priority, n.action, n.since, n.after
    FROM ROWS FROM (
        unnest((SELECT @places::integer[])), unnest((SELECT @namespaces::text[])), unnest((SELECT @phases::text[])), unnest((SELECT @priorities::smallint[])),
        unnest((SELECT @actions::text[])), unnest((SELECT @sinces::timestamptz[])), unnest((SELECT @afters::uuid[]))
    ) AS n (place, namespace, phase, priority, action, since, after)
), starts AS MATERIALIZED (
    SELECT n.place, n.namespace, n.since
    FROM ROWS FROM (
        unnest((SELECT @due_places::integer[])), unnest((SELECT @due_namespaces::text[])), unnest((SELECT @due_sinces::timestamptz[]))
    ) AS n (place, namespace, since)
), limited AS MATERIALIZED (
    -- How many plans may be claimed besides those that are: room. Whose lock PlanLimitLock has not got, none: free.
    SELECT r.namespace, r.action_name, r.room, CASE WHEN r.is_locked THEN r.room ELSE 0 END AS free FROM (
        SELECT n.namespace, l.action_name, l.id = ANY((SELECT string_to_array(current_setting('agentstore.limits', true), ',')::uuid[])::uuid[]) AS is_locked,
            l.at_once - (
                SELECT count(*) FROM plan_claims c WHERE c.namespace = n.namespace AND (l.action_name = '' OR c.action_name = l.action_name)
            ) AS room
        FROM starts n
        CROSS JOIN LATERAL (SELECT p.id, p.action_name, p.at_once FROM plan_limits p WHERE p.namespace = n.namespace ORDER BY p.action_name LIMIT 10000) AS l
        OFFSET 0 -- or each is counted twice
    ) AS r
), due AS MATERIALIZED (
    -- Locked, so that no two claims look at the same one; a few more than are asked for, since the leases of some were renewed. What
    -- others have locked is passed over, and the plan first, so that nothing is written for it. So is, for PlanExpire, what is past
    -- its deadline, or more than a limit allows that was lowered. held_until is when a lease that was renewed ends. Null: it has
    -- ended.
    SELECT d.plan_id, d.lease_namespace, d.attempt, d.max_attempts, d.check_at, d.phase, l.place, d.held_until,
        d.held_until + abs(hashtext(d.plan_id::text) % 10000) * interval '1 microsecond' AS look_at
    FROM starts l
    CROSS JOIN LATERAL (
        SELECT c.plan_id, c.lease_namespace, c.attempt, c.max_attempts, c.check_at, c.phase, h.held_until
        FROM (
            SELECT w.plan_id, w.lease_namespace, w.namespace, w.phase, w.action_name, w.attempt >= w.max_attempts AS is_last FROM (
                SELECT c.plan_id, c.lease_namespace, c.namespace, c.phase, c.action_name, c.attempt, c.max_attempts FROM plan_claims c
                WHERE c.namespace = l.namespace AND c.check_at BETWEEN l.since AND statement_timestamp()
                ORDER BY c.check_at LIMIT 2100
            ) AS w
            LIMIT (SELECT @due_window::integer)
        ) AS w
        CROSS JOIN LATERAL (
            -- Before anything is locked, so that it keeps nothing from those who ask for that. No update of a claim changes these.
            SELECT (
                SELECT h.expires_at FROM leases h
                WHERE h.namespace = w.lease_namespace AND h.kind = 'plan' AND h.name = w.plan_id::text AND h.expires_at > statement_timestamp()
            ) AS held_until
            WHERE (
                SELECT true FROM lanes a
                WHERE a.namespace = w.namespace AND a.phase = w.phase AND (a.action = '' OR a.action = w.action_name) LIMIT 1
            ) AND (w.is_last OR (
                SELECT true FROM limited x
                WHERE x.namespace = w.namespace AND (x.action_name = '' OR x.action_name = w.action_name) AND x.room < 0 LIMIT 1
            ) IS NULL) OFFSET 0
        ) AS h
        CROSS JOIN LATERAL (
            SELECT CASE WHEN h.held_until IS NOT NULL THEN true ELSE
                (
                    SELECT true FROM plans p
                    WHERE p.id = w.plan_id AND p.state = 'processing' AND (w.is_last OR coalesce(p.deadline > statement_timestamp(), true))
                    FOR NO KEY UPDATE SKIP LOCKED
                )
                AND CASE WHEN (SELECT true FROM leases f WHERE f.namespace = w.lease_namespace AND f.kind = 'plan' AND f.name = w.plan_id::text) THEN (
                    SELECT true FROM leases f
                    WHERE f.namespace = w.lease_namespace AND f.kind = 'plan' AND f.name = w.plan_id::text AND f.expires_at <= statement_timestamp()
                    FOR NO KEY UPDATE SKIP LOCKED
                ) ELSE true END
            END AS may OFFSET 0
        ) AS m
        CROSS JOIN LATERAL (
            SELECT c.plan_id, c.lease_namespace, c.attempt, c.max_attempts, c.check_at, c.phase
            FROM plan_claims c
            WHERE m.may AND c.plan_id = w.plan_id AND c.check_at <= statement_timestamp()
            FOR UPDATE OF c SKIP LOCKED
        ) AS c
        LIMIT (SELECT @due_depth::integer)
    ) AS d
), later AS (
    -- With a join the planner would rather read all claims.
    UPDATE plan_claims c
    SET check_at = (SELECT k.look_at FROM due k WHERE k.plan_id = c.plan_id)
    WHERE c.plan_id = ANY(ARRAY(SELECT k.plan_id FROM due k WHERE k.held_until IS NOT NULL))
), rooms AS MATERIALIZED (
    SELECT a.place, a.namespace, a.phase, a.priority, a.action, a.since, a.after, coalesce(n.free, 1) > 0 AND coalesce(x.free, 1) > 0 AS has_room
    FROM lanes a
    LEFT JOIN limited n ON n.namespace = a.namespace AND n.action_name = ''
    LEFT JOIN limited x ON x.namespace = a.namespace AND x.action_name = a.action
), waiting AS (
    SELECT w.plan_id, w.phase, w.since, l.place, l.priority, l.namespace, w.action_name
    FROM (SELECT a.place, a.namespace, a.phase, a.priority, a.action, a.since, a.after FROM rooms a WHERE a.has_room) AS l CROSS JOIN LATERAL (
        (
            SELECT q.plan_id, q.phase, q.since, q.action_name FROM (
                SELECT q.plan_id, q.phase, q.since, q.action_name FROM plan_queue q
                WHERE l.action = '' AND q.namespace = l.namespace AND q.phase || '' = l.phase AND q.priority + 0 = l.priority
                    AND (q.since, q.plan_id) > (l.since, l.after) AND q.since <= statement_timestamp()
                    AND coalesce(q.deadline > statement_timestamp(), true)
                ORDER BY q.since, q.plan_id LIMIT 2100
            ) AS q
            LIMIT (SELECT @depth::integer)
        ) UNION ALL (
            SELECT q.plan_id, q.phase, q.since, q.action_name FROM (
                SELECT q.plan_id, q.phase, q.since, q.action_name FROM plan_queue q
                WHERE l.action <> '' AND q.namespace = l.namespace AND q.phase = l.phase AND q.action_name = l.action AND q.priority = l.priority
                    AND (q.since, q.plan_id) > (l.since, l.after) AND q.since <= statement_timestamp()
                    AND coalesce(q.deadline > statement_timestamp(), true)
                ORDER BY q.since, q.plan_id LIMIT 2100
            ) AS q
            LIMIT (SELECT @depth::integer)
        )
    ) AS w
), known AS (
    SELECT w.plan_id, w.phase, w.since, w.place, w.priority, n.free AS most, a.free, coalesce(a.action_name, '') AS limited_action
    FROM waiting w
    LEFT JOIN limited n ON n.namespace = w.namespace AND n.action_name = ''
    LEFT JOIN limited a ON a.namespace = w.namespace AND a.action_name = w.action_name
), allowed AS (
    -- Of each action no more than it may have, and of those no more than the namespace may have. The first ones may be locked, or
    -- held: so a further look counts only what it has locked. Nobody else, without the lock of the limit, could claim that.
    SELECT o.plan_id, o.phase, o.since, o.place, o.turn FROM (
        SELECT r.plan_id, r.phase, r.since, r.place, r.most, row_number() OVER (PARTITION BY r.place ORDER BY r.priority DESC, r.since, r.plan_id) AS turn
        FROM (
            SELECT k.plan_id, k.phase, k.since, k.place, k.priority, k.most, k.free,
                row_number() OVER (PARTITION BY k.place, k.limited_action ORDER BY k.priority DESC, k.since, k.plan_id) AS turn
            FROM known k WHERE NOT (SELECT @further::boolean) OR coalesce(k.most, k.free) IS NULL
            UNION ALL
            SELECT l.plan_id, l.phase, l.since, g.place, l.priority, g.most, g.free, l.turn
            FROM (
                SELECT k.place, min(k.most) AS most, min(k.free) AS free,
                    array_agg(k.plan_id ORDER BY k.priority DESC, k.since, k.plan_id) AS ids, array_agg(k.phase ORDER BY k.priority DESC, k.since, k.plan_id) AS phases,
                    array_agg(k.since ORDER BY k.priority DESC, k.since, k.plan_id) AS sinces, array_agg(k.priority ORDER BY k.priority DESC, k.since, k.plan_id) AS priorities
                FROM known k WHERE (SELECT @further::boolean) AND least(k.most, k.free) > 0 GROUP BY k.place, k.limited_action
            ) AS g
            CROSS JOIN LATERAL (
                SELECT i.plan_id, i.phase, i.since, i.priority, row_number() OVER () AS turn FROM (
                    SELECT e.plan_id, e.phase, e.since, e.priority
                    FROM (
                        SELECT u.plan_id, u.phase, u.since, u.priority
                        FROM ROWS FROM (unnest(g.ids), unnest(g.phases), unnest(g.sinces), unnest(g.priorities))
                            WITH ORDINALITY AS u (plan_id, phase, since, priority, place)
                        ORDER BY u.place
                    ) AS e
                    CROSS JOIN LATERAL (
                        SELECT FROM plans
                        WHERE plans.id = e.plan_id AND plans.phase = e.phase AND plans.state = 'queued'
                            AND (
                                SELECT true FROM leases h
                                WHERE h.namespace = @lease_namespace::text AND h.kind = 'plan' AND h.name = e.plan_id::text AND h.expires_at > statement_timestamp()
                            ) IS NULL
                        FOR NO KEY UPDATE SKIP LOCKED
                    ) AS p
                    LIMIT least(g.most, g.free, cardinality((SELECT @owners::text[])))
                ) AS i
            ) AS l
        ) AS r
        WHERE r.turn <= coalesce(r.free, r.turn)
    ) AS o
    WHERE o.turn <= coalesce(o.most, o.turn)
), candidates AS (
    SELECT k.plan_id, k.phase, 'processing' AS state, 0 AS turn, k.place, k.check_at AS since
    FROM due k WHERE k.held_until IS NULL AND k.attempt < k.max_attempts
    UNION ALL
    SELECT w.plan_id, w.phase, 'queued' AS state, w.turn, w.place, w.since
    FROM allowed w
), free AS (
    -- Read, and locked, only as far as the next part asks for. A plan whose lease somebody holds is not locked at all. The token of the lease's row is 0 if there is none, and null if
    -- somebody holds it or has it locked.
    SELECT p.id, p.phase, p.state, p.version, p.attempt, p.max_attempts, p.namespace, p.action_name, p.updated_at, greatest(p.fence, h.token) AS latest
    FROM (SELECT k.plan_id, k.phase, k.state FROM candidates k ORDER BY k.turn, k.place, k.since, k.plan_id) AS c
    CROSS JOIN LATERAL (
        SELECT plans.id, plans.phase, plans.state, plans.version, plans.attempt, plans.max_attempts, plans.namespace, plans.action_name,
            plans.updated_at, plans.fence
        FROM plans
        WHERE plans.id = c.plan_id AND plans.phase = c.phase AND plans.state = c.state
            AND (
                SELECT true FROM leases g
                WHERE g.namespace = @lease_namespace::text AND g.kind = 'plan' AND g.name = c.plan_id::text AND g.expires_at > statement_timestamp()
            ) IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
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
    SELECT f.id, f.phase, f.state, f.version, f.attempt, f.max_attempts, f.namespace, f.action_name, f.updated_at, f.latest,
        row_number() OVER () AS place, ((SELECT @owners::text[]))[row_number() OVER ()] AS claimant,
        greatest(f.latest + 1, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + row_number() OVER ())::bigint AS token
    FROM (SELECT n.id, n.phase, n.state, n.version, n.attempt, n.max_attempts, n.namespace, n.action_name, n.updated_at, n.latest FROM free n LIMIT cardinality((SELECT @owners::text[]))) AS f
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
    SET phase = k.phase, state = 'processing', not_before = NULL, version = k.version + CASE k.state WHEN 'queued' THEN 1 ELSE 2 END,
        attempt = k.attempt + CASE k.state WHEN 'queued' THEN 0 ELSE 1 END, fence = k.token,
        error_message = NULL, error_details = NULL, cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(k.updated_at, l.acquired_at)
    FROM picked k JOIN leased l ON l.name = k.id::text
    WHERE p.id = k.id AND p.id = ANY(ARRAY(SELECT o.id FROM picked o)) -- otherwise the planner may read all plans
    RETURNING p.id, p.namespace, p.action_name, p.phase, p.version, p.attempt, p.max_attempts, p.updated_at, p.reversion_count,
        p.last_completed_step, p.last_checkpoint_id, k.state AS from_state, k.claimant, k.place, k.token, l.acquired_at, l.expires_at
), noted AS (
    INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, lease_namespace, attempt, max_attempts, check_at)
    SELECT m.id, m.namespace, m.action_name, m.phase, m.claimant, @lease_namespace::text, m.attempt, m.max_attempts, m.expires_at + abs(hashtext(m.id::text) % 10000) * interval '1 microsecond'
    FROM claimed m
    ON CONFLICT (plan_id) DO UPDATE SET
        owner = excluded.owner, lease_namespace = excluded.lease_namespace, attempt = excluded.attempt, max_attempts = excluded.max_attempts,
        check_at = excluded.check_at
), ended AS MATERIALIZED (
    SELECT n.id, n.namespace, n.phase, n.version, n.updated_at,
        format('the claim expired in attempt %s of %s', k.attempt, k.max_attempts) AS error_message
    FROM due k
    CROSS JOIN LATERAL (
        SELECT plans.id, plans.namespace, plans.phase, plans.version, plans.updated_at FROM plans
        WHERE plans.id = k.plan_id AND plans.phase = k.phase AND plans.state = 'processing' FOR NO KEY UPDATE SKIP LOCKED
    ) AS n
    WHERE k.held_until IS NULL AND k.attempt >= k.max_attempts
        AND CASE WHEN (SELECT true FROM leases h WHERE h.namespace = k.lease_namespace AND h.kind = 'plan' AND h.name = n.id::text) THEN (
            SELECT true FROM leases h
            WHERE h.namespace = k.lease_namespace AND h.kind = 'plan' AND h.name = n.id::text AND h.expires_at <= statement_timestamp()
            FOR NO KEY UPDATE SKIP LOCKED
        ) ELSE true END
), spent AS (
    UPDATE plans p
    SET phase = s.phase, state = 'errored', version = s.version + 1,
        error_message = s.error_message, error_details = NULL,
        cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(s.updated_at, statement_timestamp())
    FROM ended s
    WHERE p.id = s.id AND p.id = ANY(ARRAY(SELECT e.id FROM ended e)) -- otherwise the planner may read all plans
    RETURNING p.id, p.namespace, p.phase, p.version, p.updated_at, p.error_message
), steps AS MATERIALIZED (
    SELECT m.id, m.version - 1 AS version, 'expire' AS transition, m.phase, 'processing' AS from_state, 'queued' AS to_state,
        format('the claim expired in attempt %s', m.attempt - 1) AS reason, m.updated_at, m.claimant AS actor, m.namespace
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
    m.token, m.place, m.acquired_at, m.expires_at, least(
        coalesce((SELECT min(w.since) FROM waiting w), statement_timestamp()),
        (SELECT min(a.since) FROM rooms a WHERE NOT a.has_room)
    )::timestamptz AS first_since
FROM claimed m CROSS JOIN LATERAL (SELECT * FROM plans WHERE plans.id = m.id LIMIT 1) AS plans
ORDER BY m.place;

-- name: PlanQueueWindows :many
-- Index: plan_queue_namespace_phase_priority_since_idx, plan_queue_namespace_phase_action_name_priority_since_idx. Returns where a claim that begins
-- at the same places ends to look in a lane that has so many plans, by the lanes' places in the arguments from 1.
SELECT n.place::bigint AS place, e.since, e.plan_id
FROM ROWS FROM (
    unnest(@namespaces::text[]), unnest(@phases::text[]), unnest(@priorities::smallint[]), unnest(@actions::text[]),
    unnest(@sinces::timestamptz[]), unnest(@afters::uuid[])
) WITH ORDINALITY AS n (namespace, phase, priority, action, since, after, place)
CROSS JOIN LATERAL (
    (
        SELECT q.since, q.plan_id FROM plan_queue q
        WHERE n.action = '' AND q.namespace = n.namespace AND q.phase || '' = n.phase AND q.priority + 0 = n.priority
            AND (q.since, q.plan_id) > (n.since, n.after) AND q.since <= statement_timestamp()
        ORDER BY q.since, q.plan_id LIMIT 1 OFFSET @before::integer
    ) UNION ALL (
        SELECT q.since, q.plan_id FROM plan_queue q
        WHERE n.action <> '' AND q.namespace = n.namespace AND q.phase = n.phase AND q.action_name = n.action AND q.priority = n.priority
            AND (q.since, q.plan_id) > (n.since, n.after) AND q.since <= statement_timestamp()
        ORDER BY q.since, q.plan_id LIMIT 1 OFFSET @before::integer
    )
) AS e;

-- name: PlanLimitsFull :many
-- Index: plan_limits_pkey, plan_claims_namespace_check_at_idx. Returns the limits of namespaces, and which of them allow nothing more.
SELECT l.namespace, l.action_name, (l.at_once <= (
    SELECT count(*) FROM plan_claims c WHERE c.namespace = l.namespace AND (l.action_name = '' OR c.action_name = l.action_name)
))::boolean AS is_full
FROM unnest(@namespaces::text[]) AS n (namespace)
CROSS JOIN LATERAL (SELECT p.namespace, p.action_name, p.at_once FROM plan_limits p WHERE p.namespace = n.namespace OFFSET 0) AS l;

-- name: PlanDueWindows :many
-- Index: plan_claims_namespace_check_at_idx. Returns the same for the claims that are due.
SELECT n.place::bigint AS place, e.check_at
FROM ROWS FROM (
    unnest(@namespaces::text[]), unnest(@sinces::timestamptz[])
) WITH ORDINALITY AS n (namespace, since, place)
CROSS JOIN LATERAL (
    SELECT c.check_at FROM plan_claims c
    WHERE c.namespace = n.namespace AND c.check_at BETWEEN n.since AND statement_timestamp()
    ORDER BY c.check_at LIMIT 1 OFFSET @before::integer
) AS e;

-- name: PlanClaimable :many
-- Index: plan_queue_namespace_phase_priority_since_idx, plan_queue_namespace_phase_action_name_priority_since_idx,
-- plan_claims_namespace_check_at_idx. Returns the lanes, by their places in the arguments from 1, in which a claim may find
-- something now, or within a second, after wait_micros. It is the poll of those who wait: a look-up in each lane. The planner would
-- turn EXISTS into a scan of the whole table, and does so without an order, too.
SELECT n.place::bigint AS place, greatest(ceil(extract(epoch FROM w.since - statement_timestamp()) * 1000000), 0)::bigint AS wait_micros
FROM ROWS FROM (
    unnest(@namespaces::text[]), unnest(@phases::text[]), unnest(@priorities::smallint[]), unnest(@actions::text[])
) WITH ORDINALITY AS n (namespace, phase, priority, action, place)
CROSS JOIN LATERAL (
    SELECT coalesce(
        (
            SELECT 'epoch'::timestamptz FROM plan_claims c
            WHERE c.namespace = n.namespace AND c.check_at <= statement_timestamp()
                AND c.phase = n.phase AND (n.action = '' OR c.action_name = n.action)
            LIMIT 1
        ),
        (
            SELECT q.since FROM plan_queue q
            WHERE n.action = '' AND q.namespace = n.namespace AND q.phase || '' = n.phase AND q.priority + 0 = n.priority
            ORDER BY q.since, q.plan_id LIMIT 1
        ),
        (
            SELECT q.since FROM plan_queue q
            WHERE n.action <> '' AND q.namespace = n.namespace AND q.phase = n.phase AND q.action_name = n.action
                AND q.priority = n.priority
            ORDER BY q.since, q.plan_id LIMIT 1
        )
    ) AS since OFFSET 0
) AS w
WHERE w.since < statement_timestamp() + interval '1 second';
