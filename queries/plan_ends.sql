-- name: PlanDelete :one
-- Index: plans_root_id_id_key, plan_projects_pkey. Deletes the plan with what is below it, whose root is locked: see
-- PlanCancel. The cascade deletes their histories and links. It deletes nothing if one of them is queued or processing,
-- or with idle_since complete, or held (HoldGate must be locked), and says which. The caller checks that the plan has
-- the version, and the age, that it wants, and otherwise rolls back.
WITH locked AS MATERIALIZED (
    SELECT p.id, p.state, p.projects, p.namespace, p.session_id, p.version, p.updated_at FROM plans p
    WHERE p.root_id = @root_id AND p.id = ANY (plan_tree(@root_id::uuid, @id::uuid)) FOR UPDATE OF p
), held AS MATERIALIZED (
    SELECT l.id FROM locked l WHERE session_held(l.namespace, l.session_id) ORDER BY l.id LIMIT 1
), busy AS MATERIALIZED (
    SELECT l.id FROM locked l
    WHERE l.state IN ('queued', 'processing') OR l.state = 'complete' AND sqlc.narg(idle_since)::timestamptz IS NOT NULL
        ORDER BY l.id LIMIT 1
), target AS MATERIALIZED (
    SELECT l.version, l.updated_at FROM locked l WHERE l.id = @id
), doomed AS MATERIALIZED (
    SELECT l.id, l.projects FROM locked l WHERE NOT EXISTS (SELECT FROM busy) AND NOT EXISTS (SELECT FROM held)
), unlisted AS (
    DELETE FROM plan_projects j USING (SELECT d.id, x.project FROM doomed d, unnest(d.projects) AS x (project)) AS n
    WHERE j.project = n.project AND j.plan_id = n.id
), deleted AS (
    DELETE FROM plans p USING doomed d WHERE p.root_id = @root_id AND p.id = d.id
    RETURNING p.id, p.namespace, p.action_name, p.phase, p.state, p.version
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, details)
    SELECT statement_timestamp(), audit_new_id(), 'entity_deleted', d.namespace, NULL, d.id,
        format('{"entity":"plan","action":"%s","stage":"%s/%s","version":%s}', d.action_name, d.phase, d.state,
            d.version)::json
    FROM deleted d
)
SELECT (SELECT h.id FROM held h)::uuid AS held, (SELECT b.id FROM busy b)::uuid AS busy,
(SELECT count(*) FROM deleted)::bigint AS deleted, coalesce((SELECT t.version FROM target t), 0)::bigint AS version,
    coalesce((SELECT t.updated_at FROM target t), 'epoch')::timestamptz AS updated_at;

-- name: PlanDeleteKept :one
-- Index: plan_ends_delete_at_idx, plan_ends_pkey, plans_pkey, plans_root_id_id_key, plan_projects_pkey,
-- session_holds_pkey. Deletes up to max_rows plans, with the deepest ones first, of trees that have been kept long
-- enough, and puts off those in which a plan has work (rules.IsOpen) or is held. It skips locked rows, and deletes
-- nothing if a hold was made since its snapshot, or is being made: gate then has another time than seen, or none. A
-- plan that is added or moved meanwhile is a foreign key that is violated, or a row that stays.
WITH seen AS MATERIALIZED (
    SELECT h.created_at FROM session_holds h
    WHERE h.namespace = '' AND h.owner = '' AND h.session_id = '00000000-0000-0000-0000-000000000000'
), due AS MATERIALIZED (
    SELECT p.id, b.busy
    FROM (
        SELECT k.id FROM (SELECT e.plan_id FROM plan_ends e WHERE e.delete_at <= statement_timestamp()
            ORDER BY e.delete_at LIMIT 100000) AS e
        CROSS JOIN LATERAL (SELECT plans.id FROM plans WHERE plans.id = e.plan_id FOR UPDATE SKIP LOCKED) AS k
        CROSS JOIN LATERAL (
            SELECT FROM plan_ends x WHERE x.plan_id = k.id
                AND x.delete_at <= statement_timestamp() FOR UPDATE SKIP LOCKED
        ) AS x
        LIMIT @max_rows
    ) AS p
    CROSS JOIN LATERAL (
        SELECT coalesce((SELECT true FROM plans q WHERE q.root_id = p.id
            AND (q.state IN ('queued', 'processing', 'complete')
            OR (SELECT count(*) FROM (
                    SELECT FROM session_holds o ORDER BY o.namespace, o.owner, o.session_id LIMIT 2) AS h) > 1
                AND session_held(q.namespace, q.session_id)) LIMIT 1), false) AS busy OFFSET 0
    ) AS b
), later AS (
    UPDATE plan_ends SET delete_at = statement_timestamp() + interval '10 minutes'
    WHERE plan_id = ANY(ARRAY(SELECT d.id FROM due d WHERE d.busy))
), gate AS MATERIALIZED (
    SELECT h.created_at FROM session_holds h
    WHERE h.namespace = '' AND h.owner = ''
        AND h.session_id = '00000000-0000-0000-0000-000000000000' FOR SHARE SKIP LOCKED
), doomed AS MATERIALIZED (
    SELECT t.id, t.projects
    FROM due d
    CROSS JOIN LATERAL (
        SELECT q.id, q.projects FROM plans q WHERE q.root_id = d.id ORDER BY q.depth DESC OFFSET 0
    ) AS t
    WHERE NOT d.busy AND (SELECT g.created_at FROM gate g) = (SELECT s.created_at FROM seen s) LIMIT @max_rows
), unlisted AS (
    DELETE FROM plan_projects j USING (SELECT d.id, x.project FROM doomed d, unnest(d.projects) AS x (project)) AS n
    WHERE j.project = n.project AND j.plan_id = n.id
), deleted AS (
    DELETE FROM plans p WHERE p.id = ANY(ARRAY(SELECT d.id FROM doomed d))
        AND p.state NOT IN ('queued', 'processing', 'complete')
    RETURNING p.id, p.namespace, p.action_name, p.phase, p.state, p.version
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, plan_id, details)
    SELECT statement_timestamp(), audit_new_id(), 'entity_deleted', d.namespace, d.id,
        format('{"entity":"plan","action":"%s","stage":"%s/%s","version":%s}', d.action_name, d.phase, d.state,
            d.version)::json
    FROM deleted d
)
SELECT count(*)::bigint AS deleted FROM deleted;

-- name: PlanExpire :one
-- Index: plan_queue_deadline_idx, plan_claims_lease_namespace_check_at_idx, plan_claims_pkey, plans_pkey, leases_pkey.
-- Ends up to max_rows of what is over: plans that were queued until their deadline are errored, and plans whose claims
-- expired a while ago, without being taken over, are queued again, or errored after their last attempt. A claim whose
-- lease was released is due at once: one that was made in the grace period is left to claims. It skips locked rows:
-- see PlanClaimLock. It looks at more than it ends, since the first ones may be locked.
WITH overdue AS MATERIALIZED (
    SELECT p.id, p.attempt, 'queued' AS state, 'was queued until its deadline' AS reason, false AS again
    FROM (SELECT q.plan_id FROM plan_queue q WHERE q.deadline <= statement_timestamp()
        ORDER BY q.deadline LIMIT 100000) AS q
    CROSS JOIN LATERAL (
        SELECT plans.id, plans.attempt FROM plans WHERE plans.id = q.plan_id
            AND plans.state = 'queued' FOR NO KEY UPDATE SKIP LOCKED
    ) AS p
    LIMIT @max_rows
), expired AS MATERIALIZED (
    SELECT c.plan_id, c.attempt, c.max_attempts, h.held_until, p.id
    FROM (
        SELECT w.plan_id, w.attempt, w.max_attempts, w.lease_namespace FROM plan_claims w
        WHERE w.lease_namespace = @lease_namespace::text
            AND w.check_at <= statement_timestamp() - make_interval(secs => @grace_seconds::float8)
            ORDER BY w.check_at LIMIT 100000
    ) AS c
    CROSS JOIN LATERAL (
        SELECT plans.id FROM plans WHERE plans.id = c.plan_id AND plans.state = 'processing'
            AND plans.updated_at <= statement_timestamp() - make_interval(secs => @grace_seconds::float8)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS p
    CROSS JOIN LATERAL (
        SELECT CASE WHEN (SELECT true FROM leases f WHERE f.namespace = c.lease_namespace AND f.kind = 'plan'
            AND f.name = p.id::text) THEN (
            SELECT f.expires_at FROM leases f
            WHERE f.namespace = c.lease_namespace AND f.kind = 'plan'
                AND f.name = p.id::text FOR NO KEY UPDATE SKIP LOCKED
        ) ELSE '-infinity' END AS held_until OFFSET 0
    ) AS h
    WHERE h.held_until IS NOT NULL LIMIT @max_rows
), later AS (
    UPDATE plan_claims c SET check_at = (SELECT k.held_until FROM expired k WHERE k.plan_id = c.plan_id)
    WHERE c.plan_id = ANY(ARRAY(SELECT k.plan_id FROM expired k WHERE k.held_until > statement_timestamp()))
), ends AS MATERIALIZED (
    SELECT o.id, o.attempt, o.state, o.reason, o.again FROM overdue o
    UNION ALL
    SELECT k.id, k.attempt, 'processing', format('the claim expired in attempt %s', k.attempt)
        || CASE WHEN k.attempt < k.max_attempts THEN '' ELSE format(' of %s', k.max_attempts) END,
        k.attempt < k.max_attempts
    FROM expired k WHERE k.held_until <= statement_timestamp()
), moved AS (
    UPDATE plans p
    SET state = CASE WHEN n.again THEN 'queued' ELSE 'errored' END, attempt = p.attempt + n.again::integer,
    version = p.version + 1,
        not_before = NULL, error_message = CASE WHEN n.again THEN NULL ELSE n.reason END, error_details = NULL,
        updated_at = greatest(p.updated_at, statement_timestamp())
    -- otherwise the planner may read all plans
    FROM ends n WHERE p.id = n.id AND p.id = ANY(ARRAY(SELECT o.id FROM ends o))
    RETURNING p.id, p.namespace, p.phase, n.state AS from_state, p.state, p.version, n.reason, p.updated_at
), noted AS (
    INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, reason,
        created_at)
    SELECT m.id, m.version, 'expire', m.phase, m.from_state, m.phase, m.state, m.reason, m.updated_at FROM moved m
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, plan_id, details)
    SELECT statement_timestamp(), audit_new_id(), CASE m.state WHEN 'errored' THEN 'plan_errored'
        ELSE 'plan_phase_changed' END, m.namespace, m.id,
        format('{"transition":"expire","from":"%s/%s","to":"%s/%s","version":%s}', m.phase, m.from_state, m.phase,
            m.state, m.version)::json
    FROM moved m
)
SELECT count(*)::bigint AS ended, coalesce(array_agg(DISTINCT m.namespace) FILTER (WHERE m.state = 'queued'),
    '{}')::text[] AS queued FROM moved m;
