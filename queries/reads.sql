-- name: SessionRead :many
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey, messages_pkey, state_scopes_session_id_idx, state_scopes_namespace_name_key, state_values_pkey.
-- Returns sessions with some of their messages, and scopes of state. It is one statement, so that it sees one snapshot at every
-- isolation level. It is sent without the parts that are not needed, since setting up a plan takes most of its time: see
-- repo/postgres/parts.go. For the same reason the three kinds of its rows, which come in any order, share columns:
--
--             session            message      key of a state, or a scope without keys
-- place       its place in ids   -place       0
-- number      next_sequence      sequence     the key's version
-- version     version                         the scope's version
-- id                             id           the scope's session
-- role        namespace          role         the key
-- content     key                content      the scope's name
-- kind        owner              kind
-- call_id     actor              call_id
-- metadata    metadata           metadata     the value
-- occurred_at changed_at         occurred_at  updated_at
-- texts       automation_profile, plans
-- numbers     low, usage, budget, fenced_only
--
-- The others are null. low is the first sequence that is selected by from_sequence and since. The rows are not scanned into the
-- generated struct: see repo/postgres/read.go.
--
-- Unless any_level, it does nothing in a transaction of another level than read committed, except that it returns a row without
-- a place. So it can be sent without a statement that sets the level.
--
-- search finds the first message that is not before since, by bisection: created_at does not decrease with the sequence. It
-- reads one message in each step, 20 of a million. LIMIT makes that an index look-up. A session's last row, in which low is
-- high, has the result.
--
-- Messages are returned until the ones before have max_bytes. As long as each has at most its share of that, small_bytes, all
-- are. That is decided without reading a value that is stored out of line, and without decompressing one: octet_length of a
-- content or a payload needs neither, but that of metadata does, so its size is bounded by its compressed one (PostgreSQL's
-- methods make less than 256 bytes of one). For the others there is cut, the last message to be returned. It is looked for only
-- then, in the order of the window, and the search ends there. Small messages behind it are returned as well, and left out by
-- the caller.
--
-- Of more keys than max_rows has room for, or values above max_state_bytes, there are not all, and the read fails.
--
-- A SELECT hides the ids from the planner, and a CTE hides since: see MessageAppend.
WITH RECURSIVE asked AS NOT MATERIALIZED (
    SELECT @id::uuid AS id, 1::bigint AS place
    -- with many
    WHERE false
    UNION ALL
    SELECT n.id, n.place FROM unnest((SELECT @ids::uuid[])) WITH ORDINALITY AS n (id, place)
    -- end of many
), ranges AS NOT MATERIALIZED (
    SELECT a.id, a.place, @from_sequence::bigint AS low FROM asked a
    -- with since
    WHERE false
    UNION ALL
    SELECT s.id, s.place, s.low FROM search s WHERE s.low = s.high
    -- end of since
)
    -- with since
, since AS (
    SELECT sqlc.narg(since)::timestamptz AS at
), search AS (
    SELECT a.id, a.place, least(@from_sequence::bigint, c.next_sequence) AS low, c.next_sequence AS high
    FROM asked a
    JOIN session_counters c ON c.session_id = a.id
    WHERE @any_level::boolean OR current_setting('transaction_isolation') = 'read committed'
    UNION ALL
    SELECT s.id, s.place,
        CASE WHEN m.created_at < i.at THEN m.sequence + 1 ELSE s.low END,
        CASE WHEN m.created_at < i.at THEN s.high ELSE m.sequence END
    FROM since i, search s, LATERAL (
        SELECT messages.sequence, messages.created_at FROM messages
        WHERE messages.session_id = s.id AND messages.sequence = s.low + (s.high - s.low) / 2
        LIMIT 1
    ) AS m
    WHERE s.low < s.high
)
    -- end of since
    -- with messages
, cut AS (
    SELECT q.place, CASE WHEN @backwards::boolean THEN -q.sequence ELSE q.sequence END AS turn
    FROM (
        SELECT r.place, m.sequence,
            sum(m.bytes + octet_length(m.metadata::text)) OVER (
                ORDER BY r.place, m.sequence
                -- with last
                DESC
                -- end of last
                ROWS UNBOUNDED PRECEDING
            ) AS total
        FROM ranges r, LATERAL (
            SELECT messages.sequence, messages.metadata,
                CASE WHEN @with_content::boolean THEN octet_length(messages.content) ELSE 0 END
                    + CASE WHEN @with_payload::boolean THEN coalesce(octet_length(messages.payload), 0) ELSE 0 END AS bytes
            FROM messages
            WHERE messages.session_id = r.id AND messages.sequence >= r.low
            ORDER BY messages.sequence
            -- with last
            DESC
            -- end of last
            LIMIT @max_messages::bigint
        ) AS m
    ) AS q
    WHERE q.total >= @max_bytes::bigint
    LIMIT 1
)
    -- end of messages
SELECT r.place, c.next_sequence AS number, s.version, NULL::uuid AS id, s.namespace AS role, s.key AS content, s.owner AS kind,
    s.actor AS call_id, s.metadata, NULL::bytea AS payload, s.created_at, greatest(s.updated_at, c.updated_at)::timestamptz AS occurred_at,
    ARRAY[coalesce(s.automation_profile, '')] || ARRAY(
        SELECT l.plan_id::text || '/' || p.phase || '/' || p.state FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id
    ) AS texts,
    ARRAY[r.low, s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos, c.fenced_only::integer] AS numbers
FROM ranges r
JOIN sessions s ON s.id = r.id
JOIN session_counters c ON c.session_id = r.id
WHERE @any_level::boolean OR current_setting('transaction_isolation') = 'read committed'
    -- with messages
UNION ALL
SELECT -r.place, m.sequence, NULL::bigint, m.id, m.role, m.content, m.kind,
    m.call_id, m.metadata, m.payload, m.created_at, m.occurred_at,
    NULL::text[], NULL::bigint[]
FROM ranges r, LATERAL (
    SELECT messages.sequence, messages.id, messages.role, messages.kind, messages.call_id,
        messages.metadata, messages.created_at, messages.occurred_at,
        CASE WHEN @with_content::boolean THEN messages.content ELSE '' END AS content,
        CASE WHEN @with_payload::boolean THEN messages.payload END AS payload,
        CASE WHEN @with_content::boolean THEN octet_length(messages.content) ELSE 0 END
            + CASE WHEN @with_payload::boolean THEN coalesce(octet_length(messages.payload), 0) ELSE 0 END
            + 256 * pg_column_size(messages.metadata)::bigint AS most_bytes
    FROM messages
    WHERE messages.session_id = r.id AND messages.sequence >= r.low
    ORDER BY messages.sequence
    -- with last
    DESC
    -- end of last
    LIMIT @max_messages::bigint
) AS m
WHERE (@any_level::boolean OR current_setting('transaction_isolation') = 'read committed') AND (
    m.most_bytes <= @small_bytes::bigint
    OR ((r.place, CASE WHEN @backwards::boolean THEN -m.sequence ELSE m.sequence END) > (SELECT c.place, c.turn FROM cut c)) IS NOT TRUE
)
    -- end of messages
    -- with state
UNION ALL
SELECT 0::bigint, v.version, v.scope_version, v.session_id, v.key, v.name, NULL::text,
    NULL::text, CASE WHEN v.total <= @max_state_bytes::bigint THEN v.value END, NULL::bytea, NULL::timestamptz, v.updated_at,
    NULL::text[], NULL::bigint[]
FROM (
    SELECT k.session_id, k.name, k.version AS scope_version, t.key COLLATE "default" AS key, t.value, t.version, t.updated_at,
        sum(t.bytes) OVER (ROWS UNBOUNDED PRECEDING) AS total
    FROM (
        SELECT o.id, o.session_id, o.name, o.version FROM state_scopes o WHERE false
        -- with own
        UNION ALL
        SELECT o.id, o.session_id, o.name, o.version FROM state_scopes o
        WHERE o.session_id = ANY (CAST((SELECT @ids::uuid[]) AS uuid[]))
        -- end of own
        -- with shared
        UNION ALL
        SELECT o.id, o.session_id, o.name, o.version FROM state_scopes o
        WHERE o.namespace = @namespace::text AND o.name = ANY (CAST((SELECT @scopes::text[]) AS text[]))
        -- end of shared
    ) AS k
    LEFT JOIN LATERAL (
        SELECT state_values.key, state_values.value, state_values.version, state_values.updated_at, state_values.bytes
        FROM state_values
        WHERE state_values.scope_id = k.id
        ORDER BY state_values.key
        LIMIT @max_rows::integer
    ) AS t ON true
    WHERE @any_level::boolean OR current_setting('transaction_isolation') = 'read committed'
    LIMIT @max_rows::integer
) AS v
    -- end of state
UNION ALL
SELECT NULL::bigint, NULL::bigint, NULL::bigint, NULL::uuid, NULL::text, NULL::text, NULL::text,
    NULL::text, NULL::json, NULL::bytea, NULL::timestamptz, NULL::timestamptz,
    NULL::text[], NULL::bigint[]
WHERE NOT @any_level::boolean AND current_setting('transaction_isolation') <> 'read committed';

-- The statements below make up a read of one session as most are, behind SessionGet and in one snapshot: setting up the plan of
-- SessionRead takes longer than all of them. A message or a value that is too large for that is left out, and not read, either:
-- SessionRead decides what there is room for.

-- name: SessionReadFirst :many
-- Index: messages_pkey, forwards.
SELECT m.* FROM (
    SELECT * FROM messages
    WHERE session_id = @session_id AND sequence >= @from_sequence
    ORDER BY sequence LIMIT @max_messages
) AS m
WHERE octet_length(m.content) + coalesce(octet_length(m.payload), 0) + 256 * pg_column_size(m.metadata)::bigint <= @small_bytes::bigint;

-- name: SessionReadLast :many
-- Index: messages_pkey, backwards.
SELECT m.* FROM (
    SELECT * FROM messages
    WHERE session_id = @session_id AND sequence >= @from_sequence
    ORDER BY sequence DESC LIMIT @max_messages
) AS m
WHERE octet_length(m.content) + coalesce(octet_length(m.payload), 0) + 256 * pg_column_size(m.metadata)::bigint <= @small_bytes::bigint;

-- name: SessionReadState :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key, state_values_pkey. The keys of scopes, in any order, and
-- a row without a key for a scope that has none.
SELECT k.session_id, k.name, k.version AS scope_version, coalesce(v.key, '')::text AS key, coalesce(v.version, 0)::bigint AS version,
    coalesce(v.updated_at, 'epoch')::timestamptz AS updated_at, (CASE WHEN v.bytes <= @small_bytes::bigint THEN v.value END)::json AS value
FROM (
    SELECT o.id, o.session_id, o.name, o.version FROM state_scopes o
    WHERE o.session_id = ANY (CAST((SELECT @state_ids::uuid[]) AS uuid[]))
    UNION ALL
    SELECT o.id, o.session_id, o.name, o.version FROM state_scopes o
    WHERE o.namespace = @namespace::text AND o.name = ANY (CAST((SELECT @scopes::text[]) AS text[]))
) AS k
LEFT JOIN LATERAL (
    SELECT t.key, t.value, t.version, t.updated_at, t.bytes FROM state_values t
    WHERE t.scope_id = k.id LIMIT @max_rows::integer
) AS v ON true
LIMIT @max_rows::integer;
