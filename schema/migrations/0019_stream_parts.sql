-- oldest library: 4

-- +goose Up

-- A part is only inserted by a statement that has locked its stream's row, so the foreign key
-- checked the same again, at two thirds of the cost of a part. (Both tables are locked first,
-- in the order of writers. Dropping a constraint changes the catalog alone.)
LOCK TABLE streams, stream_parts IN ACCESS EXCLUSIVE MODE;
ALTER TABLE stream_parts DROP CONSTRAINT stream_parts_stream_id_fkey;

-- What the key did besides: a stream does not go without its parts. Older libraries look for
-- parts with the snapshot of the statement that deletes the stream; a part may come between
-- that and the lock of the row. The trigger has a snapshot from after the lock.
-- +goose StatementBegin
DO $do$
BEGIN
    EXECUTE replace($definition$
CREATE FUNCTION {schema}.stream_parts_remove() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    DELETE FROM {schema}.stream_parts WHERE stream_id = OLD.id;
    RETURN NULL;
END
$body$
$definition$, '{schema}', quote_ident(current_schema()));
END
$do$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION stream_parts_remove FROM PUBLIC;

CREATE TRIGGER stream_parts_remove AFTER DELETE ON streams
    FOR EACH ROW EXECUTE FUNCTION stream_parts_remove();

-- +goose Down

LOCK TABLE streams, stream_parts IN ACCESS EXCLUSIVE MODE;
DROP TRIGGER stream_parts_remove ON streams;
DROP FUNCTION stream_parts_remove();
ALTER TABLE stream_parts ADD CONSTRAINT stream_parts_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES streams (id);
