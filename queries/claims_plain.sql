-- PlanClaim as plain statements, for a distributed engine, which takes a statement that changes rows in several places step by step: see
-- conn.Conns.Distributed. PlanClaimPick locks and looks, and the others write what it has found, in the same transaction.
-- A plain server keeps PlanClaim, which is one round trip: so the first part stands twice, as queries cannot share one.

-- name: PlanClaimPick :many
-- Index: plan_claims_namespace_check_at_idx, plan_claims_pkey, plan_queue_namespace_phase_priority_since_idx, plan_queue_namespace_phase_action_name_priority_since_idx, plans_pkey or plans_root_id_id_key, leases_pkey, plan_limits_pkey.
-- The first part of PlanClaim, without a change in it (TestPicksAlike), and what the second part would change, as what says: start,
-- with the token and the place of the owner, error, or look at the claim later.
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
), term AS (
    SELECT statement_timestamp() + make_interval(secs => @ttl_seconds::float8) AS until
)
SELECT f.what::text AS what, f.id, f.phase, f.state, f.version, f.attempt, f.max_attempts, f.namespace::text AS namespace, f.action_name::text AS action_name,
    f.token::bigint AS token, f.place::bigint AS place, statement_timestamp()::timestamptz AS now, e.until::timestamptz AS until, f.at::timestamptz AS at,
    greatest(f.updated_at, statement_timestamp())::timestamptz AS updated_at, f.reason::text AS reason
FROM (
    SELECT 'start' AS what, k.id, k.phase, k.state, k.version, k.attempt + (k.state = 'processing')::integer AS attempt, k.max_attempts, k.namespace, k.action_name,
        k.token, k.place, k.updated_at, least(
            coalesce((SELECT min(w.since) FROM waiting w), statement_timestamp()),
            (SELECT min(a.since) FROM rooms a WHERE NOT a.has_room)
        ) AS at, format('the claim expired in attempt %s', k.attempt) AS reason
    FROM picked k
    UNION ALL
    SELECT 'error', n.id, n.phase, 'processing', n.version, 0, 0, n.namespace, '', 0, 0, n.updated_at, statement_timestamp(), n.error_message FROM ended n
    UNION ALL
    SELECT 'later', k.plan_id, k.phase, 'processing', 0, 0, 0, '', '', 0, 0, statement_timestamp(), k.look_at, '' FROM due k WHERE k.held_until IS NOT NULL
) AS f
CROSS JOIN term e
ORDER BY f.place;

-- name: PlanClaimLater :exec
-- Index: plan_claims_pkey.
UPDATE plan_claims c
SET check_at = (SELECT n.check_at FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@check_ats::timestamptz[])) AS n (id, check_at) WHERE n.id = c.plan_id)
WHERE c.plan_id = ANY(@ids::uuid[]); -- with a join the planner would rather read all

-- name: PlanClaimLease :many
-- Index: leases_pkey. Returns the plans whose lease it has taken. Somebody may have acquired one while PlanClaimPick waited for nobody, and
-- none of those that there are can be acquired any more: the plans are locked.
INSERT INTO leases (namespace, kind, name, owner, token, acquired_at, expires_at)
SELECT @lease_namespace::text, 'plan', n.id::text, n.owner, n.token, @now::timestamptz, @until::timestamptz
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@owners::text[]), unnest(@tokens::bigint[])) AS n (id, owner, token)
ON CONFLICT (namespace, kind, name) DO UPDATE SET
    owner = excluded.owner, token = excluded.token, acquired_at = excluded.acquired_at, expires_at = excluded.expires_at
    WHERE leases.expires_at <= excluded.acquired_at
RETURNING name::uuid AS id;

-- name: PlanClaimStart :many
-- Index: plans_pkey. Returns whole plans, in no order.
UPDATE plans p
SET state = 'processing', not_before = NULL, version = n.version, attempt = n.attempt, fence = n.token,
    error_message = NULL, error_details = NULL, cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(p.updated_at, @now::timestamptz)
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@versions::bigint[]), unnest(@attempts::integer[]), unnest(@tokens::bigint[]))
    AS n (id, version, attempt, token)
WHERE p.id = n.id
RETURNING p.*;

-- name: PlanClaimNote :exec
-- Index: plan_claims_pkey.
INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, lease_namespace, attempt, max_attempts, check_at)
SELECT n.id, n.namespace, n.action_name, n.phase, n.owner, @lease_namespace::text, n.attempt, n.max_attempts,
    c.until + abs(hashtext(n.id::text) % 10000) * interval '1 microsecond'
FROM ROWS FROM (
    unnest(@ids::uuid[]), unnest(@namespaces::text[]), unnest(@action_names::text[]), unnest(@phases::text[]), unnest(@owners::text[]),
    unnest(@attempts::integer[]), unnest(@max_attempts::integer[])
) AS n (id, namespace, action_name, phase, owner, attempt, max_attempts)
CROSS JOIN (SELECT @until::timestamptz AS until) AS c
ON CONFLICT (plan_id) DO UPDATE SET
    owner = excluded.owner, lease_namespace = excluded.lease_namespace, attempt = excluded.attempt, max_attempts = excluded.max_attempts,
    check_at = excluded.check_at;

-- name: PlanClaimError :exec
-- Index: plans_pkey.
UPDATE plans p
SET state = 'errored', version = p.version + 1, error_message = n.reason, error_details = NULL,
    cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(p.updated_at, @now::timestamptz)
FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@reasons::text[])) AS n (id, reason)
WHERE p.id = n.id;

-- name: PlanClaimHistory :exec
-- Index: none. What the others do. An empty reason is none.
INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor, reason, created_at)
SELECT n.id, n.version, n.transition, n.phase, n.from_state, n.phase, n.to_state, n.actor, nullif(n.reason, ''), n.created_at
FROM ROWS FROM (
    unnest(@ids::uuid[]), unnest(@versions::bigint[]), unnest(@transitions::text[]), unnest(@phases::text[]), unnest(@from_states::text[]),
    unnest(@to_states::text[]), unnest(@actors::text[]), unnest(@reasons::text[]), unnest(@created_ats::timestamptz[])
) AS n (id, version, transition, phase, from_state, to_state, actor, reason, created_at);

-- name: PlanClaimTell :exec
-- Index: none. The entries of the same, those of a plan in their order.
INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, details)
SELECT c.now + interval '1 microsecond' * (n.transition = 'start')::integer, audit_new_id(),
    CASE n.to_state WHEN 'errored' THEN 'plan_errored' ELSE 'plan_phase_changed' END, n.namespace, n.actor, n.id,
    format('{"transition":"%s","from":"%s/%s","to":"%s/%s","version":%s}', n.transition, n.phase, n.from_state, n.phase, n.to_state, n.version)::json
FROM ROWS FROM (
    unnest(@ids::uuid[]), unnest(@namespaces::text[]), unnest(@versions::bigint[]), unnest(@transitions::text[]), unnest(@phases::text[]),
    unnest(@from_states::text[]), unnest(@to_states::text[]), unnest(@actors::text[])
) AS n (id, namespace, version, transition, phase, from_state, to_state, actor)
CROSS JOIN (SELECT @now::timestamptz AS now) AS c;
