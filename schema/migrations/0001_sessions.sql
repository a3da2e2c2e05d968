-- +goose Up

-- A conversation session. Everything here changes rarely or never; what every
-- append changes stands in session_counters. The free space left in each page
-- (fillfactor) keeps usage updates heap-only: no index of this table is touched
-- when token counts grow.
CREATE TABLE sessions (
    id                 uuid        NOT NULL,
    namespace          text        NOT NULL DEFAULT 'local',
    actor              text,
    automation_profile text,
    -- json, not jsonb: the text that was stored is the text that is read
    -- (number literals and member order survive).
    metadata           json        NOT NULL DEFAULT '{}',
    input_tokens       bigint      NOT NULL DEFAULT 0,
    output_tokens      bigint      NOT NULL DEFAULT 0,
    cost_nanos         bigint      NOT NULL DEFAULT 0,
    budget_nanos       bigint,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT sessions_pkey PRIMARY KEY (id),
    CONSTRAINT sessions_namespace_check CHECK (namespace <> '' AND octet_length(namespace) <= 255),
    CONSTRAINT sessions_actor_check CHECK (actor <> '' AND octet_length(actor) <= 255),
    CONSTRAINT sessions_automation_profile_check CHECK (automation_profile <> '' AND octet_length(automation_profile) <= 255),
    CONSTRAINT sessions_metadata_check CHECK (json_typeof(metadata) = 'object'),
    CONSTRAINT sessions_input_tokens_check CHECK (input_tokens >= 0),
    CONSTRAINT sessions_output_tokens_check CHECK (output_tokens >= 0),
    CONSTRAINT sessions_cost_nanos_check CHECK (cost_nanos >= 0),
    CONSTRAINT sessions_budget_nanos_check CHECK (budget_nanos >= 0),
    CONSTRAINT sessions_cost_within_budget_check CHECK (cost_nanos <= budget_nanos),
    CONSTRAINT sessions_times_check CHECK (updated_at >= created_at)
) WITH (fillfactor = 85);

-- Listing: newest first within a namespace, and within an actor of a namespace.
CREATE INDEX sessions_namespace_created_at_idx ON sessions (namespace, created_at, id);
CREATE INDEX sessions_namespace_actor_created_at_idx ON sessions (namespace, actor, created_at, id) WHERE actor IS NOT NULL;

-- The counter row: the one row that an append locks. It is narrow, and half of
-- each page is left free, so that an update is heap-only and the dead versions
-- are pruned in place.
CREATE TABLE session_counters (
    session_id    uuid        NOT NULL,
    next_sequence bigint      NOT NULL DEFAULT 0,
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT session_counters_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_counters_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT session_counters_next_sequence_check CHECK (next_sequence >= 0)
) WITH (fillfactor = 50);

-- Messages refer to the counter row, not to the session: the appending
-- transaction holds that row's lock already, so that the foreign key's own lock
-- costs no second lock holder (no multixact) however many writers there are.
CREATE TABLE messages (
    session_id  uuid        NOT NULL,
    sequence    bigint      NOT NULL,
    id          uuid        NOT NULL,
    role        text        NOT NULL,
    content     text        NOT NULL,
    metadata    json        NOT NULL DEFAULT '{}',
    payload     bytea,
    occurred_at timestamptz,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT messages_pkey PRIMARY KEY (session_id, sequence),
    CONSTRAINT messages_session_id_id_key UNIQUE (session_id, id),
    CONSTRAINT messages_session_id_fkey FOREIGN KEY (session_id) REFERENCES session_counters (session_id) ON DELETE CASCADE,
    CONSTRAINT messages_sequence_check CHECK (sequence >= 0),
    CONSTRAINT messages_role_check CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    CONSTRAINT messages_content_check CHECK (content <> '' AND octet_length(content) <= 16777216),
    CONSTRAINT messages_metadata_check CHECK (json_typeof(metadata) = 'object'),
    CONSTRAINT messages_payload_check CHECK (octet_length(payload) <= 16777216)
);

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE sessions, session_counters, messages IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    -- Counters and messages cannot be there without their session.
    IF EXISTS (SELECT FROM sessions) THEN
        RAISE EXCEPTION 'table sessions still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

DROP TABLE messages;
DROP TABLE session_counters;
DROP TABLE sessions;
