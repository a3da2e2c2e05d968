package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// A private key is in a file that only its owner can read, and replaces none.
func TestKeygen(t *testing.T) {
	const private = "PRIVATE+KEY+example+"
	file := filepath.Join(t.TempDir(), "private.key")
	code, public, stderr := run("audit", "keygen", "example", "--output", file)
	if code != exitOK || !strings.HasPrefix(public, "example+") || strings.Count(public, "\n") != 1 || stderr != "" {
		t.Fatalf("code %d, %q, %q", code, public, stderr)
	}
	key := string(must[[]byte](t)(os.ReadFile(file)))
	if info := must[os.FileInfo](t)(os.Stat(file)); info.Mode().Perm() != 0o600 || !strings.HasPrefix(key, private) {
		t.Errorf("mode %s, a key: %v", info.Mode(), strings.HasPrefix(key, private))
	}
	code, public, stderr = run("audit", "keygen", "example", "--output", file)
	if code != exitFailed || public != "" || !strings.Contains(stderr, "file exists") {
		t.Errorf("again: code %d, %q, %q", code, public, stderr)
	}
	if now := string(must[[]byte](t)(os.ReadFile(file))); now != key {
		t.Error("the key was replaced")
	}
	t.Chdir(t.TempDir())
	for name, reason := range map[string]string{"": "empty", "-": "not the name of a file"} {
		code, stdout, stderr := run("audit", "keygen", "example", "--output", name)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, "--output is "+reason) {
			t.Errorf("--output %q: code %d, %d bytes, %q", name, code, len(stdout), stderr)
		}
		if files := must[[]os.DirEntry](t)(os.ReadDir(".")); len(files) != 0 {
			t.Errorf("--output %q: wrote %s", name, files[0].Name())
		}
	}
	if code, key, public := run("audit", "keygen", "example"); code != exitOK || !strings.HasPrefix(key, private) || !strings.HasPrefix(public, "example+") {
		t.Errorf("without a file: code %d, %d bytes, %q", code, len(key), public)
	}
}

// No time at all is not the default.
func TestVerifyRefusesNoWaiting(t *testing.T) {
	d := newDatabase(t)
	d.refuses(exitUsage, "--max-waiting is 0", "audit", "verify", "--max-waiting", "0s")
	d.run("audit", "verify", "--max-waiting", "1ns")
	d.run("audit", "verify")
}

// Entries on hold are not pruned, until the hold is released.
func TestHold(t *testing.T) {
	d := newDatabase(t)
	session, plan, reason := repo.NewID().String(), repo.NewID().String(), "private "+hostile
	if out := d.run("audit", "hold", "--session", session, "--reason", reason); out != "the entries of session "+session+" are on hold\n" {
		t.Errorf("held: %q", out)
	}
	d.run("audit", "hold", "--session", session, "--reason", "another")
	if out := d.run("audit", "hold", "--plan", plan, "--reason", "private", "--json"); out != `{"plan_id":"`+plan+`","held":true}`+"\n" {
		t.Errorf("held: %q", out)
	}
	holds := d.lines("audit", "holds", "--details")
	if len(holds) != 2 || holds[0]["plan_id"] != plan || holds[0]["session_id"] != nil || holds[1]["session_id"] != session || holds[1]["reason"] != reason {
		t.Errorf("holds: %v", holds)
	}
	if _, err := time.Parse(time.RFC3339, holds[1]["created_at"].(string)); err != nil {
		t.Error(err)
	}
	if out := d.run("audit", "holds"); !strings.HasPrefix(out, "PLAN") || strings.Count(out, "\n") != 3 || !strings.Contains(out, session) || strings.Contains(out, "REASON") {
		t.Errorf("holds:\n%s", out)
	}
	d.hides("private", "audit", "holds")

	if out := d.run("audit", "release", "--session", session, "--json"); out != `{"session_id":"`+session+`","held":false}`+"\n" {
		t.Errorf("released: %q", out)
	}
	if out := d.run("audit", "release", "--plan", plan); out != "there is no hold of plan "+plan+" now\n" {
		t.Errorf("released: %q", out)
	}
	d.run("audit", "release", "--plan", plan)
	if out := d.run("audit", "holds", "--json"); out != "" {
		t.Errorf("left: %q", out)
	}
	for _, command := range []string{"hold", "release"} {
		d.refuses(exitUsage, "audit "+command+" needs --plan or --session, and not both", "audit", command)
		d.refuses(exitUsage, "and not both", "audit", command, "--plan", plan, "--session", session)
		d.refuses(exitUsage, "--plan is not an id", "audit", command, "--plan", "x")
	}
	d.refuses(exitUsage, "needs --reason", "audit", "hold", "--plan", plan)
	d.refuses(exitUsage, "reason", "audit", "hold", "--plan", plan, "--reason", strings.Repeat("x", limits.MaxTextBytes+1))
}
