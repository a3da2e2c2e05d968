package bench

import (
	"context"
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/bench"
	"github.com/seed-df90f812/agentstore/internal/cli"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the process that the command starts several times.
func TestMain(m *testing.M) {
	if os.Getenv(bench.WorkerVariable) != "" {
		os.Exit(cli.Execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr, os.Getenv))
	}
	os.Exit(pgtest.Main(m))
}
