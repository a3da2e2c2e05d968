package bench

import (
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
