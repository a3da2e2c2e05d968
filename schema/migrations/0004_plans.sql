-- oldest library: 1
-- +goose Up
-- +goose StatementBegin

CREATE FUNCTION actions_valid(name text, server text, namespace text, state text, version bigint, description text,
    definition_of_done text, strategy_actor text,
    execution_actor text, review_actor text, apply_actor text, estimation_actor text, invariant_actor text,
    automation_profile text,
    inputs_schema json, tags text[], invariants text[], argument_names text[], argument_types text[],
    argument_requireds boolean[],
    argument_descriptions text[], argument_defaults text[], argument_mins double precision[],
    argument_maxs double precision[],
    argument_patterns text[], created_by text, max_attempts integer, max_age_micros bigint, keep_micros bigint,
    phases smallint)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE broken CONSTANT text := CASE
    WHEN NOT (name = CASE server WHEN '' THEN '' ELSE server || ':' END || namespace || '/' || split_part(name, '/', 2)
        AND name ~ ('^([A-Za-z0-9][A-Za-z0-9._-]{0,99}:)?'
            || '[A-Za-z0-9][A-Za-z0-9._-]{0,99}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'))
        THEN 'actions_name_check'
    WHEN NOT (state IN ('available', 'archived')) THEN 'actions_state_check'
    WHEN NOT (version >= 1) THEN 'actions_version_check'
    WHEN NOT (octet_length(description) <= 65536) THEN 'actions_description_check'
    WHEN NOT (octet_length(definition_of_done) <= 65536) THEN 'actions_definition_of_done_check'
    WHEN NOT (strategy_actor <> '' AND octet_length(strategy_actor) <= 255) THEN 'actions_strategy_actor_check'
    WHEN NOT (execution_actor <> '' AND octet_length(execution_actor) <= 255) THEN 'actions_execution_actor_check'
    WHEN NOT (review_actor <> '' AND octet_length(review_actor) <= 255) THEN 'actions_review_actor_check'
    WHEN NOT (apply_actor <> '' AND octet_length(apply_actor) <= 255) THEN 'actions_apply_actor_check'
    WHEN NOT (estimation_actor <> '' AND octet_length(estimation_actor) <= 255) THEN 'actions_estimation_actor_check'
    WHEN NOT (invariant_actor <> '' AND octet_length(invariant_actor) <= 255) THEN 'actions_invariant_actor_check'
    WHEN NOT (automation_profile <> '' AND octet_length(automation_profile) <= 255)
        THEN 'actions_automation_profile_check'
    WHEN NOT (json_typeof(inputs_schema) = 'object') THEN 'actions_inputs_schema_check'
    WHEN NOT (cardinality(tags) <= 100 AND array_position(tags, NULL) IS NULL) THEN 'actions_tags_check'
    WHEN NOT (created_by <> '' AND octet_length(created_by) <= 255) THEN 'actions_created_by_check'
    WHEN NOT (max_attempts >= 1) THEN 'actions_max_attempts_check'
    WHEN NOT (max_age_micros >= 0) THEN 'actions_max_age_micros_check'
    WHEN NOT (keep_micros >= 0) THEN 'actions_keep_micros_check'
    WHEN NOT (phases BETWEEN 1 AND 7) THEN 'actions_phases_check'
    WHEN NOT (cardinality(invariants) <= 100 AND (SELECT coalesce(bool_and((i <> ''
        AND octet_length(i) <= 65536) IS TRUE), true)
        FROM unnest(invariants) AS i)) THEN 'actions_invariants_check'
    ELSE (
        -- The arrays have one length, of at most 100, and no nulls: in a row of a shorter one, its column would be
        -- null.
        SELECT CASE
            WHEN count(*) > 100 OR NOT bool_and(n IS NOT NULL) THEN 'actions_arguments_check'
            WHEN count(DISTINCT n.name) <> count(*) OR NOT bool_and(n.name ~ '^[A-Za-z_][A-Za-z0-9_]{0,99}$')
                THEN 'actions_argument_names_check'
            WHEN NOT bool_and(n.type IN ('string', 'integer', 'float', 'boolean', 'list'))
                THEN 'actions_argument_types_check'
            WHEN NOT bool_and(octet_length(n.description) <= 65536) THEN 'actions_argument_descriptions_check'
            WHEN NOT bool_and(n.default_value = '' OR NOT n.required AND json_typeof(n.default_value::json) <> '')
                THEN 'actions_argument_defaults_check'
            -- NaN, which is no bound, is above all other numbers.
            WHEN NOT bool_and(n.min_value <= n.max_value OR n.min_value = 'NaN') THEN 'actions_argument_mins_check'
            WHEN NOT bool_and(n.min_value = 'NaN' AND n.max_value = 'NaN' OR n.type <> 'boolean')
                THEN 'actions_argument_maxs_check'
            WHEN NOT bool_and((n.pattern = '' OR n.type = 'string') AND octet_length(n.pattern) <= 1000)
                THEN 'actions_argument_patterns_check'
        END
        FROM unnest(argument_names, argument_types, argument_requireds, argument_descriptions, argument_defaults,
            argument_mins,
            argument_maxs, argument_patterns) AS n (name, type, required, description, default_value, min_value,
            max_value, pattern)
    )
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "actions" violates check constraint "' || broken || '"',
        TABLE = 'actions', CONSTRAINT = broken;
END
$$;

-- A template that plans are made from.
-- An action's name is its identity. server and namespace repeat parts of the name, because lists go by them. Its
-- arguments are arrays, in which '' stands for no default, and NaN for no bound. phases has a bit for each phase: 1
-- for strategize, 2 for execute, 4 for apply.
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
    invariants         text[]      NOT NULL DEFAULT '{}',
    argument_names     text[]      NOT NULL DEFAULT '{}',
    argument_types     text[]      NOT NULL DEFAULT '{}',
    argument_requireds boolean[]   NOT NULL DEFAULT '{}',
    argument_descriptions text[]   NOT NULL DEFAULT '{}',
    argument_defaults  text[]      NOT NULL DEFAULT '{}',
    argument_mins      double precision[] NOT NULL DEFAULT '{}',
    argument_maxs      double precision[] NOT NULL DEFAULT '{}',
    argument_patterns  text[]      NOT NULL DEFAULT '{}',
    max_attempts       integer     NOT NULL DEFAULT 1,
    max_age_micros     bigint      NOT NULL DEFAULT 0,
    keep_micros        bigint      NOT NULL DEFAULT 0,
    phases             smallint    NOT NULL DEFAULT 7,
    created_by         text,
    created_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT actions_pkey PRIMARY KEY (name),
    CONSTRAINT actions_check CHECK (actions_valid(name, server, namespace, state, version, description,
        definition_of_done, strategy_actor,
        execution_actor, review_actor, apply_actor, estimation_actor, invariant_actor, automation_profile,
        inputs_schema, tags, invariants,
        argument_names, argument_types, argument_requireds, argument_descriptions, argument_defaults, argument_mins,
        argument_maxs,
        argument_patterns, created_by, max_attempts, max_age_micros, keep_micros, phases))
);

-- Listing: by name within a namespace.
CREATE INDEX actions_server_namespace_name_idx ON actions (server, namespace, name);

CREATE FUNCTION plans_valid(id uuid, name text, namespace text, key text, parent_id uuid, root_id uuid, depth integer,
    attempt integer,
    description text, definition_of_done text, phase text, state text, automation_profile text,
    automation_profile_source text,
    automation_snapshot json, error_message text, error_details json, reversion_count integer,
    last_completed_step bigint,
    last_checkpoint_id text, version bigint, cancelled_at timestamptz, cancel_reason text, argument_names text[],
    argument_values text[],
    invariants text[], invariant_sources text[], projects text[], project_aliases text[], project_read_onlys boolean[],
    priority smallint,
    max_attempts integer, keep_micros bigint, phases smallint, trace text)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE broken CONSTANT text := CASE
    WHEN NOT (name <> '' AND octet_length(name) <= 255 AND (parent_id IS NULL OR name IS NULL)) THEN 'plans_name_check'
    WHEN NOT (namespace <> '' AND octet_length(namespace) <= 255) THEN 'plans_namespace_check'
    WHEN NOT (key <> '' AND octet_length(key) <= 255) THEN 'plans_key_check'
    WHEN NOT ((parent_id IS NULL) = (root_id = id) AND parent_id <> id) THEN 'plans_root_id_check'
    WHEN NOT (depth BETWEEN 0 AND 10 AND (depth = 0) = (parent_id IS NULL)) THEN 'plans_depth_check'
    WHEN NOT (attempt >= 1) THEN 'plans_attempt_check'
    WHEN NOT (priority BETWEEN 0 AND 3) THEN 'plans_priority_check'
    WHEN NOT (max_attempts >= 1) THEN 'plans_max_attempts_check'
    WHEN NOT (keep_micros >= 0) THEN 'plans_keep_micros_check'
    WHEN NOT (octet_length(description) <= 65536) THEN 'plans_description_check'
    WHEN NOT (octet_length(definition_of_done) <= 1048576) THEN 'plans_definition_of_done_check'
    WHEN NOT (phase IN ('strategize', 'execute', 'apply')
        AND state IN ('queued', 'processing', 'complete', 'errored', 'cancelled', 'applied')
        OR phase = 'apply' AND state = 'constrained') THEN 'plans_stage_check'
    -- A plan is in one of its phases, and applied only in the last one.
    WHEN NOT (phases BETWEEN 1 AND 7 AND CASE phase WHEN 'strategize' THEN phases & 1 WHEN 'execute' THEN phases & 2
        ELSE phases & 4 END > 0
        AND (state <> 'applied' OR phases < CASE phase WHEN 'strategize' THEN 2 WHEN 'execute' THEN 4
            ELSE 8 END)) THEN 'plans_phases_check'
    WHEN NOT (automation_profile <> '' AND octet_length(automation_profile) <= 255)
        THEN 'plans_automation_profile_check'
    WHEN NOT ((automation_profile IS NULL) = (automation_profile_source IS NULL)
        AND automation_profile_source <> ''
            AND octet_length(automation_profile_source) <= 255) THEN 'plans_automation_profile_source_check'
    WHEN NOT (trace <> '' AND octet_length(trace) <= 512) THEN 'plans_trace_check'
    WHEN NOT (json_typeof(automation_snapshot) = 'object') THEN 'plans_automation_snapshot_check'
    -- A plan that stands at a failure says which; a cancelled one may still.
    WHEN NOT (error_message <> '' AND octet_length(error_message) <= 65536
        AND CASE state WHEN 'errored' THEN error_message IS NOT NULL WHEN 'cancelled' THEN true
            ELSE error_message IS NULL END) THEN 'plans_error_message_check'
    WHEN NOT (error_details IS NULL OR error_message IS NOT NULL AND json_typeof(error_details) = 'object')
        THEN 'plans_error_details_check'
    WHEN NOT (reversion_count BETWEEN 0 AND 3) THEN 'plans_reversion_count_check'
    WHEN NOT (last_completed_step >= 0) THEN 'plans_last_completed_step_check'
    WHEN NOT (last_checkpoint_id <> '' AND octet_length(last_checkpoint_id) <= 255)
        THEN 'plans_last_checkpoint_id_check'
    WHEN NOT (version >= 1) THEN 'plans_version_check'
    WHEN NOT ((state = 'cancelled') = (cancelled_at IS NOT NULL)) THEN 'plans_cancelled_at_check'
    WHEN NOT ((state = 'cancelled') = (cancel_reason IS NOT NULL) AND cancel_reason <> ''
        AND octet_length(cancel_reason) <= 65536)
        THEN 'plans_cancel_reason_check'
    WHEN NOT (cardinality(argument_names) <= 100 AND cardinality(argument_values) = cardinality(argument_names)
        AND (SELECT count(DISTINCT n.name) FILTER (WHERE n.name ~ '^[A-Za-z_][A-Za-z0-9_]{0,99}$'
            AND json_typeof(n.value::json) <> '')
            FROM unnest(argument_names, argument_values) AS n (name,
                value)) = cardinality(argument_names)) THEN 'plans_arguments_check'
    WHEN NOT (cardinality(invariants) <= 200 AND cardinality(invariant_sources) = cardinality(invariants)
        AND (SELECT count(*) FILTER (WHERE n.text <> '' AND octet_length(n.text) <= 65536 AND n.source <> ''
            AND octet_length(n.source) <= 255)
            FROM unnest(invariants, invariant_sources) AS n (text,
                source)) = cardinality(invariants)) THEN 'plans_invariants_check'
    WHEN NOT (cardinality(projects) <= 100 AND cardinality(project_aliases) = cardinality(projects)
        AND cardinality(project_read_onlys) = cardinality(projects)
        AND (SELECT count(DISTINCT n.alias) FILTER (WHERE n.project <> '' AND octet_length(n.project) <= 255
                AND n.alias <> '' AND octet_length(n.alias) <= 255 AND n.read_only IS NOT NULL)
            FROM unnest(projects, project_aliases, project_read_onlys) AS n (project, alias,
                read_only)) = cardinality(projects)) THEN 'plans_projects_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "plans" violates check constraint "' || broken || '"',
        TABLE = 'plans', CONSTRAINT = broken;
END
$$;

-- A use of an action: one piece of work, with its phase and state.
-- A plan's phase and state change together, by conditional updates on both and the version. session_id is the
-- session that it was made for, which may be deleted by now: no other session ever has its id. key is the use's
-- idempotency key, unique in that session, or in the namespace if there is none. not_before is since when it may be
-- claimed, and deadline until when, while it is queued. trace is the caller's, for work that goes on hours later.
CREATE TABLE plans (
    id                        uuid        NOT NULL,
    name                      text,
    namespace                 text        NOT NULL,
    session_id                uuid,
    key                       text,
    action_name               text        NOT NULL COLLATE "C",
    parent_id                 uuid,
    root_id                   uuid        NOT NULL,
    depth                     integer     NOT NULL DEFAULT 0,
    attempt                   integer     NOT NULL DEFAULT 1,
    max_attempts              integer     NOT NULL DEFAULT 1,
    priority                  smallint    NOT NULL DEFAULT 0,
    not_before                timestamptz,
    deadline                  timestamptz,
    keep_micros               bigint      NOT NULL DEFAULT 0,
    phases                    smallint    NOT NULL DEFAULT 7,
    description               text        NOT NULL DEFAULT '',
    definition_of_done        text        NOT NULL DEFAULT '',
    phase                     text        NOT NULL,
    state                     text        NOT NULL,
    automation_profile        text,
    automation_profile_source text,
    automation_snapshot       json        NOT NULL DEFAULT '{}',
    trace                     text,
    error_message             text,
    error_details             json,
    reversion_count           integer     NOT NULL DEFAULT 0,
    last_completed_step       bigint,
    last_checkpoint_id        text,
    argument_names            text[]      NOT NULL DEFAULT '{}',
    argument_values           text[]      NOT NULL DEFAULT '{}',
    invariants                text[]      NOT NULL DEFAULT '{}',
    invariant_sources         text[]      NOT NULL DEFAULT '{}',
    projects                  text[]      NOT NULL DEFAULT '{}',
    project_aliases           text[]      NOT NULL DEFAULT '{}',
    project_read_onlys        boolean[]   NOT NULL DEFAULT '{}',
    version                   bigint      NOT NULL DEFAULT 1,
    fence                     bigint      NOT NULL DEFAULT 0,
    cancelled_at              timestamptz,
    cancel_reason             text,
    created_at                timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at                timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT plans_pkey PRIMARY KEY (id),
    -- What a child's foreign key refers to, so that it is in its parent's tree.
    CONSTRAINT plans_root_id_id_key UNIQUE (root_id, id),
    CONSTRAINT plans_action_name_fkey FOREIGN KEY (action_name) REFERENCES actions (name) ON DELETE RESTRICT,
    CONSTRAINT plans_root_id_parent_id_fkey FOREIGN KEY (root_id, parent_id) REFERENCES plans (root_id,
        id) ON DELETE RESTRICT,
    CONSTRAINT plans_check CHECK (plans_valid(id, name, namespace, key, parent_id, root_id, depth, attempt, description,
        definition_of_done,
        phase, state, automation_profile, automation_profile_source, automation_snapshot, error_message, error_details,
        reversion_count,
        last_completed_step, last_checkpoint_id, version, cancelled_at, cancel_reason, argument_names, argument_values,
        invariants,
        invariant_sources, projects, project_aliases, project_read_onlys, priority, max_attempts, keep_micros, phases,
        trace))
) WITH (fillfactor = 85);

-- Listing: newest first, which the id holds, within a namespace, within a stage of it or of an action, and among the
-- children of one plan. Deleting an action looks for plans.
CREATE INDEX plans_namespace_id_idx ON plans (namespace, id);
CREATE INDEX plans_namespace_phase_state_id_idx ON plans (namespace, phase, state, id);
CREATE INDEX plans_parent_id_id_idx ON plans (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX plans_action_name_phase_state_id_idx ON plans (action_name, phase, state, id);
CREATE UNIQUE INDEX plans_session_id_key_key ON plans (session_id, key) WHERE session_id IS NOT NULL;
CREATE UNIQUE INDEX plans_namespace_key_key ON plans (namespace, key) WHERE session_id IS NULL AND key IS NOT NULL;

-- The projects of a plan, for lists by project.
-- The links themselves are in plans, with which these rows are written once.
CREATE TABLE plan_projects (
    project text NOT NULL,
    plan_id uuid NOT NULL,
    CONSTRAINT plan_projects_pkey PRIMARY KEY (project, plan_id)
);

-- The plan with all that are below it. It is no part of the statements that call it, because a distributed engine takes
-- no recursion in a statement that changes rows.
CREATE FUNCTION plan_tree(root uuid, target uuid) RETURNS uuid[] LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE ids uuid[];
BEGIN
    WITH RECURSIVE family AS (
        SELECT p.id, p.parent_id FROM plans p WHERE p.root_id = root
    ), tree AS (
        SELECT f.id FROM family f WHERE f.id = target
        UNION ALL
        SELECT f.id FROM tree t JOIN family f ON f.parent_id = t.id
    )
    SELECT array_agg(t.id) INTO ids FROM tree t;
    RETURN ids;
END
$$;

CREATE FUNCTION plan_history_valid(version bigint, transition text, from_phase text, from_state text, to_phase text,
    to_state text,
    actor text, reason text)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE broken CONSTANT text := CASE
    WHEN NOT (version >= 1 AND (version = 1) = (transition = 'use')) THEN 'plan_history_version_check'
    WHEN NOT (transition IN ('use', 'start', 'complete', 'fail', 'execute', 'apply', 'constrain', 'revert', 'resume',
        'cancel', 'expire',
        'snooze'))
        THEN 'plan_history_transition_check'
    WHEN NOT ((transition = 'use') = (from_phase IS NULL) AND (from_phase IS NULL) = (from_state IS NULL)
        AND (from_phase IS NULL
        OR from_phase IN ('strategize', 'execute', 'apply')
            AND from_state IN ('queued', 'processing', 'complete', 'errored', 'cancelled')
        OR from_phase = 'apply' AND from_state IN ('applied', 'constrained'))) THEN 'plan_history_from_check'
    WHEN NOT (to_phase IN ('strategize', 'execute', 'apply')
        AND to_state IN ('queued', 'processing', 'complete', 'errored', 'cancelled', 'applied')
        OR to_phase = 'apply' AND to_state = 'constrained') THEN 'plan_history_to_check'
    WHEN NOT (actor <> '' AND octet_length(actor) <= 255) THEN 'plan_history_actor_check'
    WHEN NOT (reason <> '' AND octet_length(reason) <= 65536) THEN 'plan_history_reason_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "plan_history" violates check constraint "' || broken
        || '"',
        TABLE = 'plan_history', CONSTRAINT = broken;
END
$$;

-- A version of a plan: the transition that led to it, its time and its actor.
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
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT plan_history_pkey PRIMARY KEY (plan_id, version),
    CONSTRAINT plan_history_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE,
    CONSTRAINT plan_history_check CHECK (plan_history_valid(version, transition, from_phase, from_state, to_phase,
        to_state, actor, reason))
);
-- What a person did that is to be forgotten.
CREATE INDEX plan_history_actor_plan_id_idx ON plan_history (actor, plan_id) WHERE actor IS NOT NULL;

-- A link of a session to a plan.
-- The link goes with the session; the plan stays.
CREATE TABLE session_plans (
    session_id uuid NOT NULL,
    plan_id    uuid NOT NULL,
    CONSTRAINT session_plans_pkey PRIMARY KEY (session_id, plan_id),
    CONSTRAINT session_plans_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT session_plans_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE
);

CREATE INDEX session_plans_plan_id_idx ON session_plans (plan_id);

-- A queued plan, by priority and waiting time, for claims; triggers write it.
-- Plans wait in the order of their waiting: of a namespace and a phase, and of an action in them. One that is not
-- due yet waits since a time to come, behind all others. bytes is the size of its texts and documents, which
-- bounds a claim's answer. Triggers write the table, so that no statement can forget it. A change of a row has the
-- lock of its plan. A row lives as long as the plan waits, so that most are dead: these settings bound how many a
-- claim has to step over.
CREATE TABLE plan_queue (
    plan_id     uuid        NOT NULL,
    namespace   text        NOT NULL,
    action_name text        NOT NULL COLLATE "C",
    phase       text        NOT NULL,
    priority    smallint    NOT NULL DEFAULT 0,
    since       timestamptz NOT NULL,
    deadline    timestamptz,
    bytes       integer     NOT NULL DEFAULT 0,
    CONSTRAINT plan_queue_pkey PRIMARY KEY (plan_id),
    CONSTRAINT plan_queue_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05, vacuum_index_cleanup = on);
-- Expressions, so that a query for an action does not walk over all others in the order of this index: without
-- statistics the server would take the two for alike.
CREATE INDEX plan_queue_namespace_phase_priority_since_idx ON plan_queue (namespace, (phase || ''), (priority + 0),
    since, plan_id);
CREATE INDEX plan_queue_namespace_phase_action_name_priority_since_idx ON plan_queue (namespace, phase, action_name,
    priority, since, plan_id);
CREATE INDEX plan_queue_deadline_idx ON plan_queue (deadline) WHERE deadline IS NOT NULL;

CREATE FUNCTION plan_claims_valid(owner text, attempt integer, max_attempts integer)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE broken CONSTANT text := CASE
    WHEN NOT (owner <> '' AND octet_length(owner) <= 255) THEN 'plan_claims_owner_check'
    WHEN NOT (attempt >= 1) THEN 'plan_claims_attempt_check'
    WHEN NOT (max_attempts >= 1) THEN 'plan_claims_max_attempts_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "plan_claims" violates check constraint "' || broken
        || '"',
        TABLE = 'plan_claims', CONSTRAINT = broken;
END
$$;

-- A plan that a worker has claimed: its owner and attempt; triggers remove it.
-- check_at is when to see whether its lease, which is in lease_namespace, has expired: renewing a lease does not
-- write here. A trigger removes the row, and the lease, when the plan leaves processing.
CREATE TABLE plan_claims (
    plan_id         uuid        NOT NULL,
    namespace       text        NOT NULL,
    action_name     text        NOT NULL COLLATE "C",
    phase           text        NOT NULL,
    owner           text        NOT NULL,
    lease_namespace text        NOT NULL DEFAULT 'local',
    attempt         integer     NOT NULL,
    max_attempts    integer     NOT NULL,
    bytes           integer     NOT NULL DEFAULT 0,
    check_at        timestamptz NOT NULL,
    CONSTRAINT plan_claims_pkey PRIMARY KEY (plan_id),
    CONSTRAINT plan_claims_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE,
    CONSTRAINT plan_claims_check CHECK (plan_claims_valid(owner, attempt, max_attempts))
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05, vacuum_index_cleanup = on);

CREATE INDEX plan_claims_namespace_check_at_idx ON plan_claims (namespace, check_at);
-- Of all namespaces: lease_namespace keeps the planner from taking it for one of them.
CREATE INDEX plan_claims_lease_namespace_check_at_idx ON plan_claims (lease_namespace, check_at);

-- How many plans of a namespace, or of an action in it, may be claimed at once.
-- '' as the action: all plans of the namespace. A claim has the lock of the row, and counts plan_claims after that:
-- so the number is never exceeded, and nothing has to be given back.
CREATE TABLE plan_limits (
    id          uuid    NOT NULL DEFAULT gen_random_uuid(),
    namespace   text    NOT NULL,
    action_name text    NOT NULL COLLATE "C",
    at_once     integer NOT NULL,
    CONSTRAINT plan_limits_pkey PRIMARY KEY (namespace, action_name),
    CONSTRAINT plan_limits_namespace_check CHECK (namespace <> '' AND octet_length(namespace) <= 255),
    CONSTRAINT plan_limits_at_once_check CHECK (at_once BETWEEN 0 AND 10000)
);

-- When a plan that has ended may be deleted.
-- A plan on top goes with what is below it. One that is complete waits until its next phase is begun.
CREATE TABLE plan_ends (
    plan_id   uuid        NOT NULL,
    delete_at timestamptz NOT NULL,
    CONSTRAINT plan_ends_pkey PRIMARY KEY (plan_id),
    CONSTRAINT plan_ends_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE
);
CREATE INDEX plan_ends_delete_at_idx ON plan_ends (delete_at);

-- The triggers' functions: see session_activity_move.
CREATE FUNCTION plan_queue_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog,
pg_temp AS $$
BEGIN
    IF OLD.state = 'queued' THEN
        EXECUTE format('DELETE FROM %I.plan_queue WHERE plan_id = $1', TG_TABLE_SCHEMA) USING NEW.id;
    ELSIF OLD.state = 'processing' THEN
        -- The lease first, as a release does. Its owner may have acquired it again, after it expired: then it has
        -- another fence. The plan's fence goes on counting.
        EXECUTE format('DELETE FROM %I.leases'
            ' WHERE namespace = (SELECT lease_namespace FROM %1$I.plan_claims WHERE plan_id = $1)'
            ' AND kind = ''plan'' AND name = $1::text'
            ' AND owner = (SELECT owner FROM %1$I.plan_claims WHERE plan_id = $1)', TG_TABLE_SCHEMA)
        USING NEW.id;
        EXECUTE format('DELETE FROM %I.plan_claims WHERE plan_id = $1', TG_TABLE_SCHEMA) USING NEW.id;
    END IF;
    IF NEW.state = 'queued' THEN
        EXECUTE format('INSERT INTO %I.plan_queue '
            '(plan_id, namespace, action_name, phase, priority, since, deadline, bytes)'
            ' VALUES ($1, $2, $3, $4, $5, $6, $7, $8)', TG_TABLE_SCHEMA)
        USING NEW.id, NEW.namespace, NEW.action_name, NEW.phase, NEW.priority, greatest(NEW.updated_at, NEW.not_before),
        NEW.deadline,
            octet_length(concat(NEW.description, NEW.definition_of_done, NEW.automation_snapshot,
                array_to_string(NEW.argument_names
                || NEW.argument_values || NEW.invariants || NEW.invariant_sources || NEW.projects
                    || NEW.project_aliases, '')));
    END IF;
    IF NEW.keep_micros > 0 AND NEW.parent_id IS NULL THEN
        IF NEW.state IN ('queued', 'processing', 'complete') THEN
            EXECUTE format('DELETE FROM %I.plan_ends WHERE plan_id = $1', TG_TABLE_SCHEMA) USING NEW.id;
        ELSE
            EXECUTE format('INSERT INTO %I.plan_ends (plan_id, delete_at) VALUES ($1, $2)'
                ' ON CONFLICT (plan_id) DO UPDATE SET delete_at = excluded.delete_at', TG_TABLE_SCHEMA)
            USING NEW.id, NEW.updated_at + NEW.keep_micros * interval '1 microsecond';
        END IF;
    END IF;
    RETURN NULL;
END
$$;

-- A lease of a plan that is released ends the claim at once: the next claim looks at it, also where the lease was
-- acquired by hand after the claim expired. It comes before expired ones; the time is one that no other is likely to
-- have, since claims go on from a time.
CREATE FUNCTION plan_claim_release() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog,
pg_temp AS $$
BEGIN
    EXECUTE format('UPDATE %I.plan_claims SET check_at = $2 WHERE plan_id = $1', TG_TABLE_SCHEMA)
        USING NEW.name::uuid, 'epoch'::timestamptz + abs(hashtext(NEW.name) % 86400) * interval '1 second';
    RETURN NULL;
END
$$;

REVOKE EXECUTE ON FUNCTION plan_queue_move, plan_claim_release FROM PUBLIC;

CREATE TRIGGER plan_queue_enter AFTER INSERT ON plans FOR EACH ROW
    WHEN (NEW.state = 'queued') EXECUTE FUNCTION plan_queue_move();
CREATE TRIGGER plan_queue_move AFTER UPDATE OF phase, state ON plans
    FOR EACH ROW WHEN (OLD.phase <> NEW.phase OR OLD.state <> NEW.state) EXECUTE FUNCTION plan_queue_move();
CREATE TRIGGER plan_claim_release AFTER UPDATE OF owner ON leases
    FOR EACH ROW WHEN (NEW.kind = 'plan' AND NEW.owner IS NULL) EXECUTE FUNCTION plan_claim_release();
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
-- Writers are kept out first: what was seen empty stays empty until the drop. Without an action nothing else can be
-- there.
LOCK TABLE leases, actions, plans, session_plans IN ACCESS EXCLUSIVE MODE;
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on' AND EXISTS (SELECT FROM actions) THEN
        RAISE EXCEPTION 'table actions still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
DROP TRIGGER plan_claim_release ON leases;
DROP TABLE plan_ends, plan_limits, plan_claims, plan_queue, session_plans, plan_history, plan_projects, plans, actions;
DROP FUNCTION plan_tree, plan_claim_release, plan_queue_move, plan_claims_valid, plan_history_valid, plans_valid,
actions_valid;
-- +goose StatementEnd
