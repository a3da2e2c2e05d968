package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// startClients starts this binary as a process of clients, whose task is in the
// variable, and waits until it has opened its store and calls ready. The function it
// returns waits for its end, and returns their calls, which it prints.
func startClients[Call any](t *testing.T, variable, name string, task any) func() []Call {
	t.Helper()
	command := pgtest.Again(t.Context(), variable, task)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(stdout)
	if line, err := output.ReadString('\n'); line != readyLine {
		t.Fatalf("the process %s printed %q: %v, %v", name, line, err, command.Wait())
	}
	return func() []Call {
		var calls []Call
		decodeErr := json.NewDecoder(output).Decode(&calls)
		if err := errors.Join(command.Wait(), decodeErr); err != nil {
			t.Fatalf("the process %s: %v", name, err)
		}
		return calls
	}
}

const readyLine = "ready\n"

// ready tells startClients that the process has begun: from now on there are faults.
func ready() { fmt.Print(readyLine) }

// openPatiently opens a store while the network may be cut.
func openPatiently(ctx context.Context, databaseURL string, options agentstore.Options) (*agentstore.Store, error) {
	for {
		store, err := agentstore.Open(ctx, databaseURL, options)
		if err == nil || ctx.Err() != nil {
			return store, err
		}
		time.Sleep(50 * time.Millisecond) // pace: until the next attempt
	}
}
