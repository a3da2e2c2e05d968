// Package files tests package files on PostgreSQL, with processes that are killed.
package files

import (
	"fmt"
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also that of the processes that save.
func TestMain(m *testing.M) {
	if text := os.Getenv(taskVariable); text != "" {
		if err := runTask(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}
