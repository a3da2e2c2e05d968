-- oldest library: 4

-- +goose Up

-- A batch of a prune reads the holds and removes entries in one statement, which sees the holds of when it
-- began: a hold that was made meanwhile did not protect. And where two prunes met, a batch waited for the
-- other's, did not remove what that had removed, and was taken for the last one because it was small. The lock
-- makes holds and other batches wait until the batch is committed; the statements after it see what came before.
-- +goose StatementBegin
DO $do$
DECLARE
    prune regprocedure;
    source text;
    begins integer;
    locking text;
BEGIN
    FOR prune, source IN
        SELECT p.oid, p.prosrc FROM pg_proc p
        WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname IN ('audit_prune_batch', 'audit_prune_entries')
    LOOP
        -- The first one: the schema's name may contain the same.
        begins := strpos(source, E'\nBEGIN\n');
        IF begins = 0 THEN
            RAISE EXCEPTION '% is not as an earlier version made it', prune;
        END IF;
        locking := overlay(source PLACING format(E'\nBEGIN\n    LOCK TABLE %I.audit_holds IN SHARE ROW EXCLUSIVE MODE;\n', current_schema()) FROM begins FOR 7);
        EXECUTE replace(pg_get_functiondef(prune), source, locking);
    END LOOP;
END
$do$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $do$
DECLARE
    prune regprocedure;
BEGIN
    FOR prune IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname IN ('audit_prune_batch', 'audit_prune_entries')
    LOOP
        EXECUTE replace(pg_get_functiondef(prune), format(E'\n    LOCK TABLE %I.audit_holds IN SHARE ROW EXCLUSIVE MODE;', current_schema()), '');
    END LOOP;
END
$do$;
-- +goose StatementEnd
