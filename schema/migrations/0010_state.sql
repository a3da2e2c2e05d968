-- oldest library: 4

-- +goose Up

-- A scope of state: a session's own, or a shared one with a name. The id of a
-- session's scope is the session's; the id of a shared one is computed from its
-- name. Every change locks this row and advances version, so that the order of
-- versions is the order of commits. As in session_counters, half of each page is
-- left free, so that an update is heap-only.
CREATE TABLE state_scopes (
    id         uuid        NOT NULL,
    session_id uuid,
    name       text,
    version    bigint      NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT state_scopes_pkey PRIMARY KEY (id),
    CONSTRAINT state_scopes_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT state_scopes_name_check CHECK (name <> '' AND octet_length(name) <= 1024),
    CONSTRAINT state_scopes_whose_check CHECK ((session_id IS NULL) <> (name IS NULL) AND coalesce(session_id = id, true)),
    CONSTRAINT state_scopes_version_check CHECK (version >= 0)
) WITH (fillfactor = 50);
-- For the cascade. It is not unique, although session_id is: ON CONFLICT (id) may
-- otherwise find a racing insert in this index first, which is an error.
CREATE INDEX state_scopes_session_id_idx ON state_scopes (session_id) WHERE session_id IS NOT NULL;

-- A key's version is the scope's at the key's last change. Keys are ordered by
-- their bytes, so that those with a prefix are together in every database.
CREATE TABLE state_values (
    scope_id   uuid        NOT NULL,
    key        text        COLLATE "C" NOT NULL,
    value      json        NOT NULL,
    version    bigint      NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- So that what a read returns can be bounded before the values are read.
    bytes      integer     NOT NULL GENERATED ALWAYS AS (octet_length(key) + octet_length(value::text)) STORED,
    CONSTRAINT state_values_pkey PRIMARY KEY (scope_id, key),
    CONSTRAINT state_values_scope_id_fkey FOREIGN KEY (scope_id) REFERENCES state_scopes (id) ON DELETE CASCADE,
    CONSTRAINT state_values_key_check CHECK (key <> '' AND octet_length(key) <= 1024),
    CONSTRAINT state_values_value_check CHECK (octet_length(value::text) <= 1048576),
    CONSTRAINT state_values_version_check CHECK (version >= 1)
) WITH (fillfactor = 70);

-- A turn that was given an id, so that making it again changes nothing. digest is
-- of what the turn contains.
CREATE TABLE session_turns (
    session_id     uuid        NOT NULL,
    id             uuid        NOT NULL,
    digest         bytea       NOT NULL,
    first_sequence bigint      NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT session_turns_pkey PRIMARY KEY (session_id, id),
    CONSTRAINT session_turns_session_id_fkey FOREIGN KEY (session_id) REFERENCES session_counters (session_id) ON DELETE CASCADE,
    CONSTRAINT session_turns_digest_check CHECK (octet_length(digest) = 32),
    CONSTRAINT session_turns_first_sequence_check CHECK (first_sequence >= 0)
);

-- Finds the messages of a call. A table of its own, since few messages have a
-- call, and an index on messages would keep writers out while it is built. Like
-- messages it refers to the counter row, which an append has locked. It is not in
-- version 9, because creating it locks session_counters: writers lock that table and
-- messages in either order, and could be in a deadlock with a version that locks both.
CREATE TABLE message_calls (
    session_id uuid   NOT NULL,
    call_id    text   NOT NULL,
    sequence   bigint NOT NULL,
    CONSTRAINT message_calls_pkey PRIMARY KEY (session_id, call_id, sequence),
    CONSTRAINT message_calls_session_id_fkey FOREIGN KEY (session_id) REFERENCES session_counters (session_id) ON DELETE CASCADE,
    CONSTRAINT message_calls_call_id_check CHECK (call_id <> '' AND octet_length(call_id) <= 1024),
    CONSTRAINT message_calls_sequence_check CHECK (sequence >= 0)
);

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE state_scopes, state_values, session_turns, message_calls IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM state_values) THEN
        RAISE EXCEPTION 'table state_values still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
    IF EXISTS (SELECT FROM session_turns) THEN
        RAISE EXCEPTION 'table session_turns still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
    IF EXISTS (SELECT FROM message_calls) THEN
        RAISE EXCEPTION 'table message_calls still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

DROP TABLE message_calls;
DROP TABLE session_turns;
DROP TABLE state_values;
DROP TABLE state_scopes;
