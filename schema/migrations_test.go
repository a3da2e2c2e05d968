package schema

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func TestListIsContiguousAndPadded(t *testing.T) {
	for i, migration := range List() {
		if want := int64(i + 1); migration.Version != want {
			t.Errorf("version %d at place %d", migration.Version, want)
		}
		if !regexp.MustCompile(`^\d{4}_[a-z0-9_]+$`).MatchString(migration.Name) {
			t.Errorf("name %q is not four digits and lower case words", migration.Name)
		}
	}
	if Latest() != int64(len(List())) {
		t.Errorf("Latest() = %d, want %d", Latest(), len(List()))
	}
}

// The guarantees of the package doc need this of every migration.
func TestEmbeddedMigrationsKeepTheRules(t *testing.T) {
	for _, migration := range List() {
		content, err := fs.ReadFile(embeddedFS(), migration.file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "NO TRANSACTION") {
			t.Errorf("%s does not run in a transaction", migration.Name)
		}
		down, err := SQL(migration.Version, DirectionDown)
		if err != nil {
			t.Fatal(err)
		}
		drops := regexp.MustCompile(`(?i)\bDROP\s+(TABLE|COLUMN)\b|\bTRUNCATE\b|\bDELETE\s+FROM\b`).MatchString(down)
		guarded := strings.Contains(down, allowDataLossSetting) && strings.Contains(down, dataLossCode)
		if drops && !guarded {
			t.Errorf("%s: Down destroys data without asking %s and raising %s", migration.Name, allowDataLossSetting, dataLossCode)
		}
	}
}

func TestReadMigrationsRefuses(t *testing.T) {
	empty := &fstest.MapFile{}
	for name, fsys := range map[string]fstest.MapFS{
		"nothing":      {},
		"no version":   {"sessions.sql": empty},
		"version zero": {"0000_sessions.sql": empty},
		"no name":      {"0001.sql": empty},
		"twice":        {"0001_a.sql": empty, "001_b.sql": empty},
	} {
		if list, err := readMigrations(fsys); err == nil {
			t.Errorf("%s: got %v, want an error", name, list)
		}
	}
}
