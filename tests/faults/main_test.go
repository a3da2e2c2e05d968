package faults

import (
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the binary of the writer and client processes.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(writerEnv) != "":
		os.Exit(writerMain())
	case os.Getenv(clientEnv) != "":
		os.Exit(clientMain())
	}
	for variable, main := range map[string]func(task string) error{
		planTaskVariable: runPlanClients, leaseTaskVariable: runContenders, holdTaskVariable: runHolder, workTaskVariable: runWorkers,
		streamTaskVariable: runStreamWriters, compactTaskVariable: runCompacter, slotsTaskVariable: runSlots,
	} {
		if task := os.Getenv(variable); task != "" {
			if err := main(task); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // the proxy's own log
	// The proxy leaves goroutines behind if one direction of a connection ends while
	// it still has data.
	os.Exit(pgtest.Main(m, goleak.IgnoreAnyFunction(proxyFunction), goleak.IgnoreAnyFunction(proxyReader)))
}

// proxyFunction is on the stack of each goroutine of the proxy that carries data, and
// proxyReader on that of each that reads.
const (
	proxyFunction = "github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"
	proxyReader   = "github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"
)
