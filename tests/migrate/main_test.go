// Package migrate tests the schema package and the migrate command against
// PostgreSQL: in process, and as many real processes at once.
package migrate

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/command"
)

// The test binary is also the naive migrator that the tests start.
func TestMain(m *testing.M) {
	if os.Getenv(naiveVariable) != "" {
		os.Exit(naiveMigrator())
	}
	os.Exit(command.Main(m))
}
