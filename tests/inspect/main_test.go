// Package inspect tests the inspector with a real browser, a real server and the command.
package inspect

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/command"
)

func TestMain(m *testing.M) { os.Exit(command.Main(m)) }
