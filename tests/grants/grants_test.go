package grants

import (
	"errors"
	"io"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func openStore(t *testing.T, databaseURL string) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pgtest.CheckReturned(t, store.Pool())
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// The conformance suite runs as the application role, but for what keepers of the
// audit trail do.
func TestConformanceOfApplicationRole(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
	openStore(t, g.application) // keeps the pool, which the subtests share
	repotest.RunApplication(t, func(t *testing.T) repo.Store {
		store, err := agentstore.Open(t.Context(), g.application)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store
	})
}

// No role may change the schema, empty a table or touch the version table.
func TestNobodyButTheOwner(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
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

func TestApplicationDoesNotChangeMessages(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
	denied(t, g.application,
		"UPDATE messages SET content = 'x'",
		"DELETE FROM messages",
		"DELETE FROM session_counters",
	)
	migrator, err := schema.Open(t.Context(), g.application, schema.Options{AllowDataLoss: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := migrator.Validate(t.Context()); err != nil {
		t.Errorf("validate: %v", err)
	}
	if _, err := migrator.DownTo(t.Context(), 0); err == nil {
		t.Error("the application role may migrate down")
	}
}

func TestReaderReadsAndDoesNotWrite(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
	session, err := openStore(t, g.application).Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	reader := openStore(t, g.reader)
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
		"SELECT FROM session_counters FOR UPDATE", // a lock would stop the writers
	)
}

func TestAuditWriterSeesNoSession(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
	openStore(t, g.auditWrite) // the schema's version is all it needs
	denied(t, g.auditWrite,
		"SELECT FROM sessions", "SELECT FROM session_counters", "SELECT FROM messages",
		"INSERT INTO sessions (id) VALUES (gen_random_uuid())",
	)
}
