-- Leases. A statement that changes one lease first takes the transaction-level advisory
-- lock of its key: the turn. It does so before it reads the clock and takes a token, so
-- that both are later than what those before it did, even if they deleted the row, which
-- then cannot be locked. A CTE reads the clock once for the whole statement.

-- name: LeaseAcquire :one
-- Index: leases_pkey or leases_kind_name_idx. Returns the lease as it is afterwards: with its new or present holder. If
-- the statement's snapshot shows somebody else who holds it, it waits for no turn and writes
-- nothing. The decision is made on the row that ON CONFLICT has locked, which may be newer
-- than the snapshot; if somebody else holds it by then, it is written unchanged, because
-- only rows that are written are returned.
WITH other AS (
    SELECT l.owner, l.token, l.acquired_at, l.expires_at
    FROM leases l
    WHERE l.name = @name::text AND l.kind = @kind::text AND l.owner <> @owner::text AND l.expires_at > clock_timestamp()
), turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended(@name::text, hashtext(@kind::text))) AS had
    WHERE NOT EXISTS (SELECT FROM other)
), given AS MATERIALIZED (
    SELECT clock_timestamp() AS now, nextval('lease_tokens') AS token FROM turn
), taken AS (
    INSERT INTO leases (name, kind, owner, token, acquired_at, expires_at)
    SELECT @name::text, @kind::text, @owner::text, g.token, g.now, g.now + make_interval(secs => @ttl_seconds::float8)
    FROM given g
    ON CONFLICT (name, kind) DO UPDATE SET
        owner = CASE WHEN leases.expires_at <= excluded.acquired_at THEN excluded.owner ELSE leases.owner END,
        token = CASE WHEN leases.expires_at <= excluded.acquired_at THEN excluded.token ELSE leases.token END,
        acquired_at = CASE WHEN leases.expires_at <= excluded.acquired_at THEN excluded.acquired_at ELSE leases.acquired_at END,
        expires_at = CASE WHEN leases.expires_at <= excluded.acquired_at OR leases.owner = excluded.owner
            THEN greatest(leases.expires_at, excluded.expires_at) ELSE leases.expires_at END
    RETURNING owner, token, acquired_at, expires_at
)
SELECT t.owner, t.token, t.acquired_at, t.expires_at FROM taken t
UNION ALL
SELECT o.owner, o.token, o.acquired_at, o.expires_at FROM other o;

-- name: LeaseRenew :one
-- Index: leases_pkey or leases_kind_name_idx. Returns no row if the lease with this token has expired, or is no longer
-- there. It never shortens a life: the owner may have another holder, with a longer one. The row is locked
-- before the clock is read, since LeaseReleaseAll, which takes no turn, may have it for long.
WITH turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended(@name::text, hashtext(@kind::text))) AS had
), locked AS MATERIALIZED (
    SELECT FROM leases l, turn WHERE l.name = @name::text AND l.kind = @kind::text AND l.token = @token FOR NO KEY UPDATE OF l
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now FROM locked
)
UPDATE leases l
SET expires_at = greatest(l.expires_at, c.now + make_interval(secs => @ttl_seconds::float8))
FROM clock c
WHERE l.name = @name::text AND l.kind = @kind::text AND l.token = @token AND l.expires_at > c.now
RETURNING l.owner, l.token, l.acquired_at, l.expires_at;

-- name: LeaseRelease :execrows
-- Index: leases_pkey or leases_kind_name_idx.
WITH turn AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(hashtextextended(@name::text, hashtext(@kind::text))) AS had
)
DELETE FROM leases l
USING turn
WHERE l.name = @name::text AND l.kind = @kind::text AND l.token = @token;

-- name: LeaseReleaseAll :execrows
-- Index: leases_owner_name_kind_idx. It takes no turns: of several keys, two calls could wait for
-- each other's.
DELETE FROM leases l WHERE l.owner = @owner;

-- name: LeaseList :many
-- Index: leases_pkey, leases_owner_name_kind_idx or leases_kind_name_idx. The query is rewritten before
-- it is sent: see audit_lists.sql.
SELECT l.name, l.kind, l.owner, l.token, l.acquired_at, l.expires_at, (l.expires_at <= clock_timestamp())::boolean AS expired
FROM leases l
WHERE (l.name, l.kind) > (@after_name::text, @after_kind::text)
    AND (sqlc.narg(name)::text IS NULL OR l.name = sqlc.narg(name)::text)
    AND (sqlc.narg(owner)::text IS NULL OR l.owner = sqlc.narg(owner)::text)
    AND (sqlc.narg(kind)::text IS NULL OR l.kind = sqlc.narg(kind)::text)
    AND (l.expires_at <= clock_timestamp()) = ANY(@has_expired::boolean[])
ORDER BY l.name, l.kind
LIMIT @max_rows;
