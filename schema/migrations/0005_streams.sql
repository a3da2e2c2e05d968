-- oldest library: 1
-- +goose Up
-- +goose StatementBegin

CREATE FUNCTION streams_valid(namespace text, key text, owner text, began bigint, fence bigint, status text,
    reason text)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE broken CONSTANT pg_catalog.text := CASE
    WHEN NOT (namespace OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(namespace) OPERATOR(pg_catalog.<=) 255)
        THEN 'streams_namespace_check'
    WHEN NOT (key OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(key) OPERATOR(pg_catalog.<=) 1024)
        THEN 'streams_key_check'
    WHEN NOT (owner OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(owner) OPERATOR(pg_catalog.<=) 1024)
        THEN 'streams_owner_check'
    WHEN NOT (began OPERATOR(pg_catalog.>=) 1 AND fence OPERATOR(pg_catalog.>=) began) THEN 'streams_fence_check'
    WHEN NOT (status OPERATOR(pg_catalog.=) ANY (ARRAY['open', 'finished', 'failed', 'lapsed']))
        THEN 'streams_status_check'
    WHEN NOT (pg_catalog.octet_length(reason) OPERATOR(pg_catalog.<=) 65536
        AND (reason OPERATOR(pg_catalog.=) '' OR status OPERATOR(pg_catalog.=) 'failed')) THEN 'streams_reason_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "streams" violates check constraint "' || broken || '"',
        TABLE = 'streams', CONSTRAINT = broken;
END
$$;

-- A stream: the parts of a live answer under a key, until it expires.
-- A stream expires by this server's clock. id tells apart the streams that had the key one after the other, and
-- began orders them: the fence that was given first. fence is the writer's, a counter: each call of Open takes the
-- next one. It begins at the time, in microseconds since 1970, or after the fence of the stream before. opener
-- identifies the call, which may be sent twice. At most one stream of a key is open: one that expired before it
-- ended has lapsed when the next one is opened. An append locks the row, which makes no other version of it, and
-- seldom changes expires_at. The next sequence follows the last part's: a counter here would leave a version behind
-- for each append, which a look-up of the row would walk over while an older snapshot is open. A stream of a session
-- that is deleted expires: its parts, which may be many and large, are removed later, as those of others. The key is
-- to the counter row, which a deletion locks first.
CREATE TABLE streams (
    id            uuid        NOT NULL,
    namespace     text        NOT NULL DEFAULT 'local',
    key           text        COLLATE "C" NOT NULL,
    owner         text        NOT NULL,
    opener        uuid        NOT NULL,
    session_id    uuid,
    began         bigint      NOT NULL,
    fence         bigint      NOT NULL,
    status        text        COLLATE "C" NOT NULL DEFAULT 'open',
    reason        text        NOT NULL DEFAULT '',
    ttl           interval    NOT NULL,
    opened_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    expires_at    timestamptz NOT NULL,
    CONSTRAINT streams_pkey PRIMARY KEY (id),
    CONSTRAINT streams_namespace_key_began_key UNIQUE (namespace, key, began),
    CONSTRAINT streams_session_id_fkey FOREIGN KEY (session_id) REFERENCES session_counters (session_id) ON DELETE
        SET NULL,
    CONSTRAINT streams_check CHECK (streams_valid(namespace, key, owner, began, fence, status, reason))
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05);

CREATE UNIQUE INDEX streams_open_key ON streams (namespace, key) WHERE status = 'open';
CREATE INDEX streams_expires_at_idx ON streams (expires_at);
CREATE INDEX streams_owner_idx ON streams (owner);
CREATE INDEX streams_session_id_status_id_idx ON streams (session_id, status, id) WHERE session_id IS NOT NULL;

CREATE FUNCTION streams_orphan() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW.expires_at := 'epoch';
    NEW.status := CASE NEW.status WHEN 'open' THEN 'lapsed' ELSE NEW.status END;
    RETURN NEW;
END
$$;

CREATE TRIGGER streams_orphan BEFORE UPDATE OF session_id ON streams
    FOR EACH ROW WHEN (NEW.session_id IS NULL AND OLD.session_id IS NOT NULL) EXECUTE FUNCTION streams_orphan();

-- A part of a stream, under its sequence.
-- Parts are only inserted, by a statement that has locked the stream's row, and removed before it. A foreign key
-- would check the same again, at two thirds of the cost of a part. An empty one says that a new writer has begun
-- again.
CREATE TABLE stream_parts (
    stream_id uuid   NOT NULL,
    sequence  bigint NOT NULL,
    data      bytea  NOT NULL,
    CONSTRAINT stream_parts_pkey PRIMARY KEY (stream_id, sequence),
    CONSTRAINT stream_parts_sequence_check CHECK (sequence >= 0),
    CONSTRAINT stream_parts_data_check CHECK (octet_length(data) <= 16777216)
) WITH (autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.05);

-- By what a session is in use, so that it is not deleted for its age: rules.InUse.
CREATE FUNCTION session_in_use(session uuid) RETURNS text LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN CASE
        WHEN EXISTS (SELECT FROM session_plans l JOIN plans p ON p.id = l.plan_id JOIN plans w ON w.root_id = p.root_id
            WHERE l.session_id = session AND w.state IN ('queued', 'processing', 'complete')) THEN 'plan'
        WHEN EXISTS (SELECT FROM leases l WHERE l.namespace = 'local' AND l.kind = 'session' AND l.name = session::text
            AND l.expires_at > statement_timestamp()) THEN 'lease'
        WHEN EXISTS (SELECT FROM streams s WHERE s.session_id = session AND s.status = 'open'
            AND s.expires_at > statement_timestamp()) THEN 'stream'
    END;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE streams, stream_parts IN ACCESS EXCLUSIVE MODE;
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on' AND EXISTS (SELECT FROM streams) THEN
        RAISE EXCEPTION 'table streams still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
DROP FUNCTION session_in_use;
DROP TABLE stream_parts, streams;
DROP FUNCTION streams_orphan, streams_valid;
-- +goose StatementEnd
