// Package grants tests what the roles of "agentstore migrate grants" may do, and what
// they may not do.
package grants

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/command"
)

func TestMain(m *testing.M) { os.Exit(command.Main(m)) }
