// Package soak puts a mixed load on one store for as long as it is told to, and
// looks whether memory, goroutines and connections stay flat. `make soak` takes ten
// minutes; within `make test` it is some seconds, which show that it runs.
package soak

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
