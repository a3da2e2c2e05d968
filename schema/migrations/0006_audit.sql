-- oldest library: 1
-- +goose Up
-- +goose StatementBegin

CREATE FUNCTION audit_entries_valid(occurred_at timestamptz, type text, namespace text, actor text, user_name text,
    project text,
    details json, salts bytea[])
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE broken CONSTANT pg_catalog.text := CASE
    -- A time without an end could be neither read nor sealed.
    WHEN NOT (occurred_at OPERATOR(pg_catalog.>=) '2000-01-01Z' AND occurred_at OPERATOR(pg_catalog.<) '2101-01-01Z')
        THEN 'audit_entries_occurred_at_check'
    WHEN NOT (type OPERATOR(pg_catalog.~) '^[a-z][a-z0-9_]{0,62}$') THEN 'audit_entries_type_check'
    WHEN NOT (namespace OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(namespace) OPERATOR(pg_catalog.<=) 255)
        THEN 'audit_entries_namespace_check'
    WHEN NOT (actor OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(actor) OPERATOR(pg_catalog.<=) 255)
        THEN 'audit_entries_actor_check'
    WHEN NOT (user_name OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(user_name) OPERATOR(pg_catalog.<=) 255)
        THEN 'audit_entries_user_name_check'
    WHEN NOT (project OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(project) OPERATOR(pg_catalog.<=) 255)
        THEN 'audit_entries_project_check'
    WHEN NOT (pg_catalog.json_typeof(details) OPERATOR(pg_catalog.=) 'object') THEN 'audit_entries_details_check'
    WHEN NOT (pg_catalog.cardinality(salts) OPERATOR(pg_catalog.=) 4) THEN 'audit_entries_salts_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "audit_entries" violates check constraint "' || broken
        || '"',
        TABLE = 'audit_entries', CONSTRAINT = broken;
END
$$;

-- An entry of the audit trail, which is append-only.
-- Entries are sealed in the background. An entry is its id: recorded again it is the same.
--
-- A person's data is in four fields: actor, user_name, project and details. salts has for each of them, in this
-- order, 16 random bytes. An erasure removes the value (details become '{}'), and a trigger (audit_entries_hide)
-- puts the field's digest, 32 bytes, in the salt's place, so that the entry is still what was sealed: docs/audit.md.
CREATE TABLE audit_entries (
    id          uuid        NOT NULL,
    occurred_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    type        text        NOT NULL,
    namespace   text,
    plan_id     uuid,
    session_id  uuid,
    actor       text,
    user_name   text,
    project     text,
    -- json, not jsonb: what was hashed is what is read.
    details     json        NOT NULL DEFAULT '{}',
    salts       bytea[]     NOT NULL DEFAULT ARRAY[uuid_send(gen_random_uuid()), uuid_send(gen_random_uuid()),
        uuid_send(gen_random_uuid()), uuid_send(gen_random_uuid())],
    CONSTRAINT audit_entries_pkey PRIMARY KEY (id),
    CONSTRAINT audit_entries_check CHECK (audit_entries_valid(occurred_at, type, namespace, actor, user_name, project,
        details, salts))
);

-- Time ranges, paging and pruning, and each filter in the order of time.
CREATE INDEX audit_entries_occurred_at_id_idx ON audit_entries (occurred_at, id);
CREATE INDEX audit_entries_type_occurred_at_id_idx ON audit_entries (type, occurred_at, id);
CREATE INDEX audit_entries_namespace_occurred_at_id_idx ON audit_entries (namespace, occurred_at, id)
    WHERE namespace IS NOT NULL;
CREATE INDEX audit_entries_actor_occurred_at_id_idx ON audit_entries (actor, occurred_at, id) WHERE actor IS NOT NULL;
CREATE INDEX audit_entries_user_name_occurred_at_id_idx ON audit_entries (user_name, occurred_at, id)
    WHERE user_name IS NOT NULL;
CREATE INDEX audit_entries_plan_id_occurred_at_id_idx ON audit_entries (plan_id, occurred_at, id)
    WHERE plan_id IS NOT NULL;
CREATE INDEX audit_entries_session_id_occurred_at_id_idx ON audit_entries (session_id, occurred_at, id)
    WHERE session_id IS NOT NULL;
CREATE INDEX audit_entries_project_occurred_at_id_idx ON audit_entries (project, occurred_at, id)
    WHERE project IS NOT NULL;

-- An entry that waits to be sealed.
-- The queue is about in the order of recording. Numbers would collide on the nodes of a distributed database and
-- after a logical replication.
CREATE TABLE audit_unsealed (
    recorded_at timestamptz NOT NULL,
    entry_id    uuid        NOT NULL,
    CONSTRAINT audit_unsealed_pkey PRIMARY KEY (recorded_at, entry_id)
);

-- A leaf of the sealed log, which outlives its entry.
-- What is in clear is what the bounds of a prune are compared with. hidden is the hash of the digests of the other
-- fields.
CREATE TABLE audit_leaves (
    sequence    bigint      NOT NULL,
    entry_id    uuid        NOT NULL,
    occurred_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    type        text        NOT NULL,
    namespace   text,
    plan_id     uuid,
    session_id  uuid,
    hidden      bytea       NOT NULL,
    hash        bytea       NOT NULL,
    pruned_by   uuid,
    CONSTRAINT audit_leaves_pkey PRIMARY KEY (sequence),
    CONSTRAINT audit_leaves_entry_id_key UNIQUE (entry_id),
    CONSTRAINT audit_leaves_sequence_check CHECK (sequence >= 0),
    CONSTRAINT audit_leaves_hidden_check CHECK (octet_length(hidden) = 32),
    CONSTRAINT audit_leaves_hash_check CHECK (octet_length(hash) = 32)
);

-- The hashes of the log's tree, in the order in which they come to be.
CREATE TABLE audit_hashes (
    index bigint NOT NULL,
    hash  bytea  NOT NULL,
    CONSTRAINT audit_hashes_pkey PRIMARY KEY (index),
    CONSTRAINT audit_hashes_index_check CHECK (index >= 0),
    CONSTRAINT audit_hashes_hash_check CHECK (octet_length(hash) = 32)
);

-- A checkpoint: what a sealer states about the tree.
CREATE TABLE audit_checkpoints (
    size       bigint      NOT NULL,
    root       bytea       NOT NULL,
    note       bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT audit_checkpoints_pkey PRIMARY KEY (size),
    CONSTRAINT audit_checkpoints_size_check CHECK (size >= 0),
    CONSTRAINT audit_checkpoints_root_check CHECK (octet_length(root) = 32)
);

-- The checkpoint of no leaves, which no sealer makes: its note is 16 random bytes that say which database this is.
-- They stand in the origin of the others, so that one key never signs two logs of one origin.
INSERT INTO audit_checkpoints (size, root, note) VALUES (0, sha256(''), uuid_send(gen_random_uuid()));

-- An entry whose values the database refuses, as bytes.
-- Bytes, because text may be what an entry cannot be. Several may have one id.
CREATE TABLE audit_quarantine (
    id         uuid        NOT NULL,
    digest     bytea       NOT NULL GENERATED ALWAYS AS (sha256(document)) STORED,
    document   bytea       NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT audit_quarantine_pkey PRIMARY KEY (id, digest)
);

-- A legal hold on the entries of a session or a plan.
CREATE TABLE audit_holds (
    subject    uuid        NOT NULL,
    kind       text        NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT audit_holds_pkey PRIMARY KEY (kind, subject),
    CONSTRAINT audit_holds_kind_check CHECK (kind IN ('plan', 'session')),
    CONSTRAINT audit_holds_reason_check CHECK (reason <> '' AND octet_length(reason) <= 65536)
);

-- An id as the library makes them: a time that sorts, then random bits.
CREATE FUNCTION audit_new_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (pg_catalog.lpad(pg_catalog.to_hex((extract(epoch FROM pg_catalog.clock_timestamp())::double precision
            OPERATOR(pg_catalog.*) 1000::double precision)::bigint), 12, '0'::text)
        OPERATOR(pg_catalog.||) '7'::text
        OPERATOR(pg_catalog.||) pg_catalog.right(
            pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-'::text, ''::text), 19))::uuid
$$;

-- What SessionCreate records: see there. It is true.
CREATE FUNCTION audit_session_created(session_id uuid, namespace text, actor text,
    created_at timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit_entries (occurred_at, id, type, namespace, actor, session_id)
        VALUES ($4, audit_new_id(), 'session_created', $2, $3, $1);
    RETURN true;
END
$$;

-- Queues what a statement has recorded, COPY too, and however late its transaction commits. It runs with the rights of
-- the tables' owner: roles that record need none on the queue. The transition table is read first: a distributed
-- database plans the INSERT elsewhere, where there is no such table.
CREATE FUNCTION audit_queue() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog,
pg_temp AS $$
DECLARE times timestamptz[]; ids uuid[];
BEGIN
    SELECT array_agg(n.recorded_at), array_agg(n.id) INTO times, ids FROM new_entries n;
    EXECUTE format('INSERT INTO %I.audit_unsealed (recorded_at, entry_id) '
        'SELECT n.recorded_at, n.id FROM unnest($1, $2) AS n (recorded_at, id)', TG_TABLE_SCHEMA)
    USING times, ids;
    RETURN NULL;
END
$$;

REVOKE EXECUTE ON FUNCTION audit_queue FROM PUBLIC;

-- Not ALWAYS: the first copy of a logical replication would queue what the publisher's queue does not have.
CREATE TRIGGER audit_entries_queue AFTER INSERT ON audit_entries
    REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT EXECUTE FUNCTION audit_queue();

-- Refuses a statement, or a row, other than what a prune or an erasure does: its arguments name these operations. They
-- say so with a setting for their transaction, which is of no use to anyone but the owner of the tables.
CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = ANY (TG_ARGV) AND current_setting('agentstore.audit_prune', true) = 'on'
        AND (SELECT pg_has_role(current_user, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = TG_RELID) THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% of % is refused: the audit trail is append-only', TG_OP, TG_TABLE_NAME USING ERRCODE = 'ZAS02';
END
$$;

-- Begins a batch of a prune: keeps new holds waiting until the end of the transaction, and allows it to remove
-- entries. It runs with the rights of its caller, which must be the owner.
CREATE FUNCTION audit_prune_begin(holds regclass) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog,
pg_temp AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE MODE', holds);
    PERFORM set_config('agentstore.audit_prune', 'on', true);
END
$$;

-- Erases the fields that an update removes: their salts become their digests. It refuses all other changes. What a
-- replica applies has the digests already.
CREATE FUNCTION audit_hide() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names CONSTANT text[] := ARRAY['actor', 'user', 'project', 'details'];
    was CONSTANT text[] := ARRAY[OLD.actor, OLD.user_name, OLD.project, OLD.details::text];
    becomes CONSTANT text[] := ARRAY[NEW.actor, NEW.user_name, NEW.project, nullif(NEW.details::text, '{}')];
    salts bytea[] := OLD.salts;
    hides boolean := (NEW.id, NEW.occurred_at, NEW.recorded_at, NEW.type, NEW.namespace, NEW.plan_id, NEW.session_id)
        IS NOT DISTINCT FROM (OLD.id, OLD.occurred_at, OLD.recorded_at, OLD.type, OLD.namespace, OLD.plan_id,
            OLD.session_id);
BEGIN
    FOR i IN 1..4 LOOP
        CONTINUE WHEN was[i] IS NOT DISTINCT FROM coalesce(becomes[i], CASE WHEN i = 4 THEN '{}' END);
        hides := hides AND becomes[i] IS NULL;
        salts[i] := sha256(convert_to('agentstore/audit ' || names[i] || ' 1' || chr(10), 'UTF8')
            || int8send(octet_length(salts[i])) || salts[i] || convert_to(was[i], 'UTF8'));
    END LOOP;
    IF hides AND NEW.salts IN (OLD.salts, salts) THEN
        NEW.salts := salts;
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'UPDATE of % is refused: the audit trail is append-only', TG_TABLE_NAME USING ERRCODE = 'ZAS02';
END
$$;

-- Triggers of statements refuse whatever a session does. The subscriber of a logical replication fires only row
-- triggers, and so applies the publisher's prunes.
CREATE TRIGGER audit_entries_refuse BEFORE UPDATE OR DELETE
    OR TRUNCATE ON audit_entries FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('DELETE', 'UPDATE');
CREATE TRIGGER audit_leaves_refuse BEFORE UPDATE OR DELETE
    OR TRUNCATE ON audit_leaves FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('UPDATE');
CREATE TRIGGER audit_hashes_refuse BEFORE UPDATE OR DELETE
    OR TRUNCATE ON audit_hashes FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_checkpoints_refuse BEFORE UPDATE OR DELETE
    OR TRUNCATE ON audit_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();

-- Nor does a prune remove what tells of removals and gaps, or change a leaf but to name itself, once.
CREATE TRIGGER audit_entries_keep BEFORE DELETE ON audit_entries
    FOR EACH ROW WHEN (OLD.type IN ('audit_pruned', 'audit_gap')) EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_entries_hide BEFORE UPDATE ON audit_entries FOR EACH ROW EXECUTE FUNCTION audit_hide();
CREATE TRIGGER audit_leaves_keep BEFORE UPDATE ON audit_leaves
    FOR EACH ROW WHEN (OLD.pruned_by IS NOT NULL
        OR (OLD.sequence, OLD.entry_id, OLD.occurred_at, OLD.recorded_at, OLD.type, OLD.namespace, OLD.plan_id,
            OLD.session_id, OLD.hidden, OLD.hash)
        IS DISTINCT FROM (NEW.sequence, NEW.entry_id, NEW.occurred_at, NEW.recorded_at, NEW.type, NEW.namespace,
            NEW.plan_id, NEW.session_id, NEW.hidden, NEW.hash))
    EXECUTE FUNCTION audit_refuse();

-- ALWAYS: session_replication_role = replica goes round any other trigger.
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_refuse;
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_keep;
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_hide;
ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_refuse;
ALTER TABLE audit_leaves ENABLE ALWAYS TRIGGER audit_leaves_keep;
ALTER TABLE audit_hashes ENABLE ALWAYS TRIGGER audit_hashes_refuse;
ALTER TABLE audit_checkpoints ENABLE ALWAYS TRIGGER audit_checkpoints_refuse;

-- Long values are compressed by lz4 where the server has it (PostgreSQL 14 and later, built with it): a value takes a
-- third of the time that pglz takes, and some 15 % more room. Citus refuses it for tables of a schema that it
-- distributes, which keep pglz.
DO $$
DECLARE long record;
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_settings s WHERE s.name = 'default_toast_compression'
        AND 'lz4' = ANY (s.enumvals)) THEN
        FOR long IN SELECT * FROM (VALUES ('messages', 'content'), ('messages', 'metadata'), ('messages', 'payload'),
            ('sessions', 'metadata'),
            ('state_values', 'value'), ('stream_parts', 'data'), ('plans', 'argument_values'),
            ('audit_entries', 'details')) AS l (relation, name)
        LOOP
            EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET COMPRESSION lz4', long.relation, long.name);
        END LOOP;
    END IF;
EXCEPTION WHEN feature_not_supported THEN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
LOCK TABLE audit_entries, audit_leaves, audit_quarantine, audit_holds, audit_checkpoints IN ACCESS EXCLUSIVE MODE;
DO $$
DECLARE full_table CONSTANT text := CASE
    WHEN EXISTS (SELECT FROM audit_entries) OR EXISTS (SELECT FROM audit_leaves)
        OR EXISTS (SELECT FROM audit_quarantine)
        OR EXISTS (SELECT FROM audit_checkpoints c WHERE c.size > 0) THEN 'audit_entries'
    WHEN EXISTS (SELECT FROM audit_holds) THEN 'audit_holds'
END;
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on' AND full_table IS NOT NULL THEN
        RAISE EXCEPTION 'table % still holds rows', full_table USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
DROP TABLE audit_holds, audit_quarantine, audit_checkpoints, audit_hashes, audit_leaves, audit_unsealed, audit_entries;
DROP FUNCTION audit_queue, audit_refuse, audit_hide, audit_prune_begin, audit_new_id, audit_session_created,
audit_entries_valid;
-- +goose StatementEnd
