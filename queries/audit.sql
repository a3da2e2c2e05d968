-- name: AuditRecord :one
-- Index: audit_entries_pkey, audit_leaves_entry_id_key. Records the entries that are new, by their ids, unless one has
-- the id of another entry: differs is then the first such place from 1. known counts the entries that were there, also
-- ones that have been pruned since: of these, and of fields that were erased, no more can be compared. If an entry is
-- neither written nor known, another transaction recorded it meanwhile, which this statement does not see, or a trigger
-- left it out. With whole the statement fails then, so that nothing is written. An empty text or a zero uuid stands for
-- null.
WITH given AS MATERIALIZED (
    SELECT n.id, n.occurred_at, n.type, nullif(n.namespace, '') AS namespace, n.plan_id, n.session_id,
        nullif(n.actor, '') AS actor, nullif(n.user_name, '') AS user_name, nullif(n.project, '') AS project, n.details,
        n.place, coalesce((
            SELECT (e.occurred_at, e.type, e.namespace, e.plan_id, e.session_id)
                    IS NOT DISTINCT FROM (n.occurred_at, n.type, nullif(n.namespace, ''), n.plan_id, n.session_id)
                AND (octet_length(e.salts[1]) = 32 OR e.actor IS NOT DISTINCT FROM nullif(n.actor, ''))
                AND (octet_length(e.salts[2]) = 32 OR e.user_name IS NOT DISTINCT FROM nullif(n.user_name, ''))
                AND (octet_length(e.salts[3]) = 32 OR e.project IS NOT DISTINCT FROM nullif(n.project, ''))
                AND (octet_length(e.salts[4]) = 32 OR e.details::text = n.details)
            FROM audit_entries e WHERE e.id = n.id LIMIT 1
        ), (
            SELECT (l.occurred_at, l.type, l.namespace, l.plan_id, l.session_id)
                IS NOT DISTINCT FROM (n.occurred_at, n.type, nullif(n.namespace, ''), n.plan_id, n.session_id)
            FROM audit_leaves l WHERE l.entry_id = n.id LIMIT 1
        )) AS same
    FROM (
        SELECT u.id, u.occurred_at, u.type, u.namespace,
        nullif(u.plan_id, '00000000-0000-0000-0000-000000000000') AS plan_id,
            nullif(u.session_id, '00000000-0000-0000-0000-000000000000') AS session_id, u.actor, u.user_name, u.project,
            u.details, u.place
        FROM ROWS FROM (
            unnest(@ids::uuid[]), unnest(@occurred_ats::timestamptz[]), unnest(@types::text[]),
            unnest(@namespaces::text[]),
            unnest(@plan_ids::uuid[]), unnest(@session_ids::uuid[]), unnest(@actors::text[]),
            unnest(@user_names::text[]), unnest(@projects::text[]), unnest(@details::text[])
        ) WITH ORDINALITY AS u (id, occurred_at, type, namespace, plan_id, session_id, actor, user_name, project,
        details, place)
    ) AS n
), written AS (
    INSERT INTO audit_entries (id, occurred_at, type, namespace, plan_id, session_id, actor, user_name, project,
        details)
    SELECT g.id, g.occurred_at, g.type, g.namespace, g.plan_id, g.session_id, g.actor, g.user_name, g.project,
    CAST(g.details AS json)
    FROM given g WHERE g.same IS NULL AND (SELECT bool_and(o.same) FROM given o) IS NOT FALSE
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT (SELECT count(*) FROM written)::bigint AS written, count(g.same)::bigint AS known,
    coalesce(min(g.place) FILTER (WHERE NOT g.same), 0)::bigint AS differs
FROM given g
HAVING NOT @whole::boolean OR bool_and(g.same) IS FALSE
    OR count(*) FILTER (WHERE g.same IS NULL) = (SELECT count(*) FROM written) OR rows_left_out('audit_entries');

-- name: AuditGet :one
-- Index: audit_entries_pkey.
SELECT * FROM audit_entries e WHERE e.id = @id;

-- name: AuditQuarantine :exec
-- Index: audit_quarantine_pkey.
INSERT INTO audit_quarantine (id, document, reason) VALUES (@id, @document, @reason)
ON CONFLICT DO NOTHING;

-- name: AuditPrunable :one
-- Index: audit_entries_occurred_at_id_idx, audit_leaves_entry_id_key, audit_holds_pkey. Counts what a prune would find
-- among the next rows in the order of time, of which there are found, up to the place that is reached.
WITH page AS MATERIALIZED (
    SELECT e.id, e.occurred_at, e.plan_id, e.session_id, e.type NOT IN ('audit_pruned', 'audit_gap')
            AND (cardinality(@types::text[]) = 0 OR e.type = ANY (@types::text[])) AS meant
    FROM audit_entries e WHERE e.occurred_at < @before AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
    ORDER BY e.occurred_at, e.id LIMIT 1000
), judged AS (
    SELECT p.meant,
        (SELECT true FROM audit_holds h WHERE h.kind = 'plan' AND h.subject = p.plan_id) IS NOT NULL
        OR (SELECT true FROM audit_holds h WHERE h.kind = 'session' AND h.subject = p.session_id) IS NOT NULL AS held,
        (SELECT true FROM audit_leaves l WHERE l.entry_id = p.id LIMIT 1) IS NOT NULL AS sealed
    FROM page p WHERE p.meant
)
SELECT (SELECT count(*) FROM page)::bigint AS found, count(*) FILTER (WHERE j.sealed AND NOT j.held) AS pruned,
    count(*) FILTER (WHERE j.held) AS held, count(*) FILTER (WHERE NOT j.sealed AND NOT j.held) AS unsealed,
    coalesce((SELECT p.occurred_at FROM page p ORDER BY p.occurred_at DESC, p.id DESC LIMIT 1),
        @after_occurred_at)::timestamptz AS reached_occurred_at,
    coalesce((SELECT p.id FROM page p ORDER BY p.occurred_at DESC, p.id DESC LIMIT 1), @after_id)::uuid AS reached_id
FROM judged j;

-- name: AuditPruneBegin :exec
-- Index: session_holds_pkey. Begins the transaction of a batch. New holds wait until it ends, and the next statement
-- sees the holds that it waited for. It reads the row that is always there: see TurnLimitWait.
SELECT audit_prune_begin('audit_holds') FROM session_holds
WHERE session_holds.namespace = '' AND session_holds.owner = ''
    AND session_holds.session_id = '00000000-0000-0000-0000-000000000000';

-- name: AuditPruneBatch :one
-- Index: audit_entries_pkey or audit_entries_type_occurred_at_id_idx, audit_entries_occurred_at_id_idx,
-- audit_leaves_entry_id_key, audit_holds_pkey, audit_unsealed_pkey. Removes entries among the next rows in the order of
-- time, and notes on their leaves which entry tells of it. It removes nothing that this entry does not tell of, that
-- was sealed after it or not at all, or that is on hold. One that was pruned and inserted again keeps the leaf that it
-- has, and leaves the queue. The rest is as in AuditPrunable. With joins the planner might read all entries and leaves
-- for each batch.
WITH stated AS MATERIALIZED (
    SELECT CAST(e.details ->> 'before' AS timestamptz) AS before,
        ARRAY(SELECT t.type FROM json_array_elements_text(e.details -> 'types') AS t (type)) AS types,
        ARRAY(SELECT CAST(h.id AS uuid)
            FROM json_array_elements_text(e.details -> 'held' -> 'plans') AS h (id)) AS plans,
        ARRAY(SELECT CAST(h.id AS uuid)
            FROM json_array_elements_text(e.details -> 'held' -> 'sessions') AS h (id)) AS sessions,
        coalesce((SELECT l.sequence FROM audit_leaves l WHERE l.entry_id = e.id LIMIT 1),
            9223372036854775807) AS sequence
    FROM (SELECT * FROM audit_entries WHERE audit_entries.id = @by_entry LIMIT 1) AS e
    WHERE e.type = 'audit_pruned'
), page AS MATERIALIZED (
    SELECT n.id, n.occurred_at, n.type, n.plan_id, n.session_id FROM (
        SELECT e.id, e.occurred_at, e.type, e.plan_id, e.session_id
        FROM audit_entries e
        WHERE e.occurred_at < (SELECT s.before FROM stated s)
            AND (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
        ORDER BY e.occurred_at, e.id LIMIT 1000
    ) AS n
    ORDER BY n.occurred_at, n.id LIMIT @max_rows
), judged AS MATERIALIZED (
    SELECT p.id, coalesce(p.plan_id = ANY (s.plans) OR p.session_id = ANY (s.sessions), false)
        OR (SELECT true FROM audit_holds h WHERE h.kind = 'plan' AND h.subject = p.plan_id) IS NOT NULL
        OR (SELECT true FROM audit_holds h WHERE h.kind = 'session' AND h.subject = p.session_id) IS NOT NULL AS held,
        coalesce((SELECT l.sequence FROM audit_leaves l WHERE l.entry_id = p.id LIMIT 1) < s.sequence, false) AS sealed,
        (SELECT l.pruned_by FROM audit_leaves l WHERE l.entry_id = p.id LIMIT 1) IS NOT NULL AS again
    FROM page p CROSS JOIN stated s
    WHERE p.type NOT IN ('audit_pruned', 'audit_gap') AND (cardinality(s.types) = 0 OR p.type = ANY (s.types))
), deleted AS (
    DELETE FROM audit_entries e
    WHERE e.id = ANY (ARRAY(SELECT j.id FROM judged j WHERE j.sealed AND NOT j.held))
    RETURNING e.id, e.recorded_at
), noted AS (
    UPDATE audit_leaves l SET pruned_by = @by_entry
    WHERE l.entry_id = ANY (ARRAY(SELECT d.id FROM deleted d)) AND l.pruned_by IS NULL
), unqueued AS (
    DELETE FROM audit_unsealed u
    WHERE u.recorded_at = ANY (ARRAY(SELECT d.recorded_at FROM deleted d JOIN judged j ON j.id = d.id AND j.again))
        AND u.entry_id = ANY (ARRAY(SELECT j.id FROM judged j WHERE j.again))
)
SELECT (SELECT count(*) FROM page)::bigint AS found, (SELECT count(*) FROM deleted)::bigint AS pruned,
    count(*) FILTER (WHERE j.held) AS held, count(*) FILTER (WHERE NOT j.sealed AND NOT j.held) AS unsealed,
    coalesce((SELECT p.occurred_at FROM page p ORDER BY p.occurred_at DESC, p.id DESC LIMIT 1),
        @after_occurred_at)::timestamptz AS reached_occurred_at,
    coalesce((SELECT p.id FROM page p ORDER BY p.occurred_at DESC, p.id DESC LIMIT 1), @after_id)::uuid AS reached_id
FROM judged j;

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
-- Index: none. Allows one sealer of the trail at a time, until the end of its transaction.
SELECT pg_try_advisory_xact_lock(hashtextextended('agentstore.audit_seal',
    CAST(CAST('audit_entries' AS regclass) AS oid)::bigint));

-- name: AuditIdentity :one
-- Index: audit_checkpoints_pkey.
SELECT c.note FROM audit_checkpoints c WHERE c.size = 0;

-- name: AuditUnsealedSizes :many
-- Index: audit_unsealed_pkey, audit_entries_pkey, audit_leaves_entry_id_key. The next entries to seal, and their sizes.
-- One that no longer exists is left out: see AuditLost. One that has a leaf already was pruned, and inserted again
-- without the library: it is skipped forever.
SELECT u.recorded_at, u.entry_id, coalesce(octet_length(e.details::text), 0)::bigint AS bytes
FROM audit_unsealed u, LATERAL (SELECT * FROM audit_entries WHERE audit_entries.id = u.entry_id LIMIT 1) AS e
WHERE (SELECT true FROM audit_leaves l WHERE l.entry_id = u.entry_id LIMIT 1) IS NULL
ORDER BY u.recorded_at, u.entry_id LIMIT @max_rows;

-- name: AuditUnsealed :many
-- Index: audit_entries_pkey. Returns entries in the order of the ids.
SELECT e.* FROM unnest(@ids::uuid[]) WITH ORDINALITY AS n (id, ordinality),
LATERAL (SELECT * FROM audit_entries WHERE audit_entries.id = n.id LIMIT 1) AS e
ORDER BY n.ordinality;

-- name: AuditLogSize :one
-- Index: audit_leaves_pkey, backwards.
SELECT coalesce((SELECT l.sequence + 1 FROM audit_leaves l ORDER BY l.sequence DESC LIMIT 1), 0)::bigint AS size;

-- name: AuditAddLeaves :execrows
-- Index: audit_entries_pkey, audit_leaves_pkey. Adds leaves in the order of the arrays. What they keep in clear is what
-- the entries have.
WITH kept AS MATERIALIZED (
    SELECT n.ordinality, e.id, e.occurred_at, e.recorded_at, e.type, e.namespace, e.plan_id, e.session_id, n.hidden,
    n.hash
    FROM ROWS FROM (unnest(@ids::uuid[]), unnest(@hidden::bytea[]), unnest(@hashes::bytea[])) WITH ORDINALITY AS n (id,
        hidden, hash, ordinality),
    LATERAL (SELECT * FROM audit_entries WHERE audit_entries.id = n.id LIMIT 1) AS e
)
INSERT INTO audit_leaves (sequence, entry_id, occurred_at, recorded_at, type, namespace, plan_id, session_id, hidden,
    hash)
SELECT CAST(@first_sequence AS bigint) + k.ordinality - 1, k.id, k.occurred_at, k.recorded_at, k.type, k.namespace,
k.plan_id, k.session_id, k.hidden, k.hash
FROM kept k;

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
DELETE FROM audit_unsealed u
WHERE (u.recorded_at, u.entry_id) IN (
    SELECT n.recorded_at, n.entry_id FROM ROWS FROM (unnest(@recorded_ats::timestamptz[]),
        unnest(@ids::uuid[])) AS n (recorded_at, entry_id)
);

-- name: AuditHashes :many
-- Index: audit_hashes_pkey. Returns hashes in the order of the indexes.
SELECT h.hash FROM unnest(@indexes::bigint[]) WITH ORDINALITY AS n (index, ordinality),
LATERAL (SELECT * FROM audit_hashes WHERE audit_hashes.index = n.index LIMIT 1) AS h
ORDER BY n.ordinality;

-- name: AuditLeaves :many
-- Index: audit_leaves_pkey, audit_entries_pkey. Returns leaves, each with its entry unless that was removed.
SELECT sqlc.embed(l),
    e.id, e.occurred_at, e.recorded_at, e.type, e.namespace, e.plan_id, e.session_id, e.actor, e.user_name, e.project,
    e.details, e.salts
FROM audit_leaves l LEFT JOIN audit_entries e ON e.id = l.entry_id
WHERE l.sequence >= @from_sequence ORDER BY l.sequence LIMIT @max_rows;

-- name: AuditLeafOf :one
-- Index: audit_leaves_entry_id_key.
SELECT l.sequence FROM audit_leaves l WHERE l.entry_id = @entry_id LIMIT 1;

-- name: AuditCheckpointGet :one
-- Index: audit_checkpoints_pkey, backwards. The latest.
SELECT * FROM audit_checkpoints c WHERE c.size > 0 ORDER BY c.size DESC LIMIT 1;

-- name: AuditStrays :many
-- Index: audit_entries_occurred_at_id_idx, audit_leaves_entry_id_key, audit_unsealed_pkey. Returns a page of entries,
-- and whether each is known; together the pages are the whole audit trail. With EXISTS the planner might read all
-- leaves for each page. A leaf with a negative sequence, which only the tables' owner can insert, does not count,
-- because no verification reads it.
SELECT e.id, e.occurred_at, coalesce(
        (SELECT true FROM audit_leaves l WHERE l.entry_id = e.id AND l.sequence >= 0 LIMIT 1),
        (SELECT true FROM audit_unsealed u WHERE u.recorded_at = e.recorded_at AND u.entry_id = e.id LIMIT 1), false
    )::boolean AS known
FROM audit_entries e WHERE (e.occurred_at, e.id) > (@after_occurred_at, @after_id::uuid)
ORDER BY e.occurred_at, e.id LIMIT @max_rows;

-- name: AuditLost :many
-- Index: audit_unsealed_pkey, audit_entries_pkey. The entries that wait to be sealed and no longer exist, which only
-- tampering can cause.
SELECT u.entry_id FROM audit_unsealed u
WHERE (SELECT true FROM audit_entries e WHERE e.id = u.entry_id LIMIT 1) IS NULL
ORDER BY u.recorded_at, u.entry_id LIMIT @max_rows;

-- name: AuditWaiting :one
-- Index: audit_unsealed_pkey. Counts up to max_rows. The age of the oldest is by the server's clock, which also set its
-- time of recording.
SELECT count(*) AS entries, coalesce(min(w.recorded_at), '0001-01-01Z')::timestamptz AS oldest,
    coalesce(extract(epoch FROM statement_timestamp() - min(w.recorded_at)), 0)::double precision AS age_seconds
FROM (SELECT u.recorded_at FROM audit_unsealed u ORDER BY u.recorded_at, u.entry_id LIMIT @max_rows) AS w;
