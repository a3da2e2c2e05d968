-- Streams. Whether a stream has expired is decided after its row was locked, by the server's clock: a statement that
-- waits for the row is followed by another one, which reads the clock.

-- name: StreamGet :one
-- Index: streams_namespace_key_began_key, backwards, stream_parts_pkey, backwards. Returns the newest stream of a key.
SELECT s.id, s.key, s.session_id, s.owner, s.fence, s.status, s.reason,
(extract(epoch FROM s.ttl) * 1000000)::bigint AS ttl_micros, s.opened_at, s.expires_at,
    coalesce((SELECT p.sequence + 1 FROM stream_parts p WHERE p.stream_id = s.id ORDER BY p.sequence DESC LIMIT 1),
        0)::bigint AS next_sequence,
    (s.expires_at <= statement_timestamp())::boolean AS expired
FROM streams s WHERE s.namespace = @namespace AND s.key = @key
ORDER BY s.began DESC LIMIT 1;

-- name: StreamList :many
-- Index: streams_session_id_status_id_idx, backwards, stream_parts_pkey, backwards. Returns the streams of a session
-- that have not expired, before a place in the order of status and id, of any owner: a view asks for its own
-- sessions.
SELECT s.id, s.key, s.session_id, s.owner, s.fence, s.status, s.reason,
(extract(epoch FROM s.ttl) * 1000000)::bigint AS ttl_micros, s.opened_at, s.expires_at,
    coalesce((SELECT p.sequence + 1 FROM stream_parts p WHERE p.stream_id = s.id ORDER BY p.sequence DESC LIMIT 1),
        0)::bigint AS next_sequence,
    (s.expires_at <= statement_timestamp())::boolean AS expired
FROM streams s
WHERE s.session_id = @session_id AND (s.status, s.id) < (@before_status::text, @before_id::uuid)
    AND s.expires_at > statement_timestamp()
ORDER BY s.status DESC, s.id DESC LIMIT @max_rows;

-- name: StreamListChanged :many
-- Index: streams_session_id_status_id_idx. Returns the places, from 1, of the sessions whose open streams differ from
-- the known ones: their fences have another sum. It is the poll of callers that wait for streams.
SELECT n.place::bigint AS place
FROM ROWS FROM (
    unnest((SELECT @session_ids::uuid[])), unnest((SELECT @known::bigint[]))
) WITH ORDINALITY AS n (session_id, known, place),
LATERAL (
    SELECT coalesce(sum(streams.fence), 0) AS fences FROM streams
    WHERE streams.session_id = n.session_id AND streams.status = 'open' AND streams.expires_at > statement_timestamp()
) AS s
WHERE s.fences <> n.known;

-- name: StreamFind :one
-- Index: streams_pkey, sessions_pkey. Whether a stream is in a view: it was opened there, or for a session of it.
SELECT s.key, coalesce(s.namespace = sqlc.narg(view)::text
    OR (SELECT o.namespace FROM sessions o WHERE o.id = s.session_id) = sqlc.narg(view)::text,
    sqlc.narg(view)::text IS NULL)::boolean AS is_in FROM streams s WHERE s.id = @id;

-- name: StreamTurn :exec
-- Index: none. Takes the transaction-level advisory lock of a key: the turn to open it, since a stream that does not
-- exist yet cannot be locked. The fence is taken, and the stream opened, by statements after this one, which see what
-- those before have done. So fences of a key are in the order of commits.
SELECT pg_advisory_xact_lock(hashtextextended(@key::text, hashtext(@namespace::text)));

-- name: StreamLapse :exec
-- Index: streams_open_key. Ends the stream of a key that has expired before it ended, so that another one can be
-- opened. It has expired for ever then, also by a clock that steps back.
UPDATE streams s SET status = 'lapsed', expires_at = 'epoch'
WHERE s.namespace = @namespace AND s.key = @key AND s.status = 'open' AND s.expires_at <= statement_timestamp();

-- name: StreamOpen :one
-- Index: streams_namespace_key_began_key, backwards, streams_open_key, session_counters_pkey. Begins a stream, or goes
-- on with the one that is open. It returns no row if that has just expired. The fence of a call of Open that is sent
-- twice, after an answer was lost, is taken once. At a higher isolation level the newest stream may be another one by
-- now: the next fence is also after the locked row's. It returns no row, either, if there is no such session, or the
-- stream that is open is of another one.
WITH newest AS (
    SELECT s.fence FROM streams s
    WHERE s.namespace = @namespace AND s.key = @key
    ORDER BY s.began DESC LIMIT 1
), next AS (
    SELECT n.now, n.ttl, greatest((extract(epoch FROM n.now) * 1000000)::bigint,
        (SELECT w.fence + 1 FROM newest w)) AS fence
    FROM (SELECT statement_timestamp() AS now, make_interval(secs => @ttl_seconds::float8) AS ttl) AS n
    WHERE sqlc.narg(session_id)::uuid IS NULL
        OR (SELECT true FROM session_counters c WHERE c.session_id = sqlc.narg(session_id)::uuid LIMIT 1)
)
INSERT INTO streams (id, namespace, key, owner, opener, session_id, began, fence, ttl, opened_at, expires_at)
SELECT @id, @namespace, @key, @owner, @id, sqlc.narg(session_id)::uuid, n.fence, n.fence, n.ttl, n.now,
n.now + n.ttl * 1.125
FROM next n
ON CONFLICT (namespace, key) WHERE status = 'open' DO UPDATE SET
    owner = excluded.owner, opener = excluded.opener,
    fence = CASE WHEN streams.opener = excluded.opener THEN streams.fence
        ELSE greatest(excluded.fence, streams.fence + 1) END,
    ttl = excluded.ttl, expires_at = greatest(streams.expires_at, excluded.expires_at)
WHERE streams.expires_at > excluded.opened_at AND (excluded.session_id IS NULL
    OR excluded.session_id = streams.session_id)
RETURNING id, fence, opened_at, expires_at, session_id;

-- name: StreamRestart :exec
-- Index: streams_open_key, stream_parts_pkey, backwards. Adds the empty part that says that the writer begins again to
-- the stream of a key that is open, and that StreamOpen has opened for this opener: if it was refused, the stream is
-- another's. It adds none if there is nothing before it. If there is a part at its sequence that the transaction's
-- snapshot does not show, that is a serialization failure.
INSERT INTO stream_parts (stream_id, sequence, data)
SELECT s.id, p.sequence + 1, ''
FROM streams s, LATERAL (
    SELECT stream_parts.sequence, octet_length(stream_parts.data) AS size FROM stream_parts
    WHERE stream_parts.stream_id = s.id
    ORDER BY stream_parts.sequence DESC LIMIT 1
) AS p
WHERE s.namespace = @namespace AND s.key = @key AND s.status = 'open' AND s.opener = @opener AND p.size > 0
ON CONFLICT DO NOTHING;

-- name: StreamNext :one
-- Index: streams_open_key, stream_parts_pkey, backwards. Returns the next sequence of the stream of a key that is open.
-- The row is locked, by StreamOpen: there is no part that this statement does not see. by_snapshot says that this is
-- not so, because the transaction has another level than read committed: see StreamPartTry.
SELECT coalesce((SELECT p.sequence + 1 FROM stream_parts p WHERE p.stream_id = s.id ORDER BY p.sequence DESC LIMIT 1),
    0)::bigint AS next_sequence,
    (current_setting('transaction_isolation') <> 'read committed')::boolean AS by_snapshot
FROM streams s WHERE s.namespace = @namespace AND s.key = @key AND s.status = 'open';

-- name: StreamPartTry :exec
-- Index: stream_parts_pkey. Stores a part which StreamPartUntry removes. At the levels above read committed that fails
-- with a serialization failure if there is a part which the transaction's snapshot does not show. Appends do not change
-- the stream's row, so nothing else would tell.
INSERT INTO stream_parts (stream_id, sequence, data) VALUES (@stream_id, @sequence, '\x00') ON CONFLICT DO NOTHING;

-- name: StreamPartUntry :exec
-- Index: stream_parts_pkey.
DELETE FROM stream_parts p WHERE p.stream_id = @stream_id AND p.sequence = @sequence;

-- name: StreamLock :exec
-- Index: streams_pkey. Waits for a stream's row, and locks it.
SELECT FROM streams s WHERE s.id = @id FOR NO KEY UPDATE;

-- name: StreamLockFree :many
-- Index: streams_pkey. Locks the rows of unlocked streams, and returns which. A SELECT around an argument, and
-- LATERAL, are explained at TurnLockCounters.
SELECT s.id FROM unnest((SELECT @stream_ids::uuid[])) AS n (stream_id), LATERAL (
    SELECT streams.id FROM streams WHERE streams.id = n.stream_id FOR NO KEY UPDATE SKIP LOCKED
) AS s;

-- name: StreamLook :many
-- Index: streams_pkey, stream_parts_pkey, backwards. What an append of parts depends on. The clock is read once.
-- lock_timeout is the setting of that name in milliseconds.
SELECT s.id, s.fence, s.status, (s.expires_at <= statement_timestamp())::boolean AS expired,
    (s.expires_at < statement_timestamp() + s.ttl)::boolean AS is_short,
    coalesce((SELECT p.sequence + 1 FROM stream_parts p WHERE p.stream_id = s.id ORDER BY p.sequence DESC LIMIT 1),
        0)::bigint AS next_sequence,
    (SELECT extract(epoch FROM current_setting('lock_timeout')::interval) * 1000)::bigint AS lock_timeout
FROM unnest((SELECT @stream_ids::uuid[])) AS n (stream_id), LATERAL (
    SELECT streams.id, streams.fence, streams.status, streams.expires_at, streams.ttl FROM streams
        WHERE streams.id = n.stream_id LIMIT 1
) AS s;

-- name: StreamPartInsert :exec
-- Index: session_holds_pkey. Stores parts of streams whose rows are locked. For the row of session_holds see
-- MessageInsert.
INSERT INTO stream_parts (stream_id, sequence, data)
SELECT n.stream_id, n.sequence, n.data
FROM session_holds h, ROWS FROM (unnest(@stream_ids::uuid[]), unnest(@sequences::bigint[]),
    unnest(@datas::bytea[])) AS n (stream_id, sequence, data)
WHERE h.namespace = '' AND h.owner = '' AND h.session_id = '00000000-0000-0000-0000-000000000000';

-- name: StreamPartCheck :exec
-- Index: stream_parts_pkey. Fails if a trigger has left out one of the parts from a stream's first sequence to below
-- its next.
SELECT rows_left_out('stream_parts')
WHERE (
    SELECT sum(stored.missing) FROM ROWS FROM (
        unnest((SELECT @stream_ids::uuid[])), unnest((SELECT @firsts::bigint[])),
        unnest((SELECT @next_sequences::bigint[]))
    ) AS n (stream_id, first, next_sequence), LATERAL (
        SELECT n.next_sequence - n.first - count(*) AS missing FROM stream_parts p
        WHERE p.stream_id = n.stream_id AND p.sequence >= n.first AND p.sequence < n.next_sequence
    ) AS stored
) <> 0;

-- name: StreamExtend :exec
-- Index: streams_pkey. Lets streams that were written to live for their TTL, and an eighth, from now on.
UPDATE streams s SET expires_at = (SELECT statement_timestamp() + l.ttl * 1.125 FROM streams l WHERE l.id = s.id)
WHERE s.id = ANY((SELECT @stream_ids::uuid[])::uuid[]);

-- name: StreamEnd :one
-- Index: streams_pkey, streams_namespace_key_began_key, backwards. Ends a stream whose row is locked (StreamLock), if
-- it is open and the fence is its writer's. It returns the stream as it was before, and the fence of the newest one of
-- its key.
WITH stored AS (
    SELECT s.id, s.fence, s.status, s.reason, s.expires_at <= statement_timestamp() AS expired,
        (SELECT n.fence FROM streams n WHERE n.namespace = s.namespace AND n.key = s.key
            ORDER BY n.began DESC LIMIT 1) AS newest,
        CASE WHEN s.expires_at < statement_timestamp() + s.ttl THEN statement_timestamp() + s.ttl * 1.125
            ELSE s.expires_at END AS expires_at
    FROM streams s WHERE s.id = @id
), ended AS (
    UPDATE streams s
    SET status = @status::text, reason = @reason::text, expires_at = t.expires_at
    FROM stored t WHERE s.id = t.id AND t.fence = @fence::bigint AND t.status = 'open' AND NOT t.expired
)
SELECT t.fence, t.status, t.reason, t.expired::boolean AS expired, t.newest::bigint AS newest FROM stored t;

-- name: StreamPartList :many
-- Index: stream_parts_pkey. Returns parts from a sequence on.
SELECT p.data FROM stream_parts p
WHERE p.stream_id = @stream_id AND p.sequence >= @from_sequence
ORDER BY p.sequence LIMIT @max_rows;

-- name: StreamListNews :many
-- Index: streams_pkey, stream_parts_pkey. MessageListNews for streams: returns parts of streams, of each from a
-- sequence on, up to max_rows of one stream and max_bytes together. Each row has the stream's place among stream_ids,
-- from 1, and its next sequence, or -1 if there is no such stream. A stream without parts from there on, or that has
-- expired, has one row, whose sequence is -1. One for which there was no room has none. Sorted by place and sequence.
SELECT f.place::bigint AS place, coalesce(f.next_sequence, -1)::bigint AS next_sequence,
coalesce(f.status, '')::text AS status,
    coalesce(f.reason, '')::text AS reason, coalesce(f.expired, false)::boolean AS expired,
    coalesce(f.sequence, -1)::bigint AS sequence, f.data
FROM (
    SELECT n.place, s.next_sequence, s.status, s.reason, s.expired, t.sequence, t.data, t.size,
        sum(t.size) OVER (ORDER BY t.needed, n.place, t.sequence ROWS UNBOUNDED PRECEDING) AS total
    FROM ROWS FROM (
        unnest((SELECT @stream_ids::uuid[])), unnest((SELECT @from_sequences::bigint[]))
    ) WITH ORDINALITY AS n (stream_id, from_sequence, place)
    LEFT JOIN LATERAL (
        SELECT coalesce((SELECT p.sequence + 1 FROM stream_parts p WHERE p.stream_id = n.stream_id
            ORDER BY p.sequence DESC LIMIT 1), 0) AS next_sequence,
            streams.status, streams.reason, streams.expires_at <= statement_timestamp() AS expired
        FROM streams WHERE streams.id = n.stream_id LIMIT 1
    ) AS s ON true
    LEFT JOIN LATERAL (
        SELECT p.sequence, p.data, octet_length(p.data) AS size, sum(octet_length(p.data)) OVER () AS needed
        FROM (
            SELECT stream_parts.sequence, stream_parts.data FROM stream_parts
            WHERE stream_parts.stream_id = n.stream_id AND stream_parts.sequence >= n.from_sequence AND NOT s.expired
            ORDER BY stream_parts.sequence LIMIT @max_rows::integer
        ) AS p
    ) AS t ON true
) AS f
WHERE f.sequence IS NULL OR f.total - f.size < @max_bytes::bigint
ORDER BY f.place, f.sequence;

-- name: StreamListMoved :many
-- Index: streams_pkey, stream_parts_pkey, backwards. SessionListMoved for streams: returns the streams whose next
-- sequence is not the given one, with the actual one, and streams that have ended, expired or are missing, with -1.
SELECT n.id::uuid AS id, (CASE WHEN s.lives THEN s.next_sequence ELSE -1 END)::bigint AS next_sequence
FROM ROWS FROM (unnest((SELECT @ids::uuid[])), unnest((SELECT @next_sequences::bigint[]))) AS n (id, next_sequence)
LEFT JOIN LATERAL (
    SELECT coalesce((SELECT p.sequence + 1 FROM stream_parts p WHERE p.stream_id = n.id
        ORDER BY p.sequence DESC LIMIT 1), 0) AS next_sequence,
        streams.status = 'open' AND streams.expires_at > statement_timestamp() AS lives FROM streams
    WHERE streams.id = n.id LIMIT 1
) AS s ON true
WHERE s.lives IS NOT TRUE OR s.next_sequence <> n.next_sequence;

-- name: StreamDelete :many
-- Index: streams_namespace_key_began_key. Lets the streams of a key expire that have not, for ever, and returns their
-- ids.
UPDATE streams s SET expires_at = 'epoch', status = CASE WHEN s.status = 'open' THEN 'lapsed' ELSE s.status END
WHERE s.namespace = @namespace AND s.key = @key AND s.expires_at > statement_timestamp()
RETURNING s.id;

-- name: StreamExpire :execrows
-- Index: streams_expires_at_idx, streams_pkey. Lets streams that have expired be so for ever, also by a clock that
-- steps back: only these are removed. A writer of a part had the lock of the row before, so the statements after this
-- one see all parts that there will be. It leaves out streams that are locked by others. The array stands for few rows
-- to the planner, which expects an unknown LIMIT to be a tenth of all.
WITH expired AS (
    SELECT s.id FROM streams s
    WHERE s.expires_at <= statement_timestamp() AND s.expires_at > 'epoch'
    ORDER BY s.expires_at LIMIT @max_rows::bigint FOR UPDATE SKIP LOCKED
)
UPDATE streams s SET expires_at = 'epoch'
WHERE s.id = ANY (ARRAY(SELECT e.id FROM expired e));

-- name: StreamPartRemove :execrows
-- Index: streams_expires_at_idx, stream_parts_pkey. Removes parts of streams that have expired for ever: up to
-- max_rows, and either of about max_bytes together or one. It leaves out streams that are locked by others.
-- octet_length does not read a part.
WITH gone AS (
    SELECT s.id FROM streams s
    WHERE s.expires_at = 'epoch' AND (SELECT true FROM stream_parts p
        WHERE p.stream_id = s.id LIMIT 1) LIMIT @max_rows::bigint
    FOR UPDATE SKIP LOCKED
), found AS (
    SELECT g.id, p.sequence, p.size FROM gone g, LATERAL (
        SELECT stream_parts.sequence, octet_length(stream_parts.data) AS size FROM stream_parts
        WHERE stream_parts.stream_id = g.id
        ORDER BY stream_parts.sequence LIMIT @max_rows::bigint
    ) AS p
    LIMIT @max_rows::bigint
), doomed AS (
    SELECT f.id, f.sequence, sum(f.size) OVER (ROWS UNBOUNDED PRECEDING) - f.size AS bytes_before FROM found f
)
DELETE FROM stream_parts p
USING doomed d
WHERE p.stream_id = d.id AND p.sequence = d.sequence AND d.bytes_before < @max_bytes::bigint;

-- name: StreamRemove :execrows
-- Index: streams_expires_at_idx, stream_parts_pkey, streams_pkey, streams_namespace_key_began_key. Removes streams that
-- have expired for ever and have no part any more. It keeps the newest one of a key while one before it lives, or may
-- do so again by a clock that steps back, which would be the newest otherwise.
WITH empty AS (
    SELECT s.id FROM streams s
    WHERE s.expires_at = 'epoch'
        AND (SELECT true FROM stream_parts p WHERE p.stream_id = s.id LIMIT 1) IS NULL
        AND ((SELECT true FROM streams newer WHERE newer.namespace = s.namespace AND newer.key = s.key
            AND newer.began > s.began LIMIT 1)
            OR (SELECT true FROM streams older WHERE older.namespace = s.namespace AND older.key = s.key
                AND older.began < s.began AND older.expires_at > 'epoch' LIMIT 1) IS NULL)
    LIMIT @max_rows::bigint FOR UPDATE SKIP LOCKED
)
DELETE FROM streams s
USING empty e
WHERE s.id = e.id;
