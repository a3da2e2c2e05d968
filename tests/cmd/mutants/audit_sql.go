package main

const (
	auditSQL     = "queries/audit.sql"
	auditLists   = "queries/audit_lists.sql"
	boundsSchema = "schema/migrations/0006_audit_bounds.sql"
	pruneSchema  = "schema/migrations/0007_audit_prune_entries.sql"
	inAudit      = "tests/audit"
)

var auditSQLMutants = []mutant{
	{
		name: "audit/a pruned entry is recorded again", file: auditSQL,
		old:   "    WHERE (SELECT true FROM audit_leaves l WHERE l.entry_id = n.id AND l.occurred_at = n.occurred_at LIMIT 1) IS NULL\n    ON CONFLICT",
		new:   "    ON CONFLICT",
		tests: []tests{{inPostgres, pool + "^AuditStore$"}},
	},
	{
		name: "audit/an entry is recorded twice", file: auditSQL,
		old:   " IS NULL\n    ON CONFLICT DO NOTHING\n    RETURNING id",
		new:   " IS NULL\n    RETURNING id",
		tests: []tests{{inPostgres, pool + "^Audit$"}},
	},
	{
		name: "audit/two sealers work at once", file: auditSQL,
		old:   "SELECT pg_try_advisory_xact_lock(hashtextextended('agentstore.audit_seal', 0));",
		new:   "SELECT pg_try_advisory_xact_lock(hashtextextended(gen_random_uuid()::text, 0));",
		tests: []tests{{inPostgres, pool + "^AuditStore$/^SealAlone$"}},
	},
	{
		name: "audit/sealed in the wrong order", file: auditSQL,
		old:   "    AND u.position = ANY (@positions::bigint[])\nORDER BY u.position;",
		new:   "    AND u.position = ANY (@positions::bigint[])\nORDER BY u.position DESC;",
		tests: []tests{{inPostgres, pool + "^AuditStore$"}},
	},
	{
		name: "audit/a pruned entry that was inserted again stops the sealer", file: auditSQL,
		old:   "WHERE (SELECT true FROM audit_leaves l WHERE l.entry_id = u.entry_id AND l.occurred_at = u.occurred_at LIMIT 1) IS NULL\nORDER BY u.position\nLIMIT @max_rows;",
		new:   "ORDER BY u.position\nLIMIT @max_rows;",
		tests: []tests{{inAudit, "^TestPrunedEntryThatIsPutBack$"}},
	},
	{
		name: "audit/the first checkpoint instead of the latest", file: auditSQL,
		old:   "ORDER BY c.size DESC LIMIT 1;",
		new:   "ORDER BY c.size LIMIT 1;",
		tests: []tests{{inPostgres, pool + "^AuditStore$"}},
	},
	{
		name: "audit/strays are not found", file: auditSQL,
		old:   "        false\n    )::boolean AS known",
		new:   "        true\n    )::boolean AS known",
		tests: []tests{{inAudit, "^TestTampering$"}},
	},
	{
		name: "audit/lost entries are not found", file: auditSQL,
		old:   "    AND (SELECT true FROM audit_entries e WHERE e.occurred_at = u.occurred_at AND e.id = u.entry_id LIMIT 1) IS NULL\n",
		new:   "    AND (SELECT true FROM audit_entries e WHERE e.occurred_at = u.occurred_at AND e.id = u.entry_id LIMIT 1) AND false\n",
		tests: []tests{{inAudit, "^TestTampering$"}},
	},
	{
		name: "audit/the age of waiting entries is zero", file: auditSQL,
		old:   "coalesce(extract(epoch FROM clock_timestamp() - min(w.recorded_at)), 0)",
		new:   "coalesce(extract(epoch FROM min(w.recorded_at) - min(w.recorded_at)), 0)",
		tests: []tests{{inAudit, "^TestForgeries$/^have_entries_wait_for_hours$"}},
	},
	{
		name: "audit/holds counted as pruned", file: auditSQL,
		old:   "count(*) FILTER (WHERE found.sealed AND NOT found.held) AS pruned",
		new:   "count(*) FILTER (WHERE found.sealed) AS pruned",
		tests: []tests{{inPostgres, pool + "^AuditStore$"}},
	},
	{
		name: "audit/a page repeats the last entry of the one before", file: auditLists,
		old:   "AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) < (",
		new:   "AND e.occurred_at <= @after_occurred_at AND (e.occurred_at, e.id) <= (",
		tests: []tests{{inPostgres, pool + "^Audit$"}},
	},
	{
		name: "audit/the upper bound is included", file: auditLists,
		old:   "WHERE e.occurred_at >= @occurred_from AND e.occurred_at < @occurred_before\n    AND e.occurred_at >= @after",
		new:   "WHERE e.occurred_at >= @occurred_from AND e.occurred_at <= @occurred_before\n    AND e.occurred_at >= @after",
		tests: []tests{{inPostgres, pool + "^Audit$"}},
	},
	{
		name: "schema/entries that a replica's settings keep from the queue", file: auditSchema,
		old:   "ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_queue;\n",
		new:   "",
		tests: []tests{{inAudit, "^TestQueueWhateverTheRole$"}},
	},
	{
		name: "schema/hashes can be truncated", file: auditSchema,
		old:   "ALTER TABLE audit_hashes ENABLE ALWAYS TRIGGER audit_hashes_refuse_truncate;",
		new:   "ALTER TABLE audit_hashes DISABLE TRIGGER audit_hashes_refuse_truncate;",
		tests: []tests{{inAudit, "^TestImmutable$"}},
	},
	{
		name: "schema/the setting of a prune works for any role", file: boundsSchema,
		old:   "    IF TG_OP IN ('DELETE', 'UPDATE') AND coalesce(current_setting('agentstore.audit_prune', true), '') = 'on'\n        AND current_user = (SELECT pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c WHERE c.oid = TG_RELID) THEN",
		new:   "    IF TG_OP IN ('DELETE', 'UPDATE') AND coalesce(current_setting('agentstore.audit_prune', true), '') = 'on' THEN",
		tests: []tests{{inAudit, "^TestImmutable$"}},
	},
	{
		name: "schema/a leaf that is marked twice", file: boundsSchema,
		old:   "OLD.session_id, OLD.hidden)\n                AND OLD.pruned_by IS NULL THEN",
		new:   "OLD.session_id, OLD.hidden) THEN",
		tests: []tests{{inAudit, "^TestImmutableWithinPrune$"}},
	},
	{
		name: "schema/a leaf of no version", file: boundsSchema,
		old:   "OR version = 2 AND type IS NOT NULL AND hidden IS NOT NULL AND octet_length(hidden) = 32",
		new:   "OR version >= 2",
		tests: []tests{{inPostgres, "^TestConstraints$"}},
	},
	{
		name: "schema/unsealed entries are pruned", file: pruneSchema,
		old:   "            ) < coalesce((SELECT",
		new:   "            ) IS NULL OR 0 < coalesce((SELECT",
		tests: []tests{{inAudit, "^TestPruneOfWhatWasSealedLater$"}},
	},
	{
		name: "schema/a prune without an entry", file: pruneSchema,
		old:   "    IF stated_before IS NULL THEN\n",
		new:   "    stated_before := coalesce(stated_before, 'infinity');\n    IF stated_before IS NULL THEN\n",
		tests: []tests{{inAudit, "^TestPruneOfNothing$"}},
	},
	{
		name: "schema/the bounds of the prune's entry are not checked", file: pruneSchema,
		old:   " AND e.occurred_at < stated_before\n",
		new:   "\n",
		tests: []tests{{inAudit, "^TestPruneOfNothing$"}},
	},
	{
		name: "schema/a prune does not wait for holds, nor holds for it", file: "schema/migrations/0021_prunes_and_holds.sql",
		old:   "E'\\nBEGIN\\n    LOCK TABLE %I.audit_holds IN SHARE ROW EXCLUSIVE MODE;",
		new:   "E'\\nBEGIN\\n    LOCK TABLE %I.audit_holds IN ACCESS SHARE MODE;",
		tests: []tests{{inAudit, "^TestHoldBesidePrune$"}},
	},
	{
		name: "schema/prunes do not wait for each other", file: "schema/migrations/0021_prunes_and_holds.sql",
		old:   "E'\\nBEGIN\\n    LOCK TABLE %I.audit_holds IN SHARE ROW EXCLUSIVE MODE;",
		new:   "E'\\nBEGIN\\n    LOCK TABLE %I.audit_holds IN SHARE MODE;",
		tests: []tests{{inAudit, "^TestPruneBesidePrune$"}},
	},
	{
		name: "schema/another entry with the id of a prune covers it", file: pruneSchema,
		old:   "e.id = by_entry AND e.occurred_at = by_occurred_at AND e.type = 'audit_pruned';",
		new:   "e.id = by_entry AND e.type = 'audit_pruned' ORDER BY e.occurred_at LIMIT 1;",
		tests: []tests{{inAudit, "^TestPruneBesideItsDouble$"}},
	},
	{
		name: "schema/sealed behind the prune, and before another's entry", file: pruneSchema,
		old:   "l.entry_id = by_entry AND l.occurred_at = by_occurred_at LIMIT 1",
		new:   "l.entry_id = by_entry ORDER BY l.occurred_at LIMIT 1",
		tests: []tests{{inAudit, "^TestPruneOfWhatWasSealedLater$"}},
	},
	{
		name: "schema/two months at once", file: boundsSchema,
		old:   "                LOCK TABLE ONLY {schema}.audit_entries IN SHARE UPDATE EXCLUSIVE MODE;\n",
		new:   "",
		tests: []tests{{inAudit, "^TestMonthMadeTwice$"}},
	},
	{
		name: "schema/a month that is not empty is dropped", file: boundsSchema,
		old:        "        EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', home, partition) INTO used;\n        CONTINUE WHEN used;\n        PERFORM set_config('lock_timeout', '50ms', true);",
		new:        "        PERFORM set_config('lock_timeout', '50ms', true);",
		tests:      []tests{{inAudit, "^TestPruneDropsPartitions$"}},
		equivalent: "the month is checked again under the lock; the first check only avoids the lock",
	},
	{
		name: "schema/a month that is not empty is dropped under its lock", file: boundsSchema,
		old:        "        EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', home, partition) INTO used;\n        CONTINUE WHEN used;\n        EXECUTE format('DROP TABLE %I.%I', home, partition);\n        RETURN true;",
		new:        "        EXECUTE format('DROP TABLE %I.%I', home, partition);\n        RETURN true;",
		tests:      []tests{{inAudit, "^TestPruneDropsPartitions$"}},
		equivalent: "an entry would have to be inserted between the first check and the lock, which no test can arrange",
	},
	{
		name: "schema/a usage counted twice", file: "schema/migrations/0005_usage_ids_and_clocks.sql",
		old:   "    CONSTRAINT session_usages_pkey PRIMARY KEY (session_id, id),\n",
		new:   "",
		tests: []tests{{inPostgres, "^TestConstraints$"}},
	},
	{
		name: "schema/two messages at one place", file: "schema/migrations/0001_sessions.sql",
		old:   "    CONSTRAINT messages_pkey PRIMARY KEY (session_id, sequence),\n",
		new:   "",
		tests: []tests{{inPostgres, "^TestConstraints$"}},
	},
	{
		name: "schema/a cost above the budget", file: "schema/migrations/0001_sessions.sql",
		old:   "CHECK (cost_nanos <= budget_nanos)",
		new:   "CHECK (cost_nanos <= budget_nanos + 1)",
		tests: []tests{{inPostgres, "^TestConstraints$"}},
	},
	{
		name: "schema/applied in any phase", file: plansSchema,
		old:   "OR phase = 'apply' AND state IN ('applied', 'constrained')",
		new:   "OR state IN ('applied', 'constrained')",
		tests: []tests{{inPostgres, "^TestConstraints$"}},
	},
}
