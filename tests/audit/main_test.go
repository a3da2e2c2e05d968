// Package audit tests the storage of the audit trail: what the database enforces, how
// it behaves under concurrency, and what reading it costs.
package audit

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/command"
)

func TestMain(m *testing.M) { os.Exit(command.Main(m)) }
