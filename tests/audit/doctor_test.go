package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The doctor finds each kind of damage, and the action that it suggests repairs it.
func TestDoctor(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	conn := pgtest.Connect(t, databaseURL)
	doctor := func() []auditlog.Finding {
		findings, err := store.AuditLog().Doctor(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return findings
	}
	if err := store.Audit().Record(t.Context(), entryAt(time.Now())); err != nil {
		t.Fatal(err)
	}
	if findings := doctor(); len(findings) != 0 {
		t.Fatalf("on an undamaged trail: %+v", findings)
	}
	role := "Some " + repo.NewID().String()
	pgtest.Exec(t, conn, `CREATE ROLE "`+role+`"`)
	defer pgtest.Exec(t, conn, `DROP OWNED BY "`+role+`"; DROP ROLE "`+role+`"`)
	for _, test := range []struct{ check, names, damage string }{
		{"triggers", "audit_entries_queue of audit_entries", "ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_queue"},
		{"triggers", "audit_entries_queue of audit_entries", "ALTER TABLE audit_entries ENABLE REPLICA TRIGGER audit_entries_queue"},
		{"triggers", "audit_entries_queue of audit_entries", "DROP TRIGGER audit_entries_queue ON audit_entries"},
		{"triggers", "audit_entries_refuse of audit_entries", "ALTER TABLE audit_entries ENABLE TRIGGER audit_entries_refuse"},
		{"triggers", "audit_entries_refuse of audit_entries", "DROP TRIGGER audit_entries_refuse ON audit_entries"},
		{"triggers", "audit_entries_keep of audit_entries", "DROP TRIGGER audit_entries_keep ON audit_entries"},
		{"triggers", "audit_leaves_keep of audit_leaves", "DROP TRIGGER audit_leaves_keep ON audit_leaves"},
		{"triggers", "other of audit_entries", "CREATE TRIGGER other BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION audit_refuse()"},
		{"triggers", "audit_leaves_refuse of audit_leaves", "DROP TRIGGER audit_leaves_refuse ON audit_leaves"},
		{"triggers", "audit_hashes_refuse of audit_hashes", "DROP TRIGGER audit_hashes_refuse ON audit_hashes"},
		{"triggers", "the wrong function, harmless", `CREATE FUNCTION harmless() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$;
			DROP TRIGGER audit_checkpoints_refuse ON audit_checkpoints;
			CREATE TRIGGER audit_checkpoints_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION harmless();
			ALTER TABLE audit_checkpoints ENABLE ALWAYS TRIGGER audit_checkpoints_refuse`},
		{"triggers", "the wrong function, elsewhere.audit_refuse", `CREATE SCHEMA elsewhere; CREATE FUNCTION elsewhere.audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$;
			DROP TRIGGER audit_hashes_refuse ON audit_hashes;
			CREATE TRIGGER audit_hashes_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_hashes FOR EACH STATEMENT EXECUTE FUNCTION elsewhere.audit_refuse();
			ALTER TABLE audit_hashes ENABLE ALWAYS TRIGGER audit_hashes_refuse`},
		{"grants", role, `GRANT DELETE ON audit_entries TO "` + role + `"`},
		{"grants", "every role", "GRANT TRUNCATE ON audit_leaves TO PUBLIC"},
		{"functions", "audit_queue", "ALTER FUNCTION audit_queue() SET search_path = public"},
	} {
		pgtest.Exec(t, conn, test.damage)
		findings := doctor()
		if len(findings) != 1 || findings[0].Check != test.check || !strings.Contains(findings[0].Problem, test.names) {
			t.Errorf("%s: found %+v", test.damage, findings)
		}
		for _, finding := range findings {
			pgtest.Exec(t, conn, finding.Action)
		}
		if findings := doctor(); len(findings) != 0 {
			t.Errorf("%s: after the suggested action: %+v", test.damage, findings)
		}
	}
	for _, name := range []string{"audit_queue", "audit_refuse", "audit_hide"} {
		var whole string
		if err := conn.QueryRow(t.Context(), "SELECT pg_get_functiondef(to_regproc($1))", name).Scan(&whole); err != nil {
			t.Fatal(err)
		}
		for _, damage := range []string{strings.Replace(whole, "BEGIN", "BEGIN PERFORM 1;", 1), "ALTER FUNCTION " + name + " SET agentstore.audit_prune = 'on'"} {
			pgtest.Exec(t, conn, damage)
			if findings := doctor(); len(findings) != 1 || findings[0].Check != "functions" || !strings.Contains(findings[0].Problem, name) {
				t.Errorf("%s: found %+v", damage, findings)
			}
			pgtest.Exec(t, conn, whole)
		}
		if findings := doctor(); len(findings) != 0 {
			t.Errorf("the text of %s as it was: %+v", name, findings)
		}
	}
	// The repaired triggers work.
	if sealed := seal(t, store, 10); sealed != 1 {
		t.Errorf("sealed %d", sealed)
	}
	if waiting, err := store.AuditLog().Waiting(t.Context(), 0); err != nil || waiting != (auditlog.Waiting{}) {
		t.Errorf("waiting: %+v, %v, want none", waiting, err)
	}
	for _, sql := range changes(serverVersion(t, conn)) {
		wantCode(t, conn, refused, sql)
	}
	if err := store.Audit().Record(t.Context(), entryAt(time.Now())); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, "UPDATE audit_unsealed SET recorded_at = now() - interval '2 hours'")
	if findings := doctor(); len(findings) != 1 || findings[0].Check != "sealing" {
		t.Errorf("an entry that is not sealed: %+v", findings)
	}
	seal(t, store, 10)
	sink, err := store.AuditLog().Sink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sink.Close() }()
	if err := sink.Quarantine(t.Context(), auditlog.Poison{ID: repo.NewID(), Document: []byte{0}, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if findings := doctor(); len(findings) != 1 || findings[0].Check != "quarantine" {
		t.Errorf("an entry in quarantine: %+v", findings)
	}
}
