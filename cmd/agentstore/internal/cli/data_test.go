package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
)

// hostile is a name that would colour, move and rewrite a terminal, reverse its
// direction, and end a statement.
const hostile = "'; DROP TABLE sessions; --\x1b[31m\x1b]0;title\a\r\u009b2J\u202eabc\u2066\u200b\U000e0041\t\n|"

// raw are the characters that must not reach a terminal.
const raw = "\x1b\a\r\u009b\u202e\u2066\u200b\U000e0041"

// database is a store in memory that commands use.
type database struct {
	t     *testing.T
	store *agentstore.Store
	stdin string
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	return newDatabaseWith(t, agentstore.Options{})
}

func newDatabaseWith(t *testing.T, options agentstore.Options) *database {
	t.Helper()
	store, err := agentstore.Open(t.Context(), "memory://"+t.Name(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &database{t: t, store: store}
}

func (d *database) execute(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = execute(d.t.Context(), invocation{
		stdin: strings.NewReader(d.stdin), stdout: &out, stderr: &errs,
		env: func(string) string { return "" },
		open: func(ctx context.Context, _, _ string) (*agentstore.Store, error) {
			return agentstore.Open(ctx, "memory://"+d.t.Name(), agentstore.Options{})
		},
	}, append(args, "--database-url", "postgres://a.test")...)
	return code, out.String(), errs.String()
}

// run returns what a successful command prints.
func (d *database) run(args ...string) string {
	d.t.Helper()
	code, stdout, stderr := d.execute(args...)
	if code != exitOK || stderr != "" {
		d.t.Fatalf("%v: code %d, %s%s", args, code, stdout, stderr)
	}
	if strings.ContainsAny(stdout, raw) {
		d.t.Fatalf("%v prints what steers a terminal: %q", args, stdout)
	}
	return stdout
}

// lines returns the objects that a command prints with --json.
func (d *database) lines(args ...string) (found []map[string]any) {
	d.t.Helper()
	for line := range strings.Lines(d.run(append(args, "--json")...)) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			d.t.Fatalf("%v: %v in %q", args, err, line)
		}
		found = append(found, object)
	}
	return found
}

// values returns one member of each line.
func (d *database) values(member string, args ...string) string {
	d.t.Helper()
	var found []string
	for _, line := range d.lines(args...) {
		text, _ := line[member].(string)
		found = append(found, text)
	}
	return strings.Join(found, " ")
}

func (d *database) refuses(wantCode int, wantText string, args ...string) {
	d.t.Helper()
	code, stdout, stderr := d.execute(args...)
	if code != wantCode || stdout != "" || !strings.Contains(stderr, wantText) {
		d.t.Errorf("%v: code %d, stdout %q, stderr %q; want %d, %q", args, code, stdout, stderr, wantCode, wantText)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func (d *database) session(actor string, messages ...repo.NewMessage) repo.Session {
	d.t.Helper()
	s := must[repo.Session](d.t)(d.store.Sessions().Create(d.t.Context(), repo.NewSession{Actor: actor, Metadata: json.RawMessage(`{"note": "private"}`)}))
	if len(messages) > 0 {
		must[[]repo.Message](d.t)(d.store.Sessions().Append(d.t.Context(), s.ID, messages...))
	}
	return s
}

func TestSessionList(t *testing.T) {
	d := newDatabase(t)
	if got := d.run("session", "list"); !strings.HasPrefix(got, "ID  CREATED") || strings.Count(got, "\n") != 1 {
		t.Errorf("nothing: %q", got)
	}
	first := d.session("東京 bot")
	second := d.session(hostile)
	text := d.run("session", "list")
	if !strings.Contains(text, `DROP TABLE sessions; --\x1b[31m\x1b]0;title\x07\x0d\u009b2J\u202eabc\u2066\u200b\U000e0041\t\n|`) {
		t.Errorf("hostile name:\n%s", text)
	}
	if strings.Contains(text, "private") || !strings.Contains(d.run("session", "list", "--details"), `{"note": "private"}`) {
		t.Error("metadata are to be printed with --details, and only then")
	}
	both := second.ID.String() + " " + first.ID.String()
	for _, test := range []struct {
		flags, want string
	}{
		{"", both},
		{"--namespace local", both},
		{"--namespace other", ""},
		{"--actor x", ""},
		{"--created-from 2000-01-01", both},
		{"--created-from 2100-01-01T00:00:00Z", ""},
		{"--created-before 2100-01-01", both},
		{"--created-before 2000-01-01", ""},
		{"--order creation", both},
		{"--order activity", both},
	} {
		if got := d.values("id", append([]string{"session", "list"}, strings.Fields(test.flags)...)...); got != test.want {
			t.Errorf("%s: %s, want %s", test.flags, got, test.want)
		}
	}
	if got := d.values("actor", "session", "list", "--actor", hostile); got != hostile {
		t.Errorf("the name comes back as %q", got)
	}
	d.refuses(exitUsage, "created-from is not a time", "session", "list", "--created-from", "yesterday")
	d.refuses(exitUsage, "--limit: it must be at least 1", "session", "list", "--limit", "-1")
	d.refuses(exitUsage, "--limit: it must be at least 1", "session", "list", "--limit", "0")
	d.refuses(exitUsage, "agentstore: --after is not a cursor", "session", "list", "--after", "nonsense")
	d.refuses(exitUsage, "actor", "session", "list", "--actor", strings.Repeat("x", 256))
	d.refuses(exitUsage, "must be one of creation, activity", "session", "list", "--order", "time")
	for flag, value := range map[string]string{"--actor": "x", "--created-from": "2000-01-01", "--created-before": "2100-01-01"} {
		d.refuses(exitUsage, "only for sessions by creation", "session", "list", "--order", "activity", flag, value)
	}
}

// Sessions are listed by owner, and shown by key.
func TestSessionKeys(t *testing.T) {
	d := newDatabase(t)
	keyed := must[repo.Session](t)(d.store.Sessions().Create(t.Context(), repo.NewSession{Namespace: "shop", Key: hostile, Owner: "user/1"}))
	local := must[repo.Session](t)(d.store.Sessions().Create(t.Context(), repo.NewSession{Key: "a/b", Owner: "user/1"}))
	d.session("")
	if got := d.values("id", "session", "list", "--owner", "user/1"); got != local.ID.String() {
		t.Errorf("listed by owner: %s", got)
	}
	if got := d.values("id", "session", "list", "--owner", "user/2"); got != "" {
		t.Errorf("listed by another owner: %s", got)
	}
	if text := d.run("session", "list"); !strings.Contains(text, "a/b") || !strings.Contains(text, "user/1") {
		t.Errorf("listed:\n%s", text)
	}
	for _, test := range []struct {
		flags []string
		want  repo.Session
	}{
		{[]string{"--key", hostile, "--namespace", "shop"}, keyed},
		{[]string{"--key", "a/b"}, local},
		{[]string{"--key", "a/b", "--namespace", repo.DefaultNamespace}, local},
		{[]string{local.ID.String()}, local},
	} {
		line := d.lines(append([]string{"session", "show"}, test.flags...)...)[0]
		if line["id"] != test.want.ID.String() || line["key"] != test.want.Key || line["owner"] != test.want.Owner || line["version"] != 1.0 {
			t.Errorf("%q shows %v", test.flags, line)
		}
	}
	if text := d.run("session", "show", "--key", "a/b", "--messages"); !strings.Contains(text, "Key:") || !strings.Contains(text, "Owner:") {
		t.Errorf("shown:\n%s", text)
	}
	fenced := must[repo.Session](t)(d.store.Sessions().Create(t.Context(), repo.NewSession{FencedOnly: true})).ID.String()
	if line := d.lines("session", "show", fenced)[0]; line["fenced_only"] != true {
		t.Errorf("a session that needs tokens shows %v", line)
	}
	if text := d.run("session", "show", fenced); !strings.Contains(text, "only under a lease") {
		t.Errorf("shown:\n%s", text)
	}
	_, byID, _ := d.execute("session", "export", local.ID.String())
	if _, byKey, _ := d.execute("session", "export", "--key", "a/b"); byKey != byID || byID == "" {
		t.Errorf("exported by key: %q, want %q", byKey, byID)
	}
	d.refuses(exitFailed, `key "a/b" in namespace "local", with 0 messages? This`, "session", "delete", "--key", "a/b")
	for _, command := range []string{"show", "tail", "export", "delete"} {
		d.refuses(exitFailed, `session "a/b" in namespace "shop" not found`, "session", command, "--key", "a/b", "--namespace", "shop")
		d.refuses(exitUsage, "session "+command+" needs either ID or --key", "session", command)
		d.refuses(exitUsage, "either ID or --key", "session", command, local.ID.String(), "--key", "a/b")
		d.refuses(exitUsage, "only for --key", "session", command, local.ID.String(), "--namespace", "shop")
	}
	d.refuses(exitFailed, `session "a/b" in namespace "shop" not found`, "session", "delete", "--key", "a/b", "--namespace", "shop", "--yes")
	if out := d.run("session", "delete", "--key", "a/b", "--yes", "--json"); !strings.Contains(out, local.ID.String()) {
		t.Errorf("deleted by key: %s", out)
	}
	d.refuses(exitFailed, "not found", "session", "show", local.ID.String())
	d.run("session", "show", keyed.ID.String())
}

// Pages are limited by --limit, and by the repository's own limit.
func TestListPages(t *testing.T) {
	d := newDatabase(t)
	const count = 2500
	for range count {
		d.session("")
	}
	if got := len(d.lines("session", "list")); got != count {
		t.Errorf("%d of %d", got, count)
	}
	code, stdout, stderr := d.execute("session", "list", "--limit", "1300", "--json")
	next, found := strings.CutPrefix(strings.TrimSpace(stderr), "there is more: --after ")
	if code != exitOK || strings.Count(stdout, "\n") != 1300 || !found {
		t.Fatalf("code %d, %d lines, %q", code, strings.Count(stdout, "\n"), stderr)
	}
	rest := d.run("session", "list", "--after", next, "--json")
	if stdout+rest != d.run("session", "list", "--json") {
		t.Error("the two parts are not the whole")
	}
	if _, _, stderr := d.execute("session", "list", "--limit", "2500"); stderr != "" {
		t.Errorf("the last page says that there is more: %q", stderr)
	}
}

func TestSessionShow(t *testing.T) {
	d := newDatabase(t)
	var messages []repo.NewMessage
	for range 40 {
		messages = append(messages, repo.NewMessage{Role: repo.RoleUser, Content: "very secret\n" + hostile, Payload: []byte{0, 1}, Metadata: json.RawMessage(`{"m":1.10}`)})
	}
	messages[39].Kind, messages[39].CallID = "tool_result", "call"+hostile
	id := d.session(hostile, messages...).ID.String()
	text := d.run("session", "show", id)
	if !strings.Contains(text, "Messages:   40\n") || strings.Contains(text, "private") || strings.Contains(text, "secret") {
		t.Errorf("shown:\n%s", text)
	}
	if text := d.run("session", "show", id, "--details"); !strings.Contains(text, "private") {
		t.Errorf("details:\n%s", text)
	}
	if text := d.run("session", "show", id, "--messages"); strings.Contains(text, "secret") || strings.Count(text, "user") != 40 ||
		strings.Count(text, "tool_result  call'; DROP") != 1 {
		t.Errorf("messages:\n%s", text)
	}
	if text := d.run("session", "show", id, "--contents"); strings.Count(text, "very secret\n") != 40 || strings.Count(text, "Z  tool_result  call'; DROP") != 1 {
		t.Errorf("contents:\n%s", text)
	}
	sequences := func(flags ...string) (first, last float64, count int) {
		lines := d.lines(append([]string{"session", "show", id}, flags...)...)
		if lines[0]["id"] != id || lines[0]["metadata"] != nil {
			t.Errorf("the first line is %v", lines[0])
		}
		if count = len(lines) - 1; count > 0 {
			first, last = lines[1]["sequence"].(float64), lines[count]["sequence"].(float64)
		}
		return first, last, count
	}
	for _, test := range []struct {
		flags       string
		first, last float64
		count       int
	}{
		{"", 0, 0, 0},
		{"--messages", 0, 39, 40},
		{"--from 10", 10, 39, 30},
		{"--from 10 --limit 5", 10, 14, 5},
		{"--from 100", 0, 0, 0},
		{"--before 35", 34, 0, 35},
		{"--before 35 --limit 3", 34, 32, 3},
		{"--before 0", 0, 0, 0},
		{"--last 3", 37, 39, 3},
		{"--last 100", 0, 39, 40},
		{"--contents --limit 1", 0, 0, 1},
	} {
		first, last, count := sequences(strings.Fields(test.flags)...)
		if first != test.first || last != test.last || count != test.count {
			t.Errorf("%s: %v to %v, %d messages", test.flags, first, last, count)
		}
	}
	without := d.lines("session", "show", id, "--last", "1")[1]
	with := d.lines("session", "show", id, "--last", "1", "--contents")[1]
	if without["content"] != nil || without["metadata"] != nil || without["payload"] != nil || without["content_bytes"] == nil {
		t.Errorf("without contents: %v", without)
	}
	for _, line := range []map[string]any{without, with} {
		if line["kind"] != "tool_result" || line["call_id"] != "call"+hostile {
			t.Errorf("the kind and the call are %v", line)
		}
	}
	if first := d.lines("session", "show", id, "--messages", "--limit", "1")[1]; first["kind"] != nil || first["call_id"] != nil {
		t.Errorf("without a kind and a call: %v", first)
	}
	if with["content"] != "very secret\n"+hostile || with["payload"] != "AAE=" {
		t.Errorf("with contents: %v", with)
	}
	if line := d.run("session", "show", id, "--last", "1", "--contents", "--json"); !strings.Contains(line, `"metadata":{"m":1.10}`) {
		t.Errorf("the number was rewritten: %s", line)
	}
	d.refuses(exitUsage, "exclude each other", "session", "show", id, "--from", "1", "--last", "1")
	d.refuses(exitUsage, "at least 1", "session", "show", id, "--last", "-1")
	for _, of := range [][2]string{{"show", "--from"}, {"show", "--before"}, {"tail", "--from"}} {
		d.refuses(exitUsage, of[1]+": it is negative", "session", of[0], repo.NewID().String(), of[1], "-1")
	}
	d.refuses(exitUsage, "not an id", "session", "show", "x")
	d.refuses(exitUsage, "empty", "session", "show", "")
	d.refuses(exitFailed, "not found", "session", "show", repo.NewID().String())
}

func TestSessionBranches(t *testing.T) {
	d := newDatabase(t)
	session, err := d.store.Sessions().Create(t.Context(), repo.NewSession{Key: "chat", Actor: "agent"})
	if err != nil {
		t.Fatal(err)
	}
	after := int64(0)
	for _, turn := range []repo.Turn{
		{Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "question"}, {Role: repo.RoleAssistant, Content: "first"}}},
		{After: &after, Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "second"}, {Role: repo.RoleUser, Content: "thanks"}}},
	} {
		turn.SessionID = session.ID
		if _, err := d.store.Sessions().AppendTurn(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	id := session.ID.String()
	for _, test := range []struct {
		flag, value string
		want        []string
	}{
		{"--last", "2", []string{"second", "thanks"}},
		{"--last", "9", []string{"question", "second", "thanks"}},
		{"--branch", "1", []string{"question", "first"}},
		{"--branch", "2", []string{"question", "second", "thanks"}},
	} {
		shown := d.run("session", "show", id, "--contents", test.flag, test.value)
		for _, content := range []string{"question", "first", "second", "thanks"} {
			if slices.Contains(test.want, content) != strings.Contains(shown, content) {
				t.Errorf("%s %s shows %s", test.flag, test.value, shown)
			}
		}
	}
	if shown := d.run("session", "show", id, "--from", "0", "--json"); !strings.Contains(shown, `"follows":0`) {
		t.Errorf("nothing says what a message follows: %s", shown)
	}
	forked := d.run("session", "fork", "--key", "chat", "--at", "1", "--owner", "somebody", "--fork-key", "other")
	if !strings.Contains(forked, "is a fork of "+id+" at message 1") {
		t.Errorf("%s", forked)
	}
	shown := d.run("session", "show", "--key", "other", "--contents")
	if !strings.Contains(shown, "first") || strings.Contains(shown, "second") || !strings.Contains(shown, "somebody") {
		t.Errorf("the fork is %s", shown)
	}
	if deleted := d.run("session", "delete", id, "--yes"); !strings.Contains(deleted, "2 other messages stay stored for the session's forks") {
		t.Errorf("%s", deleted)
	}
	for _, args := range [][]string{{"session", "fork", id}, {"session", "show", id, "--branch", "1", "--last", "1"}} {
		if code, _, _ := d.execute(args...); code != exitUsage {
			t.Errorf("%v: code %d", args, code)
		}
	}
}

func TestSessionTransfer(t *testing.T) {
	d := newDatabase(t)
	s := d.session(hostile, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
	id := s.ID.String()
	file := filepath.Join(t.TempDir(), "session.json")
	if out := d.run("session", "export", id, "--output", file); out != "" {
		t.Errorf("printed %q", out)
	}
	document := string(must[[]byte](t)(os.ReadFile(file)))
	if info := must[os.FileInfo](t)(os.Stat(file)); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %s", info.Mode())
	}
	_, stdout, _ := d.execute("session", "export", id)
	if stdout != document || !strings.Contains(document, `"checksum"`) {
		t.Errorf("stdout and file differ: %q, %q", stdout, document)
	}
	d.refuses(exitFailed, "already exists", "session", "import", file)
	d.run("session", "delete", id, "--yes")
	d.refuses(exitFailed, "was deleted", "session", "import", file)
	if out := d.run("session", "import", "--restore", file); !strings.Contains(out, "imported: 1 messages") {
		t.Errorf("imported: %q", out)
	}
	for _, args := range [][]string{{}, {"-"}} {
		d.run("session", "delete", id, "--yes")
		d.stdin = document
		if got := d.values("id", append([]string{"session", "import", "--restore"}, args...)...); got != id {
			t.Errorf("imported %s", got)
		}
	}
	if _, again, _ := d.execute("session", "export", id); again != document {
		t.Error("exported again, it is another document")
	}
	d.run("session", "delete", id, "--yes")
	d.stdin = strings.Replace(document, `"x"`, `"y"`, 1)
	d.refuses(exitFailed, "import", "session", "import")
	d.stdin = ""
	d.refuses(exitFailed, "import", "session", "import")
	d.refuses(exitFailed, "no such file", "session", "import", file+"x")

	// A failed export does not change the file.
	d.refuses(exitFailed, "not found", "session", "export", id, "--output", file)
	if now := string(must[[]byte](t)(os.ReadFile(file))); now != document {
		t.Error("the file was overwritten")
	}
	if entries := must[[]os.DirEntry](t)(os.ReadDir(filepath.Dir(file))); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
	d.refuses(exitFailed, "not a directory", "session", "export", id, "--output", file+"/x/y")
}

func TestSessionDelete(t *testing.T) {
	d := newDatabase(t)
	id := d.session("", repo.NewMessage{Role: repo.RoleUser, Content: "x"}).ID.String()
	for _, answer := range []string{"", "\n", "n\n", "no\n", "yesterday\n", id + "\n", "y" + strings.Repeat(" ", 2000) + "\n!"} {
		d.stdin = answer
		code, _, stderr := d.execute("session", "delete", id)
		if strings.HasPrefix(answer, "y ") {
			continue // either outcome is allowed
		}
		if code != exitFailed || !strings.Contains(stderr, "with 1 messages? This cannot be undone. [y/N]") || !strings.Contains(stderr, "nothing was deleted") {
			t.Errorf("%q: code %d, %q", answer, code, stderr)
		}
	}
	for _, answer := range []string{"y\n", "YES\r\n", "yes"} {
		id := d.session("").ID.String()
		d.stdin = answer
		if code, stdout, stderr := d.execute("session", "delete", id); code != exitOK || !strings.Contains(stdout, "deleted") {
			t.Errorf("%q: code %d, %q", answer, code, stderr)
		}
		d.refuses(exitFailed, "not found", "session", "show", id)
	}
	d.stdin = ""
	id = d.session("", repo.NewMessage{Role: repo.RoleUser, Content: "x"}).ID.String()
	if out := d.run("session", "delete", id, "--yes", "--json"); out != `{"id":"`+id+`","messages":1,"plans":0,"state_keys":0}`+"\n" {
		t.Errorf("deleted: %s", out)
	}
	d.refuses(exitFailed, "not found", "session", "delete", id)
	d.refuses(exitFailed, "not found", "session", "delete", id, "--yes")
}

func TestPlansAndActions(t *testing.T) {
	d := newDatabase(t)
	ctx := t.Context()
	definition := repo.ActionDefinition{
		Description: "private " + hostile, Reusable: true, Tags: []string{"blue", hostile}, Invariants: []string{"private rule"},
		Arguments:   []repo.Argument{{Name: "n", Type: repo.ArgumentInteger, Required: true, Description: "private"}},
		ReviewActor: "private reviewer", InputsSchema: json.RawMessage(`{"private": true}`),
	}
	must[repo.Action](t)(d.store.Actions().Create(ctx, repo.NewAction{Name: "review", ActionDefinition: definition, CreatedBy: hostile}))
	must[repo.Action](t)(d.store.Actions().Create(ctx, repo.NewAction{Name: "far:away/old", ActionDefinition: repo.ActionDefinition{DefinitionOfDone: "x"}}))
	must[repo.Action](t)(d.store.Actions().Archive(ctx, "far:away/old"))
	for _, test := range []struct{ flags, want string }{
		{"", "local/review"},
		{"--namespace away", ""},
		{"--server far --namespace away", "far:away/old"},
		{"--server far --namespace away --state archived", "far:away/old"},
		{"--server far --namespace away --state available", ""},
		{"--state available", "local/review"},
		{"--tag blue", "local/review"},
		{"--tag red", ""},
	} {
		if got := d.values("name", append([]string{"action", "list"}, strings.Fields(test.flags)...)...); got != test.want {
			t.Errorf("action list %s: %q", test.flags, got)
		}
	}
	d.hides("private", "action", "list")
	d.hides("private", "action", "show", "review")
	if got := d.values("created_by", "action", "show", "local/review"); got != hostile {
		t.Errorf("created by %q", got)
	}
	d.refuses(exitUsage, "action", "action", "show", "no name")
	d.refuses(exitFailed, "not found", "action", "show", "none")

	s := d.session("")
	use := repo.UseAction{
		Key: hostile, Name: hostile, SessionID: s.ID, Actor: hostile, Projects: []repo.ProjectLink{{Project: hostile, Alias: "a", ReadOnly: true}},
		Arguments: []repo.ArgumentValue{{Name: "n", Value: json.RawMessage("7")}}, AutomationSnapshot: json.RawMessage(`{"private":1}`),
	}
	plan := must[repo.Plan](t)(d.store.Plans().Use(ctx, "review", use))
	child := must[repo.Plan](t)(d.store.Plans().Use(ctx, "review", repo.UseAction{ParentID: plan.ID, Namespace: "other", Arguments: use.Arguments}))
	must[repo.Plan](t)(d.store.Plans().Transition(ctx, plan.ID, repo.TransitionStart, repo.Cause{Actor: hostile, Reason: "private reason"}))
	must[repo.Plan](t)(d.store.Plans().Transition(ctx, plan.ID, repo.TransitionFail, repo.Cause{Reason: "private failure", Details: json.RawMessage(`{"private":2}`)}))
	for _, test := range []struct {
		want  string
		flags []string
	}{
		{plan.ID.String(), nil},
		{plan.ID.String(), []string{"--namespace", "local", "--phase", "strategize", "--state", "errored"}},
		{"", []string{"--phase", "execute"}},
		{"", []string{"--state", "queued"}},
		{child.ID.String(), []string{"--namespace", "other"}},
		{child.ID.String(), []string{"--parent", plan.ID.String()}},
		{plan.ID.String(), []string{"--session", s.ID.String()}},
		{plan.ID.String(), []string{"--project", hostile}},
		{"", []string{"--project", "x"}},
	} {
		if got := d.values("id", append([]string{"plan", "list"}, test.flags...)...); got != test.want {
			t.Errorf("plan list %v: %q", test.flags, got)
		}
	}
	d.refuses(exitUsage, "Did you mean errored?", "plan", "list", "--state", "erored")
	d.refuses(exitUsage, "--session is not an id", "plan", "list", "--session", "x")
	d.refuses(exitUsage, "--parent is not an id", "plan", "list", "--parent", "x")
	d.refuses(exitUsage, "", "plan", "list", "--session", s.ID.String(), "--parent", plan.ID.String())
	d.hides("private", "plan", "list")
	d.hides("private", "plan", "show", plan.ID.String())
	d.hides("private", "plan", "history", plan.ID.String())
	for member, want := range map[string]string{"name": hostile, "key": hostile, "session_id": s.ID.String()} {
		if got := d.values(member, "plan", "show", plan.ID.String()); got != want {
			t.Errorf("%s %q", member, got)
		}
	}
	if text := d.run("plan", "show", plan.ID.String()); !strings.Contains(text, "Session:") || !strings.Contains(text, "Key:") {
		t.Errorf("the session and the key are not shown:\n%s", text)
	}
	if got := d.values("transition", "plan", "history", plan.ID.String()); got != "use start fail" {
		t.Errorf("history: %s", got)
	}
	if got := d.values("to", "plan", "history", plan.ID.String(), "--from", "3"); got != "strategize/errored" {
		t.Errorf("history from 3: %s", got)
	}
	code, stdout, stderr := d.execute("plan", "history", plan.ID.String(), "--limit", "2", "--json")
	if code != exitOK || strings.Count(stdout, "\n") != 2 || stderr != "there is more: --from 3\n" {
		t.Errorf("history of 2: code %d, %q, %q", code, stdout, stderr)
	}
	if text := d.run("plan", "show", plan.ID.String()); strings.Contains(text, "Held") {
		t.Errorf("the plan is not held:\n%s", text)
	}
	if _, err := d.store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.PlanLease(plan.ID), Owner: "worker-7"}); err != nil {
		t.Fatal(err)
	}
	if text := d.run("plan", "show", plan.ID.String()); !strings.Contains(text, "worker-7") || !strings.Contains(text, "Held until:") {
		t.Errorf("the holder is not shown:\n%s", text)
	}
	d.refuses(exitFailed, "not found", "plan", "show", repo.NewID().String())
	d.refuses(exitFailed, "not found", "plan", "history", repo.NewID().String())
	d.refuses(exitUsage, "", "plan", "history", plan.ID.String(), "--from", "-1")
	if text := d.run("session", "show", s.ID.String()); !strings.Contains(text, plan.ID.String()+"  strategize/errored") {
		t.Errorf("the session's plan is not shown:\n%s", text)
	}
}

// hides checks that a command prints a word with --details and only then.
func (d *database) hides(word string, args ...string) {
	d.t.Helper()
	for _, form := range []string{"", "--json"} {
		args := append(args, strings.Fields(form)...)
		if without := d.run(args...); strings.Contains(without, word) {
			d.t.Errorf("%v tells without being asked: %s", args, without)
		}
		if with := d.run(append(args, "--details")...); !strings.Contains(with, word) {
			d.t.Errorf("%v --details tells not: %s", args, with)
		}
	}
}

func TestAuditListAndExport(t *testing.T) {
	d := newDatabase(t)
	ctx := t.Context()
	plan, session := repo.NewID(), repo.NewID()
	if err := audit.RegisterEventType("a_test"); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
	for i, entry := range []repo.AuditEntry{
		{Type: audit.EventToolInvoked, Actor: hostile, User: "u", PlanID: plan, SessionID: session, Project: "p", Details: json.RawMessage(`{"private": 1}`)},
		{Type: "a_test"},
	} {
		entry.OccurredAt = at.AddDate(0, 0, i)
		if err := d.store.Audit().Record(ctx, entry); err != nil {
			t.Fatal(err)
		}
	}
	const first, second = "tool_invoked", "a_test"
	for _, test := range []struct {
		want  string
		flags []string
	}{
		{second + " " + first, nil},
		{first + " " + second, []string{"--oldest-first"}},
		{first, []string{"--type", "tool_invoked"}},
		{second, []string{"--type", "a_test"}},
		{"", []string{"--type", "unheard_of"}},
		{first, []string{"--actor", hostile}},
		{first, []string{"--user", "u"}},
		{first, []string{"--plan", plan.String()}},
		{first, []string{"--session", session.String()}},
		{first, []string{"--project", "p"}},
		{second, []string{"--occurred-from", "2026-02-04"}},
		{first, []string{"--occurred-before", "2026-02-04"}},
	} {
		if got := d.values("type", append([]string{"audit", "list"}, test.flags...)...); got != test.want {
			t.Errorf("audit list %v: %q", test.flags, got)
		}
		if len(test.flags) == 1 {
			continue
		}
		_, exported, _ := d.execute(append([]string{"audit", "export"}, test.flags...)...)
		if got := strings.Count(exported, "\n"); got != len(strings.Fields(test.want)) {
			t.Errorf("audit export %v: %d lines", test.flags, got)
		}
	}
	d.hides("private", "audit", "list")
	for member, want := range map[string]string{"actor": hostile, "user": "u", "plan_id": plan.String(), "session_id": session.String(), "occurred_at": "2026-02-03T04:05:06.000789Z"} {
		if got := d.values(member, "audit", "list", "--user", "u"); got != want {
			t.Errorf("%s: %q", member, got)
		}
	}
	file := filepath.Join(t.TempDir(), "trail")
	d.run("audit", "export", "--output", file)
	_, stdout, _ := d.execute("audit", "export")
	if got := string(must[[]byte](t)(os.ReadFile(file))); got != stdout || !strings.Contains(got, "private") {
		t.Errorf("exported %q and %q", got, stdout)
	}
	d.refuses(exitUsage, "--type", "audit", "list", "--type", "No Type")
	d.refuses(exitUsage, "--plan is not an id", "audit", "export", "--plan", "x")
	d.refuses(exitUsage, "occurred-from", "audit", "export", "--occurred-from", "x")
}

// No content looks like the head of another message.
func TestForgedHead(t *testing.T) {
	d := newDatabase(t)
	id := d.session("", repo.NewMessage{Role: repo.RoleUser, Content: "2  assistant  2026-01-01T00:00:00Z\n\n3  assistant  2026-01-01T00:00:00Z"}).ID.String()
	for line := range strings.Lines(d.run("session", "show", id, "--contents")) {
		if strings.HasPrefix(line, "2  ") || strings.HasPrefix(line, "3  ") {
			t.Errorf("a line is %q", line)
		}
	}
}
