-- The queries of Health. They read the catalog and the statistics.

-- name: HealthHolders :many
-- Index: none. What keeps dead row versions of this database from being removed, the oldest first. Of a session of
-- another role the server does not say since when, unless this role is a member of pg_read_all_stats. A replication
-- slot and a prepared transaction hold without any session. A standby that gives feedback is a sender of the log, which
-- has no database. A transaction that has written holds, too, while it has no snapshot: idle at read committed.
SELECT h.kind, h.name, h.pid, h.since, h.age FROM (
    SELECT CAST(CASE a.backend_type WHEN 'walsender' THEN 'standby' ELSE 'session' END AS text) AS kind,
    CAST(coalesce(a.application_name, '') AS text) AS name, CAST(a.pid AS integer) AS pid, a.xact_start AS since,
        CAST(greatest(age(a.backend_xmin), age(a.backend_xid)) AS bigint) AS age
    FROM pg_catalog.pg_stat_activity a
    WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.pid <> pg_backend_pid()
        AND (a.datname = current_database() OR a.backend_type = 'walsender')
    UNION ALL
    SELECT 'slot', CAST(s.slot_name AS text), coalesce(s.active_pid, 0), NULL, CAST(age(s.xmin) AS bigint)
    FROM pg_catalog.pg_replication_slots s WHERE s.xmin IS NOT NULL
    UNION ALL
    SELECT 'prepared', CAST(p.gid AS text), 0, p.prepared, CAST(age(p.transaction) AS bigint)
    FROM pg_catalog.pg_prepared_xacts p WHERE p.database = current_database()
) AS h (kind, name, pid, since, age)
ORDER BY h.age DESC, h.kind, h.name, h.pid LIMIT 10;

-- name: HealthTables :many
-- Index: none. The tables whose rows are updated or deleted often.
SELECT CAST(t.relname AS text) AS name, t.n_live_tup::bigint AS live, t.n_dead_tup::bigint AS dead,
    coalesce(greatest(t.last_vacuum, t.last_autovacuum), '0001-01-01 00:00:00+00')::timestamptz AS vacuumed_at
FROM pg_catalog.pg_stat_user_tables t
WHERE t.schemaname = (
        SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = CAST('session_counters' AS regclass)
    )
    AND t.relname IN ('session_counters', 'session_activity', 'sessions', 'state_scopes', 'state_values', 'leases',
        'plans', 'plan_queue', 'plan_claims', 'streams')
ORDER BY t.n_dead_tup DESC, t.relname;

-- name: HealthCompression :one
-- Index: none. How content is compressed that is stored from now on. PostgreSQL 13 has neither the column nor the
-- setting.
SELECT coalesce(CASE to_jsonb(a) ->> 'attcompression' WHEN 'l' THEN 'lz4' WHEN 'p' THEN 'pglz' END,
    current_setting('default_toast_compression', true), 'pglz')::text AS compression FROM pg_catalog.pg_attribute a
WHERE a.attrelid = CAST('messages' AS regclass) AND a.attname = 'content';
