package postgres

// fillAudit is like fill, for the audit trail: entries of three months, most of them
// sealed, some on hold.
const fillAudit = `
INSERT INTO audit_entries (occurred_at, id, type, actor, user_name, plan_id, session_id, project)
SELECT now() - n % 90 * interval '1 day' + n * interval '1 microsecond', gen_random_uuid(), 'type_' || n % 20,
    'actor/' || n % 100, 'user/' || n % 100, CAST(lpad(to_hex(n % 200), 32, '0') AS uuid), CAST(lpad(to_hex(n % 300), 32, '0') AS uuid),
    'project/' || n % 50
FROM generate_series(1, 30000) n;
INSERT INTO audit_leaves (sequence, entry_id, occurred_at, recorded_at, type, hidden, hash)
SELECT row_number() OVER () - 1, e.id, e.occurred_at, e.recorded_at, e.type, sha256('hidden'), sha256('leaf')
FROM audit_unsealed u JOIN audit_entries e ON e.id = u.entry_id LIMIT 20000;
DELETE FROM audit_unsealed u USING audit_leaves l WHERE l.entry_id = u.entry_id;
INSERT INTO audit_hashes (index, hash) SELECT n, decode(repeat('00', 32), 'hex') FROM generate_series(0, 40000) n;
INSERT INTO audit_checkpoints (size, root, note) SELECT n, decode(repeat('00', 32), 'hex'), '' FROM generate_series(1, 5000) n;
INSERT INTO audit_holds (kind, subject, reason) SELECT 'plan', gen_random_uuid(), 'x' FROM generate_series(1, 5000) n;
INSERT INTO audit_quarantine (id, document, reason) SELECT gen_random_uuid(), '', 'x' FROM generate_series(1, 5000) n;
ANALYZE;`
