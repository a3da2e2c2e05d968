-- What each role of agentstore may do, on a migrated database. To be run by the
-- role that owns the tables (it migrates), or by a superuser. It may be run
-- again; it takes nothing away but what earlier versions of it gave too much of.
--
--   application  what a service needs that keeps sessions and plans, and records
--                what it does. No DDL, no TRUNCATE
--   reader       reads everything
--   audit        writes and seals the audit trail, and reads nothing else
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
-- A session's sequence begins at 0. An append, which is the application's own
-- statement, moves it on: that it may set.
REVOKE INSERT, UPDATE ON session_counters FROM :"application";
GRANT SELECT ON session_counters TO :"application";
GRANT INSERT (session_id, updated_at), UPDATE (next_sequence, updated_at) ON session_counters TO :"application";
GRANT SELECT, INSERT ON messages TO :"application";
GRANT SELECT, INSERT ON session_usages TO :"application";

-- A plan's parts are written once, with it; plans are never deleted.
GRANT SELECT, INSERT, UPDATE, DELETE ON actions TO :"application";
GRANT SELECT, INSERT, UPDATE, DELETE ON action_arguments TO :"application";
GRANT SELECT, INSERT, UPDATE, DELETE ON action_invariants TO :"application";
GRANT SELECT, INSERT, UPDATE ON plans TO :"application";
GRANT SELECT, INSERT ON plan_projects TO :"application";
GRANT SELECT, INSERT ON plan_arguments TO :"application";
GRANT SELECT, INSERT ON plan_invariants TO :"application";
GRANT SELECT, INSERT ON plan_history TO :"application";
GRANT SELECT, INSERT, DELETE ON session_plans TO :"application";
GRANT SELECT ON plan_details TO :"application";

-- The audit trail is append-only. What recording fills, triggers fill, with the
-- owner's rights. Pruning, and holds that keep entries from it, are the owner's.
-- Times of recording and nonces are the database's: nobody gives them.
REVOKE INSERT ON audit_entries, audit_quarantine FROM :"application", :"audit";
GRANT SELECT ON audit_entries TO :"application", :"audit";
GRANT INSERT (occurred_at, id, type, actor, user_name, plan_id, session_id, project, details) ON audit_entries TO :"application", :"audit";
GRANT SELECT ON audit_quarantine TO :"application", :"audit";
GRANT INSERT (id, document, reason) ON audit_quarantine TO :"application", :"audit";
-- Recording looks there for what was pruned.
GRANT SELECT ON audit_leaves TO :"application";
GRANT EXECUTE ON FUNCTION audit_make_partitions(timestamptz, integer) TO :"application", :"audit";

-- The audit role seals, too.
GRANT SELECT, DELETE ON audit_unsealed TO :"audit";
REVOKE INSERT ON audit_leaves, audit_checkpoints FROM :"audit";
GRANT SELECT ON audit_leaves TO :"audit";
GRANT INSERT (sequence, occurred_at, entry_id, hash, version, type, plan_id, session_id, hidden) ON audit_leaves TO :"audit";
GRANT SELECT, INSERT ON audit_hashes TO :"audit";
GRANT SELECT ON audit_checkpoints TO :"audit";
GRANT INSERT (size, root, note) ON audit_checkpoints TO :"audit";
GRANT SELECT ON audit_identity TO :"audit";

GRANT SELECT ON sessions TO :"reader";
GRANT SELECT ON session_counters TO :"reader";
GRANT SELECT ON messages TO :"reader";
GRANT SELECT ON session_usages TO :"reader";
GRANT SELECT ON actions TO :"reader";
GRANT SELECT ON action_arguments TO :"reader";
GRANT SELECT ON action_invariants TO :"reader";
GRANT SELECT ON plans TO :"reader";
GRANT SELECT ON plan_projects TO :"reader";
GRANT SELECT ON plan_arguments TO :"reader";
GRANT SELECT ON plan_invariants TO :"reader";
GRANT SELECT ON plan_history TO :"reader";
GRANT SELECT ON session_plans TO :"reader";
GRANT SELECT ON plan_details TO :"reader";
GRANT SELECT ON audit_entries TO :"reader";
GRANT SELECT ON audit_quarantine TO :"reader";
GRANT SELECT ON audit_unsealed TO :"reader";
GRANT SELECT ON audit_leaves TO :"reader";
GRANT SELECT ON audit_hashes TO :"reader";
GRANT SELECT ON audit_checkpoints TO :"reader";
GRANT SELECT ON audit_holds TO :"reader";
GRANT SELECT ON audit_identity TO :"reader";

COMMIT;
