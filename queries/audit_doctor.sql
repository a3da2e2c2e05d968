-- The queries of AuditDoctor. All but the last read the catalog, which is small.

-- name: AuditDoctorTriggers :many
-- Index: none. The function shows whether a trigger still does what its name says.
SELECT CAST(c.relname AS text) AS table_name, CAST(t.tgname AS text) AS name, CAST(t.tgenabled AS text) AS enabled,
    CASE WHEN p.pronamespace = c.relnamespace THEN p.proname
        ELSE format('%s.%s', CAST(p.pronamespace AS regnamespace), p.proname) END::text AS function
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
    JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
WHERE c.relnamespace = (SELECT e.relnamespace FROM pg_catalog.pg_class e
    WHERE e.oid = CAST('audit_entries' AS regclass));

-- name: AuditDoctorGrants :many
-- Index: none. The rights with which others than the owner could change recorded entries. The name of PUBLIC is empty.
SELECT CAST(c.relname AS text) AS table_name, CAST(coalesce(r.rolname, '') AS text) AS grantee,
CAST(a.privilege_type AS text) AS privilege
FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS a (grantor, grantee, privilege_type, is_grantable)
LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
WHERE c.relnamespace = (SELECT e.relnamespace FROM pg_catalog.pg_class e
    WHERE e.oid = CAST('audit_entries' AS regclass))
    AND c.relname IN ('audit_entries', 'audit_leaves', 'audit_hashes', 'audit_checkpoints')
    AND a.grantee <> c.relowner AND a.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER')
ORDER BY c.relname, a.privilege_type;

-- name: AuditDoctorFunctions :many
-- Index: none. The functions that run as the owner, and the triggers' functions.
SELECT CAST(p.proname AS text) AS name, CAST(p.prosecdef AS boolean) AS as_owner,
coalesce(array_to_string(p.proconfig, ' '), '')::text AS settings,
encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex')::text AS digest
FROM pg_catalog.pg_proc p
WHERE p.pronamespace = (SELECT e.relnamespace FROM pg_catalog.pg_class e
    WHERE e.oid = CAST('audit_entries' AS regclass))
    AND p.proname LIKE 'audit\_%' AND (p.prosecdef OR p.prorettype = CAST('trigger' AS regtype))
ORDER BY p.proname;

-- name: AuditDoctorQuarantined :one
-- Index: audit_quarantine_pkey. Counts up to max_rows.
SELECT count(*) FROM (SELECT FROM audit_quarantine q ORDER BY q.id LIMIT @max_rows) AS found;
