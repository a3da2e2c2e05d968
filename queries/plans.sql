-- name: PlanCreate :one
-- Index: actions_pkey, sessions_pkey, plans_pkey. Creates the plan with its parts, its first event and its link, and
-- archives an action that is not reusable. It returns no row and changes nothing if the id or the key exists, if the
-- action is not available in the version that was read, or if the session does not exist; the caller finds out which. A
-- concurrent use of an action that is not reusable waits for the lock of its row, and then finds another version. The
-- action is archived after the insert, which may wait for another use with the key and then make no plan. Above read
-- committed, a transaction may see an older state of the action or the parent. Locking their rows aborts it if they
-- have changed since.
WITH seen AS (
    SELECT a.name FROM actions a
    WHERE a.name = @action_name AND current_setting('transaction_isolation') <> 'read committed' FOR SHARE
), parent AS (
    SELECT p.id FROM plans p
    WHERE p.id = sqlc.narg(parent_id)::uuid AND current_setting('transaction_isolation') <> 'read committed' FOR SHARE
), once AS (
    SELECT a.name FROM actions a
    WHERE a.name = @action_name AND a.version = @action_version AND a.state = 'available'
        AND NOT a.reusable FOR NO KEY UPDATE
), usable AS MATERIALIZED (
    SELECT a.name FROM actions a
    WHERE a.name = @action_name AND a.version = @action_version AND a.state = 'available' AND a.reusable
        AND (SELECT count(*) FROM seen) >= 0
    UNION ALL
    SELECT o.name FROM once o
), linkable AS MATERIALIZED (
    SELECT true AS is_linkable
    WHERE (sqlc.narg(session_id)::uuid IS NULL
        OR EXISTS (SELECT FROM sessions s WHERE s.id = sqlc.narg(session_id)::uuid))
        AND (SELECT count(*) FROM parent) >= 0
), created AS (
    INSERT INTO plans (
        id, name, namespace, session_id, key, action_name, parent_id, root_id, depth, attempt, max_attempts, priority,
        not_before, deadline, keep_micros, phases, description, definition_of_done, phase, state, automation_profile,
        automation_profile_source, automation_snapshot, trace, argument_names, argument_values,
        invariants, invariant_sources, projects, project_aliases, project_read_onlys
    )
    SELECT @id, sqlc.narg(name)::text, @namespace, sqlc.narg(session_id)::uuid, sqlc.narg(key)::text, u.name,
    sqlc.narg(parent_id)::uuid,
        @root_id, @depth, @attempt, @max_attempts, @priority, sqlc.narg(not_before)::timestamptz,
        greatest(statement_timestamp(), sqlc.narg(not_before))
            + nullif(@max_age_micros::bigint, 0) * interval '1 microsecond',
        @keep_micros, @phases, @description, @definition_of_done, @phase, @state, sqlc.narg(automation_profile)::text,
        sqlc.narg(automation_profile_source)::text, CAST(@automation_snapshot::text AS json), sqlc.narg(trace)::text,
        @argument_names::text[], @argument_values::text[],
        @invariants::text[], @invariant_sources::text[], @projects::text[], @project_aliases::text[],
        @project_read_onlys::boolean[]
    FROM usable u CROSS JOIN linkable
    ON CONFLICT DO NOTHING
    RETURNING id, action_name, created_at, updated_at
), archived AS (
    UPDATE actions a
    SET state = 'archived', version = a.version + 1, updated_at = greatest(a.updated_at, statement_timestamp())
    FROM created c WHERE a.name = c.action_name AND NOT a.reusable
), projects AS (
    INSERT INTO plan_projects (project, plan_id)
    SELECT DISTINCT n.project, c.id FROM created c, unnest(@projects::text[]) AS n (project)
), noted AS (
    INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state, actor, created_at)
    SELECT c.id, 1, 'use', @phase, @state, sqlc.narg(actor)::text, c.created_at FROM created c
), linked AS (
    INSERT INTO session_plans (session_id, plan_id)
    SELECT sqlc.narg(session_id)::uuid, c.id FROM created c WHERE sqlc.narg(session_id)::uuid IS NOT NULL
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, session_id, details)
    SELECT c.created_at, audit_new_id(), 'plan_created', @namespace, sqlc.narg(actor)::text, c.id,
    sqlc.narg(session_id)::uuid, CAST(@details::text AS json)
    FROM created c
)
SELECT c.created_at, c.updated_at FROM created c;

-- name: PlanLockTree :one
-- Index: plans_pkey. Locks the root of a plan's tree before a plan is added to the tree, or the tree is cancelled, so
-- that the next statement sees all committed plans of the tree. It is an UPDATE, although it changes nothing, so that a
-- concurrent transaction above read committed, which would not see those plans, is aborted.
UPDATE plans p SET depth = p.depth
WHERE p.id = (SELECT q.root_id FROM plans q WHERE q.id = @id)
RETURNING p.id;

-- name: PlanCountChildren :one
-- Index: plans_parent_id_id_idx. Counts up to max_rows.
SELECT count(*) FROM (SELECT FROM plans p WHERE p.parent_id = @parent_id::uuid LIMIT @max_rows) AS children;

-- name: PlanGet :one
-- Index: plans_pkey.
SELECT * FROM plans d WHERE d.id = @id;

-- name: PlanGetByKey :one
-- Index: plans_session_id_key_key, plans_namespace_key_key, plans_pkey. The plan that a use with this key has made: for
-- the session or, without one, in the namespace.
SELECT d.* FROM (
    SELECT p.id FROM plans p WHERE p.session_id = sqlc.narg(session_id)::uuid AND p.key = @key::text
    UNION ALL
    SELECT p.id FROM plans p
    WHERE sqlc.narg(session_id)::uuid IS NULL AND p.session_id IS NULL AND p.namespace = @namespace
        AND p.key = @key::text
    LIMIT 1
) AS k, LATERAL (SELECT * FROM plans WHERE plans.id = k.id LIMIT 1) AS d;

-- name: PlanList :many
-- Index: plans_namespace_id_idx or plans_parent_id_id_idx, backwards. Returns whole plans, newest first. The query is
-- rewritten before it is sent: see audit_lists.sql. With a parent, the other filters apply to its children.
SELECT * FROM plans d
WHERE d.id < @after_id
    AND (sqlc.narg(parent_id)::uuid IS NULL OR d.parent_id = sqlc.narg(parent_id)::uuid)
    AND (sqlc.narg(namespace)::text IS NULL OR d.namespace = sqlc.narg(namespace)::text)
    AND (sqlc.narg(phase)::text IS NULL OR d.phase = sqlc.narg(phase)::text)
    AND (sqlc.narg(state)::text IS NULL OR d.state = sqlc.narg(state)::text)
ORDER BY d.id DESC LIMIT @max_rows;

-- name: PlanListByStage :many
-- Index: plans_namespace_phase_state_id_idx, backwards. Returns whole plans, newest first. It reads up to a page of
-- each stage. There are at most as many stages as phases or states, so that the sort is small. Equations would let the
-- planner choose an index without stages, and read all plans of the namespace for a stage that has none.
SELECT d.* FROM ROWS FROM (unnest(@phases::text[]), unnest(@states::text[])) AS n (phase, state),
LATERAL (
    SELECT * FROM plans
    WHERE plans.namespace = @namespace AND (plans.phase, plans.state, plans.id) < (n.phase, n.state, @after_id::uuid)
        AND (plans.phase, plans.state, plans.id) >= (n.phase, n.state, '00000000-0000-0000-0000-000000000000'::uuid)
        AND (@action_name::text = '' OR plans.action_name = @action_name::text)
    ORDER BY plans.phase DESC, plans.state DESC, plans.id DESC LIMIT @max_rows
) AS d
ORDER BY d.id DESC LIMIT @max_rows;

-- name: PlanListByAction :many
-- Index: plans_action_name_phase_state_id_idx, backwards. Does the same for the plans of an action.
SELECT d.* FROM ROWS FROM (unnest(@phases::text[]), unnest(@states::text[])) AS n (phase, state),
LATERAL (
    SELECT * FROM plans
    WHERE plans.action_name = @action_name AND (plans.phase, plans.state, plans.id) < (n.phase, n.state,
        @after_id::uuid)
        AND (plans.phase, plans.state, plans.id) >= (n.phase, n.state, '00000000-0000-0000-0000-000000000000'::uuid)
    ORDER BY plans.phase DESC, plans.state DESC, plans.id DESC LIMIT @max_rows
) AS d
ORDER BY d.id DESC LIMIT @max_rows;

-- name: PlanCounts :many
-- Index: plans_namespace_phase_state_id_idx, plan_queue_namespace_phase_priority_since_idx. Returns the stages that the
-- plans of a namespace are at, or of all ('') behind a place, with how many there are up to a bound, and since when the
-- first one waits. It skips from one stage to the next. Without an order the planner would rather read the table until
-- it has found enough.
WITH RECURSIVE stages AS (
    (
        SELECT p.namespace, p.phase, p.state FROM plans p
        WHERE (p.namespace, p.phase, p.state) > (@after_namespace::text, @after_phase::text, @after_state::text)
        ORDER BY p.namespace, p.phase, p.state LIMIT 1
    )
    UNION ALL
    SELECT n.namespace, n.phase, n.state
    FROM stages s CROSS JOIN LATERAL (
        SELECT p.namespace, p.phase, p.state FROM plans p
        WHERE (p.namespace, p.phase, p.state) > (s.namespace, s.phase, s.state)
        ORDER BY p.namespace, p.phase, p.state LIMIT 1
    ) AS n
    WHERE @namespace::text = '' OR s.namespace = @namespace::text
), chosen AS (
    SELECT s.namespace, s.phase, s.state FROM stages s WHERE @namespace::text = ''
        OR s.namespace = @namespace::text LIMIT @max_rows
)
SELECT c.namespace::text AS namespace, c.phase::text AS phase, c.state::text AS state, (
        SELECT count(*) FROM (
            SELECT FROM plans p WHERE p.namespace = c.namespace AND p.phase = c.phase AND p.state = c.state
                ORDER BY p.id LIMIT @bound::integer
        ) AS p
    )::bigint AS count, coalesce((
        SELECT min(f.since) FROM generate_series(0, 3) AS r (priority)
        CROSS JOIN LATERAL (
            SELECT q.since FROM plan_queue q
            WHERE c.state = 'queued' AND q.namespace = c.namespace AND q.phase || '' = c.phase
                AND q.priority + 0 = r.priority
            ORDER BY q.since, q.plan_id LIMIT 1
        ) AS f
        WHERE f.since <= statement_timestamp()
    ), '10000-01-01 00:00:00+00')::timestamptz AS oldest
FROM chosen c;

-- name: PlanListBySession :many
-- Index: session_plans_pkey, backwards, plans_pkey. Returns whole plans, newest first. The other filters apply to the
-- session's plans.
SELECT d.* FROM session_plans l,
LATERAL (SELECT * FROM plans WHERE plans.id = l.plan_id LIMIT 1) AS d
WHERE l.session_id = @session_id AND l.plan_id < @after_id
    AND (@namespace::text = '' OR d.namespace = @namespace::text)
    AND (@phase::text = '' OR d.phase = @phase::text)
    AND (@state::text = '' OR d.state = @state::text)
ORDER BY l.plan_id DESC LIMIT @max_rows;

-- name: PlanListByProject :many
-- Index: plan_projects_pkey, backwards, plans_pkey. Returns whole plans, newest first. The other filters apply to the
-- project's plans. LIMIT makes the planner look up each plan separately. For a project with many plans it would
-- otherwise choose a join, which reads all plans.
SELECT d.* FROM plan_projects l,
LATERAL (SELECT * FROM plans WHERE plans.id = l.plan_id LIMIT 1) AS d
WHERE l.project = @project AND l.plan_id < @after_id
    AND (@namespace::text = '' OR d.namespace = @namespace::text)
    AND (@phase::text = '' OR d.phase = @phase::text)
    AND (@state::text = '' OR d.state = @state::text)
ORDER BY l.plan_id DESC LIMIT @max_rows;

-- name: PlanCancel :many
-- Index: plans_root_id_id_key. Cancels the plan with its live descendants, if its stage and version are as the caller
-- read them. The tree's root is locked, so that no plan is added meanwhile. It reads the whole tree by its root, and
-- then selects the descendants, since the planner cannot estimate how many plans a recursion on the table finds. The
-- new values come from the locked rows: a transition of a descendant may have been committed since the statement began.
WITH locked AS MATERIALIZED (
    SELECT p.id, p.phase, p.state, p.version, p.error_message, p.error_details,
        p.id = @id AND p.phase = @from_phase AND p.state = @from_state AND p.version = @version AS is_target
    FROM plans p WHERE p.root_id = @root_id AND p.id = ANY (plan_tree(@root_id::uuid, @id::uuid)) FOR NO KEY UPDATE OF p
), live AS (
    SELECT l.id, l.phase, l.state, l.version, l.error_message, l.error_details
    FROM locked l WHERE l.state NOT IN ('applied', 'cancelled') AND EXISTS (SELECT FROM locked o WHERE o.is_target)
), moved AS (
    UPDATE plans p
    SET phase = l.phase, state = 'cancelled', version = l.version + 1, error_message = l.error_message,
    error_details = l.error_details,
        not_before = NULL, cancelled_at = statement_timestamp(), cancel_reason = @reason::text,
        updated_at = greatest(p.updated_at, statement_timestamp())
    FROM live l WHERE p.root_id = @root_id AND p.id = l.id
    RETURNING l.id, p.namespace, l.phase, l.state AS from_state, p.version, p.updated_at
), noted AS (
    INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor, reason,
        created_at)
    SELECT m.id, m.version, 'cancel', m.phase, m.from_state, m.phase, 'cancelled', sqlc.narg(actor)::text,
    @reason::text, m.updated_at
    FROM moved m
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, plan_id, details)
    SELECT statement_timestamp(), audit_new_id(), 'plan_cancelled', m.namespace, sqlc.narg(actor)::text, m.id,
        format('{"transition":"cancel","from":"%s/%s","to":"%s/cancelled","version":%s}', m.phase, m.from_state,
            m.phase, m.version)::json
    FROM moved m
)
SELECT m.id FROM moved m;

-- name: PlanProgress :one
-- Index: plans_pkey. Returns no row if the plan is not processing, or does not exist, or if the fence is not the
-- latest.
UPDATE plans p
SET last_completed_step = coalesce(sqlc.narg(completed_step)::bigint, p.last_completed_step),
    last_checkpoint_id = CASE WHEN @set_checkpoint::boolean THEN sqlc.narg(checkpoint_id)::text
        ELSE p.last_checkpoint_id END,
    updated_at = greatest(p.updated_at, statement_timestamp())
WHERE p.id = @id AND p.state = 'processing' AND coalesce(nullif(@fence::bigint, 0) = p.fence, true)
RETURNING p.*;

-- name: PlanHold :exec
-- Index: plans_pkey. Aborts a transaction above read committed if the plan has changed since its snapshot. At read
-- committed it does nothing.
SELECT FROM plans p WHERE p.id = @id AND current_setting('transaction_isolation') <> 'read committed' FOR SHARE;

-- name: PlanHistory :many
-- Index: plan_history_pkey.
SELECT * FROM plan_history h
WHERE h.plan_id = @plan_id AND h.version >= @from_version
ORDER BY h.version LIMIT @max_rows;

-- name: PlanLink :one
-- Index: sessions_pkey, plans_pkey, session_plans_pkey. Returns which of the two exist.
WITH found AS (
    SELECT EXISTS (SELECT FROM sessions s WHERE s.id = @session_id) AS session,
    EXISTS (SELECT FROM plans p WHERE p.id = @plan_id) AS plan
), linked AS (
    INSERT INTO session_plans (session_id, plan_id) SELECT @session_id, @plan_id FROM found f WHERE f.session AND f.plan
    ON CONFLICT DO NOTHING
)
SELECT f.session::boolean AS session, f.plan::boolean AS plan FROM found f;

-- name: PlanUnlink :one
-- Index: sessions_pkey, plans_pkey, session_plans_pkey or session_plans_plan_id_idx. Returns which of the two exist. A
-- transaction above read committed does not see a link that was created after its snapshot. So the statement tries to
-- create the link, which aborts the transaction if it exists. If it does not, made is true, and the caller runs the
-- statement again, which deletes the link.
WITH found AS MATERIALIZED (
    SELECT EXISTS (SELECT FROM sessions s WHERE s.id = @session_id) AS session,
    EXISTS (SELECT FROM plans p WHERE p.id = @plan_id) AS plan,
        EXISTS (SELECT FROM session_plans l WHERE l.session_id = @session_id AND l.plan_id = @plan_id) AS linked
), made AS (
    INSERT INTO session_plans (session_id, plan_id)
    SELECT @session_id, @plan_id FROM found f
    WHERE f.session AND f.plan AND NOT f.linked AND current_setting('transaction_isolation') <> 'read committed'
    ON CONFLICT DO NOTHING
    RETURNING plan_id
), unlinked AS (
    DELETE FROM session_plans l WHERE l.session_id = @session_id AND l.plan_id = @plan_id
)
SELECT f.session::boolean AS session, f.plan::boolean AS plan, EXISTS (SELECT FROM made)::boolean AS made FROM found f;

-- name: PlanLinkAll :execrows
-- Index: session_plans_pkey, plans_pkey. Links the session to those plans that exist, for a view in its namespace.
INSERT INTO session_plans (session_id, plan_id)
SELECT @session_id, p.id
FROM unnest(@plan_ids::uuid[]) AS n (id), LATERAL (SELECT plans.id, plans.namespace FROM plans
    WHERE plans.id = n.id LIMIT 1) AS p
WHERE sqlc.narg(view)::text IS NULL OR p.namespace = sqlc.narg(view)::text
ON CONFLICT DO NOTHING;
