package audit

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// refused is the SQLSTATE that the trail's triggers raise.
const refused = "ZAS02"

// sealedAudit is a migrated database with 20 sealed entries and 5 unsealed ones.
func sealedAudit(t *testing.T, databaseURL string) []repo.AuditEntry {
	t.Helper()
	store := postgres.New(pgsettings.Checked{Pool: pgtest.NewPool(t, databaseURL)}, postgres.Options{})
	defer func() { _ = store.Close() }()
	entries := make([]repo.AuditEntry, 25)
	for i := range entries {
		entries[i] = repo.AuditEntry{ID: repo.NewID(), OccurredAt: time.Now().Add(-time.Hour), Type: events.ToolInvoked, Actor: "agent"}
	}
	if err := store.Audit().Record(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	if sealed := seal(t, store, 20); sealed != 20 {
		t.Fatalf("sealed %d", sealed)
	}
	return entries
}

// seal seals up to limit entries, with made-up hashes.
func seal(t *testing.T, store auditlog.Keeper, limit int) int {
	t.Helper()
	sealed, err := store.AuditLog().Seal(t.Context(), limit, func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
		leaves := make([][32]byte, len(u.Entries))
		return auditlog.Seal{
			Leaves: leaves, Hidden: leaves, FirstHash: u.Size, Hashes: leaves, Checkpoint: auditlog.Checkpoint{Size: u.Size + int64(len(leaves)), Note: []byte{1}},
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func serverVersion(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	return pgtest.Value[int](t, conn, "SELECT current_setting('server_version_num')::int")
}

// ownSchema returns the schema of the tables, quoted.
func ownSchema(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	return pgtest.Value[string](t, conn, "SELECT quote_ident(current_schema())")
}

func wantCode(t *testing.T, conn *pgx.Conn, code, sql string, arguments ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, arguments...)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != code {
		t.Errorf("%s: %v, want SQLSTATE %s", sql, err, code)
	}
}

// changes returns all ways to change entries with plain SQL that the server's version
// has.
func changes(version int) []string {
	var sql []string
	for _, table := range []string{"audit_entries", "audit_leaves", "audit_hashes", "audit_checkpoints"} {
		sql = append(sql, "DELETE FROM "+table, "TRUNCATE "+table, "TRUNCATE "+table+" CASCADE")
	}
	if version >= 150000 {
		sql = append(sql, "MERGE INTO audit_entries e USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE")
	}
	return append(sql,
		"UPDATE audit_entries SET details = '{\"forged\":true}'",
		"UPDATE audit_entries SET occurred_at = occurred_at - interval '1 month'",
		"UPDATE audit_entries SET actor = actor",
		"INSERT INTO audit_entries SELECT * FROM audit_entries ON CONFLICT (id) DO UPDATE SET actor = 'forger'",
		"UPDATE audit_leaves SET hash = hash", "UPDATE audit_leaves SET pruned_by = gen_random_uuid()",
		"UPDATE audit_hashes SET hash = hash", "UPDATE audit_checkpoints SET note = ''",
	)
}

// Neither the owner of the tables nor a superuser that disables triggers as a
// replica does can change entries with plain SQL. (The owner can drop the triggers;
// the sealed log reveals what was changed then.)
// Guarantee: The audit trail: A recorded entry cannot be changed by row, TRUNCATE or `session_replication_role`.
func TestImmutable(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	sealedAudit(t, databaseURL)
	conn := pgtest.Connect(t, databaseURL)
	digest := `SELECT md5(string_agg(x::text, '|')) FROM (
		SELECT e.*::text AS x FROM audit_entries e UNION ALL SELECT l.*::text FROM audit_leaves l
		UNION ALL SELECT h.*::text FROM audit_hashes h UNION ALL SELECT c.*::text FROM audit_checkpoints c ORDER BY 1) AS all_rows`
	before := pgtest.Value[string](t, conn, digest)
	for _, as := range []string{
		"RESET session_replication_role",
		"SET session_replication_role = replica",
		"SET session_replication_role = local",
	} {
		pgtest.Exec(t, conn, as)
		for _, sql := range changes(serverVersion(t, conn)) {
			wantCode(t, conn, refused, sql)
		}
	}
	pgtest.Exec(t, conn, "RESET session_replication_role")
	// The setting that a prune makes has no effect for other roles than the owner.
	role := "auditor_" + strings.ToLower(rand.Text())
	pgtest.Exec(t, conn, "CREATE ROLE "+role+"; GRANT SELECT, UPDATE, DELETE ON audit_entries, audit_leaves TO "+role)
	defer pgtest.Exec(t, conn, "RESET ROLE; DROP OWNED BY "+role+"; DROP ROLE "+role)
	pgtest.Exec(t, conn, "SET ROLE "+role)
	pgtest.Exec(t, conn, "SET agentstore.audit_prune = 'on'")
	pgtest.Exec(t, conn, "CREATE TEMP TABLE pg_class (oid oid, relowner oid)")
	pgtest.Exec(t, conn, "INSERT INTO pg_class SELECT c.oid, current_user::regrole FROM pg_catalog.pg_class c WHERE c.relname LIKE 'audit_%'")
	wantCode(t, conn, refused, "DELETE FROM audit_entries")
	wantCode(t, conn, refused, "UPDATE audit_leaves SET pruned_by = gen_random_uuid()")
	wantCode(t, conn, "42501", "SET session_replication_role = replica")
	pgtest.Exec(t, conn, "DROP TABLE pg_temp.pg_class; RESET ROLE; RESET agentstore.audit_prune")
	if after := pgtest.Value[string](t, conn, digest); after != before {
		t.Error("entries have changed")
	}
	// Without the triggers the same statements change the table.
	pgtest.Exec(t, conn, "ALTER TABLE audit_entries DISABLE TRIGGER USER")
	if rows := pgtest.Exec(t, conn, "UPDATE audit_entries SET details = '{}'"); rows != 25 {
		t.Errorf("without triggers only %d rows were changed, so this test checks nothing", rows)
	}
}

// Even with a prune's setting only what a prune or an erasure does is allowed: an update may remove fields that can be erased.
func TestImmutableWithinPrune(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	sealedAudit(t, databaseURL)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "SET agentstore.audit_prune = 'on'")
	for _, sql := range []string{
		`UPDATE audit_entries SET details = '{"a":1}'`, "UPDATE audit_entries SET actor = 'x'", "UPDATE audit_entries SET type = 'x'",
		"UPDATE audit_entries SET plan_id = gen_random_uuid()", "UPDATE audit_entries SET recorded_at = now()",
		"UPDATE audit_entries SET salts = ARRAY['a', 'b', 'c', 'd']::bytea[]", "UPDATE audit_entries SET id = gen_random_uuid(), details = '{}'",
		"TRUNCATE audit_entries",
		"DELETE FROM audit_leaves", "UPDATE audit_leaves SET hash = decode(repeat('11', 32), 'hex')",
		"UPDATE audit_leaves SET sequence = sequence + 1000", "UPDATE audit_leaves SET pruned_by = gen_random_uuid(), namespace = 'x'",
		"DELETE FROM audit_hashes", "DELETE FROM audit_checkpoints",
	} {
		wantCode(t, conn, refused, sql)
	}
	// Nor what tells of removals and gaps.
	pgtest.Exec(t, conn, "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'audit_pruned'), (now(), gen_random_uuid(), 'audit_gap')")
	wantCode(t, conn, refused, "DELETE FROM audit_entries WHERE type = 'audit_pruned'")
	wantCode(t, conn, refused, "DELETE FROM audit_entries WHERE type = 'audit_gap'")
	// A leaf can be marked only once.
	pgtest.Exec(t, conn, "UPDATE audit_leaves SET pruned_by = gen_random_uuid() WHERE sequence = 0")
	wantCode(t, conn, refused, "UPDATE audit_leaves SET pruned_by = gen_random_uuid() WHERE sequence = 0")
	wantCode(t, conn, refused, "UPDATE audit_leaves SET pruned_by = NULL WHERE sequence = 0")
}

// Changes that bypass the triggers are found in the log.
func TestTampering(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	entries := sealedAudit(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "ALTER TABLE audit_entries DISABLE TRIGGER USER")
	stray := repo.NewID()
	pgtest.Exec(t, conn, "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), $1, 'tool_invoked')", stray[:])
	pgtest.Exec(t, conn, "DELETE FROM audit_entries WHERE id = $1", entries[24].ID[:]) // not sealed yet
	pgtest.Exec(t, conn, "DELETE FROM audit_entries WHERE id = $1", entries[0].ID[:])  // sealed
	pgtest.Exec(t, conn, "ALTER TABLE audit_entries ENABLE TRIGGER audit_entries_queue; ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_refuse")
	strays, err := store.AuditLog().Strays(t.Context(), 10)
	if err != nil || len(strays) != 1 || strays[0] != stray {
		t.Errorf("strays: %+v, %v", strays, err)
	}
	lost, err := store.AuditLog().Lost(t.Context(), 10)
	if err != nil || len(lost) != 1 || lost[0] != entries[24].ID {
		t.Errorf("lost: %+v, %v", lost, err)
	}
	leaf, err := store.AuditLog().Leaf(t.Context(), entries[0].ID)
	if err != nil || leaf.Entry != nil || !leaf.PrunedBy.IsZero() {
		t.Errorf("the leaf of the deleted entry: %+v, %v", leaf, err)
	}
	// The other entries are still sealed.
	if sealed := seal(t, store, 1000); sealed != 4 {
		t.Errorf("sealed %d, want the 4 that are there", sealed)
	}
	if waiting, err := store.AuditLog().Waiting(t.Context(), 0); err != nil || waiting.Entries != 1 {
		t.Errorf("waiting: %+v, %v, want the lost one", waiting, err)
	}
}

// A pruned entry that is inserted again, bypassing the library, does not stop the
// sealer.
func TestPrunedEntryThatIsPutBack(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	entries := sealedAudit(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	conn := pgtest.Connect(t, databaseURL)
	if got, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now()}); err != nil || got != (auditlog.Pruned{Entries: 20, Unsealed: 5}) {
		t.Fatalf("%+v, %v", got, err)
	}
	pgtest.Exec(t, conn, "INSERT INTO audit_entries (occurred_at, id, type) VALUES ($1, $2, 'tool_invoked')", entries[0].OccurredAt.Truncate(time.Microsecond), entries[0].ID[:])
	if sealed := seal(t, store, 1000); sealed != 6 { // 5, and the prune's entry
		t.Errorf("sealed %d", sealed)
	}
	if waiting, err := store.AuditLog().Waiting(t.Context(), 0); err != nil || waiting.Entries != 1 {
		t.Errorf("waiting: %+v, %v, want the inserted entry", waiting, err)
	}
	// It is the first in the queue, and must not take the only place in a batch.
	if err := store.Audit().Record(t.Context(), repo.AuditEntry{Type: events.ToolInvoked}); err != nil {
		t.Fatal(err)
	}
	if sealed := seal(t, store, 1); sealed != 1 {
		t.Errorf("after the inserted entry: sealed %d", sealed)
	}
}

// The functions run as the owner. A role that may only record cannot replace their
// tables and triggers by its own.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	owner := pgtest.Connect(t, databaseURL)
	role := "recorder_" + strings.ToLower(rand.Text())
	pgtest.Exec(t, owner, "CREATE ROLE "+role+" LOGIN PASSWORD '"+role+"'; GRANT SELECT, INSERT ON audit_entries TO "+role)
	defer pgtest.Exec(t, owner, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	conn := pgtest.Connect(t, pgtest.WithUser(databaseURL, role, role))
	defer func() { _ = conn.Close(t.Context()) }()
	pgtest.Exec(t, conn, `
		CREATE TEMP TABLE audit_unsealed (recorded_at timestamptz, entry_id uuid);
		CREATE TEMP TABLE seen (who text);
		GRANT ALL ON audit_unsealed, seen TO PUBLIC;
		CREATE FUNCTION pg_temp.hijack() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO pg_temp.seen VALUES (current_user); RETURN NEW; END $$;
		CREATE TRIGGER hijack BEFORE INSERT ON audit_unsealed FOR EACH ROW EXECUTE FUNCTION pg_temp.hijack()`)
	pgtest.Exec(t, conn, "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked')")
	if rows := pgtest.Value[int](t, conn, "SELECT count(*) FROM pg_temp.seen"); rows != 0 {
		t.Error("the role's trigger ran with the owner's privileges")
	}
	if rows := pgtest.Value[int](t, owner, "SELECT count(*) FROM audit_unsealed"); rows != 1 {
		t.Errorf("%d entries wait to be sealed, want 1", rows)
	}
	// The same attack succeeds on a function that names no schema and searches
	// temporary tables first.
	pgtest.Exec(t, owner, `CREATE OR REPLACE FUNCTION audit_queue() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_temp, `+ownSchema(t, owner)+` AS $$
		BEGIN
			INSERT INTO audit_unsealed (recorded_at, entry_id) SELECT n.recorded_at, n.id FROM new_entries n;
			RETURN NULL;
		END $$`)
	pgtest.Exec(t, conn, "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked')")
	if rows := pgtest.Value[int](t, owner, "SELECT count(*) FROM audit_unsealed"); rows != 1 {
		t.Error("the attack fails in any case, so this test checks nothing")
	}
}

// Migrating down is refused while there are holds or checkpoints.
func TestDownRefusesHoldsAndCheckpoints(t *testing.T) {
	t.Parallel()
	for _, insert := range []string{
		"INSERT INTO audit_holds (kind, subject, reason) VALUES ('plan', gen_random_uuid(), 'a court')",
		"INSERT INTO audit_checkpoints (size, root, note) VALUES (1, decode(repeat('11', 32), 'hex'), '')",
	} {
		databaseURL := pgtest.NewDatabase(t)
		conn := pgtest.Connect(t, databaseURL)
		pgtest.Exec(t, conn, insert)
		migrator, err := schema.Open(t.Context(), databaseURL, schema.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := migrator.Run(t.Context(), schema.TargetDown(5)); !errors.Is(err, schema.ErrDataLoss) {
			t.Errorf("with %s: %v", insert, err)
		}
		if rows := pgtest.Value[int](t, conn, "SELECT (SELECT count(*) FROM audit_holds) + (SELECT count(*) FROM audit_checkpoints WHERE size > 0)"); rows != 1 {
			t.Errorf("%d rows are left", rows)
		}
		may, err := schema.Open(t.Context(), databaseURL, schema.Options{AllowDataLoss: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := may.Run(t.Context(), schema.TargetDown(5)); err != nil {
			t.Errorf("allowed: %v", err)
		}
	}
}

// Migrating down is refused while rows would be lost.
func TestDownRefuses(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	sealedAudit(t, databaseURL)
	migrator, err := schema.Open(t.Context(), databaseURL, schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Run(t.Context(), schema.TargetDown(5)); err == nil {
		t.Error("a trail was dropped")
	}
	if rows := pgtest.Value[int](t, pgtest.Connect(t, databaseURL), "SELECT count(*) FROM audit_entries"); rows != 25 {
		t.Errorf("%d entries are left", rows)
	}
}
