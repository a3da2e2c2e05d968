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
			t.Errorf("version %d, want %d", migration.Version, want)
		}
		if !regexp.MustCompile(`^\d{4}_[a-z0-9_]+$`).MatchString(migration.Name) {
			t.Errorf("name %q is not four digits and lower case words", migration.Name)
		}
	}
	if Latest() != int64(len(List())) {
		t.Errorf("Latest() = %d, want %d", Latest(), len(List()))
	}
}

// The guarantees in the package's documentation require this of each migration.
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
			t.Errorf("%s: Down destroys data without checking %s and raising %s", migration.Name, allowDataLossSetting, dataLossCode)
		}
	}
}

func TestReadMigrationsRefuses(t *testing.T) {
	empty := &fstest.MapFile{}
	for name, fsys := range map[string]fstest.MapFS{
		"nothing":            {},
		"no version":         {"sessions.sql": empty},
		"version zero":       {"0000_sessions.sql": empty},
		"no name":            {"0001.sql": empty},
		"twice":              {"0001_a.sql": empty, "001_b.sql": empty},
		"newer than itself":  {"0001_a.sql": declares("2")},
		"library zero":       {"0001_a.sql": declares("0")},
		"no library":         {"0001_a.sql": declares("one")},
		"more than a number": {"0002_a.sql": declares("1, or 2")},
		"two libraries":      {"0002_a.sql": {Data: append(declares("1").Data, declares("1").Data...)}},
	} {
		if list, err := readMigrations(fsys); err == nil {
			t.Errorf("%s: got %v, want an error", name, list)
		}
	}
}

func declares(library string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("-- oldest library: " + library + "\n")}
}

func TestReadDeclaration(t *testing.T) {
	list, err := readMigrations(fstest.MapFS{"0001_a.sql": {}, "0002_b.sql": declares("1")})
	if err != nil || list[0].OldestLibrary != 1 || list[1].OldestLibrary != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	list, err = readMigrations(fstest.MapFS{"0002_a.sql": {Data: []byte("-- +goose Up\n-- the oldest library: 1\n")}})
	if err != nil || list[0].OldestLibrary != 2 {
		t.Errorf("without a declaration: %+v, %v", list, err)
	}
}

// Each version declares the oldest library that works on it, and no version allows an
// older library than the versions before it.
func TestMigrationsDeclareTheOldestLibrary(t *testing.T) {
	oldest := int64(0)
	for _, migration := range List() {
		content, err := fs.ReadFile(embeddedFS(), migration.file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(content), "-- oldest library: ") {
			t.Errorf("%s does not begin with its oldest library (CONTRIBUTING.md, A migration)", migration.Name)
		}
		if migration.OldestLibrary < oldest {
			t.Errorf("%s declares that library %d works on it, but an earlier version needs %d", migration.Name, migration.OldestLibrary, oldest)
		}
		oldest = migration.OldestLibrary
	}
}
