-- +goose Up

-- The functions below keep the search path of their making. Temporary tables come
-- last in it: unnamed they would come first, and whoever can make one could put
-- it in a table's place, under the owner's rights.
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- The audit trail: append-only, in monthly partitions, sealed in the background.
-- The primary key serves repeated recording, time ranges and paging at once.
CREATE TABLE audit_entries (
    occurred_at timestamptz NOT NULL,
    id          uuid        NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    type        text        NOT NULL,
    actor       text,
    user_name   text,
    plan_id     uuid,
    session_id  uuid,
    project     text,
    -- json, not jsonb: what was hashed is what is read.
    details     json        NOT NULL DEFAULT '{}',
    nonce       uuid        NOT NULL DEFAULT gen_random_uuid(),
    CONSTRAINT audit_entries_pkey PRIMARY KEY (occurred_at, id),
    CONSTRAINT audit_entries_type_check CHECK (type ~ '^[a-z][a-z0-9_]{0,62}$'),
    CONSTRAINT audit_entries_actor_check CHECK (actor <> '' AND octet_length(actor) <= 255),
    CONSTRAINT audit_entries_user_name_check CHECK (user_name <> '' AND octet_length(user_name) <= 255),
    CONSTRAINT audit_entries_project_check CHECK (project <> '' AND octet_length(project) <= 255),
    CONSTRAINT audit_entries_details_check CHECK (json_typeof(details) = 'object')
) PARTITION BY RANGE (occurred_at);

-- Reading: one entry, and each filter in the order of time.
CREATE INDEX audit_entries_id_occurred_at_idx ON audit_entries (id, occurred_at);
CREATE INDEX audit_entries_type_occurred_at_id_idx ON audit_entries (type, occurred_at, id);
CREATE INDEX audit_entries_actor_occurred_at_id_idx ON audit_entries (actor, occurred_at, id) WHERE actor IS NOT NULL;
CREATE INDEX audit_entries_user_name_occurred_at_id_idx ON audit_entries (user_name, occurred_at, id) WHERE user_name IS NOT NULL;
CREATE INDEX audit_entries_plan_id_occurred_at_id_idx ON audit_entries (plan_id, occurred_at, id) WHERE plan_id IS NOT NULL;
CREATE INDEX audit_entries_session_id_occurred_at_id_idx ON audit_entries (session_id, occurred_at, id) WHERE session_id IS NOT NULL;
CREATE INDEX audit_entries_project_occurred_at_id_idx ON audit_entries (project, occurred_at, id) WHERE project IS NOT NULL;

-- What is not sealed yet, in the order of recording.
CREATE TABLE audit_unsealed (
    position    bigint      GENERATED ALWAYS AS IDENTITY,
    occurred_at timestamptz NOT NULL,
    entry_id    uuid        NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT audit_unsealed_pkey PRIMARY KEY (position),
    CONSTRAINT audit_unsealed_occurred_at_entry_id_key UNIQUE (occurred_at, entry_id)
);

-- The leaves of the log. They outlive their entries.
CREATE TABLE audit_leaves (
    sequence    bigint      NOT NULL,
    occurred_at timestamptz NOT NULL,
    entry_id    uuid        NOT NULL,
    hash        bytea       NOT NULL,
    pruned_by   uuid,
    CONSTRAINT audit_leaves_pkey PRIMARY KEY (sequence),
    CONSTRAINT audit_leaves_entry_id_occurred_at_key UNIQUE (entry_id, occurred_at),
    CONSTRAINT audit_leaves_sequence_check CHECK (sequence >= 0),
    CONSTRAINT audit_leaves_hash_check CHECK (octet_length(hash) = 32)
);

-- The hashes of the tree, in the order in which they come to be.
CREATE TABLE audit_hashes (
    index bigint NOT NULL,
    hash  bytea  NOT NULL,
    CONSTRAINT audit_hashes_pkey PRIMARY KEY (index),
    CONSTRAINT audit_hashes_index_check CHECK (index >= 0),
    CONSTRAINT audit_hashes_hash_check CHECK (octet_length(hash) = 32)
);

CREATE TABLE audit_checkpoints (
    size       bigint      NOT NULL,
    root       bytea       NOT NULL,
    note       bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT audit_checkpoints_pkey PRIMARY KEY (size),
    CONSTRAINT audit_checkpoints_size_check CHECK (size >= 1),
    CONSTRAINT audit_checkpoints_root_check CHECK (octet_length(root) = 32)
);

-- Entries that cannot be recorded, as bytes: text may be what they cannot be.
CREATE TABLE audit_quarantine (
    id         uuid        NOT NULL,
    document   bytea       NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT audit_quarantine_pkey PRIMARY KEY (id)
);

CREATE TABLE audit_holds (
    subject    uuid        NOT NULL,
    kind       text        NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT audit_holds_pkey PRIMARY KEY (kind, subject),
    CONSTRAINT audit_holds_kind_check CHECK (kind IN ('plan', 'session')),
    CONSTRAINT audit_holds_reason_check CHECK (reason <> '' AND octet_length(reason) <= 65536)
);

-- The functions run with the rights of the tables' owner, in the schema that they
-- were made in: those who record need no rights on what recording fills.

-- An id as the library makes them: a time that sorts, then random bits.
CREATE FUNCTION audit_new_id() RETURNS uuid LANGUAGE sql VOLATILE
AS $$
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid
$$;

-- +goose StatementBegin
CREATE FUNCTION audit_queue() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO audit_unsealed (occurred_at, entry_id, recorded_at)
    SELECT n.occurred_at, n.id, n.recorded_at FROM new_entries n;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT
AS $$
BEGIN
    -- audit_prune_batch says so for its own transaction, and runs as the owner:
    -- the setting alone is of no use to anyone else.
    IF TG_OP IN ('DELETE', 'UPDATE') AND coalesce(current_setting('agentstore.audit_prune', true), '') = 'on'
        AND current_user = (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = TG_RELID) THEN
        IF TG_OP = 'DELETE' AND TG_ARGV[0] = 'entries' THEN
            RETURN OLD;
        ELSIF TG_OP = 'UPDATE' AND TG_ARGV[0] = 'leaves' THEN
            IF (NEW.sequence, NEW.occurred_at, NEW.entry_id, NEW.hash) = (OLD.sequence, OLD.occurred_at, OLD.entry_id, OLD.hash)
                AND OLD.pruned_by IS NULL THEN
                RETURN NEW;
            END IF;
        END IF;
    END IF;
    RAISE EXCEPTION '% of % is refused: the audit trail is append-only', TG_OP, TG_TABLE_NAME USING ERRCODE = 'ZAS02';
END
$$;
-- +goose StatementEnd

-- Statement triggers see all rows of an INSERT or COPY at once.
CREATE TRIGGER audit_entries_queue AFTER INSERT ON audit_entries
    REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT EXECUTE FUNCTION audit_queue();
CREATE TRIGGER audit_entries_refuse BEFORE UPDATE OR DELETE ON audit_entries
    FOR EACH ROW EXECUTE FUNCTION audit_refuse('entries');
CREATE TRIGGER audit_entries_refuse_truncate BEFORE TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('entries');
CREATE TRIGGER audit_leaves_refuse BEFORE UPDATE OR DELETE ON audit_leaves
    FOR EACH ROW EXECUTE FUNCTION audit_refuse('leaves');
CREATE TRIGGER audit_leaves_refuse_truncate BEFORE TRUNCATE ON audit_leaves
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('leaves');
CREATE TRIGGER audit_hashes_refuse BEFORE UPDATE OR DELETE ON audit_hashes
    FOR EACH ROW EXECUTE FUNCTION audit_refuse('hashes');
CREATE TRIGGER audit_hashes_refuse_truncate BEFORE TRUNCATE ON audit_hashes
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('hashes');
CREATE TRIGGER audit_checkpoints_refuse BEFORE UPDATE OR DELETE ON audit_checkpoints
    FOR EACH ROW EXECUTE FUNCTION audit_refuse('checkpoints');
CREATE TRIGGER audit_checkpoints_refuse_truncate BEFORE TRUNCATE ON audit_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('checkpoints');

-- ALWAYS: session_replication_role = replica goes round any other trigger.
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_queue;
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_refuse;
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_refuse_truncate;
ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse;
ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse_truncate;
ALTER TABLE audit_hashes ENABLE ALWAYS TRIGGER audit_hashes_refuse;
ALTER TABLE audit_hashes ENABLE ALWAYS TRIGGER audit_hashes_refuse_truncate;
ALTER TABLE audit_checkpoints ENABLE ALWAYS TRIGGER audit_checkpoints_refuse;
ALTER TABLE audit_checkpoints ENABLE ALWAYS TRIGGER audit_checkpoints_refuse_truncate;

-- Makes the partitions of a month and of some after it, as far as they are not
-- there, and says how many it made. CREATE and ATTACH, unlike PARTITION OF, leave
-- those who write alone.
-- +goose StatementBegin
CREATE FUNCTION audit_make_partitions(at timestamptz, ahead integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
    month timestamp;
    partition text;
    grantee text;
    made integer := 0;
BEGIN
    IF ahead NOT BETWEEN 0 AND 120 THEN
        RAISE EXCEPTION 'ahead is not between 0 and 120' USING ERRCODE = '22023';
    END IF;
    FOR i IN 0..ahead LOOP
        month := date_trunc('month', at AT TIME ZONE 'UTC') + i * interval '1 month';
        partition := 'audit_entries_' || to_char(month, 'YYYYMM');
        -- Not to_regclass: it may answer from a cache, which a wait for an advisory
        -- lock does not refresh.
        CONTINUE WHEN EXISTS (SELECT FROM pg_class c WHERE c.relname = partition AND c.relnamespace = quote_ident(current_schema())::regnamespace);
        PERFORM pg_advisory_xact_lock(hashtextextended('agentstore.audit_make_partitions', 0));
        IF NOT EXISTS (SELECT FROM pg_class c WHERE c.relname = partition AND c.relnamespace = quote_ident(current_schema())::regnamespace) THEN
            EXECUTE format('CREATE TABLE %I (LIKE audit_entries INCLUDING ALL)', partition);
            EXECUTE format('ALTER TABLE audit_entries ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                partition, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
            EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER audit_entries_refuse', partition);
            EXECUTE format('CREATE TRIGGER audit_entries_refuse_truncate BEFORE TRUNCATE ON %I
                FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse(''entries'')', partition);
            EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER audit_entries_refuse_truncate', partition);
            -- Rights are the parent's. The owner's default privileges would let
            -- others write past the queue.
            FOR grantee IN
                SELECT DISTINCT coalesce(quote_ident(r.rolname), 'PUBLIC')
                FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
                WHERE c.relname = partition AND c.relnamespace = quote_ident(current_schema())::regnamespace AND a.grantee <> c.relowner
            LOOP
                EXECUTE format('REVOKE ALL ON %I FROM %s', partition, grantee);
            END LOOP;
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END
$$;
-- +goose StatementEnd

-- Removes up to max_rows entries, oldest first, that are not older than after and
-- older than before, of the types (none: all), sealed and on no hold, and notes on
-- their leaves which entry tells of it. It says how far it came: the next batch
-- need not pass by again what stays.
-- +goose StatementBegin
CREATE FUNCTION audit_prune_batch(after timestamptz, before timestamptz, types text[], by_entry uuid, max_rows integer, OUT pruned bigint, OUT reached timestamptz) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM set_config('agentstore.audit_prune', 'on', true);
    WITH doomed AS (
        SELECT e.occurred_at, e.id FROM audit_entries e
        WHERE e.occurred_at >= after AND e.occurred_at < before
            AND (cardinality(types) = 0 OR e.type = ANY (types))
            AND NOT EXISTS (SELECT FROM audit_holds h WHERE h.kind = 'plan' AND h.subject = e.plan_id)
            AND NOT EXISTS (SELECT FROM audit_holds h WHERE h.kind = 'session' AND h.subject = e.session_id)
            -- A scalar subquery is looked up entry by entry: EXISTS may be answered
            -- by reading all leaves first, for each batch.
            AND (SELECT true FROM audit_leaves l WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at LIMIT 1)
        ORDER BY e.occurred_at, e.id
        LIMIT max_rows
    ), deleted AS (
        DELETE FROM audit_entries e USING doomed d
        WHERE e.occurred_at = d.occurred_at AND e.id = d.id AND e.occurred_at >= after AND e.occurred_at < before
        RETURNING e.occurred_at, e.id
    ), noted AS (
        UPDATE audit_leaves l SET pruned_by = by_entry FROM deleted d
        WHERE l.occurred_at = d.occurred_at AND l.entry_id = d.id
    )
    SELECT count(*), coalesce(max(d.occurred_at), before) INTO pruned, reached FROM deleted d;
    PERFORM set_config('agentstore.audit_prune', 'off', true);
END
$$;
-- +goose StatementEnd

-- Drops the oldest partition whose month ended before the given time, and before
-- this month, if it is empty, and says whether there was one. Its locks keep
-- everybody out: it waits for them no longer than a request can bear, and each
-- partition is its own transaction.
-- +goose StatementBegin
CREATE FUNCTION audit_drop_partition(before timestamptz) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
    partition text;
    used boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('agentstore.audit_drop_partition', 0)) THEN
        RETURN false; -- another prune is at it
    END IF;
    FOR partition IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'audit_entries'::regclass AND c.relname ~ '^audit_entries_[0-9]{6}$'
            AND (to_date(right(c.relname, 6), 'YYYYMM') + interval '1 month') AT TIME ZONE 'UTC'
                <= least(before, date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')
        ORDER BY c.relname
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', partition) INTO used;
        CONTINUE WHEN used;
        PERFORM set_config('lock_timeout', '50ms', true);
        LOCK TABLE ONLY audit_entries IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', partition);
        -- Now that nobody can write: a late entry may have come.
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', partition) INTO used;
        CONTINUE WHEN used;
        EXECUTE format('DROP TABLE %I', partition);
        RETURN true;
    END LOOP;
    RETURN false;
END
$$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION audit_make_partitions, audit_prune_batch, audit_drop_partition FROM PUBLIC;

-- The partitions of this month, of the one before and of a year to come. The
-- library makes more in time, and others on demand.
SELECT audit_make_partitions(now() - interval '1 month', 13);

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE audit_entries, audit_leaves IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM audit_entries) OR EXISTS (SELECT FROM audit_leaves) OR EXISTS (SELECT FROM audit_quarantine) THEN
        RAISE EXCEPTION 'table audit_entries still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

DROP TABLE audit_holds;
DROP TABLE audit_quarantine;
DROP TABLE audit_checkpoints;
DROP TABLE audit_hashes;
DROP TABLE audit_leaves;
DROP TABLE audit_unsealed;
DROP TABLE audit_entries;
DROP FUNCTION audit_drop_partition(timestamptz);
DROP FUNCTION audit_prune_batch(timestamptz, timestamptz, text[], uuid, integer);
DROP FUNCTION audit_make_partitions(timestamptz, integer);
DROP FUNCTION audit_queue();
DROP FUNCTION audit_refuse();
DROP FUNCTION audit_new_id();
