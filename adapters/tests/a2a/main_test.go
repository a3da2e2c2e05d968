// Package a2atest tests the adapter for A2A's cluster mode, beside the framework's own
// stores, in one harness.
package a2atest

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the binary of the nodes.
func TestMain(m *testing.M) {
	if task := os.Getenv(nodeVariable); task != "" {
		os.Exit(serve(task))
	}
	os.Exit(pgtest.Main(m))
}
