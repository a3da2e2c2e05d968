-- name: PlanLanes :many
-- Index: plan_queue_namespace_phase_priority_since_idx, plan_queue_namespace_phase_action_name_priority_since_idx,
-- plan_claims_lease_namespace_check_at_idx, plan_claims_namespace_check_at_idx, plan_limits_pkey. Returns up to
-- max_rows lanes in which a claim may find something, of all namespaces that have queued plans, from the one behind
-- after on, and then from the first one on. It skips from one namespace to the next, and passes over namespaces that
-- are at their limit, or whose actions are. A row without a phase is a namespace with a claim that may have expired.
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
(SELECT e.namespace::text AS namespace, ''::text AS phase, (-1)::smallint AS priority, ''::text AS action,
    false::boolean AS by_action
FROM (
    SELECT DISTINCT x.namespace
    FROM (
        SELECT c.namespace FROM plan_claims c
        WHERE c.lease_namespace = @lease_namespace::text AND c.check_at <= statement_timestamp()
            ORDER BY c.check_at LIMIT 100
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
    SELECT e.action FROM (SELECT DISTINCT CASE WHEN n LIKE '/%' THEN w.namespace || n ELSE n END AS action
        FROM unnest(@actions::text[]) AS n) AS e
    WHERE b.has_room AND NOT (b.by_action AND coalesce((
        SELECT l.at_once <= (SELECT count(*) FROM plan_claims c WHERE c.namespace = w.namespace
            AND c.action_name = e.action)
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
                    AND l.at_once <= (SELECT count(*) FROM plan_claims c WHERE c.namespace = l.namespace
                        AND c.action_name = l.action_name)
            ) AS f
        ) AS e
        WHERE (
            SELECT true FROM plan_queue q
            WHERE q.namespace = w.namespace AND q.phase = p AND q.action_name > e.before AND q.action_name < e.behind
                ORDER BY q.action_name LIMIT 1
        ) LIMIT 1
    ) ELSE true END OFFSET 0
) AS g
CROSS JOIN LATERAL (SELECT i AS priority FROM generate_series(3, 0, -1) AS i OFFSET 0) AS r
WHERE coalesce(
        (
            SELECT q.since FROM plan_queue q
            WHERE a.action = '' AND q.namespace = w.namespace AND q.phase || '' = g.phase
                AND q.priority + 0 = r.priority
            ORDER BY q.since, q.plan_id LIMIT 1
        ),
        (
            SELECT q.since FROM plan_queue q
            WHERE a.action <> '' AND q.namespace = w.namespace AND q.phase = g.phase AND q.action_name = a.action
                AND q.priority = r.priority
            ORDER BY q.since, q.plan_id LIMIT 1
        )
    ) <= statement_timestamp()
LIMIT @max_rows);

-- name: PlanActionLanes :many
-- Index: plan_queue_namespace_phase_action_name_priority_since_idx, plan_limits_pkey,
-- plan_claims_namespace_check_at_idx. Returns the lanes, one for each action that has plans that are due and is not at
-- its limit, of lanes for any action, by their places in the arguments from 1. It skips from one action to the next.
WITH RECURSIVE asked AS (
    SELECT n.namespace, n.phase, n.priority, n.place
    FROM ROWS FROM (unnest(@namespaces::text[]), unnest(@phases::text[]),
        unnest(@priorities::smallint[])) WITH ORDINALITY AS n (namespace, phase, priority, place)
), queued AS (
    SELECT a.namespace, a.phase, a.priority, a.place, (
        SELECT q.action_name FROM plan_queue q
        WHERE q.namespace = a.namespace AND q.phase = a.phase ORDER BY q.action_name LIMIT 1
    ) AS action_name FROM asked a
    UNION ALL
    SELECT u.namespace, u.phase, u.priority, u.place, (
        SELECT q.action_name FROM plan_queue q
        WHERE q.namespace = u.namespace AND q.phase = u.phase AND q.action_name > u.action_name
            ORDER BY q.action_name LIMIT 1
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
        WHERE q.namespace = u.namespace AND q.phase = u.phase AND q.action_name = u.action_name
            AND q.priority = u.priority
        ORDER BY q.since, q.plan_id LIMIT 1
    ) <= statement_timestamp()
LIMIT @max_rows;

-- name: PlanClaimable :many
-- Index: plan_queue_namespace_phase_priority_since_idx, plan_queue_namespace_phase_action_name_priority_since_idx,
-- plan_claims_namespace_check_at_idx. Returns the lanes, by their places in the arguments from 1, in which a claim may
-- find something now, or within a second, after wait_micros. It is the poll of waiting claims: a look-up in each lane.
-- The planner would turn EXISTS into a scan of the whole table, and does so without an order, too.
SELECT n.place::bigint AS place, greatest(ceil(extract(epoch FROM w.since - statement_timestamp()) * 1000000),
    0)::bigint AS wait_micros
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
            WHERE n.action = '' AND q.namespace = n.namespace AND q.phase || '' = n.phase
                AND q.priority + 0 = n.priority
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
