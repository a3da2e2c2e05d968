-- name: SessionRead :many
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey, messages_pkey, state_scopes_session_id_idx, state_scopes_namespace_name_key, state_values_pkey, session_branches_pkey, messages_session_id_instruction_idx.
-- Returns sessions with some of their messages, and scopes of state. It is one statement, so that it sees one snapshot at every
-- isolation level. It is sent without the parts that are not needed, since setting up a plan takes most of its time: see
-- repo/postgres/parts.go. For the same reason the three kinds of its rows, which come in any order, share columns:
--
--             session            message      key of a state, or a scope without keys
-- place       its place in ids   -place       0
-- number      next_sequence      sequence     the key's version
-- version     version            follows      the scope's version
-- id                             id           the scope's session
-- role        namespace          role         the key
-- content     key                content      the scope's name
-- kind        owner              kind
-- call_id     actor              call_id
-- metadata    metadata           metadata     the value
-- occurred_at changed_at         occurred_at  updated_at
-- texts       automation_profile, plans counter
-- numbers     low, usage, budget, fenced_only,  tokens
--             has branches, and what the
--             next parts add
--
-- The others are null. low is the first sequence that is selected by from_sequence and since. Of a session that has branches, or is
-- a fork, no messages are read without the part branches, with which the transcript is read: see session_path. The part adds how
-- many messages are selected; with the part all they are those of all branches. So does the part tokens, which reads what goes into a prompt (repo.ReadSessions.Tokens), and also the
-- first sequence of its newest messages, and whether there are others before these.
-- The rows are not scanned into the
-- generated struct: see repo/postgres/read.go.
--
-- Unless any_level, it does nothing in a transaction of another level than read committed, except that it returns a row without
-- a place. So it can be sent without a statement that sets the level.
--
-- search finds the first message that is not before since, by bisection: created_at does not decrease with the sequence. It
-- reads one message in each step, 20 of a million; one that is missing counts as one not before. LIMIT makes that an index look-up. A session's last row, in which low is
-- high, has the result.
--
-- Messages are returned until the ones before have max_bytes. As long as each has at most its share of that, small_bytes, all
-- are. For the others there is cut, the last message to be returned. It is looked for only then, in the order of the window, and
-- the search ends there. Small messages behind it are returned as well, and left out by the caller. No size is found out by
-- reading a value that is stored out of line: octet_length of a content or a payload need not.
--
-- Of more keys than max_rows has room for, or values above max_state_bytes, there are not all, and the read fails.
--
-- A SELECT hides the ids from the planner, and a CTE hides since: see TurnLockCounters.
WITH RECURSIVE asked AS NOT MATERIALIZED (
    SELECT @id::uuid AS id, 1::bigint AS place
    -- with many
    WHERE false
    UNION ALL
    SELECT n.id, n.place FROM unnest((SELECT @ids::uuid[])) WITH ORDINALITY AS n (id, place)
    -- end of many
), starts AS NOT MATERIALIZED (
    SELECT a.id, a.place, @from_sequence::bigint AS low FROM asked a
    -- with since
    WHERE false
    UNION ALL
    SELECT s.id, s.place, s.low FROM search s WHERE s.low = s.high
    -- end of since
)
    -- with messages
, ranges AS NOT MATERIALIZED (
    SELECT s.id, s.place, s.low, 9223372036854775807::bigint AS high FROM starts s
    WHERE (SELECT true FROM session_branches b WHERE b.session_id = s.id LIMIT 1) IS NULL
    -- with branches
    AND false
    UNION ALL
    SELECT p.id, p.place, p.low, p.high FROM spans p WHERE true
    -- end of branches
    -- with tokens
    AND false
    UNION ALL
    SELECT p.id, p.place, p.low, p.high FROM prompt p
    -- end of tokens
)
    -- end of messages
    -- with branches
, path AS (
    SELECT p.place, p.owner, p.low, p.high, sum(p.high - p.low + 1) OVER (
            PARTITION BY p.place ORDER BY CASE WHEN @backwards::boolean THEN -p.low ELSE p.low END ROWS UNBOUNDED PRECEDING
        ) AS total
    FROM (
        SELECT d.place, d.owner, d.high, d.low
            -- with since
            - d.low + session_since(d.owner, d.low, d.high, sqlc.narg(since)::timestamptz)
            -- end of since
            AS low
        FROM (
            SELECT a.place, t.owner, t.low, t.high
            FROM asked a, session_path(a.id, NULL, @from_sequence::bigint, NULL, CASE WHEN @backwards::boolean THEN @most::bigint END) AS t (owner, low, high)
            -- with all
            WHERE false
            UNION ALL
            SELECT a.place, c.session_id, greatest(@from_sequence::bigint, b.base), c.next_sequence - 1
            FROM asked a JOIN session_counters c ON c.session_id = a.id LEFT JOIN session_branches b ON b.session_id = a.id
            UNION ALL
            SELECT a.place, t.owner, t.low, t.high
            FROM asked a JOIN session_branches b ON b.session_id = a.id,
                session_path(a.id, b.base - 1, @from_sequence::bigint, NULL, NULL) AS t (owner, low, high)
            -- end of all
        ) AS d
        WHERE d.low <= d.high
    ) AS p
), spans AS (
    SELECT q.owner AS id, q.place,
        CASE WHEN @backwards::boolean THEN q.low - least(0, (SELECT @most::bigint) - q.total)::bigint ELSE q.low END AS low,
        CASE WHEN @backwards::boolean THEN q.high ELSE q.high + least(0, (SELECT @most::bigint) - q.total)::bigint END AS high
    FROM path q
)
    -- end of branches
    -- with tokens
, whole AS (
    SELECT a.place, d.owner, d.low, d.high FROM asked a, session_path(a.id, NULL, NULL, NULL, NULL) AS d (owner, low, high)
), instructions AS (
    SELECT w.place, w.owner, i.sequence, i.kind, i.metadata FROM whole w, LATERAL (
        SELECT messages.sequence, messages.kind, messages.metadata FROM messages
        WHERE messages.session_id = w.owner AND messages.sequence >= w.low AND messages.sequence <= w.high
            AND (messages.role IN ('system', 'developer') OR messages.kind = 'summary')
        ORDER BY messages.sequence DESC LIMIT 1000
    ) AS i
), summary AS (
    SELECT DISTINCT ON (s.place) s.place, s.sequence, s.covered FROM (
        SELECT i.place, i.sequence, CASE WHEN (i.metadata #> '{summary,to}')::text ~ '^[0-9]{1,18}$' THEN (i.metadata #>> '{summary,to}')::bigint END AS covered
        FROM instructions i WHERE i.kind = 'summary'
    ) AS s
    WHERE s.covered < s.sequence
    ORDER BY s.place, s.sequence DESC
), tail AS (
    SELECT a.place, t.owner, t.low, t.high, t.cut
    FROM asked a LEFT JOIN summary s ON s.place = a.place,
        session_tail(a.id, coalesce(s.covered + 1, 0), @most::bigint, @tokens::bigint) AS t (owner, low, high, cut)
), prompt AS (
    SELECT t.owner AS id, t.place, t.low, t.high FROM tail t WHERE t.low <= t.high
    UNION ALL
    SELECT o.owner, o.place, o.sequence, o.sequence FROM (
        SELECT i.owner, i.place, i.sequence, row_number() OVER (PARTITION BY i.place ORDER BY i.sequence DESC) AS number
        FROM instructions i LEFT JOIN summary s ON s.place = i.place
        WHERE (i.kind IS DISTINCT FROM 'summary' OR i.sequence = s.sequence)
    ) AS o
    WHERE o.number <= 1000
        AND NOT EXISTS (SELECT FROM tail t WHERE t.place = o.place AND o.sequence >= t.low AND o.sequence <= t.high)
)
    -- end of tokens
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
        CASE WHEN m.created_at < i.at THEN s.low + (s.high - s.low) / 2 + 1 ELSE s.low END,
        CASE WHEN m.created_at < i.at THEN s.high ELSE s.low + (s.high - s.low) / 2 END
    FROM since i, search s LEFT JOIN LATERAL (
        SELECT messages.created_at FROM messages
        WHERE messages.session_id = s.id AND messages.sequence = s.low + (s.high - s.low) / 2
        LIMIT 1
    ) AS m ON true
    WHERE s.low < s.high
)
    -- end of since
    -- with messages
, cut AS (
    SELECT q.place, CASE WHEN @backwards::boolean THEN -q.sequence ELSE q.sequence END AS turn
    FROM (
        SELECT r.place, m.sequence,
            sum(m.bytes) OVER (
                ORDER BY r.place, m.sequence
                -- with last
                DESC
                -- end of last
                ROWS UNBOUNDED PRECEDING
            ) AS total
        FROM ranges r, LATERAL (
            SELECT messages.sequence, messages.bytes
                    - CASE WHEN @with_content::boolean THEN 0 ELSE octet_length(messages.content) END
                    - CASE WHEN @with_payload::boolean THEN 0 ELSE coalesce(octet_length(messages.payload), 0) END AS bytes
            FROM messages
            WHERE messages.session_id = r.id AND messages.sequence >= r.low AND messages.sequence <= r.high
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
        SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id
    ) AS texts,
    ARRAY[r.low, s.input_tokens, s.output_tokens, s.cost_nanos, s.budget_nanos, c.fenced_only::integer
        -- with messages
        , coalesce((SELECT 1 FROM session_branches b WHERE b.session_id = s.id LIMIT 1), 0)
        -- end of messages
        -- with branches
        , (SELECT coalesce(sum(p.high - p.low + 1), 0) FROM spans p WHERE p.place = r.place AND p.low <= p.high)::bigint
        -- end of branches
        -- with tokens
        , (SELECT coalesce(sum(p.high - p.low + 1), 0) FROM prompt p WHERE p.place = r.place)::bigint
        , (SELECT min(t.low) FROM tail t WHERE t.place = r.place AND t.low <= t.high), (SELECT max(t.cut::integer) FROM tail t WHERE t.place = r.place)
        -- end of tokens
    ] AS numbers
FROM starts r
JOIN sessions s ON s.id = r.id
JOIN session_counters c ON c.session_id = r.id
WHERE @any_level::boolean OR current_setting('transaction_isolation') = 'read committed'
    -- with messages
UNION ALL
SELECT -r.place, m.sequence, m.follows, m.id, m.role, m.content, m.kind,
    m.call_id, m.metadata, m.payload, m.created_at, m.occurred_at,
    CASE WHEN m.counter IS NOT NULL THEN ARRAY[m.counter] END, CASE WHEN m.tokens IS NOT NULL THEN ARRAY[m.tokens::bigint] END
FROM ranges r, LATERAL (
    SELECT messages.sequence, messages.id, messages.role, messages.kind, messages.call_id,
        messages.metadata, messages.created_at, messages.occurred_at, messages.follows, messages.tokens, messages.counter,
        CASE WHEN @with_content::boolean THEN messages.content ELSE '' END AS content,
        CASE WHEN @with_payload::boolean THEN messages.payload END AS payload,
        messages.bytes
            - CASE WHEN @with_content::boolean THEN 0 ELSE octet_length(messages.content) END
            - CASE WHEN @with_payload::boolean THEN 0 ELSE coalesce(octet_length(messages.payload), 0) END AS bytes
    FROM messages
    WHERE messages.session_id = r.id AND messages.sequence >= r.low AND messages.sequence <= r.high
    ORDER BY messages.sequence
    -- with last
    DESC
    -- end of last
    LIMIT @max_messages::bigint
) AS m
WHERE (@any_level::boolean OR current_setting('transaction_isolation') = 'read committed') AND (
    m.bytes <= @small_bytes::bigint
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
-- Index: messages_pkey, forwards, session_branches_pkey. Only of a session without branches.
SELECT m.* FROM (
    SELECT * FROM messages
    WHERE messages.session_id = @session_id AND sequence >= CASE
            WHEN EXISTS (SELECT FROM session_branches WHERE session_branches.session_id = @session_id) THEN 9223372036854775807
            ELSE @from_sequence::bigint
        END
    ORDER BY sequence LIMIT @max_messages
) AS m
WHERE m.bytes <= @small_bytes::bigint;

-- name: SessionReadLast :many
-- Index: messages_pkey, backwards, session_branches_pkey. Only of a session without branches.
SELECT m.* FROM (
    SELECT * FROM messages
    WHERE messages.session_id = @session_id AND sequence >= CASE
            WHEN EXISTS (SELECT FROM session_branches WHERE session_branches.session_id = @session_id) THEN 9223372036854775807
            ELSE @from_sequence::bigint
        END
    ORDER BY sequence DESC LIMIT @max_messages
) AS m
WHERE m.bytes <= @small_bytes::bigint;

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
