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

// firstCompatible is the first version in which a database declares which libraries
// work on it. Libraries that do not know it refuse all newer databases.
const firstCompatible = 4

// git runs git in the repository. Building older libraries needs its whole history:
// without it the test fails.
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

// file returns the path of a version's file, from the repository's root.
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

// before returns the newest commit before the one that added the version: its parent
// on the main line, where a merge may have brought it. It returns an empty text if
// version 4 was added by the same commit: then no commit's library can open a
// database that has only one of the two.
func before(t *testing.T, version int64) string {
	t.Helper()
	path := file(t, version)
	added := strings.Fields(git(t, "log", "--no-patch", "--first-parent", "--diff-merges=first-parent", "--diff-filter=A", "--format=%H", "--", path))
	commit := "HEAD" // if it is not committed yet
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

// versionsAt returns the versions that a commit's library knows.
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
