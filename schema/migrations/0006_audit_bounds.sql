-- oldest library: 4

-- +goose Up

-- What a prune's bounds need to know of an entry stays with its leaf when the entry
-- goes, bound by the leaf's hash (version 2). Hidden is SHA-256 of the rest. Leaves
-- of version 1 have nothing of this: their hash is of the whole entry.
ALTER TABLE audit_leaves
    ADD COLUMN version    smallint NOT NULL DEFAULT 1,
    ADD COLUMN type       text,
    ADD COLUMN plan_id    uuid,
    ADD COLUMN session_id uuid,
    ADD COLUMN hidden     bytea,
    -- What is there already is of version 1: nothing need be read.
    ADD CONSTRAINT audit_leaves_version_check CHECK (
        version = 1 AND type IS NULL AND plan_id IS NULL AND session_id IS NULL AND hidden IS NULL
        OR version = 2 AND type IS NOT NULL AND hidden IS NOT NULL AND octet_length(hidden) = 32
    ) NOT VALID;

-- One row: which database this is. It stands in the origin of its checkpoints, so
-- that one key never signs two logs of one origin.
CREATE TABLE audit_identity (
    singleton boolean NOT NULL DEFAULT true,
    id        uuid    NOT NULL DEFAULT gen_random_uuid(),
    CONSTRAINT audit_identity_pkey PRIMARY KEY (singleton),
    CONSTRAINT audit_identity_singleton_check CHECK (singleton)
);
INSERT INTO audit_identity DEFAULT VALUES;
CREATE TRIGGER audit_identity_refuse BEFORE UPDATE OR DELETE ON audit_identity
    FOR EACH ROW EXECUTE FUNCTION audit_refuse('identity');
CREATE TRIGGER audit_identity_refuse_truncate BEFORE TRUNCATE ON audit_identity
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse('identity');
ALTER TABLE audit_identity ENABLE ALWAYS TRIGGER audit_identity_refuse;
ALTER TABLE audit_identity ENABLE ALWAYS TRIGGER audit_identity_refuse_truncate;

-- The partitions of a table and what they hold, whatever the session's settings
-- are: lower is included, upper is not.
-- +goose StatementBegin
CREATE FUNCTION audit_partition_bounds(parent regclass, OUT name text, OUT lower timestamptz, OUT upper timestamptz, OUT pending boolean, OUT fallback boolean)
    RETURNS SETOF record LANGUAGE sql STABLE SET "TimeZone" = 'UTC' SET "DateStyle" = 'ISO, YMD' SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.relname::text,
        CASE b.lower WHEN 'MINVALUE' THEN '-infinity' ELSE b.lower END::timestamptz,
        CASE b.upper WHEN 'MAXVALUE' THEN 'infinity' ELSE b.upper END::timestamptz,
        -- PostgreSQL 13 has no such column.
        coalesce(to_jsonb(i) ->> 'inhdetachpending' = 'true', false),
        coalesce(b.whole = 'DEFAULT', false)
    FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL (
        SELECT e.whole, substring(e.whole FROM 'FROM [(]''?([^'')]+)') AS lower, substring(e.whole FROM 'TO [(]''?([^'')]+)') AS upper
        FROM (SELECT pg_get_expr(c.relpartbound, c.oid) AS whole) AS e
    ) AS b
    WHERE i.inhparent = parent
$$;
-- +goose StatementEnd

-- The functions name all that they use: what they name without a schema is
-- PostgreSQL's own. {schema} is where the trail's tables are.
-- +goose StatementBegin
DO $do$
DECLARE
    definition text;
BEGIN
    FOREACH definition IN ARRAY ARRAY[
$definition$
CREATE OR REPLACE FUNCTION {schema}.audit_new_id() RETURNS uuid LANGUAGE sql VOLATILE
AS $body$
    SELECT (pg_catalog.lpad(pg_catalog.to_hex((extract(epoch FROM pg_catalog.clock_timestamp())::double precision OPERATOR(pg_catalog.*) 1000::double precision)::bigint), 12, '0'::text)
        OPERATOR(pg_catalog.||) pg_catalog.right(pg_catalog.replace(pg_catalog.gen_random_uuid()::text, '-'::text, ''::text), 20))::uuid
$body$
$definition$,
$definition$
CREATE OR REPLACE FUNCTION {schema}.audit_queue() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    INSERT INTO {schema}.audit_unsealed (occurred_at, entry_id, recorded_at)
    SELECT n.occurred_at, n.id, n.recorded_at FROM new_entries n;
    RETURN NULL;
END
$body$
$definition$,
$definition$
CREATE OR REPLACE FUNCTION {schema}.audit_refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    -- audit_prune_batch says so for its own transaction, and runs as the owner:
    -- the setting alone is of no use to anyone else.
    IF TG_OP IN ('DELETE', 'UPDATE') AND coalesce(current_setting('agentstore.audit_prune', true), '') = 'on'
        AND current_user = (SELECT pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c WHERE c.oid = TG_RELID) THEN
        IF TG_OP = 'DELETE' AND TG_ARGV[0] = 'entries' THEN
            -- What tells of removals and gaps is never removed.
            IF OLD.type NOT IN ('audit_pruned', 'audit_gap') THEN
                RETURN OLD;
            END IF;
        ELSIF TG_OP = 'UPDATE' AND TG_ARGV[0] = 'leaves' THEN
            IF (NEW.sequence, NEW.occurred_at, NEW.entry_id, NEW.hash, NEW.version, NEW.type, NEW.plan_id, NEW.session_id, NEW.hidden)
                IS NOT DISTINCT FROM
                (OLD.sequence, OLD.occurred_at, OLD.entry_id, OLD.hash, OLD.version, OLD.type, OLD.plan_id, OLD.session_id, OLD.hidden)
                AND OLD.pruned_by IS NULL THEN
                RETURN NEW;
            END IF;
        END IF;
    END IF;
    RAISE EXCEPTION '% of % is refused: the audit trail is append-only', TG_OP, TG_TABLE_NAME USING ERRCODE = 'ZAS02';
END
$body$
$definition$,
$definition$
CREATE OR REPLACE FUNCTION {schema}.audit_make_partitions(at timestamptz, ahead integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER
    SET "TimeZone" = 'UTC' SET "DateStyle" = 'ISO, YMD' SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    home CONSTANT text := {literal};
    parent CONSTANT regclass := format('%I.audit_entries', home)::regclass;
    patience CONSTANT text := current_setting('lock_timeout');
    first timestamp;
    month_lower timestamptz;
    month_upper timestamptz;
    month_name text;
    partition text;
    same regclass;
    gap record;
    grantee text;
    locked boolean := false;
    made integer := 0;
BEGIN
    IF ahead NOT BETWEEN 0 AND 120 THEN
        RAISE EXCEPTION 'ahead is not between 0 and 120' USING ERRCODE = '22023';
    END IF;
    FOR i IN 0..ahead LOOP
        first := date_trunc('month', at AT TIME ZONE 'UTC') + make_interval(months => i);
        month_lower := first AT TIME ZONE 'UTC';
        month_upper := (first + make_interval(months => 1)) AT TIME ZONE 'UTC';
        month_name := 'audit_entries_' || to_char(first, 'YYYYMM');
        LOOP
            -- A query would see the catalog with the eyes of its transaction's
            -- beginning where that is serializable or repeatable read; these
            -- functions do not.
            same := to_regclass(format('%I.%I', home, month_name));
            EXIT WHEN same IS NOT NULL AND strpos(pg_get_partition_constraintdef(same), format('%L', month_lower)) > 0
                AND strpos(pg_get_partition_constraintdef(same), format('%L', month_upper)) > 0;
            -- What is left of the month: others may have bounds that are off, and
            -- then it is the exact rest.
            SELECT g.lower, g.upper INTO gap FROM (
                SELECT lag(taken.upper, 1, month_lower) OVER (ORDER BY taken.lower) AS lower, taken.lower AS upper
                FROM (
                    SELECT greatest(b.lower, month_lower) AS lower, least(b.upper, month_upper) AS upper
                    FROM {schema}.audit_partition_bounds(parent) b WHERE b.lower < month_upper AND b.upper > month_lower
                    UNION ALL SELECT month_upper, month_upper
                ) AS taken
            ) AS g WHERE g.lower < g.upper ORDER BY g.lower LIMIT 1;
            EXIT WHEN NOT FOUND;
            IF NOT locked THEN
                -- One at a time, up to the end of the transaction, which may be a
                -- caller's: nobody waits for that for good. The lock is the one
                -- that ATTACH takes, which those who write do not wait for.
                IF (SELECT s.setting::integer NOT BETWEEN 1 AND 5000 FROM pg_catalog.pg_settings s WHERE s.name = 'lock_timeout') THEN
                    PERFORM set_config('lock_timeout', '5s', true);
                END IF;
                LOCK TABLE ONLY {schema}.audit_entries IN SHARE UPDATE EXCLUSIVE MODE;
                PERFORM set_config('lock_timeout', patience, true);
                locked := true;
                CONTINUE; -- another may have made it meanwhile
            END IF;
            partition := month_name;
            FOR n IN 2..1000 LOOP
                EXIT WHEN to_regclass(format('%I.%I', home, partition)) IS NULL;
                partition := month_name || '_' || n;
            END LOOP;
            BEGIN
                EXECUTE format('CREATE TABLE %I.%I (LIKE %I.audit_entries INCLUDING ALL)', home, partition, home);
                EXECUTE format('ALTER TABLE %I.audit_entries ATTACH PARTITION %I.%I FOR VALUES FROM (%L) TO (%L)',
                    home, home, partition, to_char(gap.lower, 'YYYY-MM-DD HH24:MI:SS.US+00'), to_char(gap.upper, 'YYYY-MM-DD HH24:MI:SS.US+00'));
            EXCEPTION WHEN duplicate_table OR invalid_object_definition THEN
                IF current_setting('transaction_isolation') = 'read committed' THEN
                    RAISE;
                END IF;
                -- Made after this transaction began, which cannot see it.
                RAISE EXCEPTION 'a month of the audit trail was made meanwhile' USING ERRCODE = '40001';
            END;
            EXECUTE format('ALTER TABLE %I.%I ENABLE ALWAYS TRIGGER audit_entries_refuse', home, partition);
            EXECUTE format('CREATE TRIGGER audit_entries_refuse_truncate BEFORE TRUNCATE ON %I.%I
                FOR EACH STATEMENT EXECUTE FUNCTION %I.audit_refuse(''entries'')', home, partition, home);
            EXECUTE format('ALTER TABLE %I.%I ENABLE ALWAYS TRIGGER audit_entries_refuse_truncate', home, partition);
            -- Rights are the parent's. The owner's default privileges would let
            -- others write past the queue.
            same := to_regclass(format('%I.%I', home, partition));
            FOR grantee IN
                SELECT DISTINCT coalesce(quote_ident(r.rolname), 'PUBLIC')
                FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
                WHERE c.oid = same AND a.grantee <> c.relowner
            LOOP
                EXECUTE format('REVOKE ALL ON %I.%I FROM %s', home, partition, grantee);
            END LOOP;
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$body$
$definition$,
$definition$
CREATE OR REPLACE FUNCTION {schema}.audit_prune_batch(after timestamptz, before timestamptz, types text[], by_entry uuid, max_rows integer, OUT pruned bigint, OUT reached timestamptz) LANGUAGE plpgsql SECURITY DEFINER
    SET "TimeZone" = 'UTC' SET "DateStyle" = 'ISO, YMD' SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    stated json;
    stated_before timestamptz;
    stated_types text[];
    held_plans uuid[];
    held_sessions uuid[];
BEGIN
    SELECT e.details INTO stated FROM {schema}.audit_entries e WHERE e.id = by_entry AND e.type = 'audit_pruned' ORDER BY e.occurred_at LIMIT 1;
    stated_before := stated ->> 'before';
    IF stated_before IS NULL THEN
        RAISE EXCEPTION 'no entry tells of this prune' USING ERRCODE = '22023';
    END IF;
    -- Nothing goes that the entry does not tell of: that is what is verified.
    SELECT array_agg(t.type) INTO stated_types FROM json_array_elements_text(stated -> 'types') AS t (type);
    held_plans := ARRAY(SELECT h.id::uuid FROM json_array_elements_text(stated -> 'held' -> 'plans') AS h (id));
    held_sessions := ARRAY(SELECT h.id::uuid FROM json_array_elements_text(stated -> 'held' -> 'sessions') AS h (id));
    PERFORM set_config('agentstore.audit_prune', 'on', true);
    WITH doomed AS (
        SELECT e.occurred_at, e.id FROM {schema}.audit_entries e
        WHERE e.occurred_at >= after AND e.occurred_at < before AND e.occurred_at < stated_before
            AND e.type NOT IN ('audit_pruned', 'audit_gap')
            AND (cardinality(types) = 0 OR e.type = ANY (types))
            AND (stated_types IS NULL OR e.type = ANY (stated_types))
            AND (e.plan_id IS NULL OR e.plan_id <> ALL (held_plans))
            AND (e.session_id IS NULL OR e.session_id <> ALL (held_sessions))
            AND NOT EXISTS (SELECT FROM {schema}.audit_holds h WHERE h.kind = 'plan' AND h.subject = e.plan_id)
            AND NOT EXISTS (SELECT FROM {schema}.audit_holds h WHERE h.kind = 'session' AND h.subject = e.session_id)
            -- A scalar subquery is looked up entry by entry: EXISTS may be answered
            -- by reading all leaves first, for each batch. What was sealed after the
            -- prune's own entry is none of its.
            AND (
                SELECT l.sequence FROM {schema}.audit_leaves l WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at LIMIT 1
            ) < coalesce((SELECT l.sequence FROM {schema}.audit_leaves l WHERE l.entry_id = by_entry ORDER BY l.occurred_at LIMIT 1), 9223372036854775807)
        ORDER BY e.occurred_at, e.id
        LIMIT max_rows
    ), deleted AS (
        DELETE FROM {schema}.audit_entries e USING doomed d
        WHERE e.occurred_at = d.occurred_at AND e.id = d.id AND e.occurred_at >= after AND e.occurred_at < before
        RETURNING e.occurred_at, e.id
    ), noted AS (
        UPDATE {schema}.audit_leaves l SET pruned_by = by_entry FROM deleted d
        WHERE l.occurred_at = d.occurred_at AND l.entry_id = d.id
    )
    SELECT count(*), coalesce(max(d.occurred_at), before) INTO pruned, reached FROM deleted d;
    PERFORM set_config('agentstore.audit_prune', 'off', true);
END
$body$
$definition$,
$definition$
CREATE OR REPLACE FUNCTION {schema}.audit_drop_partition(before timestamptz) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    home CONSTANT text := {literal};
    partition text;
    used boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('agentstore.audit_drop_partition', 0::bigint)) THEN
        RETURN false; -- another prune is at it
    END IF;
    FOR partition IN
        SELECT b.name FROM {schema}.audit_partition_bounds(format('%I.audit_entries', home)::regclass) b
        WHERE b.name ~ '^audit_entries_[0-9]{6}(_[0-9]+)?$'
            AND b.upper <= least(before, date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')
        ORDER BY b.upper
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', home, partition) INTO used;
        CONTINUE WHEN used;
        PERFORM set_config('lock_timeout', '50ms', true);
        LOCK TABLE ONLY {schema}.audit_entries IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('LOCK TABLE %I.%I IN ACCESS EXCLUSIVE MODE', home, partition);
        -- Now that nobody can write: a late entry may have come.
        EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', home, partition) INTO used;
        CONTINUE WHEN used;
        EXECUTE format('DROP TABLE %I.%I', home, partition);
        RETURN true;
    END LOOP;
    RETURN false;
END
$body$
$definition$
    ] LOOP
        EXECUTE replace(replace(definition, '{schema}', quote_ident(current_schema())), '{literal}', quote_literal(current_schema()));
    END LOOP;
END
$do$;
-- +goose StatementEnd

-- +goose Down

LOCK TABLE audit_holds, audit_checkpoints, audit_leaves IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    -- Version 3's Down does not look for holds and checkpoints.
    IF EXISTS (SELECT FROM audit_holds) THEN
        RAISE EXCEPTION 'table audit_holds still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
    IF EXISTS (SELECT FROM audit_checkpoints) THEN
        RAISE EXCEPTION 'table audit_checkpoints still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
    IF EXISTS (SELECT FROM audit_leaves WHERE version > 1) THEN
        RAISE EXCEPTION 'table audit_leaves still holds leaves that version 3 cannot keep' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_new_id() RETURNS uuid LANGUAGE sql VOLATILE
AS $$
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || right(replace(gen_random_uuid()::text, '-', ''), 20))::uuid
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_queue() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO audit_unsealed (occurred_at, entry_id, recorded_at)
    SELECT n.occurred_at, n.id, n.recorded_at FROM new_entries n;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_make_partitions(at timestamptz, ahead integer) RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_prune_batch(after timestamptz, before timestamptz, types text[], by_entry uuid, max_rows integer, OUT pruned bigint, OUT reached timestamptz) LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_drop_partition(before timestamptz) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
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

DROP FUNCTION audit_partition_bounds(regclass);
DROP TABLE audit_identity;
ALTER TABLE audit_leaves
    DROP CONSTRAINT audit_leaves_version_check,
    DROP COLUMN version,
    DROP COLUMN type,
    DROP COLUMN plan_id,
    DROP COLUMN session_id,
    DROP COLUMN hidden;
