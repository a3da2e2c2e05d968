-- oldest library: 4

-- +goose Up

-- Reads the tables beside readers and writers.
ALTER TABLE sessions VALIDATE CONSTRAINT sessions_key_check;
ALTER TABLE sessions VALIDATE CONSTRAINT sessions_owner_check;
ALTER TABLE sessions VALIDATE CONSTRAINT sessions_version_check;
ALTER TABLE messages VALIDATE CONSTRAINT messages_role_check;
ALTER TABLE messages VALIDATE CONSTRAINT messages_content_check;
ALTER TABLE messages VALIDATE CONSTRAINT messages_kind_check;
ALTER TABLE messages VALIDATE CONSTRAINT messages_call_id_check;

-- Sessions that were created before version 11, whose triggers have the others. The
-- lock leaves out a session that is deleted meanwhile, and excludes only deletions.
INSERT INTO session_activity (session_id, namespace, owner, active_at)
SELECT s.id, s.namespace, s.owner, greatest(s.updated_at, c.updated_at)
FROM sessions s JOIN session_counters c ON c.session_id = s.id
WHERE NOT EXISTS (SELECT FROM session_activity a WHERE a.session_id = s.id)
FOR KEY SHARE OF s
ON CONFLICT (session_id) DO NOTHING;

-- +goose Down

-- As they were: not validated.
-- +goose StatementBegin
DO $$
DECLARE
    checked record;
BEGIN
    FOR checked IN
        SELECT c.conrelid::regclass AS relation, c.conname AS name, pg_get_constraintdef(c.oid) AS definition
        FROM pg_constraint c
        WHERE c.conrelid IN ('sessions'::regclass, 'messages'::regclass) AND c.conname IN (
            'sessions_key_check', 'sessions_owner_check', 'sessions_version_check',
            'messages_role_check', 'messages_content_check', 'messages_kind_check', 'messages_call_id_check'
        )
        ORDER BY c.conrelid::regclass::text, c.conname
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %I %s NOT VALID',
            checked.relation, checked.name, checked.name, checked.definition);
    END LOOP;
END
$$;
-- +goose StatementEnd
