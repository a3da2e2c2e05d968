package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// auditLag is how long an entry may wait to be sealed before Doctor reports it.
const auditLag = time.Hour

// Doctor checks the audit trail in the database. It finds triggers that are missing
// or do not fire, privileges with which roles other than the owner could change
// recorded entries, unsafe functions that run as the owner, entries that have waited
// for more than an hour to be sealed, and entries in quarantine. It changes nothing. If
// nothing is wrong it returns no findings. The errors are of reading.
func (a *auditStore) Doctor(ctx context.Context) ([]auditlog.Finding, error) {
	d := &auditDoctor{}
	err := a.exec.read(ctx, func(q db.DBTX) error {
		d.findings = nil
		for _, check := range []func(context.Context, db.DBTX) error{
			d.triggers, d.grants, d.functions, d.sealing,
			d.quarantine,
		} {
			if err := check(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d.findings, nil
}

type auditDoctor struct{ findings []auditlog.Finding }

func (d *auditDoctor) found(check, action, problem string, arguments ...any) {
	d.findings = append(d.findings, auditlog.Finding{
		Check: check, Problem: fmt.Sprintf(problem, arguments...),
		Action: action,
	})
}

// auditTriggers are all triggers of the audit trail's tables.
var auditTriggers = []struct {
	table, name, function, definition string
	always                            bool // whatever session_replication_role is
}{
	{
		"audit_entries", "audit_entries_queue", "audit_queue()",
		"AFTER INSERT ON audit_entries REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT", false,
	},
	{
		"audit_entries", "audit_entries_refuse", "audit_refuse('DELETE', 'UPDATE')",
		"BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries FOR EACH STATEMENT", true,
	},
	{
		"audit_entries", "audit_entries_keep", "audit_refuse()",
		"BEFORE DELETE ON audit_entries FOR EACH ROW WHEN (OLD.type IN ('audit_pruned', 'audit_gap'))", true,
	},
	{"audit_entries", "audit_entries_hide", "audit_hide()", "BEFORE UPDATE ON audit_entries FOR EACH ROW", true},
	{
		"audit_leaves", "audit_leaves_refuse", "audit_refuse('UPDATE')",
		"BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_leaves FOR EACH STATEMENT", true,
	},
	{"audit_leaves", "audit_leaves_keep", "audit_refuse()", `BEFORE UPDATE ON audit_leaves FOR EACH ROW WHEN (
		OLD.pruned_by IS NOT NULL
		OR (OLD.sequence, OLD.entry_id, OLD.occurred_at, OLD.recorded_at, OLD.type, OLD.namespace, OLD.plan_id,
		    OLD.session_id, OLD.hidden, OLD.hash)
			IS DISTINCT FROM
			(NEW.sequence, NEW.entry_id, NEW.occurred_at, NEW.recorded_at, NEW.type, NEW.namespace, NEW.plan_id,
			    NEW.session_id, NEW.hidden, NEW.hash))`, true},
	{
		"audit_hashes", "audit_hashes_refuse", "audit_refuse()",
		"BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_hashes FOR EACH STATEMENT", true,
	},
	{
		"audit_checkpoints", "audit_checkpoints_refuse", "audit_refuse()",
		"BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_checkpoints FOR EACH STATEMENT", true,
	},
}

func (d *auditDoctor) triggers(ctx context.Context, q db.DBTX) error {
	rows, err := queries.AuditDoctorTriggers(ctx, q)
	if err != nil {
		return err
	}
	type key struct{ table, trigger string }
	there, tables := map[key]db.AuditDoctorTriggersRow{}, map[string]bool{}
	for _, row := range rows {
		there[key{row.TableName, row.Name}] = row
	}
	for _, want := range auditTriggers {
		tables[want.table] = true
		row, ok := there[key{want.table, want.name}]
		delete(there, key{want.table, want.name})
		enable := "ENABLE TRIGGER"
		if want.always {
			enable = "ENABLE ALWAYS TRIGGER"
		}
		enable = fmt.Sprintf("ALTER TABLE %s %s %s;", want.table, enable, want.name)
		create := fmt.Sprintf("CREATE TRIGGER %s %s EXECUTE FUNCTION %s; %s", want.name, want.definition, want.function,
			enable)
		function, _, _ := strings.Cut(want.function, "(")
		switch {
		case !ok:
			d.found("triggers", create,
				"The trigger %s of %s is missing: changes that it would refuse are possible, or new entries are not sealed. "+
					"Verify the trail: it may have been changed.", want.name, want.table)
		case row.Function != function:
			d.found("triggers", fmt.Sprintf("DROP TRIGGER %s ON %s; %s", want.name, want.table, create),
				"The trigger %s of %s runs the wrong function, %s. Verify the trail: it may have been changed.", want.name,
				want.table, row.Function)
		case row.Enabled != "A" && (want.always || row.Enabled != "O"):
			d.found("triggers", enable, "The trigger %s of %s does not fire, or not if session_replication_role is replica. "+
				"Verify the trail: it may have been changed.", want.name, want.table)
		}
	}
	for _, row := range rows { // not the map, whose order is random
		if _, other := there[key{row.TableName, row.Name}]; other && tables[row.TableName] {
			d.found("triggers", fmt.Sprintf("DROP TRIGGER %s ON %s;", pgx.Identifier{row.Name}.Sanitize(), row.TableName),
				"The trigger %s of %s does not belong to the trail: it may change or drop entries as they are recorded.", row.Name,
				row.TableName)
		}
	}
	return nil
}

func (d *auditDoctor) grants(ctx context.Context, q db.DBTX) error {
	rows, err := queries.AuditDoctorGrants(ctx, q)
	if err != nil {
		return err
	}
	for _, row := range rows {
		grantee, who := "PUBLIC", "every role"
		if row.Grantee != "" {
			grantee, who = pgx.Identifier{row.Grantee}.Sanitize(), "the role "+row.Grantee
		}
		d.found("grants", fmt.Sprintf("REVOKE %s ON %s FROM %s;", row.Privilege, pgx.Identifier{row.TableName}.Sanitize(),
			grantee),
			"On %s, %s has the privilege %s, which only the owner needs.", row.TableName, who, row.Privilege)
	}
	return nil
}

// auditFunctions are the digests of the triggers' functions, as the migrations have them.
var auditFunctions = map[string]struct {
	digest  string
	asOwner bool
}{
	"audit_hide":   {"5c2f2dba03096944c7429ba9ba60f1a790a67b3f9d26fe2c2db4208762a477f9", false},
	"audit_queue":  {"f26eb8320704e9b59ba8e57cb070caf3be8b5503707732a013015197c54246e1", true},
	"audit_refuse": {"8981d404c8eccfcaf3f2c8f51672fdffb3c05ed92ce51c00597eb8b2141c983f", false},
}

// functions checks the functions that run as the owner of the tables, and the triggers' functions.
func (d *auditDoctor) functions(ctx context.Context, q db.DBTX) error {
	rows, err := queries.AuditDoctorFunctions(ctx, q)
	if err != nil {
		return err
	}
	for _, row := range rows {
		// A setting could allow what only a prune may.
		if want, is := auditFunctions[row.Name]; is && (row.Digest != want.digest || row.AsOwner != want.asOwner ||
			strings.Contains(row.Settings, "agentstore.")) {
			d.found("functions", "Compare it with the one in schema/migrations, and CREATE OR REPLACE FUNCTION "+row.Name+".",
				"%s is not what this version of the library has installed: it may change or drop entries. Verify the trail.",
				row.Name)
		}
		if row.AsOwner && !strings.Contains(row.Settings, "search_path=pg_catalog, pg_temp") {
			d.found("functions", "ALTER FUNCTION "+row.Name+" SET search_path = pg_catalog, pg_temp;",
				"%s runs with the owner's privileges, but its search_path lets others replace the functions and tables that "+
					"it uses.", row.Name)
		}
	}
	return nil
}

func (d *auditDoctor) sealing(ctx context.Context, q db.DBTX) error {
	waiting, err := queries.AuditWaiting(ctx, q, limits.DefaultAuditCount+1)
	if err != nil || waiting.Entries == 0 {
		return err
	}
	if ageOf(waiting) > auditLag {
		count := fmt.Sprint(waiting.Entries)
		if waiting.Entries > limits.DefaultAuditCount {
			count = fmt.Sprintf("more than %d", limits.DefaultAuditCount)
		}
		d.found("sealing", "Run a sealer, and check that it makes progress. If it does, verify the trail: "+
			"an entry that was deleted before it was sealed stays in the queue forever.",
			"Entries waiting to be sealed: %s, the oldest since %s. Changes to unsealed entries are not detected, and they "+
				"are not pruned.",
			count, waiting.Oldest.UTC().Format(time.RFC3339))
	}
	return nil
}

func (d *auditDoctor) quarantine(ctx context.Context, q db.DBTX) error {
	count, err := queries.AuditDoctorQuarantined(ctx, q, repo.MaxPageSize)
	if err != nil || count == 0 {
		return err
	}
	d.found("quarantine", "SELECT id, reason, created_at FROM audit_quarantine; -- then record their content by hand, "+
		"and delete them",
		"Entries that the database refused and that are in quarantine: %d (counted up to %d).", count, repo.MaxPageSize)
	return nil
}
