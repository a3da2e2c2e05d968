-- oldest library: 4

-- +goose Up

-- The largest token that was given for a lease of the session: a write that is made under
-- another one is refused. It is beside the sequence, because an append locks that row anyway.
-- fenced_only: writes without a token are refused, too.
ALTER TABLE session_counters
    ADD COLUMN fence bigint NOT NULL DEFAULT 0,
    ADD COLUMN fenced_only boolean NOT NULL DEFAULT false;

-- +goose Down

-- Writers are kept out first: what was seen stays so until the drop.
LOCK TABLE session_counters IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM session_counters WHERE fence <> 0 OR fenced_only) THEN
        RAISE EXCEPTION 'table session_counters still holds fences' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

ALTER TABLE session_counters DROP COLUMN fence, DROP COLUMN fenced_only;
