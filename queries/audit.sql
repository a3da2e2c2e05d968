-- name: AuditRecord :one
-- Index: audit_entries_pkey, audit_leaves_entry_id_occurred_at_key. Records the entries that
-- do not exist yet, by their time and id, and returns their number. A pruned entry has a
-- leaf, and is not recorded again. An empty text or a zero uuid stands for a null actor,
-- user, project or id.
WITH written AS (
    INSERT INTO audit_entries (occurred_at, id, type, actor, user_name, plan_id, session_id, project, details)
    SELECT n.occurred_at, n.id, n.type, nullif(n.actor, ''), nullif(n.user_name, ''),
        nullif(n.plan_id, '00000000-0000-0000-0000-000000000000'), nullif(n.session_id, '00000000-0000-0000-0000-000000000000'),
        nullif(n.project, ''), CAST(n.details AS json)
    FROM ROWS FROM (
        unnest(@occurred_ats::timestamptz[]), unnest(@ids::uuid[]), unnest(@types::text[]), unnest(@actors::text[]),
        unnest(@user_names::text[]), unnest(@plan_ids::uuid[]), unnest(@session_ids::uuid[]), unnest(@projects::text[]),
        unnest(@details::text[])
    ) AS n (occurred_at, id, type, actor, user_name, plan_id, session_id, project, details)
    WHERE (SELECT true FROM audit_leaves l WHERE l.entry_id = n.id AND l.occurred_at = n.occurred_at LIMIT 1) IS NULL
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT count(*) FROM written;

-- name: AuditMakePartitions :one
-- Index: none. Creates the partitions of a month and of some months after it.
SELECT audit_make_partitions(@at::timestamptz, @ahead::integer)::integer AS made;

-- name: AuditCover :one
-- Index: none. Creates the missing partitions of the server's current month and some
-- months after it, and of the month of a day later. seconds is how long they suffice, and
-- began when the transaction did, by which it is told apart from others of the connection.
SELECT (audit_make_partitions(n.now, @ahead::integer) + audit_make_partitions(n.now + interval '1 day', 0))::integer AS made,
    extract(epoch FROM date_trunc('month', (n.now + interval '1 day') AT TIME ZONE 'UTC') + interval '1 month' - interval '1 day' - n.now AT TIME ZONE 'UTC')::bigint AS seconds,
    transaction_timestamp()::timestamptz AS began
FROM (SELECT clock_timestamp() AS now) AS n;

-- name: AuditGet :one
-- Index: audit_entries_id_occurred_at_idx. If two entries have the id, returns the earlier.
SELECT * FROM audit_entries e WHERE e.id = @id ORDER BY e.occurred_at LIMIT 1;

-- name: AuditQuarantine :exec
-- Index: audit_quarantine_pkey.
INSERT INTO audit_quarantine (id, document, reason) VALUES (@id, @document, @reason)
ON CONFLICT (id) DO NOTHING;

-- name: AuditPruneBatch :one
-- Index: none here. The function uses audit_entries_pkey and audit_leaves_entry_id_occurred_at_key.
SELECT CAST(b.pruned AS bigint) AS pruned, CAST(b.reached AS timestamptz) AS reached
FROM audit_prune_entries(@after::timestamptz, @before::timestamptz, @types::text[], @by_entry::uuid, @by_occurred_at::timestamptz, @max_rows::integer) AS b (pruned, reached);

-- name: AuditDropPartition :one
-- Index: none. Drops one empty partition of a month that ended before the time, if any.
SELECT audit_drop_partition(@before::timestamptz)::boolean AS dropped;

-- name: AuditCountOld :one
-- Index: audit_entries_pkey or audit_entries_type_occurred_at_id_idx (a skip scan from PostgreSQL 18 on), audit_leaves_entry_id_occurred_at_key, audit_holds_pkey.
-- Counts what a prune would find. It reads the whole range.
SELECT count(*) FILTER (WHERE found.sealed AND NOT found.held) AS pruned,
    count(*) FILTER (WHERE found.held) AS held,
    count(*) FILTER (WHERE NOT found.sealed AND NOT found.held) AS unsealed
FROM (
    SELECT (SELECT true FROM audit_leaves l WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at LIMIT 1) IS NOT NULL AS sealed,
        EXISTS (SELECT FROM audit_holds h WHERE h.kind = 'plan' AND h.subject = e.plan_id)
        OR EXISTS (SELECT FROM audit_holds h WHERE h.kind = 'session' AND h.subject = e.session_id) AS held
    FROM audit_entries e
    WHERE e.occurred_at < @before AND (cardinality(@types::text[]) = 0 OR e.type = ANY (@types::text[]))
        AND e.type NOT IN ('audit_pruned', 'audit_gap')
) AS found;

-- name: AuditHold :exec
-- Index: audit_holds_pkey.
INSERT INTO audit_holds (kind, subject, reason) VALUES (@kind, @subject, @reason)
ON CONFLICT (kind, subject) DO NOTHING;

-- name: AuditRelease :exec
-- Index: audit_holds_pkey.
DELETE FROM audit_holds h WHERE h.kind = @kind AND h.subject = @subject;

-- name: AuditHolds :many
-- Index: audit_holds_pkey.
SELECT * FROM audit_holds h ORDER BY h.kind, h.subject;

-- name: AuditSealLock :one
-- Index: none. Allows one sealer at a time, until the end of its transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('agentstore.audit_seal', 0));

-- name: AuditIdentity :one
-- Index: none, since the table has one row.
SELECT i.id FROM audit_identity i;

-- name: AuditUnsealedSizes :many
-- Index: audit_unsealed_pkey, audit_entries_pkey or audit_entries_id_occurred_at_idx, audit_leaves_entry_id_occurred_at_key.
-- The sizes of the next entries to seal.
SELECT u.position, coalesce(octet_length(e.details::text), 0)::bigint AS bytes
FROM audit_unsealed u, LATERAL (SELECT * FROM audit_entries WHERE audit_entries.occurred_at = u.occurred_at AND audit_entries.id = u.entry_id LIMIT 1) AS e
WHERE (SELECT true FROM audit_leaves l WHERE l.entry_id = u.entry_id AND l.occurred_at = u.occurred_at LIMIT 1) IS NULL
ORDER BY u.position
LIMIT @max_rows;

-- name: AuditUnsealed :many
-- Index: audit_unsealed_pkey, audit_entries_pkey or audit_entries_id_occurred_at_idx,
-- audit_leaves_entry_id_occurred_at_key. The entries to seal, in the order in which they
-- were recorded. An entry that no longer exists has no row: see AuditLost. One that has a
-- leaf already was pruned, and inserted again without the library: it is skipped forever.
SELECT u.position, e.* FROM audit_unsealed u,
LATERAL (SELECT * FROM audit_entries WHERE audit_entries.occurred_at = u.occurred_at AND audit_entries.id = u.entry_id LIMIT 1) AS e
WHERE (SELECT true FROM audit_leaves l WHERE l.entry_id = u.entry_id AND l.occurred_at = u.occurred_at LIMIT 1) IS NULL
    AND u.position = ANY (@positions::bigint[])
ORDER BY u.position;

-- name: AuditVersionOne :one
-- Index: none. The first sealer that writes leaves of version 2 reads all leaves, once.
SELECT count(*) FROM audit_leaves l WHERE l.version = 1;

-- name: AuditLogSize :one
-- Index: audit_leaves_pkey, backwards.
SELECT coalesce((SELECT l.sequence + 1 FROM audit_leaves l ORDER BY l.sequence DESC LIMIT 1), 0)::bigint AS size;

-- name: AuditAddLeaves :exec
-- Index: audit_leaves_pkey. Adds leaves in the order of the arrays. A leaf without a type
-- is of version 1.
INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash, version, type, plan_id, session_id, hidden)
SELECT CAST(@first_sequence AS bigint) + n.ordinality - 1, n.occurred_at, n.entry_id, n.hash,
    CASE WHEN n.type = '' THEN 1 ELSE 2 END, nullif(n.type, ''),
    nullif(n.plan_id, '00000000-0000-0000-0000-000000000000'), nullif(n.session_id, '00000000-0000-0000-0000-000000000000'),
    nullif(n.hidden, '')
FROM ROWS FROM (
    unnest(@occurred_ats::timestamptz[]), unnest(@entry_ids::uuid[]), unnest(@hashes::bytea[]),
    unnest(@types::text[]), unnest(@plan_ids::uuid[]), unnest(@session_ids::uuid[]), unnest(@hidden::bytea[])
) WITH ORDINALITY AS n (occurred_at, entry_id, hash, type, plan_id, session_id, hidden, ordinality);

-- name: AuditAddHashes :exec
-- Index: audit_hashes_pkey. Adds hashes in the order of the array.
INSERT INTO audit_hashes (index, hash)
SELECT CAST(@first_index AS bigint) + n.ordinality - 1, n.hash
FROM unnest(@hashes::bytea[]) WITH ORDINALITY AS n (hash, ordinality);

-- name: AuditAddCheckpoint :exec
-- Index: audit_checkpoints_pkey.
INSERT INTO audit_checkpoints (size, root, note) VALUES (@size, @root, @note);

-- name: AuditSealed :exec
-- Index: audit_unsealed_pkey.
DELETE FROM audit_unsealed u WHERE u.position = ANY (@positions::bigint[]);

-- name: AuditHashes :many
-- Index: audit_hashes_pkey. Returns hashes in the order of the indexes.
SELECT h.hash FROM unnest(@indexes::bigint[]) WITH ORDINALITY AS n (index, ordinality),
LATERAL (SELECT * FROM audit_hashes WHERE audit_hashes.index = n.index LIMIT 1) AS h
ORDER BY n.ordinality;

-- name: AuditLeaves :many
-- Index: audit_leaves_pkey, audit_entries_pkey or audit_entries_id_occurred_at_idx.
-- Returns leaves, each with its entry unless that was removed.
SELECT l.sequence, l.occurred_at, l.entry_id, l.hash, l.pruned_by,
    l.version, l.type AS leaf_type, l.plan_id AS leaf_plan_id, l.session_id AS leaf_session_id, l.hidden,
    e.id, e.recorded_at, e.type, e.actor, e.user_name, e.plan_id, e.session_id, e.project, e.details, e.nonce
FROM audit_leaves l
LEFT JOIN audit_entries e ON e.occurred_at = l.occurred_at AND e.id = l.entry_id
WHERE l.sequence >= @from_sequence
ORDER BY l.sequence
LIMIT @max_rows;

-- name: AuditLeafOf :one
-- Index: audit_leaves_entry_id_occurred_at_key.
SELECT l.sequence FROM audit_leaves l WHERE l.entry_id = @entry_id ORDER BY l.occurred_at LIMIT 1;

-- name: AuditFirstLeafOf :one
-- Index: audit_leaves_entry_id_occurred_at_key. The + 0 keeps the planner from searching
-- for the minimum in the order of audit_leaves_pkey.
SELECT coalesce(min(l.sequence + 0), -1)::bigint AS sequence FROM audit_leaves l WHERE l.entry_id = @entry_id;

-- name: AuditCheckpointGet :one
-- Index: audit_checkpoints_pkey, backwards. The latest.
SELECT * FROM audit_checkpoints c ORDER BY c.size DESC LIMIT 1;

-- name: AuditStrays :many
-- Index: audit_entries_pkey, audit_leaves_entry_id_occurred_at_key, audit_unsealed_occurred_at_entry_id_key.
-- Returns a page of entries, and whether each is known; together the pages are the whole
-- audit trail. With EXISTS the planner might read all leaves for each page. A leaf with a
-- negative sequence, which only the tables' owner can insert, does not count, because no
-- verification reads it.
SELECT sqlc.embed(e),
    coalesce(
        (SELECT true FROM audit_leaves l WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at AND l.sequence >= 0 LIMIT 1),
        (SELECT true FROM audit_unsealed u WHERE u.occurred_at = e.occurred_at AND u.entry_id = e.id LIMIT 1),
        false
    )::boolean AS known
FROM audit_entries e
WHERE e.occurred_at >= @after_occurred_at AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
ORDER BY e.occurred_at, e.id
LIMIT @max_rows;

-- name: AuditLost :many
-- Index: audit_unsealed_pkey, audit_entries_pkey or audit_entries_id_occurred_at_idx.
-- The entries that wait to be sealed and no longer exist, which only tampering can cause. But
-- PostgreSQL chooses the partitions to read before the snapshot, and a transaction that attaches
-- one is seen before it tells others so: for a moment an entry in a new partition is not seen here.
SELECT u.position, u.occurred_at, u.entry_id FROM audit_unsealed u
WHERE u.position > @after_position
    AND (SELECT true FROM audit_entries e WHERE e.occurred_at = u.occurred_at AND e.id = u.entry_id LIMIT 1) IS NULL
ORDER BY u.position
LIMIT @max_rows;

-- name: AuditWaiting :one
-- Index: audit_unsealed_pkey. Counts up to max_rows. The age of the oldest is by the
-- server's clock, which also set its time of recording.
SELECT count(*) AS entries, coalesce(min(w.recorded_at), '0001-01-01Z')::timestamptz AS oldest,
    coalesce(extract(epoch FROM clock_timestamp() - min(w.recorded_at)), 0)::double precision AS age_seconds
FROM (SELECT u.recorded_at FROM audit_unsealed u ORDER BY u.position LIMIT @max_rows) AS w;
