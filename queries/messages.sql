-- name: MessageAppendOne :one
-- Index: session_counters_pkey; messages_session_id_id_key if check_id. Appends one message to one session. It serves a
-- lone writer, where the cost of array arguments is noticeable. It does not wait for the counter row, and returns no
-- row if that is locked or does not exist, if the fence (0 for none) is not the latest, if the next sequence is not the
-- expected one, if the message does not follow the one before, because the session was rewound, or if the id is stored
-- already. The ledger of turns finds out which of these it is (repo/postgres/internal/write).
--
-- hint is where the counter row was when it was last written. Each append leaves a version of the row behind. While a
-- snapshot is open that may need them, they cannot be removed, and a look-up of the row by the index steps over all of
-- them. If the row is elsewhere by now the index finds it. The UPDATE takes the version that the lock returned. If
-- another transaction has written it since the statement began, the statement does not see that version, and there is
-- no row in the answer.
--
-- It does nothing in a transaction of another level than read committed, so that it can be sent without a statement
-- that sets the level. updated_at, which is also the message's created_at, does not go backwards when the server's
-- clock does.
WITH advanced AS (
    UPDATE session_counters c
    SET next_sequence = c.next_sequence + 1, updated_at = greatest(c.updated_at, statement_timestamp())
    WHERE c.ctid = coalesce(
            (SELECT l.ctid FROM session_counters l WHERE l.ctid = sqlc.narg(hint)::tid
                AND l.session_id = @session_id FOR UPDATE SKIP LOCKED),
            (SELECT l.ctid FROM session_counters l WHERE l.session_id = @session_id FOR UPDATE SKIP LOCKED)
        )
        AND coalesce(nullif(@fence::bigint, 0) = c.fence, NOT c.fenced_only)
        AND c.next_sequence = coalesce(sqlc.narg(expected)::bigint, c.next_sequence)
        AND c.follows IS NULL AND current_setting('transaction_isolation') = 'read committed'
        AND NOT ((SELECT @check_id::boolean) AND (SELECT true FROM messages m WHERE m.session_id = @session_id
            AND m.id = @id LIMIT 1) IS TRUE)
    RETURNING c.next_sequence - 1 AS sequence, c.updated_at, c.ctid::tid AS hint
), inserted AS (
    INSERT INTO messages (session_id, sequence, id, role, kind, call_id, content, metadata, payload, occurred_at,
        created_at, tokens, counter)
    SELECT @session_id, a.sequence, @id, @role, nullif(@kind::text, ''), nullif(@call_id::text, ''), @content,
        CAST(@metadata::text AS json), @payload, nullif(@occurred_at::timestamptz, '0001-01-01 00:00:00+00'),
        a.updated_at, nullif(@tokens::integer, 0), nullif(@counter::text, '')
    FROM advanced a
    RETURNING true AS stored
)
SELECT a.sequence::bigint AS sequence, a.updated_at, a.hint FROM advanced a
WHERE (SELECT i.stored FROM inserted i) OR rows_left_out('messages');

-- name: MessageAdvance :many
-- Index: session_counters by ctid. Sets the counters of sessions whose rows are locked, and returns where the rows are
-- now. hints are where they were locked; the row of another session gets null, which is refused. A join would be
-- planned by how many sessions there are. (Citus crashes where a SET is a bare subscript.)
UPDATE session_counters c
SET next_sequence = 0 + (CAST(@next_sequences AS bigint[]))[array_position(CAST(@session_ids AS uuid[]), c.session_id)],
    updated_at = greatest(c.updated_at, @now::timestamptz), follows = NULL
WHERE c.ctid = ANY (CAST((SELECT CAST(@hints AS tid[])) AS tid[]))
RETURNING c.session_id, c.ctid::tid AS hint;

-- name: MessageInsert :execrows
-- Index: session_holds_pkey. Stores messages, each of owners, of sessions whose counter rows are locked. kinds and
-- call_ids have an empty text for none, end at the last one that is not empty, and are empty in most writes; unnest
-- takes what is missing as null. So are tokens, counters and follows, with 0, an empty text and -2 for none. Go's zero
-- time stands for an occurred_at that is not given. A distributed engine gives only what reads a table to the table's
-- node, and only if it changes rows nowhere but at the top: so it reads the row that is always there, and MessageCheck
-- comes behind it.
INSERT INTO messages (session_id, sequence, id, role, content, metadata, payload, kind, call_id, occurred_at,
    created_at, tokens, counter, follows)
SELECT n.owner, n.sequence, n.id, n.role, n.content, n.metadata::json, n.payload, nullif(n.kind, ''),
nullif(n.call_id, ''),
    nullif(n.occurred_at, '0001-01-01 00:00:00+00'), n.created_at, nullif(n.tokens, 0), nullif(n.counter, ''),
    nullif(n.follows, -2)
FROM session_holds h, ROWS FROM (
    unnest(@owners::uuid[]), unnest(@sequences::bigint[]),
    unnest(@ids::uuid[]), unnest(@roles::text[]), unnest(@contents::text[]),
    unnest(@metadatas::text[]), unnest(@payloads::bytea[]), unnest(@kinds::text[]), unnest(@call_ids::text[]),
    unnest(@occurred_ats::timestamptz[]), unnest(@created_ats::timestamptz[]),
    unnest(@tokens::integer[]), unnest(@counters::text[]), unnest(@follows::bigint[])
) AS n (owner, sequence, id, role, content, metadata, payload, kind, call_id, occurred_at, created_at, tokens, counter,
follows)
WHERE h.namespace = '' AND h.owner = '' AND h.session_id = '00000000-0000-0000-0000-000000000000';

-- name: MessageCheck :exec
-- Index: messages_pkey, session_counters by ctid. Fails if a trigger has left out one of the messages from a session's
-- first sequence to below its next, or a counter: its version at hints, where MessageAdvance found it, is to be seen
-- still.
SELECT rows_left_out('messages')
WHERE (
        SELECT sum(stored.missing) FROM ROWS FROM (
            unnest((SELECT @session_ids::uuid[])), unnest((SELECT @firsts::bigint[])),
            unnest((SELECT @next_sequences::bigint[]))
        ) AS n (session_id, first, next_sequence), LATERAL (
            SELECT n.next_sequence - n.first - count(*) AS missing FROM messages m
            WHERE m.session_id = n.session_id AND m.sequence >= n.first AND m.sequence < n.next_sequence
        ) AS stored
    ) <> 0
    OR (
        SELECT true FROM session_counters c
        WHERE c.ctid = ANY (CAST((SELECT CAST(@hints AS tid[])) AS tid[]))
            AND array_position(CAST(@session_ids AS uuid[]), c.session_id) IS NOT NULL
        LIMIT 1
    );

-- name: MessageCount :execrows
-- Index: session_counters_pkey. Sets how many messages a session has that is imported.
UPDATE session_counters SET next_sequence = @next_sequence WHERE session_counters.session_id = @session_id;

-- name: MessageGet :one
-- Index: messages_session_id_id_key, session_branches_pkey, session_counters_pkey. A fork's may be an inherited one.
-- The remains of a deleted session are none of its messages.
SELECT * FROM messages WHERE messages.session_id = @session_id AND messages.id = @id
    AND NOT EXISTS (
        SELECT FROM session_branches b WHERE b.session_id = @session_id
            AND NOT EXISTS (SELECT FROM session_counters c WHERE c.session_id = b.session_id)
    )
UNION ALL
SELECT m.* FROM session_branches b, session_path(b.session_id, b.base - 1, NULL, NULL, NULL) AS p (owner, low, high),
LATERAL (
    SELECT * FROM messages WHERE messages.session_id = p.owner AND messages.id = @id AND messages.sequence >= p.low
        AND messages.sequence <= p.high
    LIMIT 1
) AS m
WHERE b.session_id = @session_id AND b.base > 0 AND EXISTS (SELECT FROM session_counters c
    WHERE c.session_id = b.session_id)
LIMIT 1;

-- name: MessageListByIDs :many
-- Index: messages_session_id_id_key. Returns messages in the order of the ids. LIMIT makes the planner look up each id
-- separately: see TurnLockCounters.
SELECT m.* FROM unnest(@ids::uuid[]) WITH ORDINALITY AS n (id, ordinality),
LATERAL (SELECT * FROM messages WHERE messages.session_id = @session_id AND messages.id = n.id LIMIT 1) AS m
ORDER BY n.ordinality;

-- name: MessageListByCall :many
-- Index: messages_session_id_call_id_sequence_idx, session_branches_pkey, session_counters_pkey. Ascending; a fork's
-- inherited ones come first.
SELECT * FROM messages
WHERE messages.session_id = @session_id AND messages.call_id = @call_id::text
    AND NOT EXISTS (
        SELECT FROM session_branches b WHERE b.session_id = @session_id
            AND NOT EXISTS (SELECT FROM session_counters c WHERE c.session_id = b.session_id)
    )
UNION ALL
SELECT m.* FROM session_branches b, session_path(b.session_id, b.base - 1, NULL, NULL, NULL) AS p (owner, low, high),
LATERAL (
    SELECT * FROM messages
    WHERE messages.session_id = p.owner AND messages.call_id = @call_id::text AND messages.sequence >= p.low
        AND messages.sequence <= p.high
    ORDER BY messages.sequence LIMIT @max_rows
) AS m
WHERE b.session_id = @session_id AND b.base > 0 AND EXISTS (SELECT FROM session_counters c
    WHERE c.session_id = b.session_id)
ORDER BY sequence LIMIT @max_rows;

-- The next statements read the transcript of sessions that have no branches and are no forks; of others they return
-- nothing. The condition is looked up once, for the bound of the index: as a filter of rows it would cost more.

-- name: MessageListFrom :many
-- Index: messages_pkey, forwards, session_branches_pkey.
SELECT * FROM messages
WHERE messages.session_id = @session_id AND sequence >= CASE
        WHEN EXISTS (SELECT FROM session_branches WHERE session_branches.session_id = @session_id)
            THEN 9223372036854775807
        ELSE @from_sequence::bigint
    END
ORDER BY sequence LIMIT @max_rows;

-- name: MessageListBefore :many
-- Index: messages_pkey, backwards, session_branches_pkey.
SELECT * FROM messages
WHERE messages.session_id = @session_id AND sequence < CASE
        WHEN EXISTS (SELECT FROM session_branches WHERE session_branches.session_id = @session_id) THEN 0
        ELSE @before_sequence::bigint
    END
ORDER BY sequence DESC LIMIT @max_rows;

-- name: MessageListOwn :many
-- Index: messages_pkey, forwards, session_counters_pkey. Messages of all branches, without a fork's inherited ones.
SELECT * FROM messages
WHERE messages.session_id = @session_id AND sequence >= @from_sequence
    AND EXISTS (SELECT FROM session_counters WHERE session_counters.session_id = @session_id)
ORDER BY sequence LIMIT @max_rows;

-- name: MessageListPath :many
-- Index: messages_pkey. The transcript of any session, forwards: see session_path. Of a range that has more messages
-- than there is room for, the first ones are read. The LIMIT of each range is explained at TurnLockCounters.
WITH path AS (
    SELECT p.owner, p.low, p.high, sum(p.high - p.low + 1) OVER (ORDER BY p.low ROWS UNBOUNDED PRECEDING) AS total
    FROM session_path(@session_id::uuid, sqlc.narg(at)::bigint, @from_sequence::bigint, NULL, NULL) AS p (owner, low,
        high)
), ranges AS (
    SELECT q.owner, q.low, q.high + least(0, (SELECT @max_rows::bigint) - q.total)::bigint AS high FROM path q
)
SELECT m.* FROM ranges r, LATERAL (
    SELECT * FROM messages WHERE messages.session_id = r.owner AND messages.sequence >= r.low
        AND messages.sequence <= r.high
    ORDER BY messages.sequence LIMIT @max_rows::bigint
) AS m
ORDER BY m.sequence;

-- name: MessageListPathBefore :many
-- Index: messages_pkey. The same backwards.
SELECT m.* FROM session_path(@session_id::uuid, NULL, NULL, @before_sequence::bigint, @max_rows::bigint) AS p (owner,
    low, high), LATERAL (
    SELECT * FROM messages WHERE messages.session_id = p.owner AND messages.sequence >= p.low
        AND messages.sequence <= p.high
    ORDER BY messages.sequence DESC LIMIT @max_rows::bigint
) AS m
ORDER BY m.sequence DESC;
