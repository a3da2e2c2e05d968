-- name: MessageAppendOne :one
-- Index: session_counters_pkey; messages_session_id_id_key if check_id. Appends one message to one session. It serves a lone
-- writer, where the cost of array arguments is noticeable. It does not wait for the counter row, and returns no row if that is
-- locked or does not exist, if the token (fence; 0 for none) is not the latest, if the next sequence is not the expected one, or
-- if the id is stored already. The ledger of turns finds out which of these it is (repo/postgres/turn_ledger.go).
--
-- hint is where the counter row was when it was last written. Each append leaves a version of the row behind. While a snapshot
-- is open that may need them, nobody can remove them, and whoever looks the row up by the index steps over all of them. If the
-- row is elsewhere by now the index finds it. The UPDATE takes the version that the lock returned. If somebody else has written
-- it since the statement began, that is none that the statement sees, and there is no row in the answer.
--
-- It does nothing in a transaction of another level than read committed, so that it can be sent without a statement that sets
-- the level. updated_at, which is also the message's created_at, does not go backwards when the server's clock does.
WITH advanced AS (
    UPDATE session_counters c
    SET next_sequence = c.next_sequence + 1,
        updated_at = greatest(c.updated_at, statement_timestamp())
    WHERE c.ctid = coalesce(
            (SELECT l.ctid FROM session_counters l WHERE l.ctid = sqlc.narg(hint)::tid AND l.session_id = @session_id FOR UPDATE SKIP LOCKED),
            (SELECT l.ctid FROM session_counters l WHERE l.session_id = @session_id FOR UPDATE SKIP LOCKED)
        )
        AND coalesce(nullif(@fence::bigint, 0) = c.fence, NOT c.fenced_only)
        AND c.next_sequence = coalesce(sqlc.narg(expected)::bigint, c.next_sequence)
        AND current_setting('transaction_isolation') = 'read committed'
        AND NOT ((SELECT @check_id::boolean) AND (SELECT true FROM messages m WHERE m.session_id = @session_id AND m.id = @id LIMIT 1) IS TRUE)
    RETURNING c.next_sequence - 1 AS sequence, c.updated_at, c.ctid::tid AS hint
), inserted AS (
    INSERT INTO messages (session_id, sequence, id, role, kind, call_id, content, metadata, payload, occurred_at, created_at)
    SELECT @session_id, a.sequence, @id, @role, nullif(@kind::text, ''), nullif(@call_id::text, ''), @content,
        CAST(@metadata::text AS json), @payload, nullif(@occurred_at::timestamptz, '0001-01-01 00:00:00+00'), a.updated_at
    FROM advanced a
)
SELECT a.sequence::bigint AS sequence, a.updated_at, a.hint FROM advanced a;

-- name: MessageAppend :many
-- Index: session_counters_pkey; messages_session_id_id_key if check_ids. MessageAppendOne for many messages of many sessions, so
-- that the fixed cost of a statement is paid once. A session has no row in the answer if nothing was appended to it, for one of
-- the reasons above, or because its hint was not right.
--
-- Each session is given once; sizes is the number of its messages. For each message, owners is its session, and places the
-- number of the session's messages from it to the last one. hints are the places of the counter rows, and unplaced the sessions
-- that have none. expecteds are the expected sequences, -1 for any, and fences the tokens, 0 for none; both are empty if no
-- session has one. kinds and call_ids have an empty text for none, end at the last one that is not empty, and are empty in most
-- appends; unnest takes what is missing as null. Go's zero time stands for an occurred_at that is not given. at_any_level says
-- that the transaction may have another level than read committed.
--
-- A SELECT around an argument hides its value from the planner. With the values a custom plan, for just these ids or without a
-- look-up, would seem cheaper than a generic one, and the planner would plan each append anew, which costs more than the append
-- itself. LIMIT makes it look up each id separately. If most sessions are short it would otherwise choose a join, which reads a
-- long session from end to end.
WITH advanced AS (
    UPDATE session_counters c
    SET next_sequence = c.next_sequence
            + (CAST(@sizes AS bigint[]))[array_position(CAST(@session_ids AS uuid[]), c.session_id)],
        updated_at = greatest(c.updated_at, statement_timestamp())
    WHERE c.ctid = ANY (ARRAY(
            SELECT l.ctid FROM session_counters l
            WHERE l.ctid = ANY (CAST((SELECT CAST(@hints AS tid[])) AS tid[]))
                AND array_position(CAST(@session_ids AS uuid[]), l.session_id) IS NOT NULL -- no index has that
            FOR UPDATE SKIP LOCKED
        ) || ARRAY(
            SELECT l.ctid FROM session_counters l
            WHERE l.session_id = ANY (CAST((SELECT CAST(@unplaced AS uuid[])) AS uuid[]))
            FOR UPDATE SKIP LOCKED
        ))
        AND CASE WHEN cardinality(CAST(@fences AS bigint[])) = 0 THEN NOT c.fenced_only ELSE coalesce(
            nullif((CAST(@fences AS bigint[]))[array_position(CAST(@session_ids AS uuid[]), c.session_id)], 0) = c.fence,
            NOT c.fenced_only
        ) END
        AND (cardinality(CAST(@expecteds AS bigint[])) = 0 OR c.next_sequence = coalesce(
            nullif((CAST(@expecteds AS bigint[]))[array_position(CAST(@session_ids AS uuid[]), c.session_id)], -1), c.next_sequence
        ))
        AND (@at_any_level::boolean OR current_setting('transaction_isolation') = 'read committed')
        AND NOT ((SELECT @check_ids::boolean) AND c.session_id = ANY (ARRAY(
            SELECT n.session_id
            FROM ROWS FROM (unnest((SELECT @owners::uuid[])), unnest((SELECT @ids::uuid[]))) AS n (session_id, id), LATERAL (
                SELECT FROM messages m WHERE m.session_id = n.session_id AND m.id = n.id LIMIT 1
            ) AS stored
        )))
    RETURNING c.session_id, c.next_sequence, c.updated_at, c.ctid::tid AS hint
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
SELECT a.session_id, a.next_sequence, a.updated_at, a.hint FROM advanced a;

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
