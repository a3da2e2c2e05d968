-- name: MessageAppend :batchone
-- Index: session_counters_pkey; messages_session_id_id_key when check_ids.
-- One append is this one statement: it locks the counter row, advances it by
-- the number of messages and inserts them. It answers with one row, or none if
-- there is no session. created_at is null when nothing was inserted: known says
-- that one of the ids is stored already; otherwise next_sequence is not the
-- expected one. Go's zero time stands for an occurred_at that was not given.
--
-- Each id is looked up by itself, which LIMIT makes sure of: joined otherwise, a
-- long session would be read from end to end where most sessions are short.
--
-- Behind a SELECT the planner does not see an argument. It would find that a
-- plan for just these ids, or without a look for them, is cheaper than a general
-- one, and plan anew for each append, which costs more than the append itself.
--
-- updated_at, which the messages get as created_at, does not go backwards when the
-- server's clock does.
--
-- The sequence comes from the row that the lock returned. A second scan of the
-- counter could see it as it was before the wait for the lock. Every part
-- filters on session_id.
WITH locked AS (
    SELECT c.session_id, c.next_sequence,
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
        updated_at = greatest(c.updated_at, clock_timestamp())
    FROM locked l
    WHERE c.session_id = @session_id
        AND NOT l.known
        AND l.next_sequence = coalesce(sqlc.narg(expected)::bigint, l.next_sequence)
    RETURNING l.next_sequence AS first_sequence, c.updated_at
), inserted AS (
    INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, occurred_at, created_at)
    SELECT @session_id, a.first_sequence - 1 + n.ordinality,
        n.id, n.role, n.content, n.metadata::json, n.payload,
        nullif(n.occurred_at, '0001-01-01 00:00:00+00'), a.updated_at
    FROM advanced a, ROWS FROM (
        unnest((SELECT @ids::uuid[])), unnest(@roles::text[]), unnest(@contents::text[]),
        unnest(@metadatas::text[]), unnest(@payloads::bytea[]), unnest(@occurred_ats::timestamptz[])
    ) WITH ORDINALITY AS n (id, role, content, metadata, payload, occurred_at, ordinality)
)
SELECT l.next_sequence, l.known, a.updated_at AS created_at
FROM locked l
LEFT JOIN advanced a ON true;

-- name: MessageAppendOne :batchone
-- Index: session_counters_pkey. One message to one session, of any sequence and
-- with an id that nobody gave: the case of few writers, to whom each array costs.
-- It waits for no counter row. No row: that of the session is locked, or there is
-- no session.
--
-- The number is that of the row which the UPDATE made. It has the row's lock, and
-- follows it to what others committed before it had: what the subselect saw is
-- only that there is one.
WITH advanced AS (
    UPDATE session_counters c
    SET next_sequence = c.next_sequence + 1,
        updated_at = greatest(c.updated_at, clock_timestamp())
    WHERE c.session_id = (
        SELECT l.session_id FROM session_counters l WHERE l.session_id = @session_id FOR UPDATE SKIP LOCKED
    )
    RETURNING c.next_sequence - 1 AS first_sequence, c.updated_at
)
INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, occurred_at, created_at)
SELECT @session_id, a.first_sequence, @id, @role, @content, CAST(@metadata::text AS json), @payload,
    nullif(@occurred_at::timestamptz, '0001-01-01 00:00:00+00'), a.updated_at
FROM advanced a
RETURNING sequence, created_at;

-- name: MessageAppendMany :many
-- Index: session_counters_pkey; messages_session_id_id_key when check_ids.
-- MessageAppend for many sessions at once: what a statement costs by itself is
-- paid once. It waits for no counter row: the sessions whose row somebody has
-- locked are left as they are, and the others are appended to.
--
-- Of the sessions, each of which is given once, sizes says how many messages it
-- gets and expecteds which sequence is expected, -1 for any. Of the messages,
-- owners says whose each is, and places which of that session's, from 0. It
-- answers with a row for each session that there is, in any order. A row without
-- a created_at says why nothing was inserted: held that its row is locked, known
-- that one of the ids is stored already; otherwise next_sequence is not the
-- expected one.
WITH known AS (
    SELECT n.session_id
    FROM ROWS FROM (unnest((SELECT @owners::uuid[])), unnest((SELECT @ids::uuid[]))) AS n (session_id, id), LATERAL (
        SELECT FROM messages m WHERE m.session_id = n.session_id AND m.id = n.id LIMIT 1
    ) AS stored
    WHERE (SELECT @check_ids::boolean)
), locked AS (
    SELECT s.session_id, s.size, nullif(s.expected, -1) AS expected, c.next_sequence,
        s.session_id IN (SELECT k.session_id FROM known k) AS known
    FROM ROWS FROM (
        unnest((SELECT @session_ids::uuid[])), unnest((SELECT @sizes::bigint[])), unnest((SELECT @expecteds::bigint[]))
    ) AS s (session_id, size, expected), LATERAL (
        SELECT session_counters.next_sequence FROM session_counters
        WHERE session_counters.session_id = s.session_id
        FOR UPDATE SKIP LOCKED
    ) AS c
), advanced AS (
    UPDATE session_counters c
    SET next_sequence = l.next_sequence + l.size,
        updated_at = greatest(c.updated_at, clock_timestamp())
    FROM locked l
    WHERE c.session_id = l.session_id
        AND NOT l.known
        AND l.next_sequence = coalesce(l.expected, l.next_sequence)
    RETURNING c.session_id, l.next_sequence AS first_sequence, c.updated_at
), inserted AS (
    INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, occurred_at, created_at)
    SELECT a.session_id, a.first_sequence + n.place,
        n.id, n.role, n.content, n.metadata::json, n.payload,
        nullif(n.occurred_at, '0001-01-01 00:00:00+00'), a.updated_at
    FROM advanced a
    JOIN ROWS FROM (
        unnest((SELECT @owners::uuid[])), unnest(@places::bigint[]),
        unnest(@ids::uuid[]), unnest(@roles::text[]), unnest(@contents::text[]),
        unnest(@metadatas::text[]), unnest(@payloads::bytea[]), unnest(@occurred_ats::timestamptz[])
    ) AS n (owner, place, id, role, content, metadata, payload, occurred_at) ON n.owner = a.session_id
)
-- The second look at the counter does not lock: what it finds and locked does
-- not was skipped. LIMIT keeps it a look-up for each session that is not there.
SELECT s.session_id::uuid AS session_id, coalesce(l.next_sequence, 0)::bigint AS next_sequence,
    (l.session_id IS NULL)::boolean AS held, coalesce(l.known, false)::boolean AS known, a.updated_at AS created_at
FROM unnest((SELECT @session_ids::uuid[])) AS s (session_id)
LEFT JOIN locked l ON l.session_id = s.session_id
LEFT JOIN advanced a ON a.session_id = s.session_id
WHERE l.session_id IS NOT NULL
    OR (SELECT true FROM session_counters there WHERE there.session_id = s.session_id LIMIT 1);

-- name: MessageImport :execrows
-- Index: session_counters_pkey. Messages with the times they had, after those
-- imported before; no row when first_sequence is not the next one.
WITH advanced AS (
    UPDATE session_counters c
    SET next_sequence = c.next_sequence + cardinality(@ids::uuid[])
    WHERE c.session_id = @session_id AND c.next_sequence = @first_sequence::bigint
    RETURNING c.next_sequence - cardinality(@ids::uuid[]) AS first_sequence
)
INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, occurred_at, created_at)
SELECT @session_id, a.first_sequence - 1 + n.ordinality,
    n.id, n.role, n.content, n.metadata::json, n.payload,
    nullif(n.occurred_at, '0001-01-01 00:00:00+00'), n.created_at
FROM advanced a, ROWS FROM (
    unnest(@ids::uuid[]), unnest(@roles::text[]), unnest(@contents::text[]),
    unnest(@metadatas::text[]), unnest(@payloads::bytea[]), unnest(@occurred_ats::timestamptz[]),
    unnest(@created_ats::timestamptz[])
) WITH ORDINALITY AS n (id, role, content, metadata, payload, occurred_at, created_at, ordinality);

-- name: MessageGet :one
-- Index: messages_session_id_id_key.
SELECT * FROM messages WHERE session_id = @session_id AND id = @id;

-- name: MessageListByIDs :many
-- Index: messages_session_id_id_key. In the order of the ids. A look-up for each
-- id, which LIMIT makes sure of: joined otherwise, a long session would be read
-- from end to end where most sessions are short.
SELECT m.* FROM unnest(@ids::uuid[]) WITH ORDINALITY AS n (id, ordinality),
LATERAL (SELECT * FROM messages WHERE messages.session_id = @session_id AND messages.id = n.id LIMIT 1) AS m
ORDER BY n.ordinality;

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
