-- oldest library: 4

-- +goose Up

-- audit_prune_batch, which older libraries call, takes the earliest entry with the
-- prune's id for the prune's own. Whoever records one beside it stops that prune. An
-- entry is what has an id at a time: here the caller gives both.
-- +goose StatementBegin
DO $do$
BEGIN
    EXECUTE replace($definition$
CREATE FUNCTION {schema}.audit_prune_entries(after timestamptz, before timestamptz, types text[], by_entry uuid, by_occurred_at timestamptz, max_rows integer, OUT pruned bigint, OUT reached timestamptz) LANGUAGE plpgsql SECURITY DEFINER
    SET "TimeZone" = 'UTC' SET "DateStyle" = 'ISO, YMD' SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    stated json;
    stated_before timestamptz;
    stated_types text[];
    held_plans uuid[];
    held_sessions uuid[];
BEGIN
    SELECT e.details INTO stated FROM {schema}.audit_entries e WHERE e.id = by_entry AND e.occurred_at = by_occurred_at AND e.type = 'audit_pruned';
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
            ) < coalesce((SELECT l.sequence FROM {schema}.audit_leaves l WHERE l.entry_id = by_entry AND l.occurred_at = by_occurred_at LIMIT 1), 9223372036854775807)
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
$definition$, '{schema}', quote_ident(current_schema()));
END
$do$;
-- +goose StatementEnd

REVOKE EXECUTE ON FUNCTION audit_prune_entries FROM PUBLIC;

-- +goose Down

DROP FUNCTION audit_prune_entries;
