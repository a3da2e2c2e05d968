-- Lists and counts of the audit trail. The queries are rewritten before they are sent (repo/postgres/filters.go): the
-- optional filters that are null are left out, and the first that is set becomes a plain condition, for which a
-- generic plan uses an index. The others filter the rows that it finds, so the most selective filter comes first. A
-- list begins after a place that is not outside of the range: of several conditions on the same side, PostgreSQL
-- might enter the index by the wider one. With both sides it expects few rows, and does not sort them.

-- name: AuditListDescending :many
-- Index: audit_entries_<filter>_occurred_at_id_idx, or audit_entries_occurred_at_id_idx, backwards.
SELECT * FROM audit_entries e
WHERE e.occurred_at <= @after_occurred_at AND e.occurred_at >= @bound
    AND (e.occurred_at, e.id) < (@after_occurred_at, @after_id::uuid)
    AND (sqlc.narg(plan_id)::uuid IS NULL OR e.plan_id = sqlc.narg(plan_id)::uuid)
    AND (sqlc.narg(session_id)::uuid IS NULL OR e.session_id = sqlc.narg(session_id)::uuid)
    AND (sqlc.narg(user_name)::text IS NULL OR e.user_name = sqlc.narg(user_name)::text)
    AND (sqlc.narg(namespace)::text IS NULL OR e.namespace = sqlc.narg(namespace)::text)
    AND (sqlc.narg(actor)::text IS NULL OR e.actor = sqlc.narg(actor)::text)
    AND (sqlc.narg(project)::text IS NULL OR e.project = sqlc.narg(project)::text)
    AND (sqlc.narg(type)::text IS NULL OR e.type = sqlc.narg(type)::text)
ORDER BY e.occurred_at DESC, e.id DESC LIMIT @max_rows;

-- name: AuditListAscending :many
-- Index: audit_entries_<filter>_occurred_at_id_idx, or audit_entries_occurred_at_id_idx.
SELECT * FROM audit_entries e
WHERE e.occurred_at >= @after_occurred_at AND e.occurred_at < @bound
    AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
    AND (sqlc.narg(plan_id)::uuid IS NULL OR e.plan_id = sqlc.narg(plan_id)::uuid)
    AND (sqlc.narg(session_id)::uuid IS NULL OR e.session_id = sqlc.narg(session_id)::uuid)
    AND (sqlc.narg(user_name)::text IS NULL OR e.user_name = sqlc.narg(user_name)::text)
    AND (sqlc.narg(namespace)::text IS NULL OR e.namespace = sqlc.narg(namespace)::text)
    AND (sqlc.narg(actor)::text IS NULL OR e.actor = sqlc.narg(actor)::text)
    AND (sqlc.narg(project)::text IS NULL OR e.project = sqlc.narg(project)::text)
    AND (sqlc.narg(type)::text IS NULL OR e.type = sqlc.narg(type)::text)
ORDER BY e.occurred_at, e.id LIMIT @max_rows;

-- name: AuditCount :one
-- Index: audit_entries_<filter>_occurred_at_id_idx, or audit_entries_occurred_at_id_idx. Counts up to max_rows. In an
-- order, since the planner would otherwise read the indexes of two filters whole, and join them.
SELECT count(*) FROM (
    SELECT FROM audit_entries e
    WHERE e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before
        AND (sqlc.narg(plan_id)::uuid IS NULL OR e.plan_id = sqlc.narg(plan_id)::uuid)
        AND (sqlc.narg(session_id)::uuid IS NULL OR e.session_id = sqlc.narg(session_id)::uuid)
        AND (sqlc.narg(user_name)::text IS NULL OR e.user_name = sqlc.narg(user_name)::text)
        AND (sqlc.narg(namespace)::text IS NULL OR e.namespace = sqlc.narg(namespace)::text)
    AND (sqlc.narg(actor)::text IS NULL OR e.actor = sqlc.narg(actor)::text)
        AND (sqlc.narg(project)::text IS NULL OR e.project = sqlc.narg(project)::text)
        AND (sqlc.narg(type)::text IS NULL OR e.type = sqlc.narg(type)::text)
    ORDER BY e.occurred_at, e.id LIMIT @max_rows
) AS found;
