-- oldest library: 4

-- +goose Up

-- Each version says which library is the oldest that works on the schema with
-- that version applied; a library is named by the newest version that it knows.
-- Nothing said: none that does not know the version. The column, and not a table
-- of its own, so that who may read the versions may read this too.
-- +goose StatementBegin
DO $$
BEGIN
    -- In a block, because the migrator makes the table, and no file does.
    ALTER TABLE agentstore_migrations
        ADD COLUMN oldest_library bigint,
        ADD CONSTRAINT agentstore_migrations_oldest_library_check CHECK (oldest_library BETWEEN 1 AND version);
END
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $$
BEGIN
    LOCK TABLE agentstore_migrations IN ACCESS EXCLUSIVE MODE;
    -- Nothing is lost with the column but what this version says itself.
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on'
        AND EXISTS (SELECT FROM agentstore_migrations WHERE version > 4) THEN
        RAISE EXCEPTION 'a newer version says in agentstore_migrations what works on it' USING ERRCODE = 'ZAS01';
    END IF;
    ALTER TABLE agentstore_migrations DROP COLUMN oldest_library;
END
$$;
-- +goose StatementEnd
