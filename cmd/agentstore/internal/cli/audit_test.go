package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if code, key, public := run("audit", "keygen", "example"); code != exitOK || !strings.HasPrefix(key, private) || !strings.HasPrefix(public, "example+") {
		t.Errorf("without a file: code %d, %d bytes, %q", code, len(key), public)
	}
}
