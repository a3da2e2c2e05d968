-- name: PlanCreate :one
-- Index: actions_pkey, sessions_pkey, plans_pkey. Makes the plan with its parts, its first event and
-- its link. No row when the id is taken, or the action is not the available one that
-- was read (version), or the session does not exist; the caller looks which.
-- An action that is not reusable is archived by its first use: of two uses one waits
-- for the other's update and then finds another version.
-- A caller's transaction that sees an older state of the database than this
-- statement does is given up when the action or the parent has changed since:
-- their locks see to that, which read committed does not need.
WITH seen AS (
    SELECT a.name FROM actions a
    WHERE a.name = @action_name AND current_setting('transaction_isolation') <> 'read committed'
    FOR SHARE
), parent AS (
    SELECT p.id FROM plans p
    WHERE p.id = sqlc.narg(parent_id)::uuid AND current_setting('transaction_isolation') <> 'read committed'
    FOR SHARE
), archived AS (
    UPDATE actions a
    SET state = 'archived', version = a.version + 1, updated_at = greatest(a.updated_at, clock_timestamp())
    WHERE a.name = @action_name AND a.version = @action_version AND a.state = 'available' AND NOT a.reusable
        AND NOT EXISTS (SELECT FROM plans p WHERE p.id = @id)
        AND (sqlc.narg(session_id)::uuid IS NULL OR EXISTS (SELECT FROM sessions s WHERE s.id = sqlc.narg(session_id)::uuid))
    RETURNING a.name
), usable AS (
    SELECT a.name FROM actions a
    WHERE a.name = @action_name AND a.version = @action_version AND a.state = 'available' AND a.reusable
        AND (SELECT count(*) FROM seen) >= 0
    UNION ALL
    SELECT r.name FROM archived r
), created AS (
    INSERT INTO plans (
        id, name, namespace, action_name, parent_id, root_id, depth, attempt, description, definition_of_done,
        phase, state, automation_profile, automation_profile_source, automation_snapshot
    )
    SELECT @id, sqlc.narg(name)::text, @namespace, u.name, sqlc.narg(parent_id)::uuid, @root_id, @depth, @attempt, @description,
        @definition_of_done, @phase, @state, sqlc.narg(automation_profile)::text, sqlc.narg(automation_profile_source)::text,
        CAST(@automation_snapshot::text AS json)
    FROM usable u
    WHERE (sqlc.narg(session_id)::uuid IS NULL OR EXISTS (SELECT FROM sessions s WHERE s.id = sqlc.narg(session_id)::uuid))
        AND (SELECT count(*) FROM parent) >= 0
    ON CONFLICT (id) DO NOTHING
    RETURNING id, created_at, updated_at
), projects AS (
    INSERT INTO plan_projects (plan_id, position, project, alias, read_only)
    SELECT c.id, (n.ordinality - 1)::integer, n.project, n.alias, n.read_only
    FROM created c, ROWS FROM (
        unnest(@projects::text[]), unnest(@project_aliases::text[]), unnest(@project_read_onlys::boolean[])
    ) WITH ORDINALITY AS n (project, alias, read_only, ordinality)
), arguments AS (
    INSERT INTO plan_arguments (plan_id, position, name, value)
    SELECT c.id, (n.ordinality - 1)::integer, n.name, CAST(n.value AS json)
    FROM created c, ROWS FROM (
        unnest(@argument_names::text[]), unnest(@argument_values::text[])
    ) WITH ORDINALITY AS n (name, value, ordinality)
), invariants AS (
    INSERT INTO plan_invariants (plan_id, position, text, source)
    SELECT c.id, (n.ordinality - 1)::integer, n.text, n.source
    FROM created c, ROWS FROM (
        unnest(@invariants::text[]), unnest(@invariant_sources::text[])
    ) WITH ORDINALITY AS n (text, source, ordinality)
), noted AS (
    INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state, actor, created_at)
    SELECT c.id, 1, 'use', @phase, @state, sqlc.narg(actor)::text, c.created_at FROM created c
), linked AS (
    INSERT INTO session_plans (session_id, plan_id)
    SELECT sqlc.narg(session_id)::uuid, c.id FROM created c WHERE sqlc.narg(session_id)::uuid IS NOT NULL
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, actor, plan_id, session_id, details)
    SELECT c.created_at, audit_new_id(), 'plan_created', sqlc.narg(actor)::text, c.id, sqlc.narg(session_id)::uuid, CAST(@details::text AS json)
    FROM created c
)
SELECT c.created_at, c.updated_at FROM created c;

-- name: PlanLockTree :one
-- Index: plans_pkey. Locks the root of a plan's tree, before the tree grows or is
-- cancelled: the statement after it sees every plan of it that was committed.
-- It is an update, though it changes nothing: a caller's transaction of a higher
-- isolation level, which does not see those plans, is given up for it.
UPDATE plans p SET depth = p.depth
WHERE p.id = (SELECT q.root_id FROM plans q WHERE q.id = @id)
RETURNING p.id;

-- name: PlanCountChildren :one
-- Index: plans_parent_id_id_idx. Up to max_rows.
SELECT count(*) FROM (SELECT FROM plans p WHERE p.parent_id = @parent_id::uuid LIMIT @max_rows) AS children;

-- name: PlanGet :one
-- Index: plans_pkey, plan_projects_pkey or plan_projects_plan_id_alias_key, plan_arguments_pkey or plan_arguments_plan_id_name_key, plan_invariants_pkey. The whole plan.
SELECT * FROM plan_details d WHERE d.id = @id;

-- name: PlanExists :one
-- Index: plans_pkey.
SELECT EXISTS (SELECT FROM plans WHERE id = @id);

-- name: PlanList :many
-- Index: plans_namespace_id_idx or plans_parent_id_id_idx, backwards, plan_projects_pkey or plan_projects_plan_id_alias_key, plan_arguments_pkey or plan_arguments_plan_id_name_key, plan_invariants_pkey.
-- Newest first, whole. It is not sent as it stands: see the lists of the audit trail. The
-- other filters narrow down one plan's children.
SELECT * FROM plan_details d
WHERE d.id < @after_id
    AND (sqlc.narg(parent_id)::uuid IS NULL OR d.parent_id = sqlc.narg(parent_id)::uuid)
    AND (sqlc.narg(namespace)::text IS NULL OR d.namespace = sqlc.narg(namespace)::text)
    AND (sqlc.narg(phase)::text IS NULL OR d.phase = sqlc.narg(phase)::text)
    AND (sqlc.narg(state)::text IS NULL OR d.state = sqlc.narg(state)::text)
ORDER BY d.id DESC
LIMIT @max_rows;

-- name: PlanListByStage :many
-- Index: plans_namespace_phase_state_id_idx, backwards, plan_projects_pkey or plan_projects_plan_id_alias_key, plan_arguments_pkey or plan_arguments_plan_id_name_key, plan_invariants_pkey.
-- Newest first, whole. Each stage is read by itself, no further than a page: they
-- are at most as many as there are phases or states, so that the sort is small.
SELECT d.* FROM ROWS FROM (unnest(@phases::text[]), unnest(@states::text[])) AS n (phase, state),
LATERAL (
    SELECT * FROM plan_details
    WHERE plan_details.namespace = @namespace AND plan_details.phase = n.phase AND plan_details.state = n.state
        AND plan_details.id < @after_id
    ORDER BY plan_details.id DESC
    LIMIT @max_rows
) AS d
ORDER BY d.id DESC
LIMIT @max_rows;

-- name: PlanListBySession :many
-- Index: session_plans_pkey, backwards, plans_pkey, plan_projects_pkey or plan_projects_plan_id_alias_key, plan_arguments_pkey or plan_arguments_plan_id_name_key, plan_invariants_pkey.
-- Newest first, whole. The other filters narrow down one session's plans.
SELECT d.* FROM session_plans l,
LATERAL (SELECT * FROM plan_details WHERE plan_details.id = l.plan_id LIMIT 1) AS d
WHERE l.session_id = @session_id AND l.plan_id < @after_id
    AND (@namespace::text = '' OR d.namespace = @namespace::text)
    AND (@phase::text = '' OR d.phase = @phase::text)
    AND (@state::text = '' OR d.state = @state::text)
ORDER BY l.plan_id DESC
LIMIT @max_rows;

-- name: PlanListByProject :many
-- Index: plan_projects_project_plan_id_idx, backwards, plans_pkey, plan_projects_pkey or plan_projects_plan_id_alias_key, plan_arguments_pkey or plan_arguments_plan_id_name_key, plan_invariants_pkey.
-- Newest first, whole. The other filters narrow down one project's plans.
-- A project that a plan links twice is taken once, by its first place. Each plan is
-- looked up by itself, which LIMIT makes sure of: joined otherwise, all plans would
-- be read for a project that has many.
SELECT d.* FROM plan_projects l,
LATERAL (SELECT * FROM plan_details WHERE plan_details.id = l.plan_id LIMIT 1) AS d
WHERE l.project = @project AND l.plan_id < @after_id
    AND l.position = (
        SELECT o.position FROM plan_projects o WHERE o.plan_id = l.plan_id AND o.project = l.project ORDER BY o.position LIMIT 1
    )
    AND (@namespace::text = '' OR d.namespace = @namespace::text)
    AND (@phase::text = '' OR d.phase = @phase::text)
    AND (@state::text = '' OR d.state = @state::text)
ORDER BY l.plan_id DESC
LIMIT @max_rows;

-- name: PlanTransition :one
-- Index: plans_pkey. Moves the plan, other than to cancel it, if it is where the
-- caller read it, and notes that in the history. No row: it is not there.
WITH moved AS (
    UPDATE plans p
    SET phase = @to_phase, state = @to_state, version = p.version + 1,
        error_message = sqlc.narg(error_message), error_details = CAST(sqlc.narg(error_details)::text AS json),
        reversion_count = @reversion_count, cancelled_at = NULL, cancel_reason = NULL, updated_at = greatest(p.updated_at, clock_timestamp())
    WHERE p.id = @id AND p.phase = @from_phase AND p.state = @from_state AND p.version = @version
    RETURNING p.id, p.version, p.updated_at, p.last_completed_step, p.last_checkpoint_id
), noted AS (
    INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor, reason, created_at)
    SELECT m.id, m.version, @transition, @from_phase, @from_state, @to_phase, @to_state,
        sqlc.narg(actor)::text, sqlc.narg(reason)::text, m.updated_at
    FROM moved m
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, actor, plan_id, details)
    SELECT clock_timestamp(), audit_new_id(), @event_type, sqlc.narg(actor)::text, m.id, CAST(@details::text AS json)
    FROM moved m
)
SELECT m.updated_at, m.last_completed_step, m.last_checkpoint_id FROM moved m;

-- name: PlanCancel :many
-- Index: plans_root_id_id_key. Cancels the plan, if it is where the caller read it, with
-- its live descendants. Its tree's root is locked, so that none is added meanwhile.
-- The tree is read by its root, and sorted out after that: how many plans a
-- recursion finds no planner knows.
-- What is set comes from the locked rows: another's transition of a descendant may
-- have been committed since the statement began.
WITH RECURSIVE family AS (
    SELECT p.id, p.parent_id, p.id = @id AS is_target FROM plans p WHERE p.root_id = @root_id
), tree AS (
    SELECT f.id FROM family f WHERE f.is_target
    UNION ALL
    SELECT f.id FROM tree t JOIN family f ON f.parent_id = t.id
), locked AS (
    SELECT p.id, p.phase, p.state, p.version, p.error_message, p.error_details,
        p.id = @id AND p.phase = @from_phase AND p.state = @from_state AND p.version = @version AS is_target
    FROM plans p
    WHERE p.root_id = @root_id AND p.id IN (SELECT t.id FROM tree t)
    FOR NO KEY UPDATE OF p
), live AS (
    SELECT l.id, l.phase, l.state, l.version, l.error_message, l.error_details
    FROM locked l
    WHERE l.state NOT IN ('applied', 'cancelled') AND EXISTS (SELECT FROM locked o WHERE o.is_target)
), moved AS (
    UPDATE plans p
    SET phase = l.phase, state = 'cancelled', version = l.version + 1,
        error_message = l.error_message, error_details = l.error_details,
        cancelled_at = clock_timestamp(), cancel_reason = @reason::text, updated_at = greatest(p.updated_at, clock_timestamp())
    FROM live l
    WHERE p.root_id = @root_id AND p.id = l.id
    RETURNING l.id, l.phase, l.state AS from_state, p.version, p.updated_at
), noted AS (
    INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state, actor, reason, created_at)
    SELECT m.id, m.version, 'cancel', m.phase, m.from_state, m.phase, 'cancelled', sqlc.narg(actor)::text, @reason::text, m.updated_at
    FROM moved m
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, actor, plan_id, details)
    SELECT clock_timestamp(), audit_new_id(), 'plan_cancelled', sqlc.narg(actor)::text, m.id,
        format('{"transition":"cancel","from":"%s/%s","to":"%s/cancelled","version":%s}', m.phase, m.from_state, m.phase, m.version)::json
    FROM moved m
)
SELECT m.id FROM moved m;

-- name: PlanProgress :one
-- Index: plans_pkey, plan_projects_pkey or plan_projects_plan_id_alias_key, plan_arguments_pkey or plan_arguments_plan_id_name_key, plan_invariants_pkey.
-- No row: the plan is not processing, or does not exist. The whole plan: of the
-- view what never changes, which it shows as the statement began; the rest as it is now.
WITH moved AS (
    UPDATE plans p
    SET last_completed_step = coalesce(sqlc.narg(completed_step)::bigint, p.last_completed_step),
        last_checkpoint_id = CASE WHEN @set_checkpoint::boolean THEN sqlc.narg(checkpoint_id)::text ELSE p.last_checkpoint_id END,
        updated_at = greatest(p.updated_at, clock_timestamp())
    WHERE p.id = @id AND p.state = 'processing'
    RETURNING p.*
)
SELECT sqlc.embed(plan_details), m.phase, m.state, m.error_message, m.error_details, m.reversion_count, m.last_completed_step,
    m.last_checkpoint_id, m.version, m.cancelled_at, m.cancel_reason, m.updated_at
FROM moved m CROSS JOIN plan_details
WHERE plan_details.id = @id;

-- name: PlanHold :exec
-- Index: plans_pkey. A caller's transaction that sees an older state of the
-- database is given up when the plan has changed since. Nothing at read committed.
SELECT FROM plans p WHERE p.id = @id AND current_setting('transaction_isolation') <> 'read committed' FOR SHARE;

-- name: PlanHistory :many
-- Index: plan_history_pkey.
SELECT * FROM plan_history h
WHERE h.plan_id = @plan_id AND h.version >= @from_version
ORDER BY h.version
LIMIT @max_rows;

-- name: PlanLink :one
-- Index: sessions_pkey, plans_pkey, session_plans_pkey. Says which of the two exist.
WITH found AS (
    SELECT EXISTS (SELECT FROM sessions s WHERE s.id = @session_id) AS session,
        EXISTS (SELECT FROM plans p WHERE p.id = @plan_id) AS plan
), linked AS (
    INSERT INTO session_plans (session_id, plan_id)
    SELECT @session_id, @plan_id FROM found f WHERE f.session AND f.plan
    ON CONFLICT DO NOTHING
)
SELECT f.session::boolean AS session, f.plan::boolean AS plan FROM found f;

-- name: PlanUnlink :one
-- Index: sessions_pkey, plans_pkey, session_plans_pkey or session_plans_plan_id_idx. Says which of the two exist.
-- A caller's transaction of a higher isolation level does not see a link that was
-- made since it began. It tries to make it, and is given up when it is there. When
-- it is not, "made" says that the statement is to be run again, which takes it back.
WITH found AS (
    SELECT EXISTS (SELECT FROM sessions s WHERE s.id = @session_id) AS session,
        EXISTS (SELECT FROM plans p WHERE p.id = @plan_id) AS plan
), made AS (
    INSERT INTO session_plans (session_id, plan_id)
    SELECT @session_id, @plan_id FROM found f
    WHERE f.session AND f.plan AND current_setting('transaction_isolation') <> 'read committed'
        AND NOT EXISTS (SELECT FROM session_plans l WHERE l.session_id = @session_id AND l.plan_id = @plan_id)
    ON CONFLICT DO NOTHING
    RETURNING plan_id
), unlinked AS (
    DELETE FROM session_plans l WHERE l.session_id = @session_id AND l.plan_id = @plan_id
)
SELECT f.session::boolean AS session, f.plan::boolean AS plan, EXISTS (SELECT FROM made)::boolean AS made FROM found f;

-- name: PlanLinkAll :execrows
-- Index: session_plans_pkey, plans_pkey. Links those plans that exist.
INSERT INTO session_plans (session_id, plan_id)
SELECT @session_id, p.id
FROM unnest(@plan_ids::uuid[]) AS n (id), LATERAL (SELECT plans.id FROM plans WHERE plans.id = n.id LIMIT 1) AS p
ON CONFLICT DO NOTHING;
