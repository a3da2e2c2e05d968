package faults

import (
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

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
	case os.Getenv(planTaskVariable) != "":
		if err := runPlanClients(os.Getenv(planTaskVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // part of the proxy logs by itself
	// The proxy leaves goroutines behind where one direction of a connection ends
	// while data of it is under way.
	os.Exit(pgtest.Main(m, goleak.IgnoreAnyFunction(proxyFunction)))
}

// proxyFunction is on the stack of a goroutine of the proxy's.
const proxyFunction = "github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"

// full reports whether the full form was asked for.
func full() bool { return os.Getenv("AGENTSTORE_FAULTS") == "full" }

// choose is a size of the full or of the short form.
func choose(inFull, inShort int) int {
	if full() {
		return inFull
	}
	return inShort
}
