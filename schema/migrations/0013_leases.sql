-- oldest library: 4

-- +goose Up

-- A lease is held by its owner until it expires, by this server's clock, or is
-- released, which deletes the row. Its keys begin with the name, which tells apart
-- more than the kind. A renewal changes no column of an index, so that it is
-- heap-only, as long as the page has room; a lease that is taken and released leaves
-- dead rows behind, which these settings bound.
CREATE TABLE leases (
    name        text        COLLATE "C" NOT NULL,
    kind        text        COLLATE "C" NOT NULL,
    owner       text        COLLATE "C" NOT NULL,
    token       bigint      NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    CONSTRAINT leases_pkey PRIMARY KEY (name, kind),
    CONSTRAINT leases_name_check CHECK (name <> '' AND octet_length(name) <= 768),
    CONSTRAINT leases_kind_check CHECK (kind <> '' AND octet_length(kind) <= 255),
    CONSTRAINT leases_owner_check CHECK (owner <> '' AND octet_length(owner) <= 1024),
    CONSTRAINT leases_token_check CHECK (token >= 1)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX leases_kind_name_idx ON leases (kind, name);
CREATE INDEX leases_owner_name_kind_idx ON leases (owner, name, kind);

-- Tokens outlive the rows: a key whose lease was released, or whose row was deleted by
-- hand, gets a larger one. The statement that acquires a lease takes its value while it
-- keeps others from acquiring the same one. The sequence begins at the time, in
-- microseconds since 1970, so that one that is dropped and made again repeats no token.
CREATE SEQUENCE lease_tokens AS bigint;
SELECT setval('lease_tokens', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- +goose Down

-- Acquirers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE leases IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM leases) THEN
        RAISE EXCEPTION 'table leases still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

DROP SEQUENCE lease_tokens;
DROP TABLE leases;
