package grants

import (
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The conformance suite runs as the application role, except for the maintenance of
// the audit trail.
func TestConformanceOfApplicationRole(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
	open := pgtest.Opener(t, g.application, agentstore.Options{})
	if pgtest.Full() {
		repotest.RunApplication(t, open, pgtest.Elapse(g.owner))
		return
	}
	// Each statement: races have no others.
	repotest.RunApplication(t, open, repotest.Races(0), pgtest.Elapse(g.owner))
	repotest.RunApplication(t, open, repotest.Only("Follow"))
}

// Each role may do what it is for, and nothing else.
func TestRoles(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
	for name, test := range map[string]func(*testing.T){
		"EveryTableIsGranted": g.testEveryTableIsGranted, "NoRoleChangesTheSchema": g.testNoRoleChangesTheSchema,
		"ApplicationDoesNotChangeMessages": g.testApplicationDoesNotChangeMessages, "ReaderReadsAndDoesNotWrite": g.testReaderReadsAndDoesNotWrite,
		"AuditWriterSeesNoSession": g.testAuditWriterSeesNoSession, "NoRoleMovesActivity": g.testNoRoleMovesActivity,
		"NobodyChangesTheAuditTrail": g.testNobodyChangesTheAuditTrail,
	} {
		t.Run(name, test)
	}
}

// No role may change the schema, truncate a table or change the version table.
func (g granted) testNoRoleChangesTheSchema(t *testing.T) {
	for _, role := range []string{g.application, g.reader, g.auditWrite} {
		denied(t, role,
			"CREATE TABLE mine ()",
			"CREATE INDEX ON messages (role)",
			"INSERT INTO agentstore_migrations (version) VALUES (9999)",
			"UPDATE agentstore_migrations SET applied_at = now()",
			"DELETE FROM agentstore_migrations",
		)
		for _, table := range tables(t, g.owner) {
			denied(t, role,
				"ALTER TABLE "+table+" ADD COLUMN mine int",
				"TRUNCATE "+table+" CASCADE",
				"DROP TABLE "+table+" CASCADE",
			)
		}
	}
}

// Guarantee: Servers and roles: The application role redacts messages, and changes nothing else of them.
func (g granted) testApplicationDoesNotChangeMessages(t *testing.T) {
	store := pgtest.OpenStore(t, g.application, agentstore.Options{})
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, CallID: "c", Content: "said"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Pool().Exec(t.Context(), "UPDATE messages SET content = 'forged', kind = 'forged', metadata = '[1]'"); err != nil {
		t.Fatal(err)
	}
	messages, err := store.Sessions().LastMessages(t.Context(), session.ID, 1)
	if err != nil || messages[0].Content != "erased" || messages[0].Kind != repo.KindRedacted || messages[0].CallID != "c" || string(messages[0].Metadata) != "{}" {
		t.Errorf("an update has left %+v, %v", messages, err)
	}
	denied(t, g.application,
		"UPDATE messages SET role = 'system'",
		"UPDATE messages SET id = id",
		"UPDATE messages SET sequence = 7",
		"UPDATE messages SET call_id = NULL",
		"DELETE FROM messages",
		"DELETE FROM session_counters",
		"DELETE FROM session_ids",
		"UPDATE session_activity SET active_at = now()",
		"DELETE FROM session_activity",
	)
	migrator, err := schema.Open(t.Context(), g.application, schema.Options{AllowDataLoss: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Validate(t.Context()); err != nil {
		t.Errorf("validate: %v", err)
	}
	if _, err := migrator.Run(t.Context(), schema.TargetDown(0)); err == nil {
		t.Error("the application role may migrate down")
	}
}

// Guarantee: Servers and roles: The reader role cannot write.
func (g granted) testReaderReadsAndDoesNotWrite(t *testing.T) {
	session, err := pgtest.OpenStore(t, g.application, agentstore.Options{}).Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	reader := pgtest.OpenStore(t, g.reader, agentstore.Options{})
	if _, err := reader.Sessions().Get(t.Context(), session.ID); err != nil {
		t.Errorf("get: %v", err)
	}
	if err := reader.Sessions().Export(t.Context(), session.ID, io.Discard); err != nil {
		t.Errorf("export: %v", err)
	}
	_, err = reader.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
	if !errors.Is(err, repo.ErrPermission) || errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("append: %v", err)
	}
	for _, table := range tables(t, g.owner) {
		denied(t, g.reader, "DELETE FROM "+table, "INSERT INTO "+table+" DEFAULT VALUES")
	}
	denied(t, g.reader,
		"UPDATE sessions SET namespace = 'x'",
		"UPDATE session_counters SET next_sequence = 0",
		"UPDATE messages SET content = 'x'",
		"SELECT FROM session_counters FOR UPDATE", // a lock would block the writers
	)
}

// Guarantee: Servers and roles: The audit role cannot see sessions.
func (g granted) testAuditWriterSeesNoSession(t *testing.T) {
	pgtest.OpenStore(t, g.auditWrite, agentstore.Options{}) // only reads the schema's version
	denied(t, g.auditWrite,
		"SELECT FROM sessions", "SELECT FROM session_counters", "SELECT FROM messages",
		"INSERT INTO sessions (id) VALUES (gen_random_uuid())",
	)
}

// The rows of session_activity are moved by a trigger, with the owner's rights. No
// role moves one by hand, or through a trigger of its own that calls its function.
func (g granted) testNoRoleMovesActivity(t *testing.T) {
	store := pgtest.OpenStore(t, g.application, agentstore.Options{})
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err == nil {
		_, err = store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{g.application, g.reader, g.auditWrite} {
		denied(t, role,
			"UPDATE session_activity SET active_at = now()",
			"DELETE FROM session_activity",
		)
		conn := pgtest.Connect(t, role)
		pgtest.Exec(t, conn, "CREATE TEMPORARY TABLE mine (id uuid, namespace text, owner text, updated_at timestamptz, session_id uuid)")
		_, err := conn.Exec(t.Context(), "CREATE TRIGGER mine AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION session_activity_move()")
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "42501" {
			t.Errorf("a trigger that calls the function: %v", err)
		}
	}
}
