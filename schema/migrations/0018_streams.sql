-- oldest library: 4

-- +goose Up

-- A stream: parts of something live, until it expires by this server's clock. id tells
-- apart those that had the key one after the other, and began orders them: the fence that
-- was given first. fence is that of the writer; opener identifies its call of Open, which
-- may be sent twice. At most one stream of a key is open: one that expired before it ended
-- has lapsed when the next one is opened. An append locks the row and advances
-- next_sequence, which no index has, and seldom changes expires_at: so it is heap-only, as
-- long as the page has room.
CREATE TABLE streams (
    id            uuid        NOT NULL,
    key           text        COLLATE "C" NOT NULL,
    owner         text        NOT NULL,
    opener        uuid        NOT NULL,
    began         bigint      NOT NULL,
    fence         bigint      NOT NULL,
    status        text        NOT NULL DEFAULT 'open',
    reason        text        NOT NULL DEFAULT '',
    next_sequence bigint      NOT NULL DEFAULT 0,
    ttl           interval    NOT NULL,
    opened_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz NOT NULL,
    CONSTRAINT streams_pkey PRIMARY KEY (id),
    CONSTRAINT streams_key_began_key UNIQUE (key, began),
    CONSTRAINT streams_key_check CHECK (key <> '' AND octet_length(key) <= 255),
    CONSTRAINT streams_owner_check CHECK (owner <> '' AND octet_length(owner) <= 1024),
    CONSTRAINT streams_fence_check CHECK (began >= 1 AND fence >= began),
    CONSTRAINT streams_status_check CHECK (status IN ('open', 'finished', 'failed', 'lapsed')),
    CONSTRAINT streams_reason_check CHECK (octet_length(reason) <= 65536 AND (reason = '' OR status = 'failed')),
    CONSTRAINT streams_next_sequence_check CHECK (next_sequence >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);
CREATE UNIQUE INDEX streams_open_key ON streams (key) WHERE status = 'open';
CREATE INDEX streams_expires_at_idx ON streams (expires_at);

-- Parts are only inserted, by a statement that has locked the stream's row, and removed
-- before it.
CREATE TABLE stream_parts (
    stream_id uuid   NOT NULL,
    sequence  bigint NOT NULL,
    data      bytea  NOT NULL,
    CONSTRAINT stream_parts_pkey PRIMARY KEY (stream_id, sequence),
    CONSTRAINT stream_parts_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES streams (id),
    CONSTRAINT stream_parts_sequence_check CHECK (sequence >= 0),
    CONSTRAINT stream_parts_data_check CHECK (octet_length(data) BETWEEN 1 AND 1048576)
) WITH (autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.05);

-- As lease_tokens: fences outlive the rows, and one that is dropped and made again repeats
-- none.
CREATE SEQUENCE stream_fences AS bigint;
SELECT setval('stream_fences', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE streams, stream_parts IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM streams) THEN
        RAISE EXCEPTION 'table streams still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

DROP SEQUENCE stream_fences;
DROP TABLE stream_parts;
DROP TABLE streams;
