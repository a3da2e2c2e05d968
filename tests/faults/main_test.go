package faults

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the writer and the client processes that the tests
// start.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(writerEnv) != "":
		os.Exit(writerMain())
	case os.Getenv(clientEnv) != "":
		os.Exit(clientMain())
	}
	os.Exit(pgtest.Main(m))
}

// full reports whether the full form was asked for.
func full() bool { return os.Getenv("AGENTSTORE_FAULTS") == "full" }

// choose is a size of the full or of the short form.
func choose(inFull, inShort int) int {
	if full() {
		return inFull
	}
	return inShort
}
