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
-- Index: plan_limits_pkey, plan_claims_namespace_check_at_idx. The limits behind a place, with the number of plans that
-- are claimed; in a view its namespace's.
SELECT l.namespace, l.action_name, l.at_once, (
    SELECT count(*) FROM plan_claims c WHERE c.namespace = l.namespace
        AND (l.action_name = '' OR c.action_name = l.action_name)
)::bigint AS claimed
FROM (
    SELECT p.namespace, p.action_name, p.at_once FROM plan_limits p
    WHERE (p.namespace, p.action_name) > (@namespace::text, @action_name::text)
        AND p.namespace = coalesce(sqlc.narg(view)::text, p.namespace)
    ORDER BY p.namespace, p.action_name LIMIT @max_rows
) AS l
ORDER BY l.namespace, l.action_name;

-- name: PlanLimitLock :many
-- Index: plan_limits_pkey. Comes before PlanLimitRoom, in the same transaction, so that it sees what earlier holders
-- of the locks have claimed. It skips locked rows: nothing is claimed where a lock is missing. Nor is there above read
-- committed, where PlanLimitRoom would not see that.
SELECT l.namespace, l.action_name FROM unnest((SELECT @namespaces::text[])) AS n (namespace)
CROSS JOIN LATERAL (
    SELECT p.namespace, p.action_name FROM plan_limits p
    WHERE p.namespace = n.namespace
        AND current_setting('transaction_isolation') = 'read committed' FOR NO KEY UPDATE SKIP LOCKED
) AS l;

-- name: PlanLimitRoom :many
-- Index: plan_limits_pkey, plan_claims_namespace_check_at_idx. Returns how many more plans the limits of namespaces
-- allow to be claimed, and whether a lock may say more (PlanLimitLock).
SELECT l.namespace, l.action_name, (l.at_once - (
        SELECT count(*) FROM plan_claims c WHERE c.namespace = l.namespace
            AND (l.action_name = '' OR c.action_name = l.action_name)
    ))::integer AS room, (current_setting('transaction_isolation') = 'read committed')::boolean AS is_current
FROM unnest((SELECT @namespaces::text[])) AS n (namespace)
CROSS JOIN LATERAL (
    SELECT p.namespace, p.action_name, p.at_once FROM plan_limits p WHERE p.namespace = n.namespace OFFSET 0
) AS l;
