// Package usage tests package usage with a server.
package usage

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the process that stores turns.
func TestMain(m *testing.M) {
	if task := os.Getenv(writerVariable); task != "" {
		os.Exit(writerMain(task))
	}
	os.Exit(pgtest.Main(m))
}
