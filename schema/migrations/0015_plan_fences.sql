-- oldest library: 4

-- +goose Up

-- As session_counters.fence: the largest token that was given for a lease of the plan.
ALTER TABLE plans ADD COLUMN fence bigint NOT NULL DEFAULT 0;

-- +goose Down

LOCK TABLE plans IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM plans WHERE fence <> 0) THEN
        RAISE EXCEPTION 'table plans still holds fences' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

ALTER TABLE plans DROP COLUMN fence;
