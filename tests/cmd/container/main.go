// Command container starts a PostgreSQL in a container, for package pgtest, and removes it
// when its standard input ends, so also when the process that has started it is killed.
//
//	container [-durable] [-memory] [name=value …]
//
// It prints one line of JSON, with the server's URL, or with an error. The arguments are
// settings of the server. It is a program of its own because what it needs to talk to Docker
// would otherwise be compiled into the binary of each package that has tests.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// answer is what the command prints.
type answer struct {
	URL, Image, Error string
}

func main() {
	durable := flag.Bool("durable", false, "leave fsync on, for benchmarks")
	inMemory := flag.Bool("memory", false, "keep the data in memory")
	flag.Parse()
	// An interrupt of the tests at a terminal reaches this process, too, which ends after
	// them.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	started, err := start(context.Background(), *durable, *inMemory, flag.Args())
	told := answer{}
	if err != nil {
		told.Error = err.Error()
	} else {
		told.URL, told.Image = started.databaseURL, started.image
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil || told.Error != "" {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := started.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: remove the container:", err)
		os.Exit(1)
	}
}
