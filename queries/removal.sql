-- What packages retention and erase need besides the contract. A transaction that removes or replaces what a hold
-- may keep locks HoldGate in a statement before.

-- name: TurnRemoveOld :one
-- Index: session_turns_created_at_idx, session_turns_pkey. Removes up to max_rows records of turns, of which there are
-- found, up to the time that is reached. It skips locked rows. Held ones of that time are found again, and counted
-- then.
WITH page AS MATERIALIZED (
    SELECT t.session_id, t.id, t.created_at FROM session_turns t
    WHERE t.created_at >= @not_before AND t.created_at < @before
        ORDER BY t.created_at LIMIT @max_rows::integer FOR UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
    SELECT p.session_id, p.id, p.created_at, session_held(NULL, p.session_id) AS held FROM page p
), gone AS (
    DELETE FROM session_turns t USING judged j WHERE t.session_id = j.session_id AND t.id = j.id AND NOT j.held
        RETURNING t.id
), reached AS MATERIALIZED (
    SELECT max(p.created_at) AS at, count(*) AS found FROM page p
)
SELECT r.found, (SELECT count(*) FROM gone)::bigint AS removed, coalesce(r.at, @before)::timestamptz AS reached,
    (SELECT count(*) FROM judged j, reached e WHERE j.held
        AND (j.created_at < e.at OR e.found < @max_rows::integer))::bigint AS held
FROM reached r;

-- name: TurnCountOld :one
-- Index: session_turns_created_at_idx. What a dry run counts.
SELECT count(*) FILTER (WHERE NOT j.held) AS removed, count(*) FILTER (WHERE j.held) AS held
FROM (SELECT session_held(NULL, t.session_id) AS held FROM session_turns t WHERE t.created_at < @before) AS j;

-- name: SessionCountIdle :one
-- Index: session_holds_pkey, session_activity_namespace_active_at_idx, sessions_pkey. Counts the sessions of namespaces
-- that nothing was appended to since the minute of a time, and for how long it is over for the first one. Of the first
-- 10,001 it leaves out sessions that a hold keeps, or that are in use, and does not look for others in their place:
-- what it reads is bounded. The constant tells the planner. session_held, of which the conditions are, would take more
-- than twice as long.
SELECT count(*) AS sessions, coalesce(extract(epoch FROM max(i.since - i.active_at)), 0)::float8 AS seconds
FROM (
    SELECT a.session_id, a.active_at, n.namespace, n.since
    FROM ROWS FROM (unnest((SELECT @namespaces::text[])), unnest((SELECT @sinces::timestamptz[]))) AS n (namespace,
        since), LATERAL (
        SELECT session_activity.session_id, session_activity.active_at FROM session_activity
        WHERE session_activity.namespace = n.namespace AND session_activity.active_at < date_trunc('minute', n.since)
            AND (SELECT true FROM session_holds h WHERE h.namespace = n.namespace AND h.owner = ''
                AND h.session_id = '00000000-0000-0000-0000-000000000000') IS NULL
        ORDER BY session_activity.active_at, session_activity.session_id LIMIT 10001
    ) AS a
    LIMIT 10001
) AS i, LATERAL (SELECT greatest(s.updated_at, s.imported_at) AS updated_at, s.owner FROM sessions s
    WHERE s.id = i.session_id LIMIT 1) AS own
WHERE own.updated_at < i.since
    AND (SELECT true FROM session_holds h WHERE h.namespace = '' AND h.owner = ''
        AND h.session_id = i.session_id) IS NULL
    AND (SELECT true FROM session_holds h WHERE h.namespace = i.namespace AND h.owner = own.owner
        AND h.session_id = '00000000-0000-0000-0000-000000000000') IS NULL
    AND session_in_use(i.session_id) IS NULL;

-- name: SessionJudge :many
-- Index: sessions_pkey, session_branches_pkey. What a dry run asks of sessions. inherited is how many messages a fork
-- has of others.
SELECT s.id, session_held(s.namespace, s.id)::boolean AS held, (session_in_use(s.id) IS NOT NULL)::boolean AS in_use,
    coalesce((SELECT b.base FROM session_branches b WHERE b.session_id = s.id LIMIT 1), 0)::bigint AS inherited
FROM sessions s WHERE s.id = ANY (@ids::uuid[]);

-- Names stand for a person in namespaces; none given: in all. What has no namespace is in the default one.

-- name: PlanForget :one
-- Index: plan_history_actor_plan_id_idx, plans_pkey, plan_history_pkey, plan_projects_pkey, plan_claims_pkey. Replaces
-- what a person did and said in the history of plans, behind one; the texts of plans that the person made, unless
-- these have work (rules.IsOpen); and the person's texts that say why a plan failed or was cancelled. What a sweep
-- writes beside it has no names.
WITH found AS MATERIALIZED (
    SELECT DISTINCT f.plan_id FROM (
        SELECT h.plan_id FROM plan_history h WHERE h.actor = @name::text AND h.plan_id > @after_id
            ORDER BY h.plan_id LIMIT @max_rows
    ) AS f
), locked AS MATERIALIZED (
    SELECT p.id, p.projects, p.namespace, p.session_id, p.state IN ('queued', 'processing', 'complete') AS busy
        FROM plans p
    WHERE p.id = ANY (ARRAY(SELECT f.plan_id FROM found f))
        AND (cardinality(@namespaces::text[]) = 0 OR p.namespace = ANY (@namespaces::text[]))
    ORDER BY p.id FOR NO KEY UPDATE
), judged AS MATERIALIZED (
    SELECT l.id, l.projects, l.busy, session_held(l.namespace, l.session_id) AS held, NOT l.busy AND h.used AS used,
    NOT l.busy AND (h.used OR h.ran) AS ran,
        coalesce(h.failed[1], false) AS failed, coalesce(h.cancelled[1], false) AS cancelled, h.used AS made
    FROM locked l, LATERAL (
        SELECT coalesce(bool_or(e.transition = 'use' AND e.actor = @name), false) AS used,
        coalesce(bool_or(e.transition = 'start' AND e.actor = @name), false) AS ran,
            array_agg(e.actor = @name ORDER BY e.version DESC) FILTER (WHERE e.to_state = 'errored') AS failed,
            array_agg(e.actor = @name ORDER BY e.version DESC) FILTER (WHERE e.to_state = 'cancelled') AS cancelled
        FROM plan_history e WHERE e.plan_id = l.id
    ) AS h
), events AS (
    UPDATE plan_history h SET actor = nullif(h.actor, @name), reason = CASE WHEN h.reason IS NOT NULL THEN 'erased' END
    FROM judged j
    WHERE h.plan_id = j.id AND NOT j.held AND (h.actor = @name OR j.used AND h.reason <> 'erased')
        AND NOT (j.busy AND h.transition = 'use')
    RETURNING h.plan_id
), claims AS (
    UPDATE plan_claims c SET owner = 'erased' FROM judged j WHERE c.plan_id = j.id AND c.owner = @name AND NOT j.held
), altered AS (
    UPDATE plans p
    SET error_message = CASE WHEN (j.failed OR j.used) AND p.error_message IS NOT NULL THEN 'erased'
        ELSE p.error_message END, error_details = CASE WHEN NOT (j.failed OR j.used) THEN p.error_details END,
        cancel_reason = CASE WHEN (j.cancelled OR j.used) AND p.cancel_reason IS NOT NULL THEN 'erased'
            ELSE p.cancel_reason END,
        last_checkpoint_id = CASE WHEN NOT j.ran THEN p.last_checkpoint_id END,
        name = CASE WHEN NOT j.used THEN p.name END, key = CASE WHEN NOT j.used THEN p.key END,
        automation_profile = CASE WHEN NOT j.used THEN p.automation_profile END,
        automation_profile_source = CASE WHEN NOT j.used THEN p.automation_profile_source END, trace = CASE
            WHEN NOT j.used THEN p.trace END,
        description = CASE WHEN j.used THEN '' ELSE p.description END, definition_of_done = CASE WHEN j.used THEN ''
            ELSE p.definition_of_done END,
        automation_snapshot = CASE WHEN j.used THEN '{}' ELSE p.automation_snapshot END,
        argument_names = CASE WHEN j.used THEN '{}' ELSE p.argument_names END, argument_values = CASE WHEN j.used
            THEN '{}' ELSE p.argument_values END,
        invariants = CASE WHEN j.used THEN '{}' ELSE p.invariants END, invariant_sources = CASE WHEN j.used THEN '{}'
            ELSE p.invariant_sources END,
        projects = CASE WHEN j.used THEN '{}' ELSE p.projects END, project_aliases = CASE WHEN j.used THEN '{}'
            ELSE p.project_aliases END,
        project_read_onlys = CASE WHEN j.used THEN '{}' ELSE p.project_read_onlys END
    FROM judged j WHERE p.id = j.id AND NOT j.held AND (j.failed OR j.cancelled OR j.ran)
    RETURNING p.id
), unlisted AS (
    DELETE FROM plan_projects l USING (SELECT j.id, x.project FROM judged j, unnest(j.projects) AS x (project)
        WHERE j.used AND NOT j.held) AS n
    WHERE l.project = n.project AND l.plan_id = n.id
)
SELECT (SELECT f.plan_id FROM found f ORDER BY f.plan_id DESC LIMIT 1)::uuid AS reached,
(SELECT count(*) FROM events)::bigint AS events,
    (SELECT count(*) FROM altered)::bigint AS altered, count(*) FILTER (WHERE j.held) AS held,
    count(*) FILTER (WHERE j.busy AND j.made AND NOT j.held) AS live
FROM judged j;

-- name: ActionForget :execrows
-- Index: none: there are few actions. Processes that know the definition learn of the change by its version.
UPDATE actions a
SET created_by = nullif(a.created_by, @name::text), strategy_actor = nullif(a.strategy_actor, @name),
execution_actor = nullif(a.execution_actor, @name),
    review_actor = nullif(a.review_actor, @name), apply_actor = nullif(a.apply_actor, @name),
    estimation_actor = nullif(a.estimation_actor, @name),
    invariant_actor = nullif(a.invariant_actor, @name), version = a.version + 1
WHERE @name IN (a.created_by, a.strategy_actor, a.execution_actor, a.review_actor, a.apply_actor, a.estimation_actor,
    a.invariant_actor)
    AND (cardinality(@namespaces::text[]) = 0 OR a.namespace = ANY (@namespaces::text[]));

-- name: StreamForget :execrows
-- Index: streams_owner_idx. Lets the streams that a person opened expire for ever.
UPDATE streams s SET expires_at = 'epoch', status = CASE s.status WHEN 'open' THEN 'lapsed' ELSE s.status END
WHERE s.owner = @owner AND s.expires_at > 'epoch' AND (cardinality(@namespaces::text[]) = 0
    OR s.namespace = ANY (@namespaces::text[]));

-- name: LeaseForget :one
-- Index: leases_pkey. Removes the rows of free leases with a name, and of its slots, whatever their namespace and kind,
-- and counts the rows that stay. The next fence is larger: so a row stays whose fence the clock, which has stepped
-- back, has not reached.
WITH RECURSIVE places AS (
    (SELECT l.namespace, l.kind FROM leases l ORDER BY l.namespace, l.kind LIMIT 1)
    UNION ALL
    SELECT n.namespace, n.kind FROM places p CROSS JOIN LATERAL (
        SELECT l.namespace, l.kind FROM leases l WHERE (l.namespace, l.kind) > (p.namespace, p.kind)
            ORDER BY l.namespace, l.kind LIMIT 1
    ) AS n
), found AS MATERIALIZED (
    SELECT n.at FROM places p CROSS JOIN LATERAL (
        SELECT l.ctid::tid AS at FROM leases l WHERE l.namespace = p.namespace AND l.kind = p.kind
            AND l.name = @name::text
        UNION ALL
        SELECT l.ctid::tid FROM leases l WHERE l.namespace = p.namespace AND l.kind = p.kind AND l.name > @name || '#'
            AND l.name < @name || '#:'
            AND substr(l.name, length(@name) + 2) ~ '^([1-9][0-9]{0,2}|1000)$'
    ) AS n
    WHERE cardinality(@namespaces::text[]) = 0 OR p.namespace = ANY (@namespaces::text[])
), gone AS (
    DELETE FROM leases l
    WHERE l.ctid = ANY (ARRAY(SELECT f.at FROM found f))
        AND l.expires_at <= statement_timestamp() AND l.fence < extract(epoch FROM statement_timestamp()) * 1000000
    RETURNING l.kind
)
SELECT ((SELECT count(*) FROM found) - (SELECT count(*) FROM gone))::bigint AS stay;

-- name: MessageErase :one
-- Index: messages_pkey, messages_pkey or messages_session_id_id_key, session_branches_parent_id_idx. Replaces the
-- messages of a session, which may be deleted, that its forks have, behind one: unless a hold keeps the session, or a
-- fork which has them. Then held says so.
WITH RECURSIVE forks AS (
    SELECT @id::uuid AS id
    UNION
    SELECT b.session_id FROM forks h, LATERAL (SELECT session_branches.session_id FROM session_branches
        WHERE session_branches.parent_id = h.id OFFSET 0) AS b
), kept AS MATERIALIZED (
    SELECT coalesce(bool_or(session_held(NULL, h.id)), false) AS held FROM forks h
), page AS MATERIALIZED (
    SELECT m.sequence FROM messages m
    WHERE m.session_id = @id::uuid AND m.sequence > @after_sequence
        AND NOT (SELECT k.held FROM kept k) AND (SELECT true FROM session_branches b
            WHERE b.parent_id = @id::uuid LIMIT 1)
        AND (m.kind IS DISTINCT FROM 'redacted' OR m.call_id IS NOT NULL OR m.content <> 'erased')
    ORDER BY m.sequence LIMIT @max_rows
), erased AS (
    UPDATE messages m
    SET content = 'erased', kind = 'redacted', call_id = NULL, metadata = '{}', payload = NULL, tokens = NULL,
        counter = NULL
    WHERE m.session_id = @id::uuid AND m.sequence = ANY (ARRAY(SELECT p.sequence FROM page p))
    RETURNING m.sequence
)
SELECT count(*) AS erased, coalesce(max(e.sequence), -1)::bigint AS reached,
(SELECT k.held FROM kept k)::boolean AS held FROM erased e;

-- name: ForkHeld :one
-- Index: sessions_namespace_owner_created_at_idx, session_branches_parent_id_idx, session_branches_importer_idx. A
-- session that a hold keeps, and which has messages of a person's sessions, or that came with their imports. OFFSET 0
-- has each looked up by the index.
WITH RECURSIVE forks AS (
    SELECT b.session_id FROM sessions s, LATERAL (
        SELECT f.session_id FROM session_branches f WHERE f.parent_id = s.id
        UNION ALL
        SELECT i.session_id FROM session_branches i WHERE i.importer = s.id
        OFFSET 0
    ) AS b
    WHERE s.namespace = ANY (@namespaces::text[]) AND s.owner = @owner::text
    UNION
    SELECT b.session_id FROM forks h, LATERAL (SELECT session_branches.session_id FROM session_branches
        WHERE session_branches.parent_id = h.session_id OFFSET 0) AS b
)
SELECT h.session_id FROM forks h WHERE session_held(NULL, h.session_id) LIMIT 1;

-- name: PlanListMade :many
-- Index: plans_session_id_key_key, plans_parent_id_id_idx. The plans that were made for sessions, which may be deleted,
-- and those below them.
WITH RECURSIVE made AS (
    SELECT p.id FROM plans p WHERE p.session_id = ANY (@session_ids::uuid[])
    UNION
    SELECT c.id FROM made m, LATERAL (SELECT plans.id FROM plans WHERE plans.parent_id = m.id OFFSET 0) AS c
)
SELECT m.id FROM made m;

-- name: AuditErase :one
-- Index: audit_entries_pkey, audit_holds_pkey. Erases the names in entries, and their details; about_them: also their
-- users. What a prune or a gap states stays, and what a deletion says of itself. AuditPruneBegin comes first.
WITH meant AS MATERIALIZED (
    SELECT e.id, (SELECT true FROM audit_holds h WHERE h.kind = 'plan' AND h.subject = e.plan_id) IS NOT NULL
        OR (SELECT true FROM audit_holds h WHERE h.kind = 'session' AND h.subject = e.session_id) IS NOT NULL AS held
    FROM audit_entries e
    WHERE e.id = ANY (@ids::uuid[]) AND (cardinality(@namespaces::text[]) = 0
        OR coalesce(e.namespace, 'local') = ANY (@namespaces::text[])) AND (e.actor = ANY (@names::text[])
        OR e.user_name = ANY (@names::text[]) OR e.project = ANY (@names::text[])
        OR e.details::text <> '{}' AND e.type NOT IN ('audit_pruned', 'audit_gap') AND NOT (e.type = 'entity_deleted'
            AND e.details::text ~ ('^[{]"entity":("session","messages":[0-9]+,"plans":[0-9]+,"state_keys":[0-9]+'
                || '|"plan","action":"[^"]*","stage":"[a-z_/]*","version":[0-9]+)[}]$'))
        OR @about_them::boolean AND e.user_name IS NOT NULL)
), erased AS (
    UPDATE audit_entries e
    SET actor = CASE WHEN e.actor = ANY (@names::text[]) THEN NULL ELSE e.actor END,
        user_name = CASE WHEN @about_them OR e.user_name = ANY (@names::text[]) THEN NULL ELSE e.user_name END,
        project = CASE WHEN e.project = ANY (@names::text[]) THEN NULL ELSE e.project END,
        details = CASE WHEN e.type IN ('audit_pruned', 'audit_gap') THEN e.details ELSE '{}' END
    WHERE e.id = ANY (ARRAY(SELECT m.id FROM meant m WHERE NOT m.held))
    RETURNING e.id
)
SELECT (SELECT count(*) FROM erased)::bigint AS erased, count(*) FILTER (WHERE m.held) AS held FROM meant m;

-- name: RemovalLeft :one
-- Index: session_remains_pkey, streams_expires_at_idx, stream_parts_pkey, streams_namespace_key_began_key. Whether
-- SessionRemove, StreamPartRemove or StreamRemove would find anything if all was unlocked: what others have locked is
-- still there.
SELECT (coalesce((SELECT true FROM session_remains r ORDER BY r.session_id LIMIT 1), false)
    OR EXISTS (SELECT FROM streams s
        WHERE s.expires_at = 'epoch' AND (EXISTS (SELECT FROM stream_parts p WHERE p.stream_id = s.id)
            OR EXISTS (SELECT FROM streams newer WHERE newer.namespace = s.namespace AND newer.key = s.key
                AND newer.began > s.began)
            OR NOT EXISTS (SELECT FROM streams older WHERE older.namespace = s.namespace AND older.key = s.key
                AND older.began < s.began AND older.expires_at > 'epoch'))
    ))::boolean;

-- name: AuditQuarantineForget :execrows
-- Index: none: there should be no entries in quarantine. Deletes entries that quote a name, and
-- one of the members with their namespace.
DELETE FROM audit_quarantine q
WHERE position(@quoted::bytea IN q.document) > 0
    AND (cardinality(@members::bytea[]) = 0 OR EXISTS (SELECT FROM unnest(@members::bytea[]) AS n (member)
        WHERE position(n.member IN q.document) > 0)
        OR @without::boolean AND position('"namespace":'::bytea IN q.document) = 0);

-- name: NamespacesOfAll :many
-- Index: sessions_namespace_created_at_idx, state_scopes_namespace_name_key, leases_pkey. Each namespace is looked up
-- from the one before. Leases' namespaces are in the order of their bytes.
WITH RECURSIVE own AS (
    SELECT ''::text AS namespace
    UNION ALL
    SELECT n.namespace FROM own f CROSS JOIN LATERAL (
        SELECT least((SELECT s.namespace FROM sessions s WHERE s.namespace > f.namespace ORDER BY s.namespace LIMIT 1),
            (SELECT o.namespace FROM state_scopes o WHERE o.namespace > f.namespace
                ORDER BY o.namespace LIMIT 1)) AS namespace OFFSET 0
    ) AS n WHERE n.namespace IS NOT NULL
), leased AS (
    SELECT ''::text COLLATE "C" AS namespace
    UNION ALL
    SELECT n.namespace FROM leased f CROSS JOIN LATERAL (
        SELECT l.namespace FROM leases l WHERE l.namespace > f.namespace ORDER BY l.namespace LIMIT 1
    ) AS n
)
SELECT n.namespace::text AS namespace FROM (SELECT f.namespace COLLATE "C" FROM own f UNION SELECT f.namespace
    FROM leased f) AS n (namespace)
WHERE n.namespace <> '';

-- name: NamespaceHas :one
-- Index: sessions_namespace_created_at_idx, plans_namespace_id_idx, actions_server_namespace_name_idx,
-- streams_namespace_key_began_key, state_scopes_namespace_name_key, leases_pkey. By order: the
-- planner would else read a table whole, of which it thinks that most have the namespace. Leases of the whole store are
-- in 'local'.
SELECT (coalesce(
    (SELECT true FROM sessions s WHERE s.namespace = @namespace::text ORDER BY s.created_at LIMIT 1),
    (SELECT true FROM plans p WHERE p.namespace = @namespace::text ORDER BY p.id LIMIT 1),
    (SELECT true FROM actions a WHERE a.server = '' AND a.namespace = @namespace::text ORDER BY a.name LIMIT 1),
    (SELECT true FROM streams t WHERE t.namespace = @namespace::text ORDER BY t.key LIMIT 1),
    (SELECT true FROM state_scopes o WHERE o.namespace = @namespace::text ORDER BY o.name LIMIT 1),
    CASE WHEN @namespace::text <> 'local' THEN
        (SELECT true FROM leases l WHERE l.namespace = @namespace::text ORDER BY l.kind, l.name LIMIT 1) END,
    false))::boolean AS has;

-- name: NameList :many
-- Index: none: it reads everything, before anything serves. In the order of its bytes.
SELECT DISTINCT n.scope::boolean AS scope, n.name::text AS name FROM (
    SELECT true AS scope, s.name COLLATE "C" AS name FROM state_scopes s
    UNION ALL SELECT false, s.owner FROM sessions s
    UNION ALL SELECT false, s.actor FROM sessions s
    UNION ALL SELECT false, l.owner FROM leases l
    UNION ALL SELECT false, l.name FROM leases l
    UNION ALL SELECT false, regexp_replace(l.name, '#([1-9][0-9]{0,2}|1000)$', '') FROM leases l
    UNION ALL SELECT false, t.owner FROM streams t
    UNION ALL SELECT false, a.created_by FROM actions a
    UNION ALL SELECT false, h.actor FROM plan_history h
    UNION ALL SELECT false, c.owner FROM plan_claims c
    UNION ALL SELECT false, e.actor FROM audit_entries e
    UNION ALL SELECT false, e.user_name FROM audit_entries e
    UNION ALL SELECT false, e.project FROM audit_entries e
) AS n
WHERE (n.scope, n.name) > (@after_scope::boolean, @after_name::text)
    AND n.name IS NOT NULL -- that of a session's own scope
ORDER BY n.scope::boolean, n.name::text LIMIT 10000;
