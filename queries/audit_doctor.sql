-- What the doctor asks: of the catalog, which is small, but for the last two.

-- name: AuditDoctorPartitions :many
-- Index: none. PostgreSQL 13 has no inhdetachpending: there nothing detaches concurrently.
SELECT CAST(c.relname AS text) AS name, coalesce(CAST(to_jsonb(i) ->> 'inhdetachpending' AS boolean), false)::boolean AS pending,
    (coalesce(pg_get_expr(c.relpartbound, c.oid), '') = 'DEFAULT')::boolean AS fallback
FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = CAST('audit_entries' AS regclass)
ORDER BY c.relname;

-- name: AuditDoctorTriggers :many
-- Index: none. The trigger's function is what makes it refuse.
SELECT CAST(c.relname AS text) AS table_name, CAST(t.tgname AS text) AS name, CAST(t.tgenabled AS text) AS enabled, CAST(p.proname AS text) AS function
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE c.relnamespace = (SELECT e.relnamespace FROM pg_catalog.pg_class e WHERE e.oid = CAST('audit_entries' AS regclass));

-- name: AuditDoctorGrants :many
-- Index: none. Rights of others than the owner by which what is recorded could be changed, or entries put
-- past the queue of the sealer. PUBLIC has no name.
SELECT CAST(c.relname AS text) AS table_name, CAST(coalesce(r.rolname, '') AS text) AS grantee, CAST(a.privilege_type AS text) AS privilege
FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS a (grantor, grantee, privilege_type, is_grantable)
LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
WHERE c.relnamespace = (SELECT e.relnamespace FROM pg_catalog.pg_class e WHERE e.oid = CAST('audit_entries' AS regclass))
    AND (c.relname IN ('audit_entries', 'audit_leaves', 'audit_hashes', 'audit_checkpoints')
        OR c.oid IN (SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = CAST('audit_entries' AS regclass)))
    AND a.grantee <> c.relowner
    AND (a.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER') OR a.privilege_type = 'INSERT' AND c.relispartition)
ORDER BY c.relname, a.privilege_type;

-- name: AuditDoctorFunctions :many
-- Index: none. Functions that run as the owner.
SELECT CAST(p.proname AS text) AS name, has_function_privilege('public', p.oid, 'EXECUTE') AS public,
    coalesce(array_to_string(p.proconfig, ' '), '')::text AS settings
FROM pg_catalog.pg_proc p
WHERE p.pronamespace = (SELECT e.relnamespace FROM pg_catalog.pg_class e WHERE e.oid = CAST('audit_entries' AS regclass))
    AND p.proname LIKE 'audit\_%' AND p.prosecdef
ORDER BY p.proname;

-- name: AuditDoctorQuarantined :one
-- Index: audit_quarantine_pkey. Up to max_rows.
SELECT count(*) FROM (SELECT FROM audit_quarantine q ORDER BY q.id LIMIT @max_rows) AS found;
