package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// hostile are values as long as a name may be, and values that would end a statement,
// control a terminal, or change the direction of its text.
var hostile = []string{
	"'; DROP TABLE sessions; --",
	"\x1b[2J\x1b[31mred\x1b]0;title\a\r\n\t\u009b2J",
	"\u202eturned\u2066 \u200bשלום\u2028",
	"東京🙂|\"\\%s$1\x7f",
	strings.Repeat("界", 85),
}

const steering = "\x1b\a\r\u009b\u202e\u2066\u200b\u2028\x7f"

// database is a migrated database, with a store on it.
type database struct {
	*testing.T
	url   string
	store *agentstore.Store
}

func newDatabase(t *testing.T) database {
	t.Helper()
	url := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, url, agentstore.Options{})
	return database{T: t, url: url, store: store}
}

// run returns the output of a command, which must succeed.
func (d database) run(args ...string) string {
	d.Helper()
	code, stdout, stderr := Run(d.Context(), d, d.url, args...)
	if code != 0 || stderr != "" {
		d.Fatalf("%q: code %d, %s%s", args, code, stdout, stderr)
	}
	if args[1] != "export" && strings.ContainsAny(stdout, steering) {
		d.Fatalf("%q prints what steers a terminal: %q", args, stdout)
	}
	return stdout
}

// values returns one member of each line of a command's --json.
func (d database) values(member string, args ...string) (found []string) {
	d.Helper()
	for line := range strings.Lines(d.run(append(args, "--json")...)) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			d.Fatalf("%q: %v in %q", args, err, line)
		}
		text, _ := object[member].(string)
		found = append(found, text)
	}
	return found
}

func (d database) wants(want, member string, args ...string) {
	d.Helper()
	if got := strings.Join(d.values(member, args...), " "); got != want {
		d.Errorf("%q: %q, want %q", args, got, want)
	}
}

func (d database) refuses(code int, text string, args ...string) {
	d.Helper()
	got, stdout, stderr := Run(d.Context(), d, d.url, args...)
	if got != code || stdout != "" || !strings.Contains(stderr, text) {
		d.Errorf("%q: code %d, stdout %q, stderr %q; want %d, %q", args, got, stdout, stderr, code, text)
	}
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// Every command prints stored values unchanged, whatever they are.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ctx := t.Context()
	must(d.store.Actions().Create(ctx, repo.NewAction{Name: "review", ActionDefinition: repo.ActionDefinition{Reusable: true, Tags: hostile, Description: hostile[1]}}))(t)
	for _, name := range hostile {
		session := must(d.store.Sessions().Create(ctx, repo.NewSession{Actor: name, Namespace: name}))(t)
		must(d.store.Sessions().Append(ctx, session.ID, repo.NewMessage{Role: repo.RoleUser, Content: name}))(t)
		plan := must(d.store.Plans().Use(ctx, "review", repo.UseAction{Name: name, Namespace: name, SessionID: session.ID, Projects: []repo.ProjectLink{{Project: name}}, Actor: name}))(t)
		must(d.store.Plans().Transition(ctx, plan.ID, repo.TransitionCancel, repo.Cause{Reason: name, Actor: name}))(t)
		if err := d.store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked, Actor: name, User: name, Project: name}); err != nil {
			t.Fatal(err)
		}
		id, planID := session.ID.String(), plan.ID.String()

		d.wants(id, "id", "session", "list", "--namespace", name)
		d.wants(id, "id", "session", "list", "--namespace", name, "--actor", name)
		d.wants(name, "actor", "session", "show", id)
		if got := d.values("content", "session", "show", id, "--contents"); len(got) != 2 || got[1] != name {
			t.Errorf("content %q", got)
		}
		d.wants(planID, "id", "plan", "list", "--namespace", name)
		d.wants(planID, "id", "plan", "list", "--project", name)
		d.wants(planID, "id", "plan", "list", "--session", id, "--state", "cancelled", "--phase", "strategize")
		d.wants("", "id", "plan", "list", "--parent", planID)
		d.wants(name, "name", "plan", "show", planID)
		d.wants(name+" "+name, "actor", "plan", "history", planID)
		d.wants(" "+name, "reason", "plan", "history", planID, "--details")
		d.wants("local/review", "name", "action", "list", "--tag", name)
		must(d.store.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: name, Name: name}, Owner: name}))(t)
		d.wants(name, "name", "lease", "list", "--kind", name, "--owner", name, "--status", "held")
		d.run("lease", "list", "--name", name, "--details")
		d.run("lease", "release", name, name, "--yes")
		for _, flag := range []string{"--actor", "--user", "--project"} {
			d.wants("tool_invoked", "type", "audit", "list", flag, name, "--type", "tool_invoked")
		}
		d.wants("plan_cancelled plan_created", "type", "audit", "list", "--plan", planID)
		for _, args := range [][]string{
			{"session", "list", "--namespace", name},
			{"session", "show", id, "--messages"},
			{"session", "show", id, "--contents"},
			{"plan", "list", "--namespace", name, "--details"},
			{"plan", "show", planID, "--details"},
			{"plan", "history", planID, "--details"},
			{"action", "list", "--details"},
			{"action", "show", "review", "--details"},
			{"audit", "list", "--details", "--actor", name},
		} {
			d.run(args...)
		}
		document := d.run("session", "export", id)
		d.run("session", "delete", id, "--yes")
		code, stdout, stderr := RunWith(ctx, t, strings.NewReader(document), d.url, "session", "import", "--restore")
		if code != 0 || d.run("session", "export", id) != document {
			t.Errorf("%q: import: code %d, %s%s", name, code, stdout, stderr)
		}
	}
	d.wants("local/review", "name", "action", "list")
	d.refuses(2, "not an id", "session", "show", "'; DROP TABLE sessions; --")
	d.refuses(2, "namespace", "session", "list", "--namespace", strings.Repeat("x", 256))
	d.refuses(1, "not found", "plan", "show", repo.NewID().String())
}

// A list by activity begins with the session that was last active, also page by page, and
// for one owner.
func TestSessionsByActivity(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var ids []string
	for i, owner := range []string{"u", "v", "u"} { // the first one is active last
		session := must(d.store.Sessions().Create(t.Context(), repo.NewSession{Owner: owner}))(t)
		for _, back := range []string{
			"UPDATE sessions SET updated_at = updated_at - $2 * interval '1 hour' WHERE id = $1",
			"UPDATE session_counters SET updated_at = updated_at - $2 * interval '1 hour' WHERE session_id = $1",
			"UPDATE session_activity SET active_at = active_at - $2 * interval '1 hour' WHERE session_id = $1",
		} {
			pgtest.Exec(t, d.store.Pool(), back, [16]byte(session.ID), i)
		}
		ids = append(ids, session.ID.String())
	}
	d.wants(ids[2]+" "+ids[1]+" "+ids[0], "id", "session", "list")
	d.wants(strings.Join(ids, " "), "id", "session", "list", "--order", "activity")
	d.wants(ids[0]+" "+ids[2], "id", "session", "list", "--order", "activity", "--owner", "u")
	code, stdout, stderr := Run(t.Context(), t, d.url, "session", "list", "--order", "activity", "--limit", "2")
	next, found := strings.CutPrefix(strings.TrimSpace(stderr), "there is more: --after ")
	if code != 0 || !found || !strings.Contains(stdout, ids[1]) || strings.Contains(stdout, ids[2]) {
		t.Fatalf("code %d, %s%s", code, stdout, stderr)
	}
	d.wants(ids[2], "id", "session", "list", "--order", "activity", "--after", next)
	d.refuses(2, "after", "session", "list", "--after", next) // of the other order
	d.refuses(2, "only for sessions by creation", "session", "list", "--order", "activity", "--actor", "x")
}

// A script gets the same question as a person.
func TestDeleteAsks(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	session := must(d.store.Sessions().Create(t.Context(), repo.NewSession{}))(t)
	id := session.ID.String()
	d.refuses(1, "nothing was deleted", "session", "delete", id) // stdin is empty
	for answer, want := range map[string]int{"": 1, "n\n": 1, id + "\n": 1} {
		if code, _, _ := RunWith(t.Context(), t, strings.NewReader(answer), d.url, "session", "delete", id); code != want {
			t.Errorf("%q: code %d", answer, code)
		}
	}
	d.wants(id, "id", "session", "list")
	if code, stdout, stderr := RunWith(t.Context(), t, strings.NewReader("y\n"), d.url, "session", "delete", id); code != 0 {
		t.Errorf("yes: code %d, %s%s", code, stdout, stderr)
	}
	d.wants("", "id", "session", "list")
}

// Exports and imports work with files, pipes and links.
func TestTransfer(t *testing.T) {
	t.Parallel()
	from, to := newDatabase(t), newDatabase(t)
	session := must(from.store.Sessions().Create(t.Context(), repo.NewSession{}))(t)
	must(from.store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: strings.Repeat("x", 1<<20), Payload: bytes.Repeat([]byte{0, 255}, 1<<19)}))(t)
	id := session.ID.String()
	directory := t.TempDir()
	file, link := filepath.Join(directory, "file"), filepath.Join(directory, "link")
	if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	from.run("session", "export", id, "--output", link)
	document := must(os.ReadFile(file))(t)
	if info := must(os.Lstat(link))(t); info.Mode()&os.ModeSymlink == 0 || string(document) != from.run("session", "export", id) {
		t.Error("the file behind the link is not the document")
	}
	if from.run("session", "export", id, "--output", "/dev/stdout") != string(document) {
		t.Error("/dev/stdout is not stdout")
	}
	to.run("session", "import", file)
	if to.run("session", "export", id) != string(document) {
		t.Error("the imported session differs")
	}
	for _, torn := range []string{string(document[:len(document)-2]), string(document) + "x", "", "null", "[]"} {
		code, _, stderr := RunWith(t.Context(), t, strings.NewReader(torn), from.url, "session", "import")
		if code != 1 || !strings.Contains(stderr, "import") || len(stderr) > 500 {
			t.Errorf("torn document: code %d, %q", code, stderr)
		}
	}
	entries := from.run("audit", "export", "--session", id)
	if !strings.Contains(entries, `"type":"session_created"`) {
		t.Errorf("exported %q", entries)
	}
	from.refuses(2, "a store in memory", "session", "list", "--database-url", "memory://x")
	empty := pgtest.NewEmptyDatabase(t)
	if code, _, stderr := Run(t.Context(), t, empty, "session", "list"); code != 3 || !strings.Contains(stderr, "behind") {
		t.Errorf("a database without a schema: code %d, %q", code, stderr)
	}
}
