package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the binary of the writer and client processes.
func TestMain(m *testing.M) {
	for variable, main := range map[string]func(task string) error{
		writerEnv: taskOf(runWriter), clientEnv: taskOf(runClients),
		planTaskVariable: taskOf(runPlanClients), leaseTaskVariable: taskOf(runContenders), holdTaskVariable: taskOf(runHolder),
		workTaskVariable: taskOf(runWorkers), streamTaskVariable: taskOf(runStreamWriters), compactTaskVariable: taskOf(runCompacter),
		slotsTaskVariable: taskOf(runSlots),
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

// taskOf is the main function of a process that has a task as JSON.
func taskOf[Task any](run func(context.Context, Task) error) func(text string) error {
	return func(text string) error {
		var task Task
		if err := json.Unmarshal([]byte(text), &task); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // if it is not killed
		defer cancel()
		return run(ctx, task)
	}
}

// proxyFunction is on the stack of each goroutine of the proxy that carries data, and
// proxyReader on that of each that reads.
const (
	proxyFunction = "github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"
	proxyReader   = "github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"
)
