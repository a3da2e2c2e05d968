-- name: RedactFind :many
-- Index: session_branches_pkey, messages_pkey, session_branches_parent_id_idx, sessions_pkey, session_ids_pkey. The
-- messages of a session that have the sequences, each with the session whose it is: of another one it has its path.
-- held: a hold keeps that session or a fork of it. elsewhere: that session is, or was, not of the view.
WITH RECURSIVE path AS MATERIALIZED (
    SELECT @id::uuid AS owner, 0::bigint AS low, 9223372036854775807 AS high
    UNION ALL
    SELECT p.* FROM session_branches b, session_path(@id::uuid, b.base - 1, NULL, NULL, NULL) AS p (owner, low, high)
    WHERE b.session_id = @id::uuid AND b.base > 0
), found AS MATERIALIZED (
    SELECT p.owner, m.sequence, m.done FROM unnest(@sequences::bigint[]) AS n (sequence), path p, LATERAL (
        SELECT t.sequence, coalesce(t.kind = 'redacted', false) AS done FROM messages t
        WHERE t.session_id = p.owner AND t.sequence = n.sequence AND n.sequence BETWEEN p.low AND p.high LIMIT 1
    ) AS m
), family (owner, id) AS (
    SELECT DISTINCT f.owner, f.owner FROM found f
    UNION
    SELECT h.owner, b.session_id FROM family h, LATERAL (SELECT session_branches.session_id FROM session_branches
        WHERE session_branches.parent_id = h.id OFFSET 0) AS b
), judged AS MATERIALIZED (
    SELECT h.owner, bool_or(session_held(NULL, h.id)) AS held,
        coalesce((SELECT s.namespace <> sqlc.narg(view)::text FROM sessions s WHERE s.id = h.owner LIMIT 1),
        (SELECT i.namespace_hash <> hashtextextended(sqlc.narg(view)::text, 0) FROM session_ids i
            WHERE i.id = h.owner LIMIT 1), false) AS elsewhere
    FROM family h GROUP BY h.owner
)
SELECT f.owner::uuid AS owner, f.sequence::bigint AS sequence, f.done::boolean AS done, j.held::boolean AS held,
    j.elsewhere::boolean AS elsewhere
FROM found f JOIN judged j ON j.owner = f.owner;

-- name: RedactMessages :many
-- Index: messages_pkey or messages_session_id_id_key, session_turns_pkey. Redacts messages of a session, which may be
-- deleted, returns the newly redacted ones, and takes the digests of their turns: rules.RedactedDigest. The sequences
-- ascend: a turn has one of them if fewer are below it than up to its end.
WITH redacted AS (
    UPDATE messages m SET content = 'erased', kind = 'redacted', metadata = '{}', payload = NULL, tokens = NULL,
        counter = NULL
    WHERE m.session_id = @owner AND m.sequence = ANY (@sequences::bigint[]) AND m.kind IS DISTINCT FROM 'redacted'
    RETURNING m.sequence
), digests AS (
    UPDATE session_turns t SET digest = decode(repeat('00', 32), 'hex')
    WHERE t.session_id = @owner AND width_bucket(t.first_sequence - 1, @sequences::bigint[])
        < width_bucket(t.first_sequence + t.message_count - 1, @sequences::bigint[])
)
SELECT r.sequence FROM redacted r;

-- name: RedactStreams :many
-- Index: streams_session_id_status_id_idx. Lets the streams of sessions expire for ever, and returns their ids. A
-- writer of a part has the lock of the row, so the next statement sees all parts.
UPDATE streams s SET expires_at = 'epoch', status = CASE WHEN s.status = 'open' THEN 'lapsed' ELSE s.status END
WHERE s.session_id = ANY (@session_ids::uuid[]) RETURNING s.id;

-- name: RedactParts :exec
-- Index: stream_parts_pkey, streams_session_id_status_id_idx.
DELETE FROM stream_parts p
WHERE p.stream_id = ANY (ARRAY(SELECT s.id FROM streams s WHERE s.session_id = ANY (@session_ids::uuid[])));

-- name: RedactRecord :exec
-- Index: sessions_pkey. Records it in the audit trail.
INSERT INTO audit_entries (occurred_at, id, type, namespace, session_id, actor, details)
SELECT statement_timestamp(), audit_new_id(), 'entity_deleted', s.namespace, s.id, nullif(@actor::text, ''),
    CAST(@details::text AS json)
FROM sessions s WHERE s.id = @id;
