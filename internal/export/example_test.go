package export_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// block returns the first block of a language in docs/export.md.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/export.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n```"+language+"\n")
	if !found {
		t.Fatalf("docs/export.md has no block of %s", language)
	}
	inside, _, _ := strings.Cut(rest, "\n```\n")
	return inside
}

func TestDocumentedExample(t *testing.T) {
	example := block(t, "json")
	got := mustDecode(t, example)
	if len(got.messages) != 2 || string(got.messages[0].Payload) != "\x00\x01\x02\xff" {
		t.Errorf("the example is read as %v", got)
	}
	sum := sha256.Sum256([]byte(block(t, "text")))
	if !strings.Contains(example, "sha256:"+hex.EncodeToString(sum[:])) {
		t.Error("the documented canonical form has another checksum")
	}
	if again := encode(t, got.session, got.plans, got.messages...); !strings.Contains(again, hex.EncodeToString(sum[:])) {
		t.Error("the example is exported with another checksum")
	}
}

// The documented Python script computes the same checksum, also for a document with
// everything that affects the canonical form.
func TestDocumentedScript(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	session := fullSession()
	messages := fullMessages(session.ID)
	session.MessageCount = int64(len(messages))
	full := encode(t, session, nil, messages...)
	dir := t.TempDir()
	script := filepath.Join(dir, "check.py")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("../../docs/check_export.py")
	if err != nil {
		t.Fatal(err)
	}
	write(script, string(text))
	for name, test := range map[string]struct {
		text string
		good bool
	}{
		"example": {block(t, "json"), true},
		"full":    {full, true},
		"changed": {strings.Replace(full, `"plain"`, `"plane"`, 1), false},
	} {
		path := filepath.Join(dir, name+".json")
		write(path, test.text)
		output, err := exec.CommandContext(t.Context(), python, script, path).CombinedOutput()
		if (err == nil) != test.good {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
	}
}
