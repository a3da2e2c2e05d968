-- oldest library: 1
-- +goose Up
-- +goose StatementBegin

-- Where there are many rules, or statements are hot, they are one CHECK that calls one function: PostgreSQL reads the
-- expressions of CHECKs anew for each statement, and keeps the plan of a function. A function names the first rule that
-- is broken as the constraint of its error, so that the error is as of a CHECK of its own. As in a CHECK, a rule that
-- is null holds.
--
-- The functions find what they name in pg_catalog, whatever the caller's search_path is. The one of messages, which is
-- called for each message, names pg_catalog with each operator and type: setting the path would take longer than the
-- rules. (A role's own type with the name text, to which its own cast makes null of everything, would break no rule.)

CREATE FUNCTION sessions_valid(namespace text, key text, owner text, actor text, automation_profile text, metadata json,
    version bigint,
    input_tokens bigint, output_tokens bigint, cost_nanos bigint, budget_nanos bigint)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE broken CONSTANT text := CASE
    WHEN NOT (namespace <> '' AND octet_length(namespace) <= 255) THEN 'sessions_namespace_check'
    WHEN NOT (key <> '' AND octet_length(key) <= 1024) THEN 'sessions_key_check'
    WHEN NOT (owner <> '' AND octet_length(owner) <= 1024) THEN 'sessions_owner_check'
    WHEN NOT (actor <> '' AND octet_length(actor) <= 255) THEN 'sessions_actor_check'
    WHEN NOT (automation_profile <> '' AND octet_length(automation_profile) <= 255)
        THEN 'sessions_automation_profile_check'
    WHEN NOT (json_typeof(metadata) = 'object') THEN 'sessions_metadata_check'
    WHEN NOT (version >= 1) THEN 'sessions_version_check'
    WHEN NOT (input_tokens >= 0) THEN 'sessions_input_tokens_check'
    WHEN NOT (output_tokens >= 0) THEN 'sessions_output_tokens_check'
    WHEN NOT (cost_nanos >= 0) THEN 'sessions_cost_nanos_check'
    WHEN NOT (budget_nanos >= 0) THEN 'sessions_budget_nanos_check'
    WHEN NOT (cost_nanos <= budget_nanos) THEN 'sessions_cost_within_budget_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "sessions" violates check constraint "' || broken
        || '"',
        TABLE = 'sessions', CONSTRAINT = broken;
END
$$;

-- A conversation: its key, owner, metadata and usage.
-- Everything here changes rarely or never; what every append changes is in session_counters. key is the caller's own
-- name of the session, unique in its namespace. owner is the user whose session it is. version counts the updates.
-- The free space left in each page (fillfactor) keeps updates of the usage heap-only.
CREATE TABLE sessions (
    id                 uuid        NOT NULL,
    namespace          text        NOT NULL DEFAULT 'local',
    key                text,
    owner              text,
    actor              text,
    automation_profile text,
    -- json, not jsonb: the text that was stored is the text that is read (number literals and the order of members).
    metadata           json        NOT NULL DEFAULT '{}',
    version            bigint      NOT NULL DEFAULT 1,
    input_tokens       bigint      NOT NULL DEFAULT 0,
    output_tokens      bigint      NOT NULL DEFAULT 0,
    cost_nanos         bigint      NOT NULL DEFAULT 0,
    budget_nanos       bigint,
    created_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
    imported_at        timestamptz, -- since then it is idle, however old its messages are
    CONSTRAINT sessions_pkey PRIMARY KEY (id),
    CONSTRAINT sessions_check CHECK (sessions_valid(namespace, key, owner, actor, automation_profile, metadata, version,
        input_tokens,
        output_tokens, cost_nanos, budget_nanos))
) WITH (fillfactor = 85);

CREATE UNIQUE INDEX sessions_namespace_key_key ON sessions (namespace, key) WHERE key IS NOT NULL;
-- Listing: newest first within a namespace, and within an actor or an owner of a namespace.
CREATE INDEX sessions_namespace_created_at_idx ON sessions (namespace, created_at, id);
CREATE INDEX sessions_namespace_actor_created_at_idx ON sessions (namespace, actor, created_at, id)
    WHERE actor IS NOT NULL;
CREATE INDEX sessions_namespace_owner_created_at_idx ON sessions (namespace, owner, created_at, id)
    WHERE owner IS NOT NULL;

-- An id that a caller chose, or a deleted session had: an id is given once.
-- A creation with an id of its caller's inserts it, and so does each deletion, so that this key decides, at every
-- isolation level. A session never changes its namespace, also if it is restored: namespace_hash is its
-- hashtextextended (null: not known), since the name may be a person's.
CREATE TABLE session_ids (
    id             uuid NOT NULL,
    namespace_hash bigint,
    CONSTRAINT session_ids_pkey PRIMARY KEY (id)
);

-- The counter row of a session: its next sequence and its fence; each append locks it.
-- The row is narrow, and half of each page is left free, so that an update is heap-only and the dead versions are
-- pruned in place. fence is the largest fence that was given for a lease of the session: a write under another one
-- is refused. fenced_only: writes without a fence are refused, too. follows is the sequence that the next message
-- follows, if that is not the one before (-1: none): the session was rewound, and nothing was added since.
CREATE TABLE session_counters (
    session_id    uuid        NOT NULL,
    next_sequence bigint      NOT NULL DEFAULT 0,
    fence         bigint      NOT NULL DEFAULT 0,
    fenced_only   boolean     NOT NULL DEFAULT false,
    follows       bigint,
    updated_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT session_counters_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_counters_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE,
    CONSTRAINT session_counters_next_sequence_check CHECK (next_sequence >= 0),
    CONSTRAINT session_counters_follows_check CHECK (follows >= -1 AND follows < next_sequence - 1)
) WITH (fillfactor = 50);

CREATE FUNCTION messages_valid(sequence bigint, role text, kind text, call_id text, content text, metadata json,
    payload bytea,
    follows bigint, tokens integer, counter text)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE broken CONSTANT pg_catalog.text := CASE
    WHEN NOT (sequence OPERATOR(pg_catalog.>=) 0) THEN 'messages_sequence_check'
    WHEN NOT (role OPERATOR(pg_catalog.=) ANY (ARRAY['user', 'assistant', 'system', 'developer', 'tool']))
        THEN 'messages_role_check'
    WHEN NOT (kind OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(kind) OPERATOR(pg_catalog.<=) 255)
        THEN 'messages_kind_check'
    WHEN NOT (call_id OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(call_id) OPERATOR(pg_catalog.<=) 1024)
        THEN 'messages_call_id_check'
    WHEN NOT (pg_catalog.octet_length(content) OPERATOR(pg_catalog.<=) 16777216 AND (
            content OPERATOR(pg_catalog.<>) '' OR pg_catalog.octet_length(payload) OPERATOR(pg_catalog.>) 0
            OR metadata::pg_catalog.text OPERATOR(pg_catalog.<>) '{}' OR kind IS NOT NULL OR call_id IS NOT NULL
        ) IS TRUE) THEN 'messages_content_check'
    WHEN NOT (pg_catalog.json_typeof(metadata) OPERATOR(pg_catalog.=) 'object') THEN 'messages_metadata_check'
    WHEN NOT (pg_catalog.octet_length(payload) OPERATOR(pg_catalog.<=) 16777216) THEN 'messages_payload_check'
    WHEN NOT (follows OPERATOR(pg_catalog.>=) -1 AND follows OPERATOR(pg_catalog.<) (sequence OPERATOR(pg_catalog.-) 1))
        THEN 'messages_follows_check'
    WHEN NOT (tokens OPERATOR(pg_catalog.>) 0) THEN 'messages_tokens_check'
    WHEN NOT (counter OPERATOR(pg_catalog.<>) '' AND pg_catalog.octet_length(counter) OPERATOR(pg_catalog.<=) 255)
        THEN 'messages_counter_check'
END;
BEGIN
    IF broken IS NULL THEN RETURN true; END IF;
    RAISE check_violation USING MESSAGE = 'new row for relation "messages" violates check constraint "' || broken
        || '"',
        TABLE = 'messages', CONSTRAINT = broken;
END
$$;

-- Statements call it if fewer rows went in than they were given, since a foreign trigger left some out: an answer is
-- about what was stored. So nothing is.
CREATE FUNCTION rows_left_out(name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE integrity_constraint_violation USING MESSAGE = 'rows were left out', TABLE = name,
    CONSTRAINT = 'rows_left_out';
END
$$;

-- A message of a session, under its sequence; it stays as it was written.
-- A message has no foreign key: it is inserted with a write of its session's counter row, and goes with that row
-- (session_counters_delete). The key would look the row up for each message by the index, through all versions that
-- an open snapshot keeps. kind says what a message is beyond its role, such as a tool call. call_id joins a call and
-- its result. bytes is the size of what may be large. A read decides by it how much to read: the size of json that
-- is stored out of line is known only by reading it. follows is the sequence that a message follows, if that is not
-- the one before (-1: none). tokens is how many it was counted to have, by counter.
CREATE TABLE messages (
    session_id  uuid        NOT NULL,
    sequence    bigint      NOT NULL,
    id          uuid        NOT NULL,
    role        text        NOT NULL,
    kind        text,
    call_id     text,
    content     text        NOT NULL,
    metadata    json        NOT NULL DEFAULT '{}',
    payload     bytea,
    occurred_at timestamptz,
    created_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    follows     bigint,
    tokens      integer,
    counter     text,
    bytes       integer     NOT NULL GENERATED ALWAYS AS
        (octet_length(content) + octet_length(metadata::text) + coalesce(octet_length(payload), 0)) STORED,
    CONSTRAINT messages_pkey PRIMARY KEY (session_id, sequence),
    CONSTRAINT messages_session_id_id_key UNIQUE (session_id, id),
    CONSTRAINT messages_check CHECK (messages_valid(sequence, role, kind, call_id, content, metadata, payload,
        follows, tokens, counter))
);

-- Whatever an update of a message says, it redacts it: its place, id and role stay, and its call unless that goes, too.
CREATE FUNCTION messages_redact() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    OLD.content := 'erased';
    OLD.kind := 'redacted';
    OLD.metadata := '{}';
    OLD.payload := NULL;
    OLD.tokens := NULL;
    OLD.counter := NULL;
    IF NEW.call_id IS NULL THEN OLD.call_id := NULL; END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER messages_redact BEFORE UPDATE ON messages FOR EACH ROW EXECUTE FUNCTION messages_redact();

-- The messages of a call. Few messages have one.
CREATE INDEX messages_session_id_call_id_sequence_idx ON messages (session_id, call_id, sequence)
    WHERE call_id IS NOT NULL;
-- Where a branch begins, and what a prompt has wherever it is. Few messages are one of these.
CREATE INDEX messages_session_id_branch_idx ON messages (session_id, sequence) INCLUDE (follows)
    WHERE follows IS NOT NULL;
CREATE INDEX messages_session_id_instruction_idx ON messages (session_id, sequence)
    WHERE role IN ('system', 'developer') OR kind = 'summary';

-- A fork, or a session that was rewound: where its own messages begin.
-- A session that was never rewound has no row. A fork's messages begin at base: messages with a lower sequence are
-- the parent's, or its parent's, and so on. If the parent is deleted, what its forks need of it stays in messages,
-- and it has a row here, so that these are never taken for a session's. needs is the last of the parent's messages
-- that a fork needs: the one before base while the fork exists, and afterwards what its own forks need. depth is
-- the number of its ancestors. importer is the fork with whose import these messages came, which then are of no
-- session that ever was.
CREATE TABLE session_branches (
    session_id uuid    NOT NULL,
    parent_id  uuid,
    base       bigint  NOT NULL DEFAULT 0,
    needs      bigint  NOT NULL DEFAULT -1,
    depth      integer NOT NULL DEFAULT 0,
    importer   uuid,
    CONSTRAINT session_branches_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_branches_base_check CHECK ((base > 0) = (parent_id IS NOT NULL) AND base >= 0
        AND needs < greatest(base, 0) AND needs >= -1)
);
CREATE INDEX session_branches_parent_id_idx ON session_branches (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX session_branches_importer_idx ON session_branches (importer) WHERE importer IS NOT NULL;

-- The messages from the one at a sequence (null: from the last one of the transcript) back to the first one of the
-- session, as the ranges of sequences of which they are, the last one first, each with the session whose messages these
-- are. No more than most messages, with sequences from down_to on, and below another one; null is for no bound. Where a
-- branch begins the path goes on at the message that its first one follows; sequences decrease along it.
CREATE FUNCTION session_path(session uuid, at bigint, down_to bigint, below bigint, most bigint)
RETURNS TABLE (owner uuid, low bigint, high bigint) LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10 AS $$
#variable_conflict use_variable
DECLARE parent uuid; base bigint; next bigint := at; room bigint := coalesce(most, 9223372036854775807);
BEGIN
    IF at IS NULL THEN
        SELECT coalesce(c.follows, c.next_sequence - 1) INTO next FROM session_counters c WHERE c.session_id = session;
    END IF;
    owner := session;
    SELECT b.parent_id, b.base INTO parent, base FROM session_branches b WHERE b.session_id = owner;
    WHILE next >= greatest(down_to, 0) AND room > 0 LOOP
        WHILE next < base LOOP
            owner := parent;
            SELECT b.parent_id, b.base INTO parent, base FROM session_branches b WHERE b.session_id = owner;
        END LOOP;
        high := next;
        SELECT m.sequence, m.follows INTO low, next FROM messages m
        WHERE m.session_id = owner AND m.sequence <= high AND m.follows IS NOT NULL ORDER BY m.sequence DESC LIMIT 1;
        IF NOT FOUND THEN
            low := coalesce(base, 0);
            next := low - 1;
        END IF;
        high := least(high, below - 1);
        low := greatest(low, down_to, high - room + 1);
        IF low <= high THEN
            room := room - (high - low + 1);
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- The newest messages of the transcript, from down_to on, that have at most so many tokens together, and are at most
-- most, as session_path returns them; instructions are not counted, up to 1,000. cut says that there are others before
-- them.
CREATE FUNCTION session_tail(session uuid, down_to bigint, most bigint, tokens bigint)
RETURNS TABLE (owner uuid, low bigint, high bigint, cut boolean) LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10 AS $$
#variable_conflict use_variable
DECLARE path record; m record; instructions bigint := 0;
BEGIN
    cut := false;
    FOR path IN SELECT p.owner, p.low, p.high FROM session_path(session, NULL, down_to, NULL, NULL) AS p LOOP
        owner := path.owner;
        low := path.high + 1;
        high := path.high;
        FOR m IN
            SELECT t.sequence, coalesce(t.tokens, (t.bytes::bigint * 2 + 6) / 7 + 4) AS tokens,
                (t.role IN ('system', 'developer') OR coalesce(t.kind = 'summary', false)) AS instruction
            FROM messages t WHERE t.session_id = owner AND t.sequence BETWEEN path.low AND path.high
                ORDER BY t.sequence DESC LIMIT most + 1002
        LOOP
            IF m.instruction THEN
                instructions := instructions + 1;
            ELSE
                tokens := tokens - m.tokens;
                most := most - 1;
            END IF;
            cut := tokens < 0 OR most < 0 OR instructions > 1000;
            EXIT WHEN cut;
            low := m.sequence;
        END LOOP;
        RETURN NEXT;
        EXIT WHEN cut;
    END LOOP;
END
$$;

-- A usage that was added to a session, under its id, so that it is added once.
-- Rows are written once and go with their session, as messages do.
CREATE TABLE session_usages (
    session_id    uuid        NOT NULL,
    id            uuid        NOT NULL,
    input_tokens  bigint      NOT NULL,
    output_tokens bigint      NOT NULL,
    cost_nanos    bigint      NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT session_usages_pkey PRIMARY KEY (session_id, id),
    CONSTRAINT session_usages_amounts_check CHECK (input_tokens >= 0 AND output_tokens >= 0 AND cost_nanos >= 0)
);

-- A turn under its caller's id, so that it is made once.
-- The id is any text. digest is of what the turn contains. One without messages locks the counter row, and leaves it
-- as it is. So a deletion whose snapshot is older is not refused for the row, nor sees the turn: it leaves a row in
-- session_remains. plan_id is the plan that it has made, which may be gone.
CREATE TABLE session_turns (
    session_id     uuid        NOT NULL,
    id             text        COLLATE "C" NOT NULL,
    digest         bytea       NOT NULL,
    first_sequence bigint      NOT NULL,
    message_count  integer     NOT NULL,
    plan_id        uuid,
    created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT session_turns_pkey PRIMARY KEY (session_id, id),
    CONSTRAINT session_turns_id_check CHECK (id <> '' AND octet_length(id) <= 255),
    CONSTRAINT session_turns_digest_check CHECK (octet_length(digest) = 32),
    CONSTRAINT session_turns_first_sequence_check CHECK (first_sequence >= 0),
    CONSTRAINT session_turns_message_count_check CHECK (message_count >= 0)
);
-- What is older than promised.
CREATE INDEX session_turns_created_at_idx ON session_turns (created_at);

-- The minute of a session's last append, for lists by last activity.
-- active_at is when the session was created, or the time of its first append in the last minute in which it had one:
-- an index on the exact time would have to be written by every append. An index covers active_at, so an update
-- leaves a dead entry in each index, over which a list has to step. These settings bound their number.
CREATE TABLE session_activity (
    session_id uuid        NOT NULL,
    namespace  text        NOT NULL,
    owner      text,
    active_at  timestamptz NOT NULL,
    CONSTRAINT session_activity_pkey PRIMARY KEY (session_id),
    CONSTRAINT session_activity_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE
) WITH (autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.01, vacuum_index_cleanup = on);
CREATE INDEX session_activity_namespace_active_at_idx ON session_activity (namespace, active_at, session_id);
CREATE INDEX session_activity_namespace_owner_active_at_idx ON session_activity (namespace, owner, active_at,
    session_id) WHERE owner IS NOT NULL;

-- Triggers' functions write the tables of the schema in which their trigger's table is, wherever that is now: a schema
-- can be renamed, and restored beside itself. They run with the rights of the tables' owner: roles only read what they
-- write.
CREATE FUNCTION session_activity_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog,
pg_temp AS $$
BEGIN
    -- It never goes back. The row cannot change meanwhile: a change needs the lock of the counter row, which this
    -- transaction has now.
    EXECUTE format('UPDATE %I.session_activity SET active_at = $1 '
        'WHERE session_id = $2 AND active_at < date_trunc(''minute'', $1)', TG_TABLE_SCHEMA)
    USING NEW.updated_at, NEW.session_id;
    RETURN NULL;
END
$$;

-- The first of the messages low to high of a session whose created_at is not before since, or high + 1, by bisection.
CREATE FUNCTION session_since(owner uuid, low bigint, high bigint,
    since timestamptz) RETURNS bigint LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE first bigint := low; behind bigint := high + 1; middle bigint;
BEGIN
    WHILE first < behind LOOP
        middle := first + (behind - first) / 2;
        IF (SELECT m.created_at < since FROM messages m WHERE m.session_id = owner AND m.sequence = middle) THEN
            first := middle + 1;
        ELSE
            behind := middle;
        END IF;
    END LOOP;
    RETURN first;
END
$$;

-- What forks need of a session's own messages: the ranges of sequences (none of them if high is below low), each with
-- the sequence that its first message follows.
CREATE FUNCTION session_needed(session uuid) RETURNS TABLE (low bigint, high bigint,
    next bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY WITH RECURSIVE base AS (
        SELECT coalesce((SELECT b.base FROM session_branches b WHERE b.session_id = session), 0) AS base
    ), path (low, high, next) AS (
        SELECT 0::bigint, -1::bigint, b.needs FROM session_branches b WHERE b.parent_id = session
        UNION
        SELECT coalesce(m.sequence, b.base), p.next, coalesce(m.follows, b.base - 1)
        FROM base b, path p LEFT JOIN LATERAL (
            SELECT t.sequence, t.follows FROM messages t
            WHERE t.session_id = session AND t.sequence <= p.next AND t.follows IS NOT NULL
                ORDER BY t.sequence DESC LIMIT 1
        ) AS m ON true
        WHERE p.next >= b.base
    )
    SELECT p.low, p.high, p.next FROM path p;
END
$$;

-- The functions of a deletion are called by triggers, whose search_path they keep: PostgreSQL's own names first, and
-- then the schema of the trigger's table. So the plans of their statements are kept, whatever the schema is called.
-- They name pg_catalog for functions that take any type: for others an exact match there comes first.

-- Removes up to most rows of a session that was deleted, with about 8 MiB of messages at most: its turns and usages,
-- and the messages from start on that no fork needs. next is where to go on: null if nothing is left. Nothing is
-- removed of a session that exists, such as one that was restored.
CREATE FUNCTION session_remove(session uuid, start bigint, most bigint, OUT next bigint,
    OUT removed bigint) LANGUAGE plpgsql AS $$
DECLARE rows bigint; lows bigint[]; highs bigint[];
BEGIN
    removed := 0;
    IF EXISTS (SELECT FROM session_counters c WHERE c.session_id = session) THEN RETURN; END IF;
    next := start;
    DELETE FROM session_turns d WHERE d.session_id = session
        AND d.id = ANY (ARRAY(SELECT o.id FROM session_turns o WHERE o.session_id = session ORDER BY o.id LIMIT most));
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed >= most THEN RETURN; END IF;
    DELETE FROM session_usages d WHERE d.session_id = session
        AND d.id = ANY (ARRAY(SELECT o.id FROM session_usages o WHERE o.session_id = session
            ORDER BY o.id LIMIT most - removed));
    GET DIAGNOSTICS rows = ROW_COUNT;
    removed := removed + rows;
    IF removed >= most THEN RETURN; END IF;
    IF EXISTS (SELECT FROM session_branches b WHERE b.parent_id = session) THEN
        SELECT pg_catalog.array_agg(n.low), pg_catalog.array_agg(n.high) INTO lows, highs
            FROM session_needed(session) AS n WHERE n.low <= n.high;
    END IF;
    WITH page AS MATERIALIZED (
        SELECT max(f.sequence) AS last FROM (
            SELECT m.sequence,
                sum(m.bytes) OVER (ORDER BY m.sequence ROWS UNBOUNDED PRECEDING) - m.bytes AS bytes_before
            FROM messages m WHERE m.session_id = session AND m.sequence >= start
                ORDER BY m.sequence LIMIT most - removed
        ) AS f WHERE f.bytes_before < 8388608
    ), gone AS (
        DELETE FROM messages m WHERE m.session_id = session AND m.sequence BETWEEN start AND (SELECT p.last FROM page p)
            AND NOT EXISTS (SELECT FROM unnest(lows, highs) AS needed (low, high)
                WHERE m.sequence BETWEEN needed.low AND needed.high)
        RETURNING m.sequence
    )
    SELECT (SELECT m.sequence FROM messages m WHERE m.session_id = session AND m.sequence > p.last
        ORDER BY m.sequence LIMIT 1),
        removed + (SELECT count(*) FROM gone)
    INTO next, removed FROM page p;
END
$$;

-- What remains to be removed of a deleted session.
-- A deletion removes few rows itself, so that it is short. next_sequence is how far the removal has come. A
-- statement that sets batch, on a row that it has locked, has up to so many rows removed, and finds in removed how
-- many there were; a trigger does that, with the owner's rights. The row goes when nothing is left.
CREATE TABLE session_remains (
    session_id    uuid   NOT NULL,
    next_sequence bigint DEFAULT 0,
    batch         bigint NOT NULL DEFAULT 0,
    removed       bigint NOT NULL DEFAULT 0,
    CONSTRAINT session_remains_pkey PRIMARY KEY (session_id)
) WITH (fillfactor = 50);

-- Begins to remove what is no longer needed of a session. A deletion at another level than read committed may not see
-- all of it. The rest has a row in session_branches, so that it is never taken for a session's.
CREATE FUNCTION session_leave(session uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE left_over bigint;
BEGIN
    SELECT r.next INTO left_over FROM session_remove(session, 0, 1000) AS r;
    IF left_over IS NOT NULL OR pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        INSERT INTO session_branches (session_id) VALUES (session) ON CONFLICT DO NOTHING;
        INSERT INTO session_remains (session_id) VALUES (session) ON CONFLICT (session_id) DO UPDATE
            SET next_sequence = 0;
    END IF;
END
$$;

CREATE FUNCTION session_remains_remove() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog,
pg_temp AS $$
BEGIN
    PERFORM set_config('search_path', format('pg_catalog, %I, pg_temp', TG_TABLE_SCHEMA), true);
    SELECT r.next, r.removed INTO NEW.next_sequence, NEW.removed
        FROM session_remove(OLD.session_id, OLD.next_sequence, NEW.batch) AS r;
    RETURN NEW;
END
$$;

CREATE FUNCTION session_remains_end() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog,
pg_temp AS $$
BEGIN
    PERFORM set_config('search_path', format('pg_catalog, %I, pg_temp', TG_TABLE_SCHEMA), true);
    DELETE FROM session_remains WHERE session_id = NEW.session_id;
    DELETE FROM session_branches b WHERE b.session_id = NEW.session_id
        AND NOT EXISTS (SELECT FROM session_counters c WHERE c.session_id = NEW.session_id)
        AND NOT EXISTS (SELECT FROM session_branches f WHERE f.parent_id = NEW.session_id);
    RETURN NULL;
END
$$;

CREATE TRIGGER session_remains_remove BEFORE UPDATE OF batch ON session_remains
    FOR EACH ROW EXECUTE FUNCTION session_remains_remove();
CREATE TRIGGER session_remains_end AFTER UPDATE OF batch ON session_remains
    FOR EACH ROW WHEN (NEW.next_sequence IS NULL) EXECUTE FUNCTION session_remains_end();

-- Removes what is not needed of a session that is deleted and has forks or is one. If it is a fork, and its parent is
-- deleted, that one needs less from now on, and so on. The locks make deletions of a family's sessions go one after the
-- other: a fork locks the counter row of the session that it is made of, or there is a fork already which does that. A
-- snapshot may show forks that were deleted since, for which messages would be kept for ever: their rows cannot be
-- locked then.
CREATE FUNCTION session_prune(session uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE owner uuid := session; parent uuid; alive boolean;
BEGIN
    LOOP
        IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
            PERFORM FROM session_branches b WHERE b.parent_id = owner FOR SHARE;
        END IF;
        UPDATE session_branches b SET needs = coalesce((SELECT max(p.next) FROM session_needed(owner) AS p
            WHERE p.next < b.base), -1)
        WHERE b.session_id = owner;
        PERFORM session_leave(owner);
        parent := (SELECT b.parent_id FROM session_branches b WHERE b.session_id = owner);
        IF EXISTS (SELECT FROM session_branches b WHERE b.parent_id = owner) THEN
            INSERT INTO session_branches (session_id) VALUES (owner) ON CONFLICT DO NOTHING;
        ELSE
            DELETE FROM session_branches b WHERE b.session_id = owner
                AND NOT EXISTS (SELECT FROM session_remains r WHERE r.session_id = owner);
            UPDATE session_branches b SET parent_id = NULL, base = 0, needs = -1 WHERE b.session_id = owner;
        END IF;
        EXIT WHEN parent IS NULL;
        alive := (SELECT true FROM session_counters c WHERE c.session_id = parent FOR KEY SHARE);
        EXIT WHEN alive;
        UPDATE session_ids i SET id = i.id WHERE i.id = parent;
        owner := parent;
    END LOOP;
END
$$;

-- The messages, turns and usages of a session go with its counter row, but for the messages that forks need. None
-- is added meanwhile: this transaction has the row's lock.
CREATE FUNCTION session_counters_delete() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE related boolean;
BEGIN
    PERFORM set_config('search_path', format('pg_catalog, %I, pg_temp', TG_TABLE_SCHEMA), true);
    related := EXISTS (SELECT FROM session_branches b WHERE b.session_id = OLD.session_id)
        OR EXISTS (SELECT FROM session_branches b WHERE b.parent_id = OLD.session_id);
    IF related THEN
        PERFORM session_prune(OLD.session_id);
    ELSE
        PERFORM session_leave(OLD.session_id);
    END IF;
    RETURN NULL;
END
$$;

-- A legal hold on a session, an owner's sessions and plans, or a namespace.
-- What a hold names is not deleted. It is of a session ('' as namespace and owner), of an owner's sessions and plans
-- in a namespace, or of the whole namespace. The row without any of these is the one that every deletion locks,
-- shared, and that every new hold changes: so a hold finds a session gone, or its deletion finds the hold.
CREATE TABLE session_holds (
    namespace  text        COLLATE "C" NOT NULL,
    owner      text        COLLATE "C" NOT NULL,
    session_id uuid        NOT NULL,
    reason     text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT session_holds_pkey PRIMARY KEY (namespace, owner, session_id),
    CONSTRAINT session_holds_whose_check CHECK (octet_length(namespace) <= 255 AND octet_length(owner) <= 1024
        AND (namespace <> '' OR owner = '') AND (namespace = ''
            OR session_id = '00000000-0000-0000-0000-000000000000')),
    CONSTRAINT session_holds_reason_check CHECK (reason <> '' AND octet_length(reason) <= 65536)
);
INSERT INTO session_holds (namespace, owner, session_id, reason)
    VALUES ('', '', '00000000-0000-0000-0000-000000000000', 'what deletions lock');

-- Whether a hold keeps what is in a namespace (null: in none), or was made for a session, which may be gone. A
-- deletion that asks has locked the row that every new hold changes, in a statement before.
CREATE FUNCTION session_held(place text, session uuid) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE none CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    RETURN EXISTS (SELECT FROM session_holds h WHERE h.namespace = place AND h.owner = '' AND h.session_id = none)
        OR session <> none AND EXISTS (SELECT FROM session_holds h WHERE h.namespace = '' AND h.owner = ''
            AND h.session_id = session)
        OR EXISTS (SELECT FROM sessions s JOIN session_holds h ON h.namespace = s.namespace AND h.owner IN ('', s.owner)
            AND h.session_id = none
            WHERE s.id = session);
END
$$;

REVOKE EXECUTE ON FUNCTION session_activity_move, session_counters_delete, session_prune, session_leave, session_remove,
session_needed,
    session_remains_remove, session_remains_end FROM PUBLIC;

CREATE TRIGGER session_counters_delete AFTER DELETE ON session_counters
    FOR EACH ROW EXECUTE FUNCTION session_counters_delete();

-- An append in a minute that has had one evaluates the condition, and no more.
CREATE TRIGGER session_activity_move AFTER UPDATE OF updated_at ON session_counters
    FOR EACH ROW WHEN (OLD.updated_at < date_trunc('minute', NEW.updated_at)) EXECUTE FUNCTION session_activity_move();
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
-- Writers are kept out first: what was seen empty stays empty until the drop. What belongs to a session cannot be there
-- without it.
LOCK TABLE sessions, session_ids, session_holds IN ACCESS EXCLUSIVE MODE;
DO $$
DECLARE full_table CONSTANT text := CASE
    WHEN EXISTS (SELECT FROM sessions) THEN 'sessions'
    WHEN EXISTS (SELECT FROM session_ids) THEN 'session_ids'
    WHEN EXISTS (SELECT FROM session_holds h WHERE h.namespace <> ''
        OR h.session_id <> '00000000-0000-0000-0000-000000000000') THEN 'session_holds'
END;
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on' AND full_table IS NOT NULL THEN
        RAISE EXCEPTION 'table % still holds rows', full_table USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
DROP TABLE session_holds, session_remains, session_activity, session_turns, session_usages, session_branches, messages,
session_counters, session_ids, sessions;
DROP FUNCTION session_activity_move, session_counters_delete, rows_left_out, session_prune, session_leave,
session_remove, session_needed,
    session_remains_remove, session_remains_end, session_held, session_since, session_tail, session_path,
    messages_valid, messages_redact, sessions_valid;
-- +goose StatementEnd
