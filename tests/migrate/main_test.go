// Package migrate tests the schema package and the migrate command on PostgreSQL, in
// process and as many concurrent processes.
package migrate

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/command"
)

// The test binary is also the naive migrator.
func TestMain(m *testing.M) {
	if os.Getenv(naiveVariable) != "" {
		os.Exit(naiveMigrator())
	}
	os.Exit(command.Main(m))
}
