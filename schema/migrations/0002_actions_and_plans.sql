-- +goose Up

-- An action is a template that plans are made from. Its name is its identity.
-- server and namespace repeat parts of the name, because lists go by them.
CREATE TABLE actions (
    name               text        NOT NULL COLLATE "C",
    server             text        NOT NULL DEFAULT '',
    namespace          text        NOT NULL,
    state              text        NOT NULL DEFAULT 'available',
    version            bigint      NOT NULL DEFAULT 1,
    description        text        NOT NULL DEFAULT '',
    definition_of_done text        NOT NULL DEFAULT '',
    strategy_actor     text,
    execution_actor    text,
    review_actor       text,
    apply_actor        text,
    estimation_actor   text,
    invariant_actor    text,
    automation_profile text,
    reusable           boolean     NOT NULL,
    read_only          boolean     NOT NULL,
    inputs_schema      json        NOT NULL DEFAULT '{}',
    tags               text[]      NOT NULL DEFAULT '{}',
    created_by         text,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT actions_pkey PRIMARY KEY (name),
    CONSTRAINT actions_name_check CHECK (
        name = CASE server WHEN '' THEN '' ELSE server || ':' END || namespace || '/' || split_part(name, '/', 2)
        AND name ~ '^([A-Za-z0-9][A-Za-z0-9._-]{0,99}:)?[A-Za-z0-9][A-Za-z0-9._-]{0,99}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'
    ),
    CONSTRAINT actions_state_check CHECK (state IN ('available', 'archived')),
    CONSTRAINT actions_version_check CHECK (version >= 1),
    CONSTRAINT actions_description_check CHECK (octet_length(description) <= 65536),
    CONSTRAINT actions_definition_of_done_check CHECK (octet_length(definition_of_done) <= 65536),
    CONSTRAINT actions_strategy_actor_check CHECK (strategy_actor <> '' AND octet_length(strategy_actor) <= 255),
    CONSTRAINT actions_execution_actor_check CHECK (execution_actor <> '' AND octet_length(execution_actor) <= 255),
    CONSTRAINT actions_review_actor_check CHECK (review_actor <> '' AND octet_length(review_actor) <= 255),
    CONSTRAINT actions_apply_actor_check CHECK (apply_actor <> '' AND octet_length(apply_actor) <= 255),
    CONSTRAINT actions_estimation_actor_check CHECK (estimation_actor <> '' AND octet_length(estimation_actor) <= 255),
    CONSTRAINT actions_invariant_actor_check CHECK (invariant_actor <> '' AND octet_length(invariant_actor) <= 255),
    CONSTRAINT actions_automation_profile_check CHECK (automation_profile <> '' AND octet_length(automation_profile) <= 255),
    CONSTRAINT actions_inputs_schema_check CHECK (json_typeof(inputs_schema) = 'object'),
    CONSTRAINT actions_tags_check CHECK (cardinality(tags) <= 100 AND array_position(tags, NULL) IS NULL),
    CONSTRAINT actions_created_by_check CHECK (created_by <> '' AND octet_length(created_by) <= 255),
    CONSTRAINT actions_times_check CHECK (updated_at >= created_at)
);

-- Listing: by name within a namespace.
CREATE INDEX actions_server_namespace_name_idx ON actions (server, namespace, name);

CREATE TABLE action_arguments (
    action_name   text             NOT NULL COLLATE "C",
    position      integer          NOT NULL,
    name          text             NOT NULL,
    type          text             NOT NULL,
    required      boolean          NOT NULL,
    description   text             NOT NULL DEFAULT '',
    default_value json,
    min_value     double precision,
    max_value     double precision,
    pattern       text             NOT NULL DEFAULT '',
    CONSTRAINT action_arguments_pkey PRIMARY KEY (action_name, position),
    -- An update moves arguments about; only its end has to be right.
    CONSTRAINT action_arguments_action_name_name_key UNIQUE (action_name, name) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT action_arguments_action_name_fkey FOREIGN KEY (action_name) REFERENCES actions (name) ON DELETE CASCADE,
    CONSTRAINT action_arguments_position_check CHECK (position BETWEEN 0 AND 99),
    CONSTRAINT action_arguments_name_check CHECK (name ~ '^[A-Za-z_][A-Za-z0-9_]{0,99}$'),
    CONSTRAINT action_arguments_type_check CHECK (type IN ('string', 'integer', 'float', 'boolean', 'list')),
    CONSTRAINT action_arguments_description_check CHECK (octet_length(description) <= 65536),
    CONSTRAINT action_arguments_default_value_check CHECK (default_value IS NULL OR NOT required),
    CONSTRAINT action_arguments_min_value_check CHECK (min_value <= max_value),
    CONSTRAINT action_arguments_bounds_check CHECK ((min_value IS NULL AND max_value IS NULL) OR type <> 'boolean'),
    CONSTRAINT action_arguments_pattern_check CHECK ((pattern = '' OR type = 'string') AND octet_length(pattern) <= 1000)
);

CREATE TABLE action_invariants (
    action_name text    NOT NULL COLLATE "C",
    position    integer NOT NULL,
    text        text    NOT NULL,
    CONSTRAINT action_invariants_pkey PRIMARY KEY (action_name, position),
    CONSTRAINT action_invariants_action_name_fkey FOREIGN KEY (action_name) REFERENCES actions (name) ON DELETE CASCADE,
    CONSTRAINT action_invariants_position_check CHECK (position BETWEEN 0 AND 99),
    CONSTRAINT action_invariants_text_check CHECK (text <> '' AND octet_length(text) <= 65536)
);

-- A plan is one use of an action. Its phase and state change together, by
-- conditional updates on both and the version.
CREATE TABLE plans (
    id                        uuid        NOT NULL,
    name                      text,
    namespace                 text        NOT NULL,
    action_name               text        NOT NULL COLLATE "C",
    parent_id                 uuid,
    root_id                   uuid        NOT NULL,
    depth                     integer     NOT NULL DEFAULT 0,
    attempt                   integer     NOT NULL DEFAULT 1,
    description               text        NOT NULL DEFAULT '',
    definition_of_done        text        NOT NULL DEFAULT '',
    phase                     text        NOT NULL,
    state                     text        NOT NULL,
    automation_profile        text,
    automation_profile_source text,
    automation_snapshot       json        NOT NULL DEFAULT '{}',
    error_message             text,
    error_details             json,
    reversion_count           integer     NOT NULL DEFAULT 0,
    last_completed_step       bigint,
    last_checkpoint_id        text,
    version                   bigint      NOT NULL DEFAULT 1,
    cancelled_at              timestamptz,
    cancel_reason             text,
    created_at                timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at                timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT plans_pkey PRIMARY KEY (id),
    -- What a child's foreign key refers to, so that it is in its parent's tree.
    CONSTRAINT plans_root_id_id_key UNIQUE (root_id, id),
    CONSTRAINT plans_action_name_fkey FOREIGN KEY (action_name) REFERENCES actions (name) ON DELETE RESTRICT,
    CONSTRAINT plans_root_id_parent_id_fkey FOREIGN KEY (root_id, parent_id) REFERENCES plans (root_id, id) ON DELETE RESTRICT,
    CONSTRAINT plans_name_check CHECK (name <> '' AND octet_length(name) <= 255 AND (parent_id IS NULL OR name IS NULL)),
    CONSTRAINT plans_namespace_check CHECK (namespace <> '' AND octet_length(namespace) <= 255),
    CONSTRAINT plans_root_id_check CHECK ((parent_id IS NULL) = (root_id = id) AND parent_id <> id),
    CONSTRAINT plans_depth_check CHECK (depth BETWEEN 0 AND 10 AND (depth = 0) = (parent_id IS NULL)),
    CONSTRAINT plans_attempt_check CHECK (attempt >= 1),
    CONSTRAINT plans_description_check CHECK (octet_length(description) <= 65536),
    CONSTRAINT plans_definition_of_done_check CHECK (octet_length(definition_of_done) <= 1048576),
    CONSTRAINT plans_stage_check CHECK (
        phase IN ('strategize', 'execute', 'apply') AND state IN ('queued', 'processing', 'complete', 'errored', 'cancelled')
        OR phase = 'apply' AND state IN ('applied', 'constrained')
    ),
    CONSTRAINT plans_automation_profile_check CHECK (automation_profile <> '' AND octet_length(automation_profile) <= 255),
    CONSTRAINT plans_automation_profile_source_check CHECK (
        (automation_profile IS NULL) = (automation_profile_source IS NULL)
        AND automation_profile_source <> '' AND octet_length(automation_profile_source) <= 255
    ),
    CONSTRAINT plans_automation_snapshot_check CHECK (json_typeof(automation_snapshot) = 'object'),
    -- A plan that stands at a failure says which; a cancelled one may still.
    CONSTRAINT plans_error_message_check CHECK (
        error_message <> '' AND octet_length(error_message) <= 65536
        AND CASE state WHEN 'errored' THEN error_message IS NOT NULL WHEN 'cancelled' THEN true ELSE error_message IS NULL END
    ),
    CONSTRAINT plans_error_details_check CHECK (error_details IS NULL OR error_message IS NOT NULL AND json_typeof(error_details) = 'object'),
    CONSTRAINT plans_reversion_count_check CHECK (reversion_count BETWEEN 0 AND 3),
    CONSTRAINT plans_last_completed_step_check CHECK (last_completed_step >= 0),
    CONSTRAINT plans_last_checkpoint_id_check CHECK (last_checkpoint_id <> '' AND octet_length(last_checkpoint_id) <= 255),
    CONSTRAINT plans_version_check CHECK (version >= 1),
    CONSTRAINT plans_cancelled_at_check CHECK ((state = 'cancelled') = (cancelled_at IS NOT NULL)),
    CONSTRAINT plans_cancel_reason_check CHECK (
        (state = 'cancelled') = (cancel_reason IS NOT NULL) AND cancel_reason <> '' AND octet_length(cancel_reason) <= 65536
    ),
    CONSTRAINT plans_times_check CHECK (updated_at >= created_at)
) WITH (fillfactor = 85);

-- Listing: newest first, which the id holds, within a namespace, within a stage
-- of it, and among the children of one plan. Deleting an action looks for plans.
CREATE INDEX plans_namespace_id_idx ON plans (namespace, id);
CREATE INDEX plans_namespace_phase_state_id_idx ON plans (namespace, phase, state, id);
CREATE INDEX plans_parent_id_id_idx ON plans (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX plans_action_name_idx ON plans (action_name);

CREATE TABLE plan_projects (
    plan_id   uuid    NOT NULL,
    position  integer NOT NULL,
    project   text    NOT NULL,
    alias     text    NOT NULL,
    read_only boolean NOT NULL,
    CONSTRAINT plan_projects_pkey PRIMARY KEY (plan_id, position),
    CONSTRAINT plan_projects_plan_id_alias_key UNIQUE (plan_id, alias),
    CONSTRAINT plan_projects_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE,
    CONSTRAINT plan_projects_position_check CHECK (position BETWEEN 0 AND 99),
    CONSTRAINT plan_projects_project_check CHECK (project <> '' AND octet_length(project) <= 255),
    CONSTRAINT plan_projects_alias_check CHECK (alias <> '' AND octet_length(alias) <= 255)
);

-- Listing: a project's plans, newest first. (A plan may link one project twice,
-- under two aliases.)
CREATE INDEX plan_projects_project_plan_id_idx ON plan_projects (project, plan_id);

CREATE TABLE plan_arguments (
    plan_id  uuid    NOT NULL,
    position integer NOT NULL,
    name     text    NOT NULL,
    value    json    NOT NULL,
    CONSTRAINT plan_arguments_pkey PRIMARY KEY (plan_id, position),
    CONSTRAINT plan_arguments_plan_id_name_key UNIQUE (plan_id, name),
    CONSTRAINT plan_arguments_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE,
    CONSTRAINT plan_arguments_position_check CHECK (position BETWEEN 0 AND 99),
    CONSTRAINT plan_arguments_name_check CHECK (name ~ '^[A-Za-z_][A-Za-z0-9_]{0,99}$')
);

CREATE TABLE plan_invariants (
    plan_id  uuid    NOT NULL,
    position integer NOT NULL,
    text     text    NOT NULL,
    source   text    NOT NULL,
    CONSTRAINT plan_invariants_pkey PRIMARY KEY (plan_id, position),
    CONSTRAINT plan_invariants_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE,
    CONSTRAINT plan_invariants_position_check CHECK (position BETWEEN 0 AND 199),
    CONSTRAINT plan_invariants_text_check CHECK (text <> '' AND octet_length(text) <= 65536),
    CONSTRAINT plan_invariants_source_check CHECK (source <> '' AND octet_length(source) <= 255)
);

-- One row for each version of a plan: how it came to it.
CREATE TABLE plan_history (
    plan_id    uuid        NOT NULL,
    version    bigint      NOT NULL,
    transition text        NOT NULL,
    from_phase text,
    from_state text,
    to_phase   text        NOT NULL,
    to_state   text        NOT NULL,
    actor      text,
    reason     text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT plan_history_pkey PRIMARY KEY (plan_id, version),
    CONSTRAINT plan_history_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE,
    CONSTRAINT plan_history_version_check CHECK (version >= 1 AND (version = 1) = (transition = 'use')),
    CONSTRAINT plan_history_transition_check CHECK (
        transition IN ('use', 'start', 'complete', 'fail', 'execute', 'apply', 'constrain', 'revert', 'resume', 'cancel')
    ),
    CONSTRAINT plan_history_from_check CHECK (
        (transition = 'use') = (from_phase IS NULL) AND (from_phase IS NULL) = (from_state IS NULL)
        AND (from_phase IS NULL
            OR from_phase IN ('strategize', 'execute', 'apply') AND from_state IN ('queued', 'processing', 'complete', 'errored', 'cancelled')
            OR from_phase = 'apply' AND from_state IN ('applied', 'constrained'))
    ),
    CONSTRAINT plan_history_to_check CHECK (
        to_phase IN ('strategize', 'execute', 'apply') AND to_state IN ('queued', 'processing', 'complete', 'errored', 'cancelled')
        OR to_phase = 'apply' AND to_state IN ('applied', 'constrained')
    ),
    CONSTRAINT plan_history_actor_check CHECK (actor <> '' AND octet_length(actor) <= 255),
    CONSTRAINT plan_history_reason_check CHECK (reason <> '' AND octet_length(reason) <= 65536)
);

-- Which plans a session is linked to. The link goes with the session; the plan
-- stays.
CREATE TABLE session_plans (
    session_id uuid NOT NULL,
    plan_id    uuid NOT NULL,
    CONSTRAINT session_plans_pkey PRIMARY KEY (session_id, plan_id),
    CONSTRAINT session_plans_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT session_plans_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE
);

CREATE INDEX session_plans_plan_id_idx ON session_plans (plan_id);

-- A whole plan in one row: its parts are arrays in the order of their positions.
CREATE VIEW plan_details AS
SELECT p.id, p.name, p.namespace, p.action_name, p.parent_id, p.root_id, p.depth, p.attempt, p.description,
    p.definition_of_done, p.phase, p.state, p.automation_profile, p.automation_profile_source, p.automation_snapshot,
    p.error_message, p.error_details, p.reversion_count, p.last_completed_step, p.last_checkpoint_id, p.version,
    p.cancelled_at, p.cancel_reason, p.created_at, p.updated_at,
    ARRAY(SELECT s.project FROM plan_projects s WHERE s.plan_id = p.id ORDER BY s.position)::text[] AS projects,
    ARRAY(SELECT s.alias FROM plan_projects s WHERE s.plan_id = p.id ORDER BY s.position)::text[] AS project_aliases,
    ARRAY(SELECT s.read_only FROM plan_projects s WHERE s.plan_id = p.id ORDER BY s.position)::boolean[] AS project_read_onlys,
    ARRAY(SELECT s.name FROM plan_arguments s WHERE s.plan_id = p.id ORDER BY s.position)::text[] AS argument_names,
    ARRAY(SELECT s.value::text FROM plan_arguments s WHERE s.plan_id = p.id ORDER BY s.position)::text[] AS argument_values,
    ARRAY(SELECT s.text FROM plan_invariants s WHERE s.plan_id = p.id ORDER BY s.position)::text[] AS invariants,
    ARRAY(SELECT s.source FROM plan_invariants s WHERE s.plan_id = p.id ORDER BY s.position)::text[] AS invariant_sources
FROM plans p;

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE actions, plans, session_plans IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    -- Nothing else can be there without an action.
    IF EXISTS (SELECT FROM actions) THEN
        RAISE EXCEPTION 'table actions still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

DROP VIEW plan_details;
DROP TABLE session_plans;
DROP TABLE plan_history;
DROP TABLE plan_invariants;
DROP TABLE plan_arguments;
DROP TABLE plan_projects;
DROP TABLE plans;
DROP TABLE action_invariants;
DROP TABLE action_arguments;
DROP TABLE actions;
