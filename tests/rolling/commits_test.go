package rolling

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
)

// firstCompatible is the version in which a database began to say what works on
// it. A library that does not know it refuses every newer database.
const firstCompatible = 4

// git runs git in the repository. Without a repository that has its whole history
// there is nothing to build older libraries from, and the test fails.
func git(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", arguments...)
	command.Dir = "../.."
	output, err := command.Output()
	if err != nil {
		t.Fatalf("this test builds older commits, and needs git and a clone of the repository: git %s: %v", strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(output))
}

func requireHistory(t *testing.T) {
	t.Helper()
	if git(t, "rev-parse", "--is-shallow-repository") != "false" {
		t.Fatal("this test builds older commits, and the clone is shallow: git fetch --unshallow")
	}
}

// file is a version's, from the repository's root.
func file(t *testing.T, version int64) string {
	t.Helper()
	for _, migration := range schema.List() {
		if migration.Version == version {
			return "schema/migrations/" + migration.Name + ".sql"
		}
	}
	t.Fatalf("there is no version %d", version)
	return ""
}

// before is the commit that stood before the version landed: its parent on the
// main line, where a merge may have brought it. It is empty where version 4 is not
// there either: they landed together, and no commit's library can open a database
// that has the one and not the other.
func before(t *testing.T, version int64) string {
	t.Helper()
	path := file(t, version)
	added := strings.Fields(git(t, "log", "--no-patch", "--first-parent", "--diff-merges=first-parent", "--diff-filter=A", "--format=%H", "--", path))
	commit := "HEAD" // not committed yet
	if len(added) > 0 {
		commit = added[len(added)-1] + "^"
	}
	commit = git(t, "rev-parse", "--verify", commit)
	for _, candidate := range append([]string{commit}, strings.Fields(git(t, "rev-list", "HEAD", "--", "schema/migrations"))...) {
		versions := versionsAt(t, candidate)
		if slices.Contains(versions, firstCompatible) && !slices.Contains(versions, version) {
			return candidate
		}
	}
	return ""
}

// versionsAt lists the migrations that a commit's library knows.
func versionsAt(t *testing.T, commit string) (versions []int64) {
	t.Helper()
	for path := range strings.FieldsSeq(git(t, "ls-tree", "--name-only", commit, "schema/migrations/")) {
		var version int64
		if _, err := fmt.Sscanf(filepath.Base(path), "%d_", &version); err == nil {
			versions = append(versions, version)
		}
	}
	return versions
}
