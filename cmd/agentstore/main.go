// Command agentstore migrates, reads and maintains an agentstore database. See agentstore help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-df90f812/agentstore/cmd/agentstore/internal/cli"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	// Without this the first write after "| head" has gone would kill the process,
	// with what it has in the database left as it is. Execute ends it in order.
	signal.Ignore(syscall.SIGPIPE)
	return cli.Execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
}
