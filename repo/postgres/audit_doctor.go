package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// AuditFinding is something that is wrong with the audit trail in the database.
type AuditFinding struct {
	// Check is the kind: partitions, triggers, grants, functions, sealing or
	// quarantine.
	Check string `json:"check"`
	// Problem is a sentence that says what is wrong, Action what to do about
	// it: a statement to be run by the owner of the tables, or a sentence.
	Problem string `json:"problem"`
	Action  string `json:"action"`
}

// AuditLag is how long an entry may wait to be sealed before AuditDoctor says so.
const AuditLag = time.Hour

// AuditDoctor checks the audit trail in the database. It finds months without a
// partition or with wrong bounds, triggers that are missing or do not always fire,
// rights with which others than the owner could change recorded entries, unsafe
// functions that run as the owner, entries that have waited too long to be sealed,
// and entries in quarantine. It changes nothing. If nothing is wrong it returns no
// findings. Errors: as a read's.
func (s *Store) AuditDoctor(ctx context.Context) ([]AuditFinding, error) {
	d := &auditDoctor{now: time.Now().UTC()}
	err := s.exec.read(ctx, func(q db.DBTX) error {
		d.findings = nil
		for _, check := range []func(context.Context, db.DBTX) error{d.partitions, d.triggers, d.grants, d.functions, d.sealing, d.quarantine} {
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

type auditDoctor struct {
	now      time.Time
	findings []AuditFinding
	tables   []string // the partitions' names
}

func (d *auditDoctor) found(check, action, problem string, arguments ...any) {
	d.findings = append(d.findings, AuditFinding{Check: check, Problem: fmt.Sprintf(problem, arguments...), Action: action})
}

func (d *auditDoctor) partitions(ctx context.Context, q db.DBTX) error {
	rows, err := queries.AuditDoctorPartitions(ctx, q)
	if err != nil {
		return err
	}
	d.tables = nil
	for _, row := range rows {
		name := pgx.Identifier{row.Name}.Sanitize()
		d.tables = append(d.tables, row.Name)
		if row.Pending {
			d.found("partitions", "ALTER TABLE audit_entries DETACH PARTITION "+name+" FINALIZE;",
				"The partition %s is being detached: its month takes no entries.", row.Name)
		}
		if row.Fallback {
			d.found("partitions", "ALTER TABLE audit_entries DETACH PARTITION "+name+"; -- then record its entries again",
				"%s is a default partition: a month that has entries in it can get no partition of its own.", row.Name)
		}
	}
	d.bounds(rows)
	first := firstOfMonth(d.now)
	for ahead := range monthsAhead + 1 {
		month := first.AddDate(0, ahead, 0)
		covered := time.Duration(0)
		for _, row := range rows {
			if from, to := laterOf(row.Lower, month), earlierOf(row.Upper, month.AddDate(0, 1, 0)); !row.Fallback && from.Before(to) {
				covered += to.Sub(from)
			}
		}
		switch length := month.AddDate(0, 1, 0).Sub(month); {
		case covered == length:
		case covered > 0:
			d.found("partitions", fmt.Sprintf("SELECT audit_make_partitions('%s', 0);", month.Format(time.RFC3339)),
				"Of the month %s %v have no partition: the first entry of that time has to make one.", month.Format("2006-01"), length-covered)
		default:
			d.found("partitions", fmt.Sprintf("SELECT audit_make_partitions('%s', 0);", month.Format(time.RFC3339)),
				"The month %s has no partition. The first entry of it has to make one.", month.Format("2006-01"))
		}
	}
	return nil
}

// bounds looks at what the partitions hold: bounds that were written under another
// DateStyle and time zone begin hours off, and keep the months beside them from being
// whole.
func (d *auditDoctor) bounds(rows []db.AuditDoctorPartitionsRow) {
	for _, row := range rows {
		lower, upper := row.Lower.UTC(), row.Upper.UTC()
		name := "audit_entries_" + lower.Format("200601")
		switch {
		case row.Fallback || row.Pending:
		// One that is within a month is what another left of it.
		case upper.After(firstOfMonth(lower).AddDate(0, 1, 0)):
			d.found("partitions", fmt.Sprintf("SELECT audit_make_partitions('%s', 1); -- makes what is left of its months; it may stay as it is until it is pruned",
				firstOfMonth(lower).Format(time.RFC3339)),
				"The partition %s is from %s to %s, which is not a month in UTC.", row.Name, lower.Format(time.RFC3339), upper.Format(time.RFC3339))
		case row.Name != name && !strings.HasPrefix(row.Name, name+"_"):
			d.found("partitions", fmt.Sprintf("ALTER TABLE %s RENAME TO %s;", pgx.Identifier{row.Name}.Sanitize(), name),
				"The partition of the month %s has the name %s: pruning does not drop it.", lower.Format("2006-01"), row.Name)
		}
	}
}

func firstOfMonth(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlierOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// The triggers that a table of the trail has: its name stands for %s.
var (
	auditRefusing = []string{"%s_refuse", "%s_refuse_truncate"}
	auditTables   = []string{"audit_entries", "audit_leaves", "audit_hashes", "audit_checkpoints", "audit_identity"}
)

func (d *auditDoctor) triggers(ctx context.Context, q db.DBTX) error {
	rows, err := queries.AuditDoctorTriggers(ctx, q)
	if err != nil {
		return err
	}
	type key struct{ table, trigger string }
	there := map[key]db.AuditDoctorTriggersRow{}
	for _, row := range rows {
		there[key{row.TableName, row.Name}] = row
	}
	expect := func(table, trigger, function, definition string) {
		row, ok := there[key{table, trigger}]
		delete(there, key{table, trigger})
		quoted := pgx.Identifier{table}.Sanitize()
		enable := fmt.Sprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s;", quoted, trigger)
		create := fmt.Sprintf("CREATE TRIGGER %s %s EXECUTE FUNCTION %s; %s", trigger, fmt.Sprintf(definition, quoted), function, enable)
		name, _, _ := strings.Cut(function, "(")
		switch {
		case !ok:
			d.found("triggers", create, "The trigger %s of %s is missing: changes that it refuses, or entries that it queues, go unnoticed. "+
				"Verify the trail: it may have been changed.", trigger, table)
		case row.Function != name:
			d.found("triggers", fmt.Sprintf("DROP TRIGGER %s ON %s; %s", trigger, quoted, create),
				"The trigger %s of %s runs another function, %s. Verify the trail: it may have been changed.", trigger, table, row.Function)
		case row.Enabled != "A":
			d.found("triggers", enable, "The trigger %s of %s is not ENABLE ALWAYS: it does not fire where session_replication_role is replica. "+
				"Verify the trail: it may have been changed.", trigger, table)
		}
	}
	expect("audit_entries", "audit_entries_queue", "audit_queue()", "AFTER INSERT ON %s REFERENCING NEW TABLE AS new_entries FOR EACH STATEMENT")
	for _, table := range slices.Concat(auditTables, d.tables) {
		parent, argument := table, strings.TrimPrefix(table, "audit_")
		if slices.Contains(d.tables, table) {
			parent, argument = "audit_entries", "entries"
		}
		function := "audit_refuse('" + argument + "')"
		expect(table, fmt.Sprintf(auditRefusing[0], parent), function, "BEFORE UPDATE OR DELETE ON %s FOR EACH ROW")
		expect(table, fmt.Sprintf(auditRefusing[1], parent), function, "BEFORE TRUNCATE ON %s FOR EACH STATEMENT")
	}
	for _, row := range rows { // in an order
		if _, other := there[key{row.TableName, row.Name}]; other && (slices.Contains(auditTables, row.TableName) || slices.Contains(d.tables, row.TableName)) {
			d.found("triggers", fmt.Sprintf("DROP TRIGGER %s ON %s;", pgx.Identifier{row.Name}.Sanitize(), pgx.Identifier{row.TableName}.Sanitize()),
				"The trigger %s of %s is not the trail's: it may change or drop what is recorded.", row.Name, row.TableName)
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
		grantee, who := "PUBLIC", "everybody"
		if row.Grantee != "" {
			grantee, who = pgx.Identifier{row.Grantee}.Sanitize(), "the role "+row.Grantee
		}
		d.found("grants", fmt.Sprintf("REVOKE %s ON %s FROM %s;", row.Privilege, pgx.Identifier{row.TableName}.Sanitize(), grantee),
			"On %s %s has the right %s, which nobody but the owner needs.", row.TableName, who, row.Privilege)
	}
	return nil
}

// functions looks at those that run as the owner of the tables.
func (d *auditDoctor) functions(ctx context.Context, q db.DBTX) error {
	rows, err := queries.AuditDoctorFunctions(ctx, q)
	if err != nil {
		return err
	}
	for _, row := range rows {
		// A trigger's function cannot be called.
		if row.Public && row.Name != "audit_queue" {
			d.found("functions", "REVOKE EXECUTE ON FUNCTION "+row.Name+" FROM PUBLIC;", "Everybody may call %s, which runs as the owner.", row.Name)
		}
		if !strings.Contains(row.Settings, "search_path=pg_catalog, pg_temp") {
			d.found("functions", "ALTER FUNCTION "+row.Name+" SET search_path = pg_catalog, pg_temp;",
				"%s runs as the owner and may run functions, or find tables, of others' making.", row.Name)
		}
	}
	return nil
}

func (d *auditDoctor) sealing(ctx context.Context, q db.DBTX) error {
	waiting, err := queries.AuditWaiting(ctx, q, repo.DefaultAuditCount+1)
	if err != nil || waiting.Entries == 0 {
		return err
	}
	if lag := d.now.Sub(waiting.Oldest); lag > AuditLag {
		count := fmt.Sprint(waiting.Entries)
		if waiting.Entries > repo.DefaultAuditCount {
			count = fmt.Sprintf("more than %d", repo.DefaultAuditCount)
		}
		d.found("sealing", "Run a sealer, and check that it makes progress. If it does, verify the trail: an entry that was deleted before it was sealed waits forever.",
			"Entries waiting to be sealed: %s, the oldest since %s. What is not sealed can be changed unseen, and is not pruned.",
			count, waiting.Oldest.UTC().Format(time.RFC3339))
	}
	return nil
}

func (d *auditDoctor) quarantine(ctx context.Context, q db.DBTX) error {
	count, err := queries.AuditDoctorQuarantined(ctx, q, repo.MaxPageSize)
	if err != nil || count == 0 {
		return err
	}
	d.found("quarantine", "SELECT id, reason, created_at FROM audit_quarantine; -- then record what is in them by hand, and delete them",
		"Entries in quarantine, which the database refused: %d (counted up to %d).", count, repo.MaxPageSize)
	return nil
}
