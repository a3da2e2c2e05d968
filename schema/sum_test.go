package schema

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var updateSum = flag.Bool("update", false, "record the migrations that are not in migrations.sum, for a release")

const sumFile = "migrations.sum"

// A released migration has run on users' databases: editing it would make two schemas
// with the same version. -update only adds lines; changing one requires an edit by hand,
// which a reviewer sees.
// Guarantee: Migrations: A released migration is not edited.
func TestSum(t *testing.T) {
	recorded := readSum(t)
	actual := hashMigrations(t)
	if *updateSum {
		for name, sum := range actual {
			if _, found := recorded[name]; !found {
				recorded[name] = sum
			}
		}
		writeSum(t, recorded)
	}
	for name, sum := range actual {
		switch recorded[name] {
		case sum, "": // a version that is not recorded was not released
		default:
			t.Errorf("%s was released, and then edited: undo that, and write a new migration", name)
		}
	}
	for name := range recorded {
		if _, found := actual[name]; !found {
			t.Errorf("%s is in %s but was deleted or renamed", name, sumFile)
		}
	}
}

func hashMigrations(t *testing.T) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for _, migration := range List() {
		content, err := fs.ReadFile(embeddedFS(), migration.file)
		if err != nil {
			t.Fatal(err)
		}
		sums[migration.file] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return sums
}

func readSum(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(sumFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(content)) {
		sum, name, found := strings.Cut(strings.TrimSpace(line), "  ")
		if !found {
			t.Fatalf("%s: malformed line %q", sumFile, line)
		}
		sums[name] = sum
	}
	return sums
}

func writeSum(t *testing.T, sums map[string]string) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	if err := os.WriteFile(sumFile, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
