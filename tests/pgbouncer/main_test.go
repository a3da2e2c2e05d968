// Package pgbouncer tests the store behind PgBouncer in transaction mode, where each
// transaction may use another connection of the server.
package pgbouncer

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
