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

// auditLag is how long an entry may wait to be sealed before AuditDoctor reports it.
const auditLag = time.Hour

// AuditDoctor checks the audit trail in the database. It finds months without a
// partition or with wrong bounds, triggers that are missing or do not always fire,
// privileges with which roles other than the owner could change recorded entries, unsafe
// functions that run as the owner, entries that have waited for more than an hour to
// be sealed, and entries in quarantine. It changes nothing. If nothing is wrong it
// returns no findings. The errors are those of reading.
func (s *Store) AuditDoctor(ctx context.Context) ([]repo.AuditFinding, error) {
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
	findings []repo.AuditFinding
	tables   []string // the partitions' names
}

func (d *auditDoctor) found(check, action, problem string, arguments ...any) {
	d.findings = append(d.findings, repo.AuditFinding{Check: check, Problem: fmt.Sprintf(problem, arguments...), Action: action})
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
				"The partition %s is being detached, so that its month accepts no entries.", row.Name)
		}
		if row.Fallback {
			d.found("partitions", "ALTER TABLE audit_entries DETACH PARTITION "+name+"; -- then record its entries again",
				"%s is a default partition: a month whose entries are in it cannot get a partition of its own.", row.Name)
		}
	}
	d.bounds(rows)
	first := firstOfMonth(d.now)
	for ahead := range monthsAhead + 1 {
		month := first.AddDate(0, ahead, 0)
		end := month.AddDate(0, 1, 0)
		missing := end.UnixMicro() - month.UnixMicro() // the part without a partition
		whole := missing
		for _, row := range rows {
			from, to := max(row.Lower.UnixMicro(), month.UnixMicro()), min(row.Upper.UnixMicro(), end.UnixMicro())
			if !row.Fallback {
				missing -= max(to-from, 0)
			}
		}
		remedy := fmt.Sprintf("SELECT audit_make_partitions('%s', 0);", month.Format(time.RFC3339))
		switch missing {
		case 0:
		case whole:
			d.found("partitions", remedy, "The month %s has no partition: its first entry has to wait until one is created.", month.Format("2006-01"))
		default:
			d.found("partitions", remedy, "A part of the month %s, %v long, has no partition: its first entry has to wait until one is created.",
				month.Format("2006-01"), time.Duration(missing)*time.Microsecond)
		}
	}
	return nil
}

// bounds checks the partitions' bounds. Bounds that were written with another
// DateStyle or time zone are off by hours, so that the months beside them cannot be
// created in full.
func (d *auditDoctor) bounds(rows []db.AuditDoctorPartitionsRow) {
	for _, row := range rows {
		lower, upper := row.Lower.UTC(), row.Upper.UTC()
		name := "audit_entries_" + lower.Format("200601")
		switch {
		case row.Fallback || row.Pending:
		// A partition within a month is fine: it has the part that another left free.
		case upper.After(firstOfMonth(lower).AddDate(0, 1, 0)):
			d.found("partitions", fmt.Sprintf("SELECT audit_make_partitions('%s', 1); -- creates the missing part of its months; the partition itself may stay until it is pruned",
				firstOfMonth(lower).Format(time.RFC3339)),
				"The partition %s is from %s to %s, which is not a month in UTC.", row.Name, lower.Format(time.RFC3339), upper.Format(time.RFC3339))
		case row.Name != name && !strings.HasPrefix(row.Name, name+"_"):
			d.found("partitions", fmt.Sprintf("ALTER TABLE %s RENAME TO %s;", pgx.Identifier{row.Name}.Sanitize(), name),
				"The partition of the month %s is named %s: pruning does not drop it.", lower.Format("2006-01"), row.Name)
		}
	}
}

func firstOfMonth(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// The triggers that each table of the audit trail has. %s is the table's name.
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
			d.found("triggers", create, "The trigger %s of %s is missing: changes that it would refuse are possible, or new entries are not sealed. "+
				"Verify the trail: it may have been changed.", trigger, table)
		case row.Function != name:
			d.found("triggers", fmt.Sprintf("DROP TRIGGER %s ON %s; %s", trigger, quoted, create),
				"The trigger %s of %s runs the wrong function, %s. Verify the trail: it may have been changed.", trigger, table, row.Function)
		case row.Enabled != "A":
			d.found("triggers", enable, "The trigger %s of %s is not ENABLE ALWAYS: it does not fire if session_replication_role is replica. "+
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
	for _, row := range rows { // not the map, whose order is random
		if _, other := there[key{row.TableName, row.Name}]; other && (slices.Contains(auditTables, row.TableName) || slices.Contains(d.tables, row.TableName)) {
			d.found("triggers", fmt.Sprintf("DROP TRIGGER %s ON %s;", pgx.Identifier{row.Name}.Sanitize(), pgx.Identifier{row.TableName}.Sanitize()),
				"The trigger %s of %s does not belong to the trail: it may change or drop entries as they are recorded.", row.Name, row.TableName)
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
			"On %s, %s has the privilege %s, which only the owner needs.", row.TableName, who, row.Privilege)
	}
	return nil
}

// functions checks the functions that run as the owner of the tables.
func (d *auditDoctor) functions(ctx context.Context, q db.DBTX) error {
	rows, err := queries.AuditDoctorFunctions(ctx, q)
	if err != nil {
		return err
	}
	for _, row := range rows {
		// audit_queue is a trigger's function, which nobody can call.
		if row.Public && row.Name != "audit_queue" {
			d.found("functions", "REVOKE EXECUTE ON FUNCTION "+row.Name+" FROM PUBLIC;", "Everybody may call %s, which runs with the owner's privileges.", row.Name)
		}
		if !strings.Contains(row.Settings, "search_path=pg_catalog, pg_temp") {
			d.found("functions", "ALTER FUNCTION "+row.Name+" SET search_path = pg_catalog, pg_temp;",
				"%s runs with the owner's privileges, but its search_path lets others replace the functions and tables that it uses.", row.Name)
		}
	}
	return nil
}

func (d *auditDoctor) sealing(ctx context.Context, q db.DBTX) error {
	waiting, err := queries.AuditWaiting(ctx, q, repo.DefaultAuditCount+1)
	if err != nil || waiting.Entries == 0 {
		return err
	}
	if ageOf(waiting) > auditLag {
		count := fmt.Sprint(waiting.Entries)
		if waiting.Entries > repo.DefaultAuditCount {
			count = fmt.Sprintf("more than %d", repo.DefaultAuditCount)
		}
		d.found("sealing", "Run a sealer, and check that it makes progress. If it does, verify the trail: an entry that was deleted before it was sealed stays in the queue forever.",
			"Entries waiting to be sealed: %s, the oldest since %s. Changes to unsealed entries are not detected, and they are not pruned.",
			count, waiting.Oldest.UTC().Format(time.RFC3339))
	}
	return nil
}

func (d *auditDoctor) quarantine(ctx context.Context, q db.DBTX) error {
	count, err := queries.AuditDoctorQuarantined(ctx, q, repo.MaxPageSize)
	if err != nil || count == 0 {
		return err
	}
	d.found("quarantine", "SELECT id, reason, created_at FROM audit_quarantine; -- then record their content by hand, and delete them",
		"Entries that the database refused and that are in quarantine: %d (counted up to %d).", count, repo.MaxPageSize)
	return nil
}
