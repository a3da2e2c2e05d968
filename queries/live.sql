-- name: MessageListNews :many
-- Index: session_counters_pkey, messages_pkey. Returns messages of sessions, of each from a sequence on, up to max_rows
-- of one session and max_bytes together: for followers of the sessions. Each row has the session's place among
-- session_ids, from 1, and its next sequence, or null if there is no such session. A session without messages from
-- there on has one row, in which the columns of a message are null. One for which there was no room has none: there is
-- room for those first that need little. Sorted by place and sequence. The rows are not scanned into the generated
-- struct: see repo/postgres/follow.go.
--
-- A SELECT around an argument, and LIMIT, are explained at TurnLockCounters. Values that are stored out of line are
-- read for the answer alone.
SELECT f.place, f.next_sequence, f.sequence, f.id, f.role, f.content, f.metadata, f.payload, f.kind, f.call_id,
f.occurred_at, f.created_at, f.follows, f.tokens, f.counter
FROM (
    SELECT n.place, c.next_sequence, t.sequence, t.id, t.role, t.content, t.metadata, t.payload, t.kind, t.call_id,
    t.occurred_at, t.created_at, t.follows, t.tokens, t.counter, t.bytes,
        sum(t.bytes) OVER (ORDER BY t.needed, n.place, t.sequence ROWS UNBOUNDED PRECEDING) AS total
    FROM ROWS FROM (
        unnest((SELECT @session_ids::uuid[])), unnest((SELECT @from_sequences::bigint[]))
    ) WITH ORDINALITY AS n (session_id, from_sequence, place)
    LEFT JOIN LATERAL (
        SELECT session_counters.next_sequence FROM session_counters
            WHERE session_counters.session_id = n.session_id LIMIT 1
    ) AS c ON true
    LEFT JOIN LATERAL (
        SELECT m.*, sum(m.bytes) OVER () AS needed
        FROM (
            SELECT messages.sequence, messages.id, messages.role, messages.content, messages.metadata, messages.payload,
            messages.kind,
                messages.call_id, messages.occurred_at, messages.created_at, messages.follows, messages.tokens,
                messages.counter, messages.bytes
            FROM messages WHERE messages.session_id = n.session_id AND messages.sequence >= n.from_sequence
            ORDER BY messages.sequence LIMIT @max_rows::integer
        ) AS m
    ) AS t ON true
) AS f
WHERE f.sequence IS NULL OR f.total - f.bytes < @max_bytes::bigint ORDER BY f.place, f.sequence;

-- name: SessionListMoved :many
-- Index: session_counters_pkey. Returns the sessions whose next sequence is not the given one, with the actual one, or
-- -1 if they do not exist. It is the poll of followers of sessions: a look-up of each counter row, and an empty answer
-- where nothing is new.
SELECT n.id::uuid AS id, coalesce(c.next_sequence, -1)::bigint AS next_sequence
FROM ROWS FROM (unnest((SELECT @ids::uuid[])), unnest((SELECT @next_sequences::bigint[]))) AS n (id, next_sequence)
LEFT JOIN LATERAL (
    SELECT session_counters.next_sequence FROM session_counters WHERE session_counters.session_id = n.id LIMIT 1
) AS c ON true
WHERE c.next_sequence IS DISTINCT FROM n.next_sequence;

-- name: LiveNotify :one
-- Index: none. Sends payloads to listeners, if there are any. A listener holds an advisory lock, shared
-- (LiveListen). If this statement gets it, there is none: it is then a read, while a NOTIFY would be a transaction
-- that writes. The channel, and the lock, belong to the tables' schema: their names have the table's oid. Nothing
-- waits for the commit's place on disk, since a notification does not survive a crash anyway.
SELECT l.heard::boolean AS heard, (CASE WHEN l.heard THEN (
    SELECT count(*)
    FROM (SELECT set_config('synchronous_commit', 'off', true)) AS s, unnest((SELECT @payloads::text[])) AS p (payload),
        LATERAL pg_notify('agentstore_' || 'session_counters'::regclass::oid, p.payload)
) ELSE 0 END)::bigint AS sent
FROM (SELECT NOT pg_try_advisory_xact_lock(@lock_class::integer,
    'session_counters'::regclass::oid::integer) AS heard OFFSET 0) AS l;

-- name: LiveListen :one
-- Index: none. Takes the lock that tells writers that there is a listener, for as long as the connection lasts,
-- and returns the channel. It waits for a writer's LiveNotify at most.
SELECT ('agentstore_' || 'session_counters'::regclass::oid)::text AS channel
FROM pg_advisory_lock_shared(@lock_class::integer, 'session_counters'::regclass::oid::integer);

-- name: LiveProcess :one
-- Index: none. Returns the id of the server's process. Behind a pooler it differs from the one that the client was
-- told.
SELECT pg_backend_pid()::bigint AS process;
