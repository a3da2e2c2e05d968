package migrate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestCommandPrintsALinePerVersion(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	line := `%-4s  %s  %s in [0-9.]+(µs|ms|s)\n`
	var up, down strings.Builder
	for _, migration := range schema.List() {
		fmt.Fprintf(&up, line, "up", migration.Name, "applied")
	}
	last := schema.List()[len(schema.List())-1]
	fmt.Fprintf(&down, line, "down", last.Name, "reverted")
	for _, test := range []struct{ args, want string }{
		{"up --dry-run", fmt.Sprintf(`(up    \w+  would run\n){%d}nothing was changed: the database is at version 0\n`, schema.Latest())},
		{"up", up.String() + fmt.Sprintf("the database is at version %d\n", schema.Latest())},
		{"up", fmt.Sprintf("nothing to do: the database is at version %d\n", schema.Latest())},
		{"version", fmt.Sprintf("%d\n", schema.Latest())},
		{"validate", fmt.Sprintf("valid: the database is at version %d\n", schema.Latest())},
		{"status", fmt.Sprintf(`(applied   \w+  [0-9T:-]+Z\n){%d}`, schema.Latest())},
		{"down", down.String() + fmt.Sprintf("the database is at version %d\n", schema.Latest()-1)},
		{"up --steps 1", `up    \w+  applied in .*\nthe database is at version \d+\n`},
		{"down --to 0", fmt.Sprintf(`(down  \w+  reverted in .*\n){%d}the database is at version 0\n`, schema.Latest())},
		{"up --to 1 --timeout 1h", `up    0001_\w+  applied in .*\nthe database is at version 1\n`},
	} {
		args := append([]string{"migrate"}, strings.Fields(test.args)...)
		if args[1] == "up" || args[1] == "down" {
			args = append(args, "--progress-every", "0") // which says at a slow machine that a version is still running
		}
		code, stdout, stderr := execute(t.Context(), t, databaseURL, args...)
		if code != 0 || stderr != "" || !regexp.MustCompile("^"+test.want+"$").MatchString(stdout) {
			t.Errorf("%s: exit code %d, stderr %q, stdout\n%swant\n%s", test.args, code, stderr, stdout, test.want)
		}
	}
}

func TestCommandJSON(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	type answer struct {
		DryRun  bool `json:"dry_run"`
		Steps   []struct{ Version int64 }
		Version *int64
		Valid   *bool
		Latest  int64
		Error   string
		Entries []struct{ State string } `json:"versions"`
	}
	for _, test := range []struct {
		args string
		code int
		ok   func(answer) bool
	}{
		{"up --dry-run", 0, func(a answer) bool { return a.DryRun && len(a.Steps) == int(schema.Latest()) && *a.Version == 0 }},
		{"validate", 3, func(a answer) bool { return !*a.Valid && strings.Contains(a.Error, "behind") }},
		{"up", 0, func(a answer) bool {
			return !a.DryRun && len(a.Steps) == int(schema.Latest()) && *a.Version == schema.Latest()
		}},
		{"up", 0, func(a answer) bool { return a.Steps != nil && len(a.Steps) == 0 }},
		{"validate", 0, func(a answer) bool { return *a.Valid && a.Error == "" }},
		{"version", 0, func(a answer) bool { return *a.Version == schema.Latest() && a.Latest == schema.Latest() }},
		{"status", 0, func(a answer) bool {
			return len(a.Entries) == int(schema.Latest()) && a.Entries[0].State == "applied"
		}},
		{"up --to 9999", 2, func(a answer) bool { return strings.Contains(a.Error, "unknown version 9999") }},
		{"up --timeout 1ns", 1, func(a answer) bool { return strings.Contains(a.Error, "not done within --timeout 1ns") }},
	} {
		code, stdout, stderr := execute(t.Context(), t, databaseURL, append([]string{"migrate"}, strings.Fields(test.args+" --json")...)...)
		var got answer
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Errorf("%s: stdout %q: %v", test.args, stdout, err)
			continue
		}
		if code != test.code || !test.ok(got) {
			t.Errorf("%s: exit code %d, stdout %s, stderr %s", test.args, code, stdout, stderr)
		}
	}
}
