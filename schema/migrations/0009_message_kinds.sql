-- oldest library: 4

-- +goose Up

-- kind says what a message is beyond its role, such as a tool call. call_id joins
-- a call and its result. Checks are replaced by wider ones, and added for columns
-- in which no row has a value yet: nothing need be read. Version 12 validates them.
ALTER TABLE messages
    ADD COLUMN kind    text,
    ADD COLUMN call_id text,
    DROP CONSTRAINT messages_role_check,
    DROP CONSTRAINT messages_content_check,
    ADD CONSTRAINT messages_role_check CHECK (role IN ('user', 'assistant', 'system', 'developer', 'tool')) NOT VALID,
    ADD CONSTRAINT messages_content_check CHECK (
        octet_length(content) <= 16777216 AND (content <> '' OR coalesce(octet_length(payload), 0) > 0 OR metadata::text <> '{}')
    ) NOT VALID,
    ADD CONSTRAINT messages_kind_check CHECK (kind <> '' AND octet_length(kind) <= 255) NOT VALID,
    ADD CONSTRAINT messages_call_id_check CHECK (call_id <> '' AND octet_length(call_id) <= 1024) NOT VALID;

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE messages IN ACCESS EXCLUSIVE MODE;

-- What the narrower checks refuse cannot be changed, since messages never change.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM messages WHERE role = 'developer' OR content = '') THEN
        RAISE EXCEPTION 'table messages still holds messages of developers, or without content' USING ERRCODE = 'ZAS01';
    END IF;
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM messages WHERE kind IS NOT NULL OR call_id IS NOT NULL) THEN
        RAISE EXCEPTION 'table messages still holds kinds or calls' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

ALTER TABLE messages
    DROP COLUMN kind,
    DROP COLUMN call_id,
    DROP CONSTRAINT messages_role_check,
    DROP CONSTRAINT messages_content_check,
    ADD CONSTRAINT messages_role_check CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    ADD CONSTRAINT messages_content_check CHECK (content <> '' AND octet_length(content) <= 16777216);
