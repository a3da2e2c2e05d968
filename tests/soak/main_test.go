// Package soak puts a mixed load on one store for a given time, and checks that
// memory, goroutines and connections do not grow. `make soak` takes ten minutes;
// `make test` only checks within some seconds that it runs.
package soak

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
