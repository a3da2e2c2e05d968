package bench

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/command"
)

func TestMain(m *testing.M) { os.Exit(command.Main(m)) }
