-- Lists and counts of the audit trail, one for each column that selects, and for none.
-- Optional filters alone would read the whole trail under a generic plan; so the
-- column that selects most has a query, and the columns that may select less
-- narrow it down. All of them are of one pattern: a change goes into each.
-- The time of the cursor stands beside the row comparison, which alone would
-- look into every partition.

-- name: AuditListByPlanDescending :many
-- Index: audit_entries_plan_id_occurred_at_id_idx, backwards.
SELECT * FROM audit_entries e
WHERE e.plan_id = @plan_id::uuid
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) < (@after_occurred_at, @after_id::uuid)
    AND (sqlc.narg(session_id)::uuid IS NULL OR e.session_id = sqlc.narg(session_id)::uuid)
    AND (@user_name::text = '' OR e.user_name = @user_name::text)
    AND (@actor::text = '' OR e.actor = @actor::text)
    AND (@project::text = '' OR e.project = @project::text)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at DESC, e.id DESC
LIMIT @max_rows;

-- name: AuditListByPlanAscending :many
-- Index: audit_entries_plan_id_occurred_at_id_idx.
SELECT * FROM audit_entries e
WHERE e.plan_id = @plan_id::uuid
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at >= @after_occurred_at AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
    AND (sqlc.narg(session_id)::uuid IS NULL OR e.session_id = sqlc.narg(session_id)::uuid)
    AND (@user_name::text = '' OR e.user_name = @user_name::text)
    AND (@actor::text = '' OR e.actor = @actor::text)
    AND (@project::text = '' OR e.project = @project::text)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at, e.id
LIMIT @max_rows;

-- name: AuditCountByPlan :one
-- Index: audit_entries_plan_id_occurred_at_id_idx. Up to max_rows.
SELECT count(*) FROM (
    SELECT FROM audit_entries e
    WHERE e.plan_id = @plan_id::uuid
        AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
        AND (sqlc.narg(session_id)::uuid IS NULL OR e.session_id = sqlc.narg(session_id)::uuid)
        AND (@user_name::text = '' OR e.user_name = @user_name::text)
        AND (@actor::text = '' OR e.actor = @actor::text)
        AND (@project::text = '' OR e.project = @project::text)
        AND (@type::text = '' OR e.type = @type::text)
    LIMIT @max_rows
) AS found;

-- name: AuditListBySessionDescending :many
-- Index: audit_entries_session_id_occurred_at_id_idx, backwards.
SELECT * FROM audit_entries e
WHERE e.session_id = @session_id::uuid
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) < (@after_occurred_at, @after_id::uuid)
    AND (@user_name::text = '' OR e.user_name = @user_name::text)
    AND (@actor::text = '' OR e.actor = @actor::text)
    AND (@project::text = '' OR e.project = @project::text)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at DESC, e.id DESC
LIMIT @max_rows;

-- name: AuditListBySessionAscending :many
-- Index: audit_entries_session_id_occurred_at_id_idx.
SELECT * FROM audit_entries e
WHERE e.session_id = @session_id::uuid
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at >= @after_occurred_at AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
    AND (@user_name::text = '' OR e.user_name = @user_name::text)
    AND (@actor::text = '' OR e.actor = @actor::text)
    AND (@project::text = '' OR e.project = @project::text)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at, e.id
LIMIT @max_rows;

-- name: AuditCountBySession :one
-- Index: audit_entries_session_id_occurred_at_id_idx. Up to max_rows.
SELECT count(*) FROM (
    SELECT FROM audit_entries e
    WHERE e.session_id = @session_id::uuid
        AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
        AND (@user_name::text = '' OR e.user_name = @user_name::text)
        AND (@actor::text = '' OR e.actor = @actor::text)
        AND (@project::text = '' OR e.project = @project::text)
        AND (@type::text = '' OR e.type = @type::text)
    LIMIT @max_rows
) AS found;

-- name: AuditListByUserDescending :many
-- Index: audit_entries_user_name_occurred_at_id_idx, backwards.
SELECT * FROM audit_entries e
WHERE e.user_name = @user_name::text
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) < (@after_occurred_at, @after_id::uuid)
    AND (@actor::text = '' OR e.actor = @actor::text)
    AND (@project::text = '' OR e.project = @project::text)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at DESC, e.id DESC
LIMIT @max_rows;

-- name: AuditListByUserAscending :many
-- Index: audit_entries_user_name_occurred_at_id_idx.
SELECT * FROM audit_entries e
WHERE e.user_name = @user_name::text
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at >= @after_occurred_at AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
    AND (@actor::text = '' OR e.actor = @actor::text)
    AND (@project::text = '' OR e.project = @project::text)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at, e.id
LIMIT @max_rows;

-- name: AuditCountByUser :one
-- Index: audit_entries_user_name_occurred_at_id_idx. Up to max_rows.
SELECT count(*) FROM (
    SELECT FROM audit_entries e
    WHERE e.user_name = @user_name::text
        AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
        AND (@actor::text = '' OR e.actor = @actor::text)
        AND (@project::text = '' OR e.project = @project::text)
        AND (@type::text = '' OR e.type = @type::text)
    LIMIT @max_rows
) AS found;

-- name: AuditListByActorDescending :many
-- Index: audit_entries_actor_occurred_at_id_idx, backwards.
SELECT * FROM audit_entries e
WHERE e.actor = @actor::text
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) < (@after_occurred_at, @after_id::uuid)
    AND (@project::text = '' OR e.project = @project::text)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at DESC, e.id DESC
LIMIT @max_rows;

-- name: AuditListByActorAscending :many
-- Index: audit_entries_actor_occurred_at_id_idx.
SELECT * FROM audit_entries e
WHERE e.actor = @actor::text
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at >= @after_occurred_at AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
    AND (@project::text = '' OR e.project = @project::text)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at, e.id
LIMIT @max_rows;

-- name: AuditCountByActor :one
-- Index: audit_entries_actor_occurred_at_id_idx. Up to max_rows.
SELECT count(*) FROM (
    SELECT FROM audit_entries e
    WHERE e.actor = @actor::text
        AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
        AND (@project::text = '' OR e.project = @project::text)
        AND (@type::text = '' OR e.type = @type::text)
    LIMIT @max_rows
) AS found;

-- name: AuditListByProjectDescending :many
-- Index: audit_entries_project_occurred_at_id_idx, backwards.
SELECT * FROM audit_entries e
WHERE e.project = @project::text
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) < (@after_occurred_at, @after_id::uuid)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at DESC, e.id DESC
LIMIT @max_rows;

-- name: AuditListByProjectAscending :many
-- Index: audit_entries_project_occurred_at_id_idx.
SELECT * FROM audit_entries e
WHERE e.project = @project::text
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at >= @after_occurred_at AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
    AND (@type::text = '' OR e.type = @type::text)
ORDER BY e.occurred_at, e.id
LIMIT @max_rows;

-- name: AuditCountByProject :one
-- Index: audit_entries_project_occurred_at_id_idx. Up to max_rows.
SELECT count(*) FROM (
    SELECT FROM audit_entries e
    WHERE e.project = @project::text
        AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
        AND (@type::text = '' OR e.type = @type::text)
    LIMIT @max_rows
) AS found;

-- name: AuditListByTypeDescending :many
-- Index: audit_entries_type_occurred_at_id_idx, backwards.
SELECT * FROM audit_entries e
WHERE e.type = @type::text
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) < (@after_occurred_at, @after_id::uuid)
ORDER BY e.occurred_at DESC, e.id DESC
LIMIT @max_rows;

-- name: AuditListByTypeAscending :many
-- Index: audit_entries_type_occurred_at_id_idx.
SELECT * FROM audit_entries e
WHERE e.type = @type::text
    AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at >= @after_occurred_at AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
ORDER BY e.occurred_at, e.id
LIMIT @max_rows;

-- name: AuditCountByType :one
-- Index: audit_entries_type_occurred_at_id_idx. Up to max_rows.
SELECT count(*) FROM (
    SELECT FROM audit_entries e
    WHERE e.type = @type::text
        AND e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    LIMIT @max_rows
) AS found;

-- name: AuditListDescending :many
-- Index: audit_entries_pkey, backwards.
SELECT * FROM audit_entries e
WHERE e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) < (@after_occurred_at, @after_id::uuid)
ORDER BY e.occurred_at DESC, e.id DESC
LIMIT @max_rows;

-- name: AuditListAscending :many
-- Index: audit_entries_pkey.
SELECT * FROM audit_entries e
WHERE e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    AND e.occurred_at >= @after_occurred_at AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
ORDER BY e.occurred_at, e.id
LIMIT @max_rows;

-- name: AuditCount :one
-- Index: audit_entries_pkey. Up to max_rows.
SELECT count(*) FROM (
    SELECT FROM audit_entries e
    WHERE e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
    LIMIT @max_rows
) AS found;
