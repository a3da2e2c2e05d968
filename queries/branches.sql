-- name: ForkLock :exec
-- Index: session_counters_pkey. Locks a session that is to be forked, and changes nothing of it.
UPDATE session_counters SET fence = fence WHERE session_id = @id;

-- name: ForkFind :one
-- Index: session_counters_pkey, messages_pkey, session_branches_pkey. The session that has the message with this
-- sequence: the one that is forked, or, if that is a fork, perhaps one that it was forked of; null if there is no such
-- message. depth is the number of that one's ancestors. There is no row if there is no such session.
SELECT o.owner, coalesce((SELECT b.depth FROM session_branches b WHERE b.session_id = o.owner), 0)::integer AS depth
FROM session_counters c LEFT JOIN LATERAL (
    SELECT m.session_id AS owner FROM messages m WHERE m.session_id = c.session_id AND m.sequence = @at::bigint
    UNION ALL
    SELECT p.owner FROM session_branches b, session_path(b.session_id, b.base - 1, @at::bigint, NULL, NULL) AS p (owner,
        low, high)
    WHERE b.session_id = c.session_id AND b.base > @at::bigint AND p.low <= @at::bigint AND p.high >= @at::bigint
    LIMIT 1
) AS o ON true
WHERE c.session_id = @id;

-- name: ForkInsert :exec
-- Index: session_branches_pkey. Notes of what a session is a fork.
WITH stored AS (
    INSERT INTO session_branches (session_id, parent_id, base, needs, depth)
    SELECT @session_id, @parent_id, n.base, n.base - 1, @depth FROM (SELECT @base::bigint AS base) AS n
    RETURNING true
)
SELECT rows_left_out('session_branches') WHERE NOT EXISTS (SELECT FROM stored);

-- name: ForkImport :exec
-- Index: session_ids_pkey, session_branches_pkey. Makes a place for messages that a fork which is imported has of
-- others: the id of a session that does not exist, as a deletion leaves one.
WITH noted AS (
    INSERT INTO session_ids (id, namespace_hash) VALUES (@session_id::uuid, hashtextextended(@namespace::text, 0))
), left_over AS (
    INSERT INTO session_branches (session_id, importer) VALUES (@session_id::uuid, @importer::uuid)
    RETURNING true
)
SELECT rows_left_out('session_branches') WHERE NOT EXISTS (SELECT FROM left_over);

-- name: BranchImport :exec
-- Index: session_branches_pkey, session_counters_pkey. Notes that a session which is imported has branches, and what
-- its next message follows (null: the one before it).
WITH noted AS (
    INSERT INTO session_branches (session_id) SELECT @session_id::uuid
    ON CONFLICT (session_id) DO UPDATE SET session_id = excluded.session_id
    RETURNING true
), stored AS (
    UPDATE session_counters SET follows = sqlc.narg(follows)::bigint WHERE session_id = @session_id::uuid
    RETURNING true
)
SELECT rows_left_out('session_branches') WHERE NOT (EXISTS (SELECT FROM noted) AND EXISTS (SELECT FROM stored));

-- name: ForkIsOf :one
-- Index: session_branches_pkey or session_branches_parent_id_idx. Whether a session is a fork of this message.
SELECT EXISTS (SELECT FROM session_branches b WHERE b.session_id = @session_id AND b.parent_id = @parent_id
    AND b.base = @base::bigint);

-- name: ForkKept :one
-- Index: none, but session_needed's. How many messages of a deleted session its forks have.
SELECT coalesce(sum(greatest(0, r.high - greatest(r.low - 1, r.before))), 0)::bigint
FROM (
    SELECT n.low, n.high, coalesce(max(n.high) OVER (ORDER BY n.low, n.high ROWS BETWEEN UNBOUNDED PRECEDING
        AND 1 PRECEDING), -1) AS before
    FROM session_needed(@id::uuid) AS n (low, high, next)
    WHERE n.low <= n.high
) AS r;

-- name: ForkImported :many
-- Index: session_branches_importer_idx. The ids under which ForkImport has stored what forks had of others.
SELECT b.session_id FROM session_branches b WHERE b.importer = ANY (@session_ids::uuid[]);

-- name: ForkYield :exec
-- Index: session_branches_pkey, session_branches_parent_id_idx. Gives the remains of a deleted session, whose
-- messages are in no fork, another id: forks of its forks may still find by it what they have of others.
WITH moved AS (
    UPDATE session_branches SET session_id = @other::uuid WHERE session_id = @session_id::uuid
    RETURNING session_id
), noted AS (
    INSERT INTO session_ids (id) SELECT m.session_id FROM moved m
)
UPDATE session_branches SET parent_id = @other::uuid WHERE parent_id = @session_id::uuid;

-- name: ForkLeft :one
-- Index: messages_pkey or messages_session_id_id_key. Whether there are messages of a session that was deleted.
SELECT EXISTS (SELECT FROM messages WHERE messages.session_id = @id);

-- name: BranchList :many
-- Index: session_counters_pkey, messages_pkey, session_branches_pkey, messages_session_id_branch_idx. The beginnings of
-- the branches of a session that are behind the message which the one with this sequence follows (parent; null if there
-- is no such message), ascending. Each row has what is the same for all: see rules.Tree. There is one without a
-- beginning if there are none, and none at all if there is no such session.
SELECT c.next_sequence, c.follows, coalesce(b.base, 0)::bigint AS base, t.parent AS parent, coalesce((
        SELECT min(p.low) FROM session_path(c.session_id, b.base - 1, t.parent + 1, NULL, NULL) AS p (owner, low, high)
            WHERE b.base > 0
    ), -1)::bigint AS inherited,
    coalesce(m.sequence, -1)::bigint AS mark_sequence, coalesce(m.follows, -1)::bigint AS mark_follows
FROM session_counters c
LEFT JOIN session_branches b ON b.session_id = c.session_id
LEFT JOIN LATERAL (
    SELECT coalesce(o.follows, o.sequence - 1) AS parent FROM messages o WHERE o.session_id = c.session_id
        AND o.sequence = @sequence
    UNION ALL
    SELECT coalesce(o.follows, o.sequence - 1)
    FROM session_path(c.session_id, b.base - 1, @sequence, NULL, NULL) AS p (owner, low, high)
    JOIN messages o ON o.session_id = p.owner AND o.sequence = @sequence
    WHERE b.base > @sequence AND p.low <= @sequence AND p.high >= @sequence LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (
    SELECT k.sequence, k.follows FROM messages k
    WHERE k.session_id = c.session_id AND k.sequence > t.parent AND k.follows IS NOT NULL
    ORDER BY k.sequence LIMIT @max_rows::integer
) AS m ON true
WHERE c.session_id = @session_id ORDER BY m.sequence;
