package postgres

import "regexp"

// fillAudit is like fill, for the audit trail: entries of three months, most of them
// sealed, some on hold.
const fillAudit = `
SELECT audit_make_partitions(now() - interval '3 months', 3);
-- An empty partition is not worth an index.
DO $$
DECLARE empty text;
BEGIN
    FOR empty IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass
        AND inhrelid::regclass::text > to_char(now() AT TIME ZONE 'UTC', '"audit_entries_"YYYYMM')
    LOOP
        EXECUTE 'DROP TABLE ' || empty;
    END LOOP;
END
$$;
INSERT INTO audit_entries (occurred_at, id, type, actor, user_name, plan_id, session_id, project)
SELECT now() - n % 90 * interval '1 day' + n * interval '1 microsecond', gen_random_uuid(), 'type_' || n % 20,
    'actor/' || n % 100, 'user/' || n % 100, CAST(lpad(to_hex(n % 200), 32, '0') AS uuid), CAST(lpad(to_hex(n % 300), 32, '0') AS uuid),
    'project/' || n % 50
FROM generate_series(1, 30000) n;
INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash)
SELECT position - 1, occurred_at, entry_id, decode(repeat('00', 32), 'hex') FROM audit_unsealed WHERE position <= 20000;
DELETE FROM audit_unsealed WHERE position <= 20000;
INSERT INTO audit_hashes (index, hash) SELECT n, decode(repeat('00', 32), 'hex') FROM generate_series(0, 40000) n;
INSERT INTO audit_checkpoints (size, root, note) SELECT n, decode(repeat('00', 32), 'hex'), '' FROM generate_series(1, 5000) n;
INSERT INTO audit_holds (kind, subject, reason) SELECT 'plan', gen_random_uuid(), 'x' FROM generate_series(1, 5000) n;
INSERT INTO audit_quarantine (id, document, reason) SELECT gen_random_uuid(), '', 'x' FROM generate_series(1, 5000) n;
ANALYZE;`

// allPartitions is a setting for EXPLAIN without arguments, on which it depends which
// partitions are read.
const allPartitions = "SET enable_partition_pruning = off"

// ofPartition matches the beginning of the name of a partition's index. Comments of
// queries have the parent's name.
var ofPartition = regexp.MustCompile(`^audit_entries_\d{6}_`)
