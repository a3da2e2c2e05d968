-- name: ActionCreate :one
-- Index: actions_pkey. Creates the action with its arguments and invariants. It returns
-- no row if an action of this name exists; the caller then reads and compares it.
WITH created AS (
    INSERT INTO actions (
        name, server, namespace, description, definition_of_done,
        strategy_actor, execution_actor, review_actor, apply_actor, estimation_actor, invariant_actor,
        automation_profile, reusable, read_only, inputs_schema, tags, created_by
    )
    VALUES (
        @name, @server, @namespace, @description, @definition_of_done,
        sqlc.narg(strategy_actor), sqlc.narg(execution_actor), sqlc.narg(review_actor),
        sqlc.narg(apply_actor), sqlc.narg(estimation_actor), sqlc.narg(invariant_actor),
        sqlc.narg(automation_profile), @reusable, @read_only, CAST(@inputs_schema::text AS json), @tags, sqlc.narg(created_by)
    )
    ON CONFLICT (name) DO NOTHING
    RETURNING name, created_at, updated_at
), arguments AS (
    INSERT INTO action_arguments (
        action_name, position, name, type, required, description, default_value, min_value, max_value, pattern
    )
    SELECT c.name, (n.ordinality - 1)::integer, n.name, n.type, n.required, n.description,
        CAST(nullif(n.default_value, '') AS json), nullif(n.min_value, 'NaN'), nullif(n.max_value, 'NaN'), n.pattern
    FROM created c, ROWS FROM (
        unnest(@argument_names::text[]), unnest(@argument_types::text[]), unnest(@argument_requireds::boolean[]),
        unnest(@argument_descriptions::text[]), unnest(@argument_defaults::text[]),
        unnest(@argument_mins::double precision[]), unnest(@argument_maxs::double precision[]), unnest(@argument_patterns::text[])
    ) WITH ORDINALITY AS n (name, type, required, description, default_value, min_value, max_value, pattern, ordinality)
), invariants AS (
    INSERT INTO action_invariants (action_name, position, text)
    SELECT c.name, (n.ordinality - 1)::integer, n.text
    FROM created c, unnest(@invariants::text[]) WITH ORDINALITY AS n (text, ordinality)
)
SELECT c.created_at, c.updated_at FROM created c;

-- name: ActionGet :one
-- Index: actions_pkey, action_arguments_pkey or action_arguments_action_name_name_key, action_invariants_pkey.
-- Returns the whole action in one row. Its parts are arrays in the order of their positions.
SELECT sqlc.embed(a),
    ARRAY(SELECT s.name FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_names,
    ARRAY(SELECT s.type FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_types,
    ARRAY(SELECT s.required FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::boolean[] AS argument_requireds,
    ARRAY(SELECT s.description FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_descriptions,
    ARRAY(SELECT coalesce(s.default_value::text, '') FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_defaults,
    ARRAY(SELECT coalesce(s.min_value, 'NaN') FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::double precision[] AS argument_mins,
    ARRAY(SELECT coalesce(s.max_value, 'NaN') FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::double precision[] AS argument_maxs,
    ARRAY(SELECT s.pattern FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_patterns,
    ARRAY(SELECT s.text FROM action_invariants s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS invariants
FROM actions a
WHERE a.name = @name;

-- name: ActionList :many
-- Index: actions_server_namespace_name_idx, action_arguments_pkey or action_arguments_action_name_name_key, action_invariants_pkey.
-- Ordered by name. The index selects the namespace; state and tag filter its actions.
SELECT sqlc.embed(a),
    ARRAY(SELECT s.name FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_names,
    ARRAY(SELECT s.type FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_types,
    ARRAY(SELECT s.required FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::boolean[] AS argument_requireds,
    ARRAY(SELECT s.description FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_descriptions,
    ARRAY(SELECT coalesce(s.default_value::text, '') FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_defaults,
    ARRAY(SELECT coalesce(s.min_value, 'NaN') FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::double precision[] AS argument_mins,
    ARRAY(SELECT coalesce(s.max_value, 'NaN') FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::double precision[] AS argument_maxs,
    ARRAY(SELECT s.pattern FROM action_arguments s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS argument_patterns,
    ARRAY(SELECT s.text FROM action_invariants s WHERE s.action_name = a.name ORDER BY s.position)::text[] AS invariants
FROM actions a
WHERE a.server = @server AND a.namespace = @namespace AND a.name > @after_name
    AND (@state::text = '' OR a.state = @state::text)
    AND (@tag::text = '' OR @tag::text = ANY (a.tags))
ORDER BY a.name
LIMIT @max_rows;

-- name: ActionLock :one
-- Index: actions_pkey. Locks the action before an update, so that the next statement sees
-- all that was committed before.
SELECT a.version FROM actions a WHERE a.name = @name FOR NO KEY UPDATE;

-- name: ActionUpdate :exec
-- Index: actions_pkey, action_arguments_pkey, action_invariants_pkey. Replaces the
-- definition of a locked action. It writes only the arguments and invariants that differ.
-- The parameters are those of ActionCreate, in the same order, so that the same code
-- fills in both.
WITH given AS (
    SELECT @name::text AS name, @server::text AS server, @namespace::text AS namespace, @description::text AS description,
        @definition_of_done::text AS definition_of_done, sqlc.narg(strategy_actor)::text AS strategy_actor,
        sqlc.narg(execution_actor)::text AS execution_actor, sqlc.narg(review_actor)::text AS review_actor,
        sqlc.narg(apply_actor)::text AS apply_actor, sqlc.narg(estimation_actor)::text AS estimation_actor,
        sqlc.narg(invariant_actor)::text AS invariant_actor, sqlc.narg(automation_profile)::text AS automation_profile,
        @reusable::boolean AS reusable, @read_only::boolean AS read_only, CAST(@inputs_schema::text AS json) AS inputs_schema,
        @tags::text[] AS tags, sqlc.narg(created_by)::text AS created_by
), arguments_given AS (
    SELECT (n.ordinality - 1)::integer AS position, n.name, n.type, n.required, n.description,
        nullif(n.default_value, '') AS default_value,
        nullif(n.min_value, 'NaN') AS min_value, nullif(n.max_value, 'NaN') AS max_value, n.pattern
    FROM ROWS FROM (
        unnest(@argument_names::text[]), unnest(@argument_types::text[]), unnest(@argument_requireds::boolean[]),
        unnest(@argument_descriptions::text[]), unnest(@argument_defaults::text[]),
        unnest(@argument_mins::double precision[]), unnest(@argument_maxs::double precision[]), unnest(@argument_patterns::text[])
    ) WITH ORDINALITY AS n (name, type, required, description, default_value, min_value, max_value, pattern, ordinality)
), arguments_removed AS (
    DELETE FROM action_arguments d WHERE d.action_name = @name AND d.position >= cardinality(@argument_names::text[])
), arguments_set AS (
    INSERT INTO action_arguments AS d (
        action_name, position, name, type, required, description, default_value, min_value, max_value, pattern
    )
    SELECT @name, g.position, g.name, g.type, g.required, g.description,
        CAST(g.default_value AS json), g.min_value, g.max_value, g.pattern
    FROM arguments_given g
    ON CONFLICT (action_name, position) DO UPDATE
    SET name = excluded.name, type = excluded.type, required = excluded.required, description = excluded.description,
        default_value = excluded.default_value, min_value = excluded.min_value, max_value = excluded.max_value,
        pattern = excluded.pattern
    WHERE (d.name, d.type, d.required, d.description, d.default_value::text, d.min_value, d.max_value, d.pattern)
        IS DISTINCT FROM (excluded.name, excluded.type, excluded.required, excluded.description,
            excluded.default_value::text, excluded.min_value, excluded.max_value, excluded.pattern)
), invariants_removed AS (
    DELETE FROM action_invariants d WHERE d.action_name = @name AND d.position >= cardinality(@invariants::text[])
), invariants_set AS (
    INSERT INTO action_invariants AS d (action_name, position, text)
    SELECT @name, (n.ordinality - 1)::integer, n.text
    FROM unnest(@invariants::text[]) WITH ORDINALITY AS n (text, ordinality)
    ON CONFLICT (action_name, position) DO UPDATE SET text = excluded.text WHERE d.text <> excluded.text
)
UPDATE actions a
SET description = g.description, definition_of_done = g.definition_of_done,
    strategy_actor = g.strategy_actor, execution_actor = g.execution_actor, review_actor = g.review_actor,
    apply_actor = g.apply_actor, estimation_actor = g.estimation_actor, invariant_actor = g.invariant_actor,
    automation_profile = g.automation_profile, reusable = g.reusable, read_only = g.read_only,
    inputs_schema = g.inputs_schema, tags = g.tags,
    version = a.version + 1, updated_at = greatest(a.updated_at, statement_timestamp())
FROM given g
WHERE a.name = g.name;

-- name: ActionArchive :execrows
-- Index: actions_pkey. Affects no row if the action is archived already, or does not exist.
UPDATE actions a
SET state = 'archived', version = a.version + 1, updated_at = greatest(a.updated_at, statement_timestamp())
WHERE a.name = @name AND a.state = 'available';

-- name: ActionDelete :one
-- Index: actions_pkey, plans_action_name_idx. Does not delete an action in use. If a plan
-- is created meanwhile, the foreign key refuses the deletion.
WITH used AS (
    SELECT EXISTS (SELECT FROM plans p WHERE p.action_name = @name) AS in_use
), deleted AS (
    DELETE FROM actions a USING used u WHERE a.name = @name AND NOT u.in_use RETURNING a.name
), told AS (
    INSERT INTO audit_entries (occurred_at, id, type, details)
    SELECT statement_timestamp(), audit_new_id(), 'entity_deleted', json_build_object('entity', 'action', 'name', d.name) FROM deleted d
)
SELECT u.in_use::boolean AS in_use, EXISTS (SELECT FROM deleted)::boolean AS deleted FROM used u;
