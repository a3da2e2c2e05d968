-- oldest library: 1
-- +goose Up
-- +goose StatementBegin

CREATE FUNCTION leases_valid(namespace text, kind text, name text, owner text, fence bigint)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE broken CONSTANT text := CASE
    WHEN NOT (namespace <> '' AND octet_length(namespace) <= 255) THEN 'leases_namespace_check'
    WHEN NOT (kind <> '' AND octet_length(kind) <= 255) THEN 'leases_kind_check'
    WHEN NOT (name <> '' AND octet_length(name) <= 768) THEN 'leases_name_check'
    WHEN NOT (owner <> '' AND octet_length(owner) <= 1024) THEN 'leases_owner_check'
    WHEN NOT (fence >= 0) THEN 'leases_fence_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "leases" violates check constraint "' || broken || '"',
        TABLE = 'leases', CONSTRAINT = broken;
END
$$;

-- A lease and its owner, until it expires or is released; it counts the fences of its key.
-- A lease expires by this server's clock. A release frees the row: it has no owner then, has expired for ever, and
-- acquired_at is when it was freed. It stays for a day, because fence is the counter of the key. The name of a
-- session or a plan is its id as uuid's text. A renewal changes expires_at alone, which no index has, so that it is
-- heap-only, as long as the page has room; a lease that is taken and released leaves dead rows behind, which these
-- settings bound.
CREATE TABLE leases (
    namespace   text        COLLATE "C" NOT NULL DEFAULT 'local',
    kind        text        COLLATE "C" NOT NULL,
    name        text        COLLATE "C" NOT NULL,
    owner       text        COLLATE "C",
    fence       bigint      NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    CONSTRAINT leases_pkey PRIMARY KEY (namespace, kind, name),
    CONSTRAINT leases_check CHECK (leases_valid(namespace, kind, name, owner, fence))
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX leases_namespace_owner_kind_name_idx ON leases (namespace, owner, kind, name) WHERE owner IS NOT NULL;
CREATE INDEX leases_namespace_acquired_at_idx ON leases (namespace, acquired_at) WHERE owner IS NULL;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
-- Acquirers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE leases IN ACCESS EXCLUSIVE MODE;
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on'
        AND EXISTS (SELECT FROM leases WHERE owner IS NOT NULL) THEN
        RAISE EXCEPTION 'table leases still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
DROP TABLE leases;
DROP FUNCTION leases_valid;
-- +goose StatementEnd
