-- oldest library: 4

-- +goose Up

-- The queued plans, in the order of their waiting: of a namespace and a phase, and of an
-- action in them. An index on plans would have to be built while nobody writes. Triggers
-- write the table, so that no statement can forget it, also one of an older library.
-- Whoever changes a row has the lock of its plan. A row lives as long as the plan waits,
-- so that most are dead: these settings bound how many a claim has to step over.
CREATE TABLE plan_queue (
    plan_id     uuid        NOT NULL,
    namespace   text        NOT NULL,
    action_name text        NOT NULL COLLATE "C",
    phase       text        NOT NULL,
    since       timestamptz NOT NULL,
    CONSTRAINT plan_queue_pkey PRIMARY KEY (plan_id),
    CONSTRAINT plan_queue_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05, vacuum_index_cleanup = on);
CREATE INDEX plan_queue_namespace_phase_since_idx ON plan_queue (namespace, phase, since, plan_id);
CREATE INDEX plan_queue_namespace_phase_action_name_since_idx ON plan_queue (namespace, phase, action_name, since, plan_id);

-- The plans that are processed under a claim: whose, with which token, in which attempt
-- of how many. check_at is when to see whether its lease has expired: renewing a lease
-- does not write here. A trigger removes the row, and the lease, when the plan leaves
-- processing.
CREATE TABLE plan_claims (
    plan_id      uuid        NOT NULL,
    namespace    text        NOT NULL,
    action_name  text        NOT NULL COLLATE "C",
    phase        text        NOT NULL,
    owner        text        NOT NULL,
    token        bigint      NOT NULL,
    attempt      integer     NOT NULL,
    max_attempts integer     NOT NULL,
    check_at     timestamptz NOT NULL,
    CONSTRAINT plan_claims_pkey PRIMARY KEY (plan_id),
    CONSTRAINT plan_claims_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES plans (id) ON DELETE CASCADE,
    CONSTRAINT plan_claims_owner_check CHECK (owner <> '' AND octet_length(owner) <= 255),
    CONSTRAINT plan_claims_attempt_check CHECK (attempt >= 1),
    CONSTRAINT plan_claims_max_attempts_check CHECK (max_attempts >= 1)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05, vacuum_index_cleanup = on);
CREATE INDEX plan_claims_namespace_check_at_idx ON plan_claims (namespace, check_at);

-- The name of a plan's lease: the text of its id, 26 digits of 5 bits.
-- +goose StatementBegin
CREATE FUNCTION plan_lease_name(id uuid) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
AS $body$
DECLARE
    bits CONSTANT bit varying := B'00' || ('x' || replace(id::text, '-', ''))::bit(128);
    name text := '';
BEGIN
    FOR n IN 0..25 LOOP
        name := name || substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substring(bits FROM 5 * n + 1 FOR 5)::bit(5)::integer + 1, 1);
    END LOOP;
    RETURN name;
END
$body$;
-- +goose StatementEnd

-- To find the claim of a lease that is released.
CREATE UNIQUE INDEX plan_claims_lease_name_idx ON plan_claims (plan_lease_name(plan_id));

-- The functions run with the rights of the tables' owner, and name its schema, as in
-- version 11.
-- +goose StatementBegin
DO $do$
DECLARE
    definition text;
BEGIN
    FOREACH definition IN ARRAY ARRAY[
$definition$
CREATE FUNCTION {schema}.plan_queue_enter() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    INSERT INTO {schema}.plan_queue (plan_id, namespace, action_name, phase, since)
    VALUES (NEW.id, NEW.namespace, NEW.action_name, NEW.phase, NEW.updated_at);
    RETURN NULL;
END
$body$
$definition$,
$definition$
CREATE FUNCTION {schema}.plan_queue_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    claimant text;
BEGIN
    IF OLD.state = 'queued' THEN
        DELETE FROM {schema}.plan_queue WHERE plan_id = NEW.id;
    ELSIF OLD.state = 'processing' THEN
        SELECT owner INTO claimant FROM {schema}.plan_claims WHERE plan_id = NEW.id;
        IF FOUND THEN
            -- The lease first, as a release does. Its owner may have acquired it again, after
            -- it expired: then it has another token.
            DELETE FROM {schema}.leases WHERE name = {schema}.plan_lease_name(NEW.id) AND kind = 'plan' AND owner = claimant;
            DELETE FROM {schema}.plan_claims WHERE plan_id = NEW.id;
        END IF;
    END IF;
    IF NEW.state = 'queued' THEN
        -- It may be there: from version 17, which adds those that were queued before.
        INSERT INTO {schema}.plan_queue (plan_id, namespace, action_name, phase, since)
        VALUES (NEW.id, NEW.namespace, NEW.action_name, NEW.phase, NEW.updated_at)
        ON CONFLICT (plan_id) DO UPDATE SET phase = excluded.phase, since = excluded.since;
    END IF;
    RETURN NULL;
END
$body$
$definition$
    ] LOOP
        EXECUTE replace(definition, '{schema}', quote_ident(current_schema()));
    END LOOP;
END
$do$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION plan_lease_name, plan_queue_enter, plan_queue_move FROM PUBLIC;

CREATE TRIGGER plan_queue_enter AFTER INSERT ON plans
    FOR EACH ROW WHEN (NEW.state = 'queued') EXECUTE FUNCTION plan_queue_enter();
CREATE TRIGGER plan_queue_move AFTER UPDATE OF phase, state ON plans
    FOR EACH ROW WHEN (OLD.phase <> NEW.phase OR OLD.state <> NEW.state) EXECUTE FUNCTION plan_queue_move();

-- A claim that expires is a transition of its own. Version 17 validates the check.
ALTER TABLE plan_history
    DROP CONSTRAINT plan_history_transition_check,
    ADD CONSTRAINT plan_history_transition_check CHECK (
        transition IN ('use', 'start', 'complete', 'fail', 'execute', 'apply', 'constrain', 'revert', 'resume', 'cancel', 'expire')
    ) NOT VALID;

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE plans, plan_history, plan_claims IN ACCESS EXCLUSIVE MODE;

-- The history cannot be changed, and the narrower check refuses it.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM plan_history WHERE transition = 'expire') THEN
        RAISE EXCEPTION 'table plan_history still holds expiries' USING ERRCODE = 'ZAS01';
    END IF;
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM plan_claims) THEN
        RAISE EXCEPTION 'table plan_claims still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

-- What is queued can be computed again from the plans.
DROP TRIGGER plan_queue_enter ON plans;
DROP TRIGGER plan_queue_move ON plans;
DROP FUNCTION plan_queue_enter();
DROP FUNCTION plan_queue_move();
DROP TABLE plan_claims;
DROP FUNCTION plan_lease_name(uuid);
DROP TABLE plan_queue;
ALTER TABLE plan_history
    DROP CONSTRAINT plan_history_transition_check,
    ADD CONSTRAINT plan_history_transition_check CHECK (
        transition IN ('use', 'start', 'complete', 'fail', 'execute', 'apply', 'constrain', 'revert', 'resume', 'cancel')
    );
