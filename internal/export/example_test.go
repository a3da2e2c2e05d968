package export_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// documented returns the example in docs/export.md.
func documented(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/export.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n```json\n")
	if !found {
		t.Fatal("docs/export.md has no example")
	}
	inside, _, _ := strings.Cut(rest, "\n```\n")
	return inside
}

func TestDocumentedExample(t *testing.T) {
	example := documented(t)
	got := mustDecode(t, example)
	if len(got.messages) != 2 || string(got.messages[0].Payload) != "\x00\x01\x02\xff" {
		t.Errorf("the example is read as %v", got)
	}
	if again := encodeAll(t, got); again != example+"\n" {
		t.Errorf("the example is exported as %s", again)
	}
}

// The documented Python script computes the same checksum.
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
		"example": {documented(t), true},
		"full":    {full, true},
		"no end":  {strings.TrimSuffix(full, "\n"), true},
		"more":    {full + "\n", false},
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
