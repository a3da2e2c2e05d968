-- A read of sessions is a pipeline of these statements (repo/postgres/read.go). A SELECT hides arrays from the planner:
-- see TurnLockCounters.

-- name: SessionReadHeads :many
-- Index: sessions_pkey, session_counters_pkey, session_plans_pkey, plans_pkey, session_branches_pkey. Sessions as
-- SessionGet returns them, with their places in ids, what their next messages follow, and whether they have branches or
-- are forks.
SELECT a.place::bigint AS place, sqlc.embed(s), greatest(s.updated_at, c.updated_at)::timestamptz AS changed_at,
c.next_sequence, c.fenced_only, c.follows,
    ARRAY(SELECT l.plan_id::text || '/' || p.phase || '/' || p.state || '/' || p.namespace FROM session_plans l
        JOIN plans p ON p.id = l.plan_id
        WHERE l.session_id = s.id ORDER BY l.plan_id)::text[] AS plans,
    coalesce((SELECT true FROM session_branches b WHERE b.session_id = s.id LIMIT 1), false)::boolean AS branched
FROM unnest((SELECT @ids::uuid[])) WITH ORDINALITY AS a (id, place)
JOIN sessions s ON s.id = a.id
JOIN session_counters c ON c.session_id = s.id;

-- name: SessionReadRanges :many
-- Index: messages_pkey, session_branches_pkey. The first messages of each range, or backwards the last ones, with the
-- place of the range, and the size of what is asked for; of sessions that have branches, or are forks, only if
-- branched. A row has no metadata, content and payload if with it there are more bytes than its range's share: the
-- caller decides what there is room for. No size is found out by reading a value that is stored out of line. One of
-- first_messages and last_messages is 0.
SELECT t.session_id, t.sequence, t.id, t.role, t.kind, t.call_id,
    CASE WHEN t.fits AND (SELECT @with_content::boolean) THEN t.content END AS content, CASE WHEN t.fits
        THEN t.metadata END AS metadata,
    CASE WHEN t.fits AND (SELECT @with_payload::boolean) THEN t.payload END AS payload,
    t.occurred_at, t.created_at, t.follows, t.tokens, t.counter, t.size, r.place
FROM ROWS FROM (unnest((SELECT @owners::uuid[])), unnest((SELECT @lows::bigint[])), unnest((SELECT @highs::bigint[])),
    unnest((SELECT @shares::bigint[])))
    WITH ORDINALITY AS r (owner, low, high, share, place), LATERAL (
    SELECT z.*, (sum(z.size) OVER (ROWS UNBOUNDED PRECEDING)) <= r.share AS fits
    FROM (
        SELECT m.*, m.bytes - CASE WHEN (SELECT @with_content::boolean) THEN 0 ELSE octet_length(m.content) END
            - CASE WHEN (SELECT @with_payload::boolean) THEN 0 ELSE coalesce(octet_length(m.payload), 0) END AS size
        FROM (
            (SELECT * FROM messages f WHERE f.session_id = r.owner AND f.sequence >= r.low AND f.sequence <= r.high
                ORDER BY f.sequence LIMIT (SELECT @first_messages::bigint))
            UNION ALL
            (SELECT * FROM messages l WHERE l.session_id = r.owner AND l.sequence >= r.low AND l.sequence <= r.high
                ORDER BY l.sequence DESC LIMIT (SELECT @last_messages::bigint))
        ) AS m
    ) AS z
) AS t
WHERE (SELECT @branched::boolean) OR (SELECT true FROM session_branches b WHERE b.session_id = r.owner LIMIT 1) IS NULL;

-- name: SessionReadPath :many
-- Index: session_branches_pkey, session_counters_pkey. The ranges of messages that from_sequence and since select of
-- transcripts, or of all branches; most, if the last messages are read of transcripts, bounds the messages of each.
SELECT a.place::bigint AS place, r.owner::uuid AS owner, r.high::bigint AS high,
    (CASE WHEN sqlc.narg(since)::timestamptz IS NULL THEN r.low
        ELSE session_since(r.owner, r.low, r.high, sqlc.narg(since)::timestamptz) END)::bigint AS low
FROM unnest((SELECT @ids::uuid[])) WITH ORDINALITY AS a (id, place)
JOIN session_counters c ON c.session_id = a.id
LEFT JOIN session_branches b ON b.session_id = a.id, LATERAL (
    SELECT p.owner, p.low, p.high
    FROM session_path(a.id, CASE WHEN @branches::boolean THEN coalesce(b.base, 0) - 1 END, @from_sequence::bigint, NULL,
        sqlc.narg(most)::bigint) AS p (owner, low, high)
    UNION ALL
    SELECT a.id, greatest(@from_sequence::bigint, coalesce(b.base, 0)), c.next_sequence - 1 WHERE @branches::boolean
) AS r;

-- name: SessionReadPrompt :many
-- Index: messages_session_id_instruction_idx. The ranges of what goes into prompts (repo.ReadSessions.Tokens): the
-- newest messages, in_tail, whose ranges may be empty, with whether there are others before them (cut), and the summary
-- and instructions before.
WITH asked AS NOT MATERIALIZED (
    SELECT a.id, a.place::bigint AS place FROM unnest((SELECT @ids::uuid[])) WITH ORDINALITY AS a (id, place)
), instructions AS (
    SELECT a.place, w.owner, i.sequence, i.kind, i.metadata
    FROM asked a, session_path(a.id, NULL, NULL, NULL, NULL) AS w (owner, low, high), LATERAL (
        SELECT messages.sequence, messages.kind, messages.metadata FROM messages
        WHERE messages.session_id = w.owner AND messages.sequence >= w.low AND messages.sequence <= w.high
            AND (messages.role IN ('system', 'developer') OR messages.kind = 'summary')
        ORDER BY messages.sequence DESC LIMIT 1000
    ) AS i
), summary AS (
    SELECT DISTINCT ON (s.place) s.place, s.sequence, s.covered FROM (
        SELECT i.place, i.sequence, CASE WHEN (i.metadata #> '{summary,to}')::text ~ '^[0-9]{1,18}$'
            THEN (i.metadata #>> '{summary,to}')::bigint END AS covered
        FROM instructions i WHERE i.kind = 'summary'
    ) AS s
    WHERE s.covered < s.sequence
    ORDER BY s.place, s.sequence DESC
), tail AS (
    SELECT a.place, t.owner, t.low, t.high, t.cut
    FROM asked a LEFT JOIN summary s ON s.place = a.place,
        session_tail(a.id, coalesce(s.covered + 1, 0), @most::bigint, @tokens::bigint) AS t (owner, low, high, cut)
)
SELECT t.place, t.owner::uuid AS owner, t.low::bigint AS low, t.high::bigint AS high, true AS in_tail,
t.cut::boolean AS cut FROM tail t
UNION ALL
SELECT o.place, o.owner, o.sequence, o.sequence, false, false FROM (
    SELECT i.owner, i.place, i.sequence, row_number() OVER (PARTITION BY i.place ORDER BY i.sequence DESC) AS number
    FROM instructions i LEFT JOIN summary s ON s.place = i.place
    WHERE (i.kind IS DISTINCT FROM 'summary' OR i.sequence = s.sequence)
) AS o
WHERE o.number <= 1000
    AND NOT EXISTS (SELECT FROM tail t WHERE t.place = o.place AND o.sequence >= t.low AND o.sequence <= t.high);

-- name: SessionReadState :many
-- Index: state_scopes_session_id_idx, state_scopes_namespace_name_key, state_values_pkey. The keys of scopes, in any
-- order, and a row without a key for a scope that has none. Of more than max_rows, or of values above max_bytes, there
-- are not all, and the read fails.
SELECT v.session_id, v.name, v.scope_version, coalesce(v.key, '')::text AS key,
coalesce(v.version, 0)::bigint AS version, coalesce(v.updated_at, 'epoch')::timestamptz AS updated_at,
    (CASE WHEN v.total <= @max_bytes::bigint THEN v.value END)::json AS value
FROM (
    SELECT k.session_id, k.name, k.version AS scope_version, t.key, t.value, t.version, t.updated_at,
    sum(t.bytes) OVER (ROWS UNBOUNDED PRECEDING) AS total
    FROM (
        SELECT o.id, o.session_id, o.name, o.version FROM state_scopes o
        WHERE o.session_id = ANY (CAST((SELECT @session_ids::uuid[]) AS uuid[]))
        UNION ALL
        SELECT o.id, o.session_id, o.name, o.version FROM state_scopes o
        WHERE o.namespace = @namespace::text AND o.name = ANY (CAST((SELECT @scopes::text[]) AS text[]))
    ) AS k
    LEFT JOIN LATERAL (
        SELECT s.key, s.value, s.version, s.updated_at, s.bytes FROM state_values s
            WHERE s.scope_id = k.id LIMIT @max_rows::integer
    ) AS t ON true
    LIMIT @max_rows::integer
) AS v;
