-- oldest library: 1
-- +goose Up
-- +goose StatementBegin

CREATE FUNCTION state_scopes_valid(id uuid, session_id uuid, namespace text, name text, version bigint)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE broken CONSTANT text := CASE
    WHEN NOT (namespace <> '' AND octet_length(namespace) <= 255) THEN 'state_scopes_namespace_check'
    WHEN NOT (name <> '' AND octet_length(name) <= 1024) THEN 'state_scopes_name_check'
    WHEN NOT ((session_id IS NULL) <> (name IS NULL) AND (namespace IS NULL) = (name IS NULL)
        AND coalesce(session_id = id, true))
        THEN 'state_scopes_whose_check'
    WHEN NOT (version >= 0) THEN 'state_scopes_version_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "state_scopes" violates check constraint "' || broken
        || '"',
        TABLE = 'state_scopes', CONSTRAINT = broken;
END
$$;

-- A scope of state: a session's own, or a shared one with a name.
-- The name of a shared scope is unique in its namespace. Every change locks this row and advances version, so that
-- the order of versions is the order of commits. Half of each page is left free, so that an update is heap-only.
CREATE TABLE state_scopes (
    id         uuid        NOT NULL,
    session_id uuid,
    namespace  text,
    name       text        COLLATE "C",
    version    bigint      NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT state_scopes_pkey PRIMARY KEY (id),
    CONSTRAINT state_scopes_namespace_name_key UNIQUE (namespace, name),
    CONSTRAINT state_scopes_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT state_scopes_check CHECK (state_scopes_valid(id, session_id, namespace, name, version))
) WITH (fillfactor = 50);

-- For the cascade. It is not unique, although session_id is: ON CONFLICT (id) may otherwise find a racing insert in
-- this index first, which is an error.
CREATE INDEX state_scopes_session_id_idx ON state_scopes (session_id) WHERE session_id IS NOT NULL;

CREATE FUNCTION state_values_valid(key text, value json, version bigint)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE broken CONSTANT pg_catalog.text := CASE
    WHEN NOT (key OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(key) OPERATOR(pg_catalog.<=) 1024)
        THEN 'state_values_key_check'
    WHEN NOT (pg_catalog.octet_length(value::pg_catalog.text) OPERATOR(pg_catalog.<=) 1048576)
        THEN 'state_values_value_check'
    WHEN NOT (version OPERATOR(pg_catalog.>=) 1) THEN 'state_values_version_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "state_values" violates check constraint "' || broken
        || '"',
        TABLE = 'state_values', CONSTRAINT = broken;
END
$$;

-- A key of a scope, with its JSON value and version.
-- A key's version is the scope's at the key's last change. Keys are ordered by their bytes, so that keys with a
-- prefix are together in every database.
CREATE TABLE state_values (
    scope_id   uuid        NOT NULL,
    key        text        COLLATE "C" NOT NULL,
    value      json        NOT NULL,
    version    bigint      NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- So that what a read returns can be bounded before the values are read.
    bytes      integer     NOT NULL GENERATED ALWAYS AS (octet_length(key) + octet_length(value::text)) STORED,
    CONSTRAINT state_values_pkey PRIMARY KEY (scope_id, key),
    CONSTRAINT state_values_scope_id_fkey FOREIGN KEY (scope_id) REFERENCES state_scopes (id) ON DELETE CASCADE,
    CONSTRAINT state_values_check CHECK (state_values_valid(key, value, version))
) WITH (fillfactor = 70);

-- A piece of the bytes of a file (package files).
-- A row has as many bytes as stay in its page, uncompressed, since most are compressed already: elsewhere they would be
-- four rows and an entry of an index each.
CREATE TABLE file_chunks (
    namespace text    NOT NULL,
    blob      text    COLLATE "C" NOT NULL,
    position  integer NOT NULL,
    data      bytea   NOT NULL,
    CONSTRAINT file_chunks_pkey PRIMARY KEY (namespace, blob, position),
    CONSTRAINT file_chunks_data_check CHECK (octet_length(data) <= 7900)
) WITH (toast_tuple_target = 8160);
ALTER TABLE file_chunks ALTER data SET STORAGE EXTERNAL;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE file_chunks, state_scopes, state_values IN ACCESS EXCLUSIVE MODE;
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on'
        AND EXISTS (SELECT FROM state_scopes) THEN
        RAISE EXCEPTION 'table state_scopes still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on'
        AND EXISTS (SELECT FROM file_chunks) THEN
        RAISE EXCEPTION 'table file_chunks still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
DROP TABLE file_chunks, state_values, state_scopes;
DROP FUNCTION state_values_valid, state_scopes_valid;
-- +goose StatementEnd
