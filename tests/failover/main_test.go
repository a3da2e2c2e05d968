// Package failover tests that a store finds the new primary by itself when a
// streaming replica takes over, and that no acknowledged message is lost.
package failover

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
