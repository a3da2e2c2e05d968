-- What each role of agentstore may do, on a migrated database. To be run by the
-- role that owns the tables (it migrates), or by a superuser. It may be run
-- again; it takes nothing away.
--
--   application  what a service needs that keeps sessions. No DDL, no TRUNCATE
--   reader       reads everything
--   audit        writes the audit trail, and reads nothing else
--
-- All read agentstore_migrations: opening a store compares the schema's version.
-- Roles are made without a login: grant them to those who log in.
--
-- For who adds a table: one line per table and role. tests/grants compares the
-- tables with the catalog. :"name" stands for a role as an identifier, :'name'
-- as a literal.

BEGIN;

DO $do$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[:'application', :'reader', :'audit'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), name);
    END LOOP;
END
$do$;

GRANT SELECT ON agentstore_migrations TO :"application", :"reader", :"audit";

-- Messages are never changed, and go only with their session: a cascade runs as
-- the owner of the tables.
GRANT SELECT, INSERT, UPDATE, DELETE ON sessions TO :"application";
GRANT SELECT, INSERT, UPDATE ON session_counters TO :"application";
GRANT SELECT, INSERT ON messages TO :"application";

GRANT SELECT ON sessions TO :"reader";
GRANT SELECT ON session_counters TO :"reader";
GRANT SELECT ON messages TO :"reader";

COMMIT;
