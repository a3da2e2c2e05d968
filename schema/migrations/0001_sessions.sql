-- oldest library: 1
-- +goose Up
-- +goose StatementBegin

-- Where there are many rules, or statements are hot, they are one CHECK that calls one function: PostgreSQL reads the
-- expressions of CHECKs anew for each statement, and keeps the plan of a function. A function names the first rule that is
-- broken as the constraint of its error, so that the error is that of a CHECK of its own. As in a CHECK, a rule that is null
-- holds.
--
-- The functions find what they name in pg_catalog, whatever the caller's search_path is. That of messages, which is called for
-- each message, names pg_catalog with each operator and type: setting the path would take longer than the rules. (A role's own
-- type with the name text, to which its own cast makes null of everything, would break no rule.)

CREATE FUNCTION sessions_valid(namespace text, key text, owner text, actor text, automation_profile text, metadata json, version bigint,
    input_tokens bigint, output_tokens bigint, cost_nanos bigint, budget_nanos bigint)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE broken CONSTANT text := CASE
    WHEN NOT (namespace <> '' AND octet_length(namespace) <= 255) THEN 'sessions_namespace_check'
    WHEN NOT (key <> '' AND octet_length(key) <= 1024) THEN 'sessions_key_check'
    WHEN NOT (owner <> '' AND octet_length(owner) <= 1024) THEN 'sessions_owner_check'
    WHEN NOT (actor <> '' AND octet_length(actor) <= 255) THEN 'sessions_actor_check'
    WHEN NOT (automation_profile <> '' AND octet_length(automation_profile) <= 255) THEN 'sessions_automation_profile_check'
    WHEN NOT (json_typeof(metadata) = 'object') THEN 'sessions_metadata_check'
    WHEN NOT (version >= 1) THEN 'sessions_version_check'
    WHEN NOT (input_tokens >= 0) THEN 'sessions_input_tokens_check'
    WHEN NOT (output_tokens >= 0) THEN 'sessions_output_tokens_check'
    WHEN NOT (cost_nanos >= 0) THEN 'sessions_cost_nanos_check'
    WHEN NOT (budget_nanos >= 0) THEN 'sessions_budget_nanos_check'
    WHEN NOT (cost_nanos <= budget_nanos) THEN 'sessions_cost_within_budget_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "sessions" violates check constraint "' || broken || '"',
        TABLE = 'sessions', CONSTRAINT = broken;
END
$$;

-- A conversation session. Everything here changes rarely or never; what every append changes is in session_counters. key is the
-- caller's own name of the session, unique in its namespace. owner is the user whose session it is. version counts the updates.
-- The free space left in each page (fillfactor) keeps updates of the usage heap-only.
CREATE TABLE sessions (
    id                 uuid        NOT NULL,
    namespace          text        NOT NULL DEFAULT 'local',
    key                text,
    owner              text,
    actor              text,
    automation_profile text,
    -- json, not jsonb: the text that was stored is the text that is read (number literals and the order of members).
    metadata           json        NOT NULL DEFAULT '{}',
    version            bigint      NOT NULL DEFAULT 1,
    input_tokens       bigint      NOT NULL DEFAULT 0,
    output_tokens      bigint      NOT NULL DEFAULT 0,
    cost_nanos         bigint      NOT NULL DEFAULT 0,
    budget_nanos       bigint,
    created_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT sessions_pkey PRIMARY KEY (id),
    CONSTRAINT sessions_check CHECK (sessions_valid(namespace, key, owner, actor, automation_profile, metadata, version, input_tokens,
        output_tokens, cost_nanos, budget_nanos))
) WITH (fillfactor = 85);

CREATE UNIQUE INDEX sessions_namespace_key_key ON sessions (namespace, key) WHERE key IS NOT NULL;
-- Listing: newest first within a namespace, and within an actor or an owner of a namespace.
CREATE INDEX sessions_namespace_created_at_idx ON sessions (namespace, created_at, id);
CREATE INDEX sessions_namespace_actor_created_at_idx ON sessions (namespace, actor, created_at, id) WHERE actor IS NOT NULL;
CREATE INDEX sessions_namespace_owner_created_at_idx ON sessions (namespace, owner, created_at, id) WHERE owner IS NOT NULL;

-- The ids that callers chose, and those of sessions that were deleted: an id is never given twice. A creation with an id of its
-- caller's inserts it, and so does each deletion, so that this key decides, at every isolation level.
CREATE TABLE session_ids (
    id uuid NOT NULL,
    CONSTRAINT session_ids_pkey PRIMARY KEY (id)
);

-- The counter row: the one row that an append locks. It is narrow, and half of each page is left free, so that an update is
-- heap-only and the dead versions are pruned in place. fence is the largest token that was given for a lease of the session: a
-- write under another one is refused. fenced_only: writes without a token are refused, too.
CREATE TABLE session_counters (
    session_id    uuid        NOT NULL,
    next_sequence bigint      NOT NULL DEFAULT 0,
    fence         bigint      NOT NULL DEFAULT 0,
    fenced_only   boolean     NOT NULL DEFAULT false,
    updated_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT session_counters_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_counters_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT session_counters_next_sequence_check CHECK (next_sequence >= 0)
) WITH (fillfactor = 50);

CREATE FUNCTION messages_valid(sequence bigint, role text, kind text, call_id text, content text, metadata json, payload bytea)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE broken CONSTANT pg_catalog.text := CASE
    WHEN NOT (sequence OPERATOR(pg_catalog.>=) 0) THEN 'messages_sequence_check'
    WHEN NOT (role OPERATOR(pg_catalog.=) ANY (ARRAY['user', 'assistant', 'system', 'developer', 'tool'])) THEN 'messages_role_check'
    WHEN NOT (kind OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(kind) OPERATOR(pg_catalog.<=) 255) THEN 'messages_kind_check'
    WHEN NOT (call_id OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(call_id) OPERATOR(pg_catalog.<=) 1024) THEN 'messages_call_id_check'
    WHEN NOT (pg_catalog.octet_length(content) OPERATOR(pg_catalog.<=) 16777216 AND (
            content OPERATOR(pg_catalog.<>) '' OR pg_catalog.octet_length(payload) OPERATOR(pg_catalog.>) 0
            OR metadata::pg_catalog.text OPERATOR(pg_catalog.<>) '{}'
        ) IS TRUE) THEN 'messages_content_check'
    WHEN NOT (pg_catalog.json_typeof(metadata) OPERATOR(pg_catalog.=) 'object') THEN 'messages_metadata_check'
    WHEN NOT (pg_catalog.octet_length(payload) OPERATOR(pg_catalog.<=) 16777216) THEN 'messages_payload_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "messages" violates check constraint "' || broken || '"',
        TABLE = 'messages', CONSTRAINT = broken;
END
$$;

-- A message has no foreign key: it is inserted by whoever writes its session's counter row, and goes with that row
-- (session_counters_delete). The key would look the row up for each message by the index, through all versions that an open
-- snapshot keeps. kind says what a message is beyond its role, such as a tool call. call_id joins a call and its result.
CREATE TABLE messages (
    session_id  uuid        NOT NULL,
    sequence    bigint      NOT NULL,
    id          uuid        NOT NULL,
    role        text        NOT NULL,
    kind        text,
    call_id     text,
    content     text        NOT NULL,
    metadata    json        NOT NULL DEFAULT '{}',
    payload     bytea,
    occurred_at timestamptz,
    created_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT messages_pkey PRIMARY KEY (session_id, sequence),
    CONSTRAINT messages_session_id_id_key UNIQUE (session_id, id),
    CONSTRAINT messages_check CHECK (messages_valid(sequence, role, kind, call_id, content, metadata, payload))
);

-- The messages of a call. Few messages have one.
CREATE INDEX messages_session_id_call_id_sequence_idx ON messages (session_id, call_id, sequence) WHERE call_id IS NOT NULL;

-- What was added to a session's usage, each under its id, so that adding it again adds nothing. Rows are written once and go
-- with their session.
CREATE TABLE session_usages (
    session_id    uuid        NOT NULL,
    id            uuid        NOT NULL,
    input_tokens  bigint      NOT NULL,
    output_tokens bigint      NOT NULL,
    cost_nanos    bigint      NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT session_usages_pkey PRIMARY KEY (session_id, id),
    CONSTRAINT session_usages_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT session_usages_amounts_check CHECK (input_tokens >= 0 AND output_tokens >= 0 AND cost_nanos >= 0)
);

-- A turn that was given an id by its caller, any text, so that making it again changes nothing. digest is of what the turn
-- contains. One without messages locks the counter row, and leaves it as it is. So a deletion whose snapshot is older is not
-- refused for the row, nor sees the turn. The foreign key's cascade does.
CREATE TABLE session_turns (
    session_id     uuid        NOT NULL,
    id             text        COLLATE "C" NOT NULL,
    digest         bytea       NOT NULL,
    first_sequence bigint      NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT session_turns_pkey PRIMARY KEY (session_id, id),
    CONSTRAINT session_turns_session_id_fkey FOREIGN KEY (session_id) REFERENCES session_counters (session_id) ON DELETE CASCADE,
    CONSTRAINT session_turns_id_check CHECK (id <> '' AND octet_length(id) <= 255),
    CONSTRAINT session_turns_digest_check CHECK (octet_length(digest) = 32),
    CONSTRAINT session_turns_first_sequence_check CHECK (first_sequence >= 0)
);

-- Listing by last activity. active_at is when the session was created, or the time of its first append in the last minute in
-- which it had one: an index on the exact time would have to be written by every append. An index covers active_at, so an
-- update leaves a dead entry in each index, over which a list has to step. These settings bound their number.
CREATE TABLE session_activity (
    session_id uuid        NOT NULL,
    namespace  text        NOT NULL,
    owner      text,
    active_at  timestamptz NOT NULL,
    CONSTRAINT session_activity_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_activity_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE
) WITH (autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.01, vacuum_index_cleanup = on);
CREATE INDEX session_activity_namespace_active_at_idx ON session_activity (namespace, active_at, session_id);
CREATE INDEX session_activity_namespace_owner_active_at_idx ON session_activity (namespace, owner, active_at, session_id) WHERE owner IS NOT NULL;

-- Triggers' functions write the tables of the schema in which their trigger's table is, wherever that is now: a schema can be
-- renamed, and restored beside itself. They run with the rights of the tables' owner: roles only read what they write.
CREATE FUNCTION session_activity_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- It never goes back. Nobody else changes this row meanwhile: whoever does has the lock of the counter row, as this
    -- transaction has now.
    EXECUTE format('UPDATE %I.session_activity SET active_at = $1 WHERE session_id = $2 AND active_at < date_trunc(''minute'', $1)', TG_TABLE_SCHEMA)
    USING NEW.updated_at, NEW.session_id;
    RETURN NULL;
END
$$;

-- The messages of a session go with its counter row. Nobody adds any meanwhile: this transaction has the row's lock.
-- The search_path stays the caller's, as in a foreign key's cascade: triggers of the owner's may depend on it.
CREATE FUNCTION session_counters_delete() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    EXECUTE pg_catalog.format('DELETE FROM %I.messages WHERE session_id OPERATOR(pg_catalog.=) $1', TG_TABLE_SCHEMA) USING OLD.session_id;
    RETURN NULL;
END
$$;

REVOKE EXECUTE ON FUNCTION session_activity_move, session_counters_delete FROM PUBLIC;

CREATE TRIGGER session_counters_delete AFTER DELETE ON session_counters FOR EACH ROW EXECUTE FUNCTION session_counters_delete();

-- An append in a minute that has had one evaluates the condition, and no more.
CREATE TRIGGER session_activity_move AFTER UPDATE OF updated_at ON session_counters
    FOR EACH ROW WHEN (OLD.updated_at < date_trunc('minute', NEW.updated_at)) EXECUTE FUNCTION session_activity_move();
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
-- Writers are kept out first: what was seen empty stays empty until the drop. What belongs to a session cannot be there without
-- it.
LOCK TABLE sessions, session_ids IN ACCESS EXCLUSIVE MODE;
DO $$
DECLARE full_table CONSTANT text := CASE
    WHEN EXISTS (SELECT FROM sessions) THEN 'sessions'
    WHEN EXISTS (SELECT FROM session_ids) THEN 'session_ids'
END;
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on' AND full_table IS NOT NULL THEN
        RAISE EXCEPTION 'table % still holds rows', full_table USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
DROP TABLE session_activity, session_turns, session_usages, messages, session_counters, session_ids, sessions;
DROP FUNCTION session_activity_move, session_counters_delete, messages_valid, sessions_valid;
-- +goose StatementEnd
