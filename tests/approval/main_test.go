// Package approval tests package approval on PostgreSQL: with the suite that the store in memory passes, with processes
// that are killed, and with many requests.
package approval

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the process that is killed.
func TestMain(m *testing.M) {
	if os.Getenv(runEnv) != "" {
		os.Exit(runMain())
	}
	os.Exit(pgtest.Main(m))
}
