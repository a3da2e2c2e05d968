-- name: ActionCreate :one
-- Index: actions_pkey. It returns no row if an action of this name exists; the caller then reads and compares it.
INSERT INTO actions (
    description, definition_of_done, strategy_actor, execution_actor, review_actor, apply_actor, estimation_actor,
    invariant_actor,
    automation_profile, reusable, read_only, inputs_schema, tags, invariants, argument_names, argument_types,
    argument_requireds,
    argument_descriptions, argument_defaults, argument_mins, argument_maxs, argument_patterns, max_attempts,
    max_age_micros, keep_micros, phases, name, server, namespace, created_by
)
VALUES (
    @description, @definition_of_done, sqlc.narg(strategy_actor), sqlc.narg(execution_actor), sqlc.narg(review_actor),
    sqlc.narg(apply_actor),
    sqlc.narg(estimation_actor), sqlc.narg(invariant_actor), sqlc.narg(automation_profile), @reusable, @read_only,
    CAST(@inputs_schema::text AS json), @tags, @invariants, @argument_names, @argument_types, @argument_requireds,
    @argument_descriptions,
    @argument_defaults, @argument_mins, @argument_maxs, @argument_patterns, @max_attempts, @max_age_micros,
    @keep_micros, @phases, @name, @server, @namespace, sqlc.narg(created_by)
)
ON CONFLICT (name) DO NOTHING
RETURNING created_at, updated_at;

-- name: ActionGet :one
-- Index: actions_pkey.
SELECT * FROM actions WHERE name = @name;

-- name: ActionList :many
-- Index: actions_server_namespace_name_idx. Ordered by name. The index selects the namespace; state and tag filter its
-- actions.
SELECT * FROM actions a
WHERE a.server = @server AND a.namespace = @namespace AND a.name > @after_name
    AND (@state::text = '' OR a.state = @state::text)
    AND (@tag::text = '' OR @tag::text = ANY (a.tags))
ORDER BY a.name LIMIT @max_rows;

-- name: ActionLock :one
-- Index: actions_pkey. Locks the action before an update, so that the next statement sees all that was committed
-- before.
SELECT a.version FROM actions a WHERE a.name = @name FOR NO KEY UPDATE;

-- name: ActionUpdate :one
-- Index: actions_pkey. Replaces the definition of a locked action. The parameters are ActionCreate's, in the same
-- order, so that the same code fills in both; the name and created_by stay as they are.
WITH given AS (SELECT @name::text AS name, @server::text AS server, @namespace::text AS namespace,
    sqlc.narg(created_by)::text AS created_by)
UPDATE actions a
SET description = @description, definition_of_done = @definition_of_done, strategy_actor = sqlc.narg(strategy_actor),
    execution_actor = sqlc.narg(execution_actor), review_actor = sqlc.narg(review_actor),
    apply_actor = sqlc.narg(apply_actor),
    estimation_actor = sqlc.narg(estimation_actor), invariant_actor = sqlc.narg(invariant_actor),
    automation_profile = sqlc.narg(automation_profile), reusable = @reusable, read_only = @read_only,
    inputs_schema = CAST(@inputs_schema::text AS json), tags = @tags, invariants = @invariants,
    argument_names = @argument_names, argument_types = @argument_types, argument_requireds = @argument_requireds,
    argument_descriptions = @argument_descriptions,
    argument_defaults = @argument_defaults, argument_mins = @argument_mins, argument_maxs = @argument_maxs,
    argument_patterns = @argument_patterns, max_attempts = @max_attempts,
    max_age_micros = @max_age_micros, keep_micros = @keep_micros, phases = @phases, version = a.version + 1,
    updated_at = greatest(a.updated_at, statement_timestamp())
FROM given g WHERE a.name = g.name
RETURNING a.*;

-- name: ActionArchive :execrows
-- Index: actions_pkey. Affects no row if the action is archived already, or does not exist.
UPDATE actions a
SET state = 'archived', version = a.version + 1, updated_at = greatest(a.updated_at, statement_timestamp())
WHERE a.name = @name AND a.state = 'available';

-- name: ActionDelete :one
-- Index: actions_pkey, plans_action_name_phase_state_id_idx. Does not delete an action in use. If a plan is created
-- meanwhile, the foreign key refuses the deletion.
WITH used AS (
    SELECT EXISTS (SELECT FROM plans p WHERE p.action_name = @name) AS in_use
), deleted AS (
    DELETE FROM actions a USING used u WHERE a.name = @name AND NOT u.in_use RETURNING a.name, a.namespace
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, namespace, details)
    SELECT statement_timestamp(), audit_new_id(), 'entity_deleted', d.namespace,
    json_build_object('entity', 'action', 'name', d.name) FROM deleted d
)
SELECT u.in_use::boolean AS in_use, EXISTS (SELECT FROM deleted)::boolean AS deleted FROM used u;
