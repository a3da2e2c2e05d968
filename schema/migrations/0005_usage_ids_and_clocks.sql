-- oldest library: 4

-- +goose Up

-- A server's clock may step back: at a failover to one that is behind, or when
-- it is set. That is no reason to refuse a write. Statements keep updated_at from
-- going backwards by themselves. (Dropping a constraint changes the catalog
-- alone: the locks are short. It is first, because the table below locks sessions,
-- too, but less: a lock that is strengthened can be in a deadlock with a writer.)
ALTER TABLE sessions DROP CONSTRAINT sessions_times_check;
ALTER TABLE actions DROP CONSTRAINT actions_times_check;
ALTER TABLE plans DROP CONSTRAINT plans_times_check;

-- What was added to a session's usage, each under its id, so that adding it
-- again adds nothing. Rows are written once and go with their session.
CREATE TABLE session_usages (
    session_id    uuid        NOT NULL,
    id            uuid        NOT NULL,
    input_tokens  bigint      NOT NULL,
    output_tokens bigint      NOT NULL,
    cost_nanos    bigint      NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT session_usages_pkey PRIMARY KEY (session_id, id),
    CONSTRAINT session_usages_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT session_usages_input_tokens_check CHECK (input_tokens >= 0),
    CONSTRAINT session_usages_output_tokens_check CHECK (output_tokens >= 0),
    CONSTRAINT session_usages_cost_nanos_check CHECK (cost_nanos >= 0)
);

-- +goose Down

-- Writers are kept out first: what was seen empty stays empty until the drop.
LOCK TABLE sessions, session_usages, actions, plans IN ACCESS EXCLUSIVE MODE;

-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') = 'on' THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM session_usages) THEN
        RAISE EXCEPTION 'table session_usages still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd

DROP TABLE session_usages;

-- What a stepping clock has left behind is mended for the constraints.
UPDATE sessions SET updated_at = created_at WHERE updated_at < created_at;
UPDATE actions SET updated_at = created_at WHERE updated_at < created_at;
UPDATE plans SET updated_at = created_at WHERE updated_at < created_at;
ALTER TABLE sessions ADD CONSTRAINT sessions_times_check CHECK (updated_at >= created_at);
ALTER TABLE actions ADD CONSTRAINT actions_times_check CHECK (updated_at >= created_at);
ALTER TABLE plans ADD CONSTRAINT plans_times_check CHECK (updated_at >= created_at);
