package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/command"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// auditCommand runs agentstore audit on a database.
func auditCommand(t *testing.T, databaseURL string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command.Run(t.Context(), t, databaseURL, append([]string{"audit"}, args...)...)
}

// All audit commands: from a key to a proof that is checked offline, and to a changed
// entry that verify finds.
func TestCommands(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	ids := make([]repo.ID, 20)
	for i := range ids {
		ids[i] = repo.NewID()
		if err := store.Audit().Record(t.Context(), repo.AuditEntry{ID: ids[i], Type: events.ToolInvoked, Details: json.RawMessage(`{ "i" : 1 }`)}); err != nil {
			t.Fatal(err)
		}
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	code, public, stderr := auditCommand(t, "", "keygen", "test", "--output", keyFile)
	if code != 0 || stderr != "" {
		t.Fatalf("keygen: %d, %s", code, stderr)
	}
	public = strings.TrimSpace(public)
	want := func(wantCode int, wantText string, args ...string) string {
		t.Helper()
		code, stdout, stderr := auditCommand(t, databaseURL, args...)
		if code != wantCode || !strings.Contains(stdout+stderr, wantText) {
			t.Fatalf("%v: code %d, %s%s; want %d, %q", args, code, stdout, stderr, wantCode, wantText)
		}
		return stdout
	}
	want(1, "nothing is sealed yet", "checkpoint")
	want(0, "entries sealed: 20", "seal", "--private-key-file", keyFile)
	want(0, "the trail verifies", "verify", "--key", public)
	want(0, `"breaks":[]`, "verify", "--json")
	want(0, `"prunes":[]`, "verify", "--json")
	want(0, "should be", "doctor")

	held := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.WriteFile(held, []byte(want(0, "\n20\n", "checkpoint")), 0o600); err != nil {
		t.Fatal(err)
	}
	proof := filepath.Join(t.TempDir(), "proof")
	text := want(0, ids[7].String(), "prove", ids[7].String())
	for content, wantCode := range map[string]int{text: 0, strings.Replace(text, `\"i\"`, `\"j\"`, 1): 7, "{": 7, "": 7} {
		if err := os.WriteFile(proof, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, stdout, stderr := auditCommand(t, "", "check", proof, "--key", public); code != wantCode {
			t.Errorf("check: code %d, want %d: %s%s", code, wantCode, stdout, stderr)
		}
	}

	for _, sql := range []string{
		"ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_refuse",
		"ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_hide",
		"UPDATE audit_entries SET actor = 'mallory' WHERE id = '" + ids[3].String() + "'",
		"DELETE FROM audit_entries WHERE id = '" + ids[5].String() + "'",
	} {
		pgtest.Exec(t, store.Pool(), sql)
	}
	want(7, "content changed  leaf 3  entry "+ids[3].String(), "verify", "--key", public, "--checkpoint", held)
	want(7, "entry missing  leaf 5  entry "+ids[5].String(), "verify")
	want(8, "audit_entries_refuse", "doctor")
	want(0, "would be pruned", "prune", "--before", "2100-01-01", "--dry-run")

	for _, args := range [][]string{
		{},
		{"nonsense"},
		{"prove"},
		{"prove", "x"},
		{"prune"},
		{"prune", "--before", "yesterday"},
		{"verify", "--key", "x"},
		{"prune", "--before", "2020-01-01", "--types", "No Type"},
		{"keygen", "a b"},
		{"verify", "more"},
	} {
		if code, _, stderr := auditCommand(t, databaseURL, args...); code != 2 || !strings.HasPrefix(stderr, "agentstore: ") {
			t.Errorf("%v: code %d, %s", args, code, stderr)
		}
	}
}

// What is on hold is not pruned, until it is released.
func TestHoldCommands(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	session, plan := repo.NewID(), repo.NewID()
	for _, entry := range []repo.AuditEntry{{SessionID: session}, {PlanID: plan}, {}} {
		entry.Type = events.ToolInvoked
		if err := store.Audit().Record(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ args, want string }{
		{"seal", "entries sealed: 3"},
		{"hold --session " + session.String() + " --reason case-4711", "the entries of session " + session.String() + " are on hold"},
		{"hold --plan " + plan.String() + " --reason case-4711", "on hold"},
		{"release --plan " + plan.String(), "there is no hold of"},
		{"holds", session.String()},
		{"holds --json --details", `{"session_id":"` + session.String() + `","created_at":"`},
		{"prune --before 2100-01-01", "2 entries were pruned; 1 are on hold"},
		{"seal", "entries sealed: 1"}, // the entry about the prune
		{"verify", "the trail verifies"},
		{"release --session " + session.String(), "there is no hold of"},
		{"prune --before 2100-01-01", "1 entries were pruned; 0 are on hold"},
	} {
		code, stdout, stderr := auditCommand(t, databaseURL, strings.Fields(step.args)...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, step.want) || strings.HasPrefix(step.args, "holds") && strings.Count(stdout, session.String()) != 1 {
			t.Errorf("%s: code %d, %s%s; want %q", step.args, code, stdout, stderr, step.want)
		}
	}
}
