-- oldest library: 4

-- +goose Up

-- key is the caller's own name of the session. The session's id is computed from
-- its namespace and key, so that the primary key makes the key unique, and no
-- index is needed to find the session. owner is the user whose session it is.
-- version counts the updates.
ALTER TABLE sessions
    ADD COLUMN key     text,
    ADD COLUMN owner   text,
    ADD COLUMN version bigint NOT NULL DEFAULT 1,
    -- No row has a value yet: nothing need be read. Version 12 validates them.
    ADD CONSTRAINT sessions_key_check CHECK (key <> '' AND octet_length(key) <= 255) NOT VALID,
    ADD CONSTRAINT sessions_owner_check CHECK (owner <> '' AND octet_length(owner) <= 1024) NOT VALID,
    ADD CONSTRAINT sessions_version_check CHECK (version >= 1) NOT VALID;

-- Listing by owner. A table of its own, since an index on sessions would keep
-- writers out while it is built.
CREATE TABLE session_owners (
    session_id uuid        NOT NULL,
    namespace  text        NOT NULL,
    owner      text        NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT session_owners_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_owners_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT session_owners_owner_check CHECK (owner <> '' AND octet_length(owner) <= 1024)
);
CREATE INDEX session_owners_namespace_owner_created_at_idx ON session_owners (namespace, owner, created_at, session_id);

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE sessions, session_owners IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM sessions WHERE key IS NOT NULL OR owner IS NOT NULL) THEN
        RAISE EXCEPTION 'table sessions still holds keys or owners' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

DROP TABLE session_owners;
ALTER TABLE sessions DROP COLUMN key, DROP COLUMN owner, DROP COLUMN version;
