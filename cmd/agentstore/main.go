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
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	// Without this, the first write after the reader of a pipe, such as head, has exited
	// would kill the process in the middle of its work. Execute ends it in order.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(cli.Execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
