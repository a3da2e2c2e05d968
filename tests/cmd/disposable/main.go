// Command disposable runs a command with a PostgreSQL server that it stops afterwards.
// DATABASE_URL names an empty database on it, and AGENTSTORE_TEST_DATABASE_URL the
// server, for package pgtest. If these are set already, it only runs the command.
//
//	disposable [-server container,local] [-durable] [-optional] command [argument …]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func main() { os.Exit(run()) }

func run() int {
	server := flag.String("server", "", "container or local, or both with a comma; else the first that can be had")
	durable := flag.Bool("durable", false, "leave fsync on, for benchmarks")
	optional := flag.Bool("optional", false, "where no server can be had, run the command without one")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "disposable: which command?")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	environment := os.Environ()
	if os.Getenv("DATABASE_URL") != "" {
		fmt.Fprintln(os.Stderr, "disposable: using the server of DATABASE_URL")
		return child(ctx, environment)
	}
	started, err := pgtest.Start(ctx, pgtest.Options{Kind: *server, Durable: *durable, Logf: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "disposable:", err)
		if *optional {
			return child(ctx, environment)
		}
		return 1
	}
	defer started.Stop()
	databaseURL, drop, err := emptyDatabase(ctx, started)
	if err != nil {
		fmt.Fprintln(os.Stderr, "disposable:", err)
		return 1
	}
	defer drop()
	return child(ctx, append(environment,
		"DATABASE_URL="+databaseURL,
		"AGENTSTORE_TEST_DATABASE_URL="+started.URL,
		"AGENTSTORE_TEST_SERVER=url"))
}

func emptyDatabase(ctx context.Context, server *pgtest.Server) (databaseURL string, drop func(), err error) {
	const name = "agentstore_disposable"
	administer := func(ctx context.Context, sql string) error {
		conn, err := pgx.Connect(ctx, server.URL)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, sql)
		return err
	}
	if err := administer(ctx, "DROP DATABASE IF EXISTS "+name); err != nil {
		return "", nil, err
	}
	if err := administer(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", nil, err
	}
	drop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := administer(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			fmt.Fprintln(os.Stderr, "disposable: drop the database:", err)
		}
	}
	return pgtest.WithDatabase(server.URL, name), drop, nil
}

// child runs the command and returns its exit code. It passes on signals.
func child(ctx context.Context, environment []string) int {
	command := exec.CommandContext(ctx, flag.Arg(0), flag.Args()[1:]...)
	command.Env = environment
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "disposable:", err)
		return 1
	}
}
