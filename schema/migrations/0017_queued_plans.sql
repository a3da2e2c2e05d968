-- oldest library: 4

-- +goose Up

-- A lease of a plan that is released ends the claim at once: the next claim looks at it,
-- also where somebody acquired the lease by hand after the claim expired.
-- Where version 16's trigger deletes the lease, it deletes the claim, too.
-- +goose StatementBegin
DO $do$
BEGIN
    EXECUTE replace($definition$
CREATE FUNCTION {schema}.plan_claim_release() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    UPDATE {schema}.plan_claims SET check_at = '-infinity' WHERE {schema}.plan_lease_name(plan_id) = OLD.name;
    RETURN NULL;
END
$body$
$definition$, '{schema}', quote_ident(current_schema()));
END
$do$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION plan_claim_release FROM PUBLIC;

CREATE TRIGGER plan_claim_release AFTER DELETE ON leases
    FOR EACH ROW WHEN (OLD.kind = 'plan' AND pg_trigger_depth() = 0) EXECUTE FUNCTION plan_claim_release();

-- Reads the table beside readers and writers.
ALTER TABLE plan_history VALIDATE CONSTRAINT plan_history_transition_check;

-- Plans that were queued before version 16, whose triggers have the others. The lock
-- leaves out a plan that is moved meanwhile.
INSERT INTO plan_queue (plan_id, namespace, action_name, phase, since)
SELECT p.id, p.namespace, p.action_name, p.phase, p.updated_at
FROM plans p
WHERE p.state = 'queued' AND NOT EXISTS (SELECT FROM plan_queue q WHERE q.plan_id = p.id)
FOR SHARE OF p
ON CONFLICT (plan_id) DO NOTHING;

-- +goose Down

DROP TRIGGER plan_claim_release ON leases;
DROP FUNCTION plan_claim_release();

-- As it was: not validated.
ALTER TABLE plan_history
    DROP CONSTRAINT plan_history_transition_check,
    ADD CONSTRAINT plan_history_transition_check CHECK (
        transition IN ('use', 'start', 'complete', 'fail', 'execute', 'apply', 'constrain', 'revert', 'resume', 'cancel', 'expire')
    ) NOT VALID;
