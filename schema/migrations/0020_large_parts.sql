-- oldest library: 4

-- +goose Up

-- A part may be as large as a message, which older libraries read as they read others. All parts
-- that there are satisfied the narrower check: nothing need be read.
LOCK TABLE stream_parts IN ACCESS EXCLUSIVE MODE;
ALTER TABLE stream_parts
    DROP CONSTRAINT stream_parts_data_check,
    ADD CONSTRAINT stream_parts_data_check CHECK (octet_length(data) BETWEEN 1 AND 16777216) NOT VALID;

-- +goose Down

-- Writers are kept out first: what was seen stays so until the end.
LOCK TABLE streams, stream_parts IN ACCESS EXCLUSIVE MODE;

-- A stream cannot go without one of its parts.
-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        DELETE FROM streams WHERE id IN (SELECT stream_id FROM stream_parts WHERE octet_length(data) > 1048576);
        DELETE FROM stream_parts WHERE octet_length(data) > 1048576;
    END IF;
    IF EXISTS (SELECT FROM stream_parts WHERE octet_length(data) > 1048576) THEN
        RAISE EXCEPTION 'table stream_parts still holds parts of more than 1 MiB' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

ALTER TABLE stream_parts
    DROP CONSTRAINT stream_parts_data_check,
    ADD CONSTRAINT stream_parts_data_check CHECK (octet_length(data) BETWEEN 1 AND 1048576);
