-- oldest library: 4

-- +goose Up

-- Listing by last activity. active_at is when the session was created, or the time
-- of its first append in the last minute in which it had one: an index on the exact
-- time would have to be written by every append. Triggers write it, so that older
-- libraries, which do not know the table, keep it up to date, too. An index covers
-- active_at, so an update leaves a dead entry in each index, over which a list has to
-- step. These settings bound their number.
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

-- The functions run with the rights of the tables' owner: roles only read the table.
-- They name its schema, so that a caller's search_path has no effect on them.
-- +goose StatementBegin
DO $do$
DECLARE
    definition text;
BEGIN
    FOREACH definition IN ARRAY ARRAY[
$definition$
CREATE FUNCTION {schema}.session_activity_begin() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    INSERT INTO {schema}.session_activity (session_id, namespace, owner, active_at)
    VALUES (NEW.id, NEW.namespace, NEW.owner, NEW.updated_at);
    RETURN NULL;
END
$body$
$definition$,
$definition$
CREATE FUNCTION {schema}.session_activity_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    -- It never goes back. Nobody else changes this row meanwhile: whoever does has
    -- the lock of the counter row, as this transaction has now. It does not insert a
    -- missing row, because it could wait for version 12 to insert it.
    UPDATE {schema}.session_activity
    SET active_at = NEW.updated_at
    WHERE session_id = NEW.session_id AND active_at < date_trunc('minute', NEW.updated_at);
    RETURN NULL;
END
$body$
$definition$
    ] LOOP
        EXECUTE replace(definition, '{schema}', quote_ident(current_schema()));
    END LOOP;
END
$do$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION session_activity_begin, session_activity_move FROM PUBLIC;

CREATE TRIGGER session_activity_begin AFTER INSERT ON sessions
    FOR EACH ROW EXECUTE FUNCTION session_activity_begin();
-- An append in a minute that has had one evaluates the condition, and no more.
CREATE TRIGGER session_activity_move AFTER UPDATE OF updated_at ON session_counters
    FOR EACH ROW WHEN (OLD.updated_at < date_trunc('minute', NEW.updated_at)) EXECUTE FUNCTION session_activity_move();

-- +goose Down

-- What is dropped can be computed again from the sessions and their counters.
DROP TRIGGER session_activity_begin ON sessions;
DROP TRIGGER session_activity_move ON session_counters;
DROP FUNCTION session_activity_begin();
DROP FUNCTION session_activity_move();
DROP TABLE session_activity;
