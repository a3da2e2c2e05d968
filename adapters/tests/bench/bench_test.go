package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// Each workload runs, in small, and leaves nothing behind. The adapter refuses and loses
// nothing; that the framework's store does is what the columns are seen to count.
func TestRun(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	small := append([]workload{}, workloads...)
	for i := range small {
		small[i].sessions = min(small[i].sessions, 64)
	}
	line := regexp.MustCompile(`(?m)^.* (adapter|framework) +\d+ +\S+ +\S+ +(\d+) +(\d+) `)
	refused := false
	for takes := 200 * time.Millisecond; !refused; takes *= 2 { // on a busy machine writers may not meet at first
		var out strings.Builder
		if err := run(t.Context(), databaseURL, small, 1, takes, &out); err != nil {
			t.Fatal(err)
		}
		rows := map[string]int{}
		for _, row := range line.FindAllStringSubmatch(out.String(), -1) {
			rows[row[1]]++
			if row[1] == "adapter" && (row[2] != "0" || row[3] != "0") {
				t.Errorf("the adapter refused or lost something: %s", row[0])
			}
			refused = refused || row[1] == "framework" && row[2] != "0"
		}
		if rows["adapter"] != len(small) || rows["framework"] != len(small) {
			t.Fatalf("%v rows:\n%s", rows, &out)
		}
	}
	var left int
	if err := pgtest.Connect(t, databaseURL).QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'bench%'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}
