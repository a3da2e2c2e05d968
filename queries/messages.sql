-- name: MessageAppend :batchone
-- Index: session_counters_pkey; messages_session_id_id_key when check_ids. Makes one append: it locks the counter row, advances
-- it by the number of messages and inserts them. It returns one row, or none if the session does not exist. created_at is null
-- if nothing was inserted: either known says that one of the ids is stored already, or admitted is false and says that the
-- token (fence; 0 for none) is not the latest one, which is latest, or next_sequence is not the expected one. Go's zero time
-- stands for an occurred_at that is not given.
--
-- LIMIT makes the planner look up each id separately. If most sessions are short it would otherwise choose a join, which reads
-- a long session from end to end.
--
-- A SELECT around an argument hides its value from the planner. With the values a custom plan, for just these ids or without a
-- look-up, would seem cheaper than a generic one, and the planner would plan each append anew, which costs more than the append
-- itself.
--
-- updated_at, which is also the messages' created_at, does not go backwards when the server's clock does.
--
-- The sequence comes from the row that the lock returned. A second scan of the counter could see it as it was before the wait
-- for the lock.
--
-- kinds and call_ids have an empty text for none. They end at the last one that is not empty, and are empty in most appends;
-- unnest takes what is missing as null.
WITH locked AS (
    SELECT c.session_id, c.next_sequence, c.fence,
        coalesce(nullif(@fence::bigint, 0) = c.fence, NOT c.fenced_only)::boolean AS admitted,
        (SELECT @check_ids::boolean) AND EXISTS (
            SELECT FROM unnest((SELECT @ids::uuid[])) AS n (id), LATERAL (
                SELECT FROM messages m WHERE m.session_id = @session_id AND m.id = n.id LIMIT 1
            ) AS stored
        ) AS known
    FROM session_counters c
    WHERE c.session_id = @session_id
    FOR UPDATE OF c
), advanced AS (
    UPDATE session_counters c
    SET next_sequence = l.next_sequence + cardinality(@ids::uuid[]),
        updated_at = greatest(c.updated_at, statement_timestamp())
    FROM locked l
    WHERE c.session_id = @session_id
        AND NOT l.known AND l.admitted
        AND l.next_sequence = coalesce(sqlc.narg(expected)::bigint, l.next_sequence)
    RETURNING l.next_sequence AS first_sequence, c.updated_at
), inserted AS (
    INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, kind, call_id, occurred_at, created_at)
    SELECT @session_id, a.first_sequence - 1 + n.ordinality,
        n.id, n.role, n.content, n.metadata::json, n.payload, nullif(n.kind, ''), nullif(n.call_id, ''),
        nullif(n.occurred_at, '0001-01-01 00:00:00+00'), a.updated_at
    FROM advanced a, ROWS FROM (
        unnest((SELECT @ids::uuid[])), unnest(@roles::text[]), unnest(@contents::text[]),
        unnest(@metadatas::text[]), unnest(@payloads::bytea[]), unnest(@kinds::text[]), unnest(@call_ids::text[]),
        unnest(@occurred_ats::timestamptz[])
    ) WITH ORDINALITY AS n (id, role, content, metadata, payload, kind, call_id, occurred_at, ordinality)
)
SELECT l.next_sequence, l.known, l.admitted, l.fence AS latest, a.updated_at AS created_at
FROM locked l
LEFT JOIN advanced a ON true;

-- name: MessageAppendOne :one
-- Index: session_counters_pkey; messages_session_id_id_key when check_id. Appends one message to one session, without an
-- expected sequence. It serves a lone writer, where the cost of array arguments is noticeable. It does not wait for the counter
-- row, and returns no row if that is locked or does not exist, if the token (fence) is not the latest, or if the id is stored
-- already.
--
-- It does nothing in a transaction of another level than read committed, so that it can be sent without a statement that sets
-- the level.
--
-- The sequence comes from the row that the UPDATE wrote, which is the newest version. The subselect may have seen an older one,
-- and only finds and locks the row.
WITH advanced AS (
    UPDATE session_counters c
    SET next_sequence = c.next_sequence + 1,
        updated_at = greatest(c.updated_at, statement_timestamp())
    WHERE c.session_id = (
        SELECT l.session_id FROM session_counters l WHERE l.session_id = @session_id FOR UPDATE SKIP LOCKED
    ) AND coalesce(nullif(@fence::bigint, 0) = c.fence, NOT c.fenced_only)
        AND current_setting('transaction_isolation') = 'read committed'
        AND NOT ((SELECT @check_id::boolean) AND (SELECT true FROM messages m WHERE m.session_id = @session_id AND m.id = @id LIMIT 1) IS TRUE)
    RETURNING c.next_sequence - 1 AS first_sequence, c.updated_at
)
INSERT INTO messages (session_id, sequence, id, role, kind, call_id, content, metadata, payload, occurred_at, created_at)
SELECT @session_id, a.first_sequence, @id, @role, nullif(@kind::text, ''), nullif(@call_id::text, ''), @content,
    CAST(@metadata::text AS json), @payload, nullif(@occurred_at::timestamptz, '0001-01-01 00:00:00+00'), a.updated_at
FROM advanced a
RETURNING sequence, created_at;

-- name: MessageAppendPlain :many
-- Index: session_counters_pkey. Appends messages to several sessions, without an expected sequence and with generated ids. Most
-- groups are of this kind, and it costs two thirds of MessageAppendMany. It does not wait for counter rows. A session has no
-- row in the answer if its counter row is locked or does not exist, or if its token is not the latest. As MessageAppendOne, it
-- does nothing in a transaction of another level than read committed.
--
-- Each session is given once; sizes is the number of its messages. For each message, owners is its session, and places the
-- number of the session's messages from it to the last one. fences are the sessions' tokens, 0 for none; it is empty if no
-- session has one.
--
-- As in MessageAppendOne, the sequence comes from the row that the UPDATE wrote. A SELECT hides the number of sessions from the
-- planner: see MessageAppend, also for kinds.
WITH advanced AS (
    UPDATE session_counters c
    SET next_sequence = c.next_sequence
            + (CAST(@sizes AS bigint[]))[array_position(CAST(@session_ids AS uuid[]), c.session_id)],
        updated_at = greatest(c.updated_at, statement_timestamp())
    WHERE c.session_id = ANY (ARRAY(
        SELECT l.session_id FROM session_counters l
        WHERE l.session_id = ANY (CAST((SELECT CAST(@session_ids AS uuid[])) AS uuid[]))
        FOR UPDATE SKIP LOCKED
    )) AND CASE WHEN cardinality(CAST(@fences AS bigint[])) = 0 THEN NOT c.fenced_only ELSE coalesce(
            nullif((CAST(@fences AS bigint[]))[array_position(CAST(@session_ids AS uuid[]), c.session_id)], 0) = c.fence,
            NOT c.fenced_only
        ) END
        AND current_setting('transaction_isolation') = 'read committed'
    RETURNING c.session_id, c.next_sequence, c.updated_at
), inserted AS (
    INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, kind, call_id, occurred_at, created_at)
    SELECT a.session_id, a.next_sequence - n.place,
        n.id, n.role, n.content, n.metadata::json, n.payload, nullif(n.kind, ''), nullif(n.call_id, ''),
        nullif(n.occurred_at, '0001-01-01 00:00:00+00'), a.updated_at
    FROM advanced a
    JOIN ROWS FROM (
        unnest((SELECT @owners::uuid[])), unnest(@places::bigint[]),
        unnest(@ids::uuid[]), unnest(@roles::text[]), unnest(@contents::text[]),
        unnest(@metadatas::text[]), unnest(@payloads::bytea[]), unnest(@kinds::text[]), unnest(@call_ids::text[]),
        unnest(@occurred_ats::timestamptz[])
    ) AS n (owner, place, id, role, content, metadata, payload, kind, call_id, occurred_at) ON n.owner = a.session_id
)
SELECT a.session_id, a.next_sequence, a.updated_at FROM advanced a;

-- name: MessageAppendMany :many
-- Index: session_counters_pkey; messages_session_id_id_key when check_ids. MessageAppend for many sessions, so that the fixed
-- cost of a statement is paid once. It does not wait for counter rows: it skips the sessions whose row is locked.
--
-- Each session is given once; sizes is the number of its messages, and expecteds the expected sequence, or -1 for any. fences
-- are their tokens, 0 for none; it is empty if no session has one. For each message, owners is its session, and places its
-- place among the session's messages, counted from the last one, which is 1. The answer has a row for each session that exists,
-- in any order. If created_at is null, nothing was inserted: held says that the counter row is locked, and lock_timeout then
-- has the setting of that name in milliseconds; known says that one of the ids is stored already; admitted is false if the
-- token is not the latest one, which is latest; otherwise next_sequence is not the expected one. other_level says that
-- transactions are not read committed by default. kinds and call_ids are as in MessageAppend.
WITH known AS (
    SELECT n.session_id
    FROM ROWS FROM (unnest((SELECT @owners::uuid[])), unnest((SELECT @ids::uuid[]))) AS n (session_id, id), LATERAL (
        SELECT FROM messages m WHERE m.session_id = n.session_id AND m.id = n.id LIMIT 1
    ) AS stored
    WHERE (SELECT @check_ids::boolean)
), locked AS (
    SELECT s.session_id, s.size, nullif(s.expected, -1) AS expected, c.next_sequence, c.fence,
        coalesce(nullif(s.fence, 0) = c.fence, NOT c.fenced_only) AS admitted,
        s.session_id IN (SELECT k.session_id FROM known k) AS known
    FROM ROWS FROM (
        unnest((SELECT @session_ids::uuid[])), unnest((SELECT @sizes::bigint[])), unnest((SELECT @expecteds::bigint[])),
        unnest((SELECT @fences::bigint[]))
    ) AS s (session_id, size, expected, fence), LATERAL (
        SELECT session_counters.next_sequence, session_counters.fence, session_counters.fenced_only FROM session_counters
        WHERE session_counters.session_id = s.session_id
        FOR UPDATE SKIP LOCKED
    ) AS c
), advanced AS (
    UPDATE session_counters c
    SET next_sequence = l.next_sequence + l.size,
        updated_at = greatest(c.updated_at, statement_timestamp())
    FROM locked l
    WHERE c.session_id = l.session_id
        AND NOT l.known AND l.admitted
        AND l.next_sequence = coalesce(l.expected, l.next_sequence)
    RETURNING c.session_id, c.next_sequence, c.updated_at
), inserted AS (
    INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, kind, call_id, occurred_at, created_at)
    SELECT a.session_id, a.next_sequence - n.place,
        n.id, n.role, n.content, n.metadata::json, n.payload, nullif(n.kind, ''), nullif(n.call_id, ''),
        nullif(n.occurred_at, '0001-01-01 00:00:00+00'), a.updated_at
    FROM advanced a
    JOIN ROWS FROM (
        unnest((SELECT @owners::uuid[])), unnest(@places::bigint[]),
        unnest(@ids::uuid[]), unnest(@roles::text[]), unnest(@contents::text[]),
        unnest(@metadatas::text[]), unnest(@payloads::bytea[]), unnest(@kinds::text[]), unnest(@call_ids::text[]),
        unnest(@occurred_ats::timestamptz[])
    ) AS n (owner, place, id, role, content, metadata, payload, kind, call_id, occurred_at) ON n.owner = a.session_id
)
-- The second look-up of the counter row takes no lock: a row that it finds, but that is not in locked, was skipped. LIMIT makes
-- it a separate look-up for each such session.
SELECT s.session_id::uuid AS session_id, coalesce(l.next_sequence, 0)::bigint AS next_sequence,
    (l.session_id IS NULL)::boolean AS held, coalesce(l.known, false)::boolean AS known,
    coalesce(l.admitted, true)::boolean AS admitted, coalesce(l.fence, 0)::bigint AS latest, a.updated_at AS created_at,
    (CASE WHEN l.session_id IS NULL THEN extract(epoch FROM current_setting('lock_timeout')::interval) * 1000 ELSE 0 END)::bigint AS lock_timeout,
    (current_setting('default_transaction_isolation') <> 'read committed')::boolean AS other_level
FROM unnest((SELECT @session_ids::uuid[])) AS s (session_id)
LEFT JOIN locked l ON l.session_id = s.session_id
LEFT JOIN advanced a ON a.session_id = s.session_id
WHERE l.session_id IS NOT NULL
    OR (SELECT true FROM session_counters there WHERE there.session_id = s.session_id LIMIT 1);

-- name: MessageImport :execrows
-- Index: session_counters_pkey. Inserts messages with their original times, after those that were imported before. It inserts
-- none if first_sequence is not the next sequence. kinds and call_ids are as in MessageAppend.
WITH advanced AS (
    UPDATE session_counters c
    SET next_sequence = c.next_sequence + cardinality(@ids::uuid[])
    WHERE c.session_id = @session_id AND c.next_sequence = @first_sequence::bigint
    RETURNING c.next_sequence - cardinality(@ids::uuid[]) AS first_sequence
)
INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, kind, call_id, occurred_at, created_at)
SELECT @session_id, a.first_sequence - 1 + n.ordinality,
    n.id, n.role, n.content, n.metadata::json, n.payload, nullif(n.kind, ''), nullif(n.call_id, ''),
    nullif(n.occurred_at, '0001-01-01 00:00:00+00'), n.created_at
FROM advanced a, ROWS FROM (
    unnest(@ids::uuid[]), unnest(@roles::text[]), unnest(@contents::text[]),
    unnest(@metadatas::text[]), unnest(@payloads::bytea[]), unnest(@kinds::text[]), unnest(@call_ids::text[]),
    unnest(@occurred_ats::timestamptz[]), unnest(@created_ats::timestamptz[])
) WITH ORDINALITY AS n (id, role, content, metadata, payload, kind, call_id, occurred_at, created_at, ordinality);

-- name: MessageGet :one
-- Index: messages_session_id_id_key.
SELECT * FROM messages WHERE session_id = @session_id AND id = @id;

-- name: MessageListByIDs :many
-- Index: messages_session_id_id_key. Returns messages in the order of the ids. LIMIT makes the planner look up each id
-- separately: see MessageAppend.
SELECT m.* FROM unnest(@ids::uuid[]) WITH ORDINALITY AS n (id, ordinality),
LATERAL (SELECT * FROM messages WHERE messages.session_id = @session_id AND messages.id = n.id LIMIT 1) AS m
ORDER BY n.ordinality;

-- name: MessageListByCall :many
-- Index: messages_session_id_call_id_sequence_idx. Ascending.
SELECT * FROM messages
WHERE session_id = @session_id AND call_id = @call_id::text
ORDER BY sequence
LIMIT @max_rows;

-- name: MessageListFrom :many
-- Index: messages_pkey, forwards.
SELECT * FROM messages
WHERE session_id = @session_id AND sequence >= @from_sequence
ORDER BY sequence
LIMIT @max_rows;

-- name: MessageListBefore :many
-- Index: messages_pkey, backwards.
SELECT * FROM messages
WHERE session_id = @session_id AND sequence < @before_sequence
ORDER BY sequence DESC
LIMIT @max_rows;
