// Package cli is the agentstore command without its process: [Execute] takes
// arguments, streams and environment, and returns the exit code, so that tests can
// use buffers. commands, below, lists the commands; each is built in the file of
// its implementation.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// commands returns the commands in the order in which help lists them.
func commands(world invocation) []*urfave.Command {
	return []*urfave.Command{
		sessionCommand(world),
		planCommand(world),
		actionCommand(world),
		stateCommand(world),
		leaseCommand(world),
		approvalCommand(world),
		usageCommand(world),
		retentionCommand(world),
		eraseCommand(world),
		streamCommand(world),
		auditCommand(world),
		inspectCommand(world),
		migrateCommand(world),
		demoCommand(world),
		benchCommand(world),
		versionCommand(world),
		// helpFlagLast handles help before the arguments are parsed.
		leaf{name: "help", summary: "print this text, or with the name of a command its help", arguments: []string{"[COMMAND]"}}.command(world),
	}
}

// invocation is what a command gets: its environment, its arguments, and the flags
// that many commands have.
type invocation struct {
	// args are the arguments after the command's name that are not flags.
	args          []string
	id            repo.ID // the first of them, if that is an id: see needsID
	databaseURL   string
	schema        string // of --schema: see inSchema
	details, json bool

	stdin io.Reader
	// stderr escapes control characters, and so does stdout if it is a terminal.
	// screen is stdout without that, for output that escapes values itself.
	stdout, stderr, screen io.Writer
	env                    func(string) string
	terminal               bool // stdout is a terminal
	colour                 bool
	open                   func(ctx context.Context, databaseURL, schema string) (*agentstore.Store, error)
}

// Execute runs the command that args name (without the program's name) and
// returns its exit code. It ends early, and cleans up, if ctx ends or the reader of
// stdout is gone.
func Execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	return execute(ctx, invocation{
		stdin: stdin, stdout: stdout, stderr: stderr, env: env,
		terminal: isTerminal(stdout),
		open: func(ctx context.Context, databaseURL, schema string) (*agentstore.Store, error) {
			return agentstore.Open(ctx, databaseURL, agentstore.Options{Schema: schema})
		},
	}, args...)
}

func execute(ctx context.Context, invocation invocation, args ...string) int {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &output{w: invocation.stdout, failed: cancel}
	invocation.screen, invocation.stdout = out, out
	if invocation.terminal {
		invocation.stdout = &plainWriter{w: out}
		invocation.colour = invocation.env("NO_COLOR") == "" && invocation.env("TERM") != "dumb"
	}
	invocation.stderr = &plainWriter{w: invocation.stderr}
	err := checkSwitches(args)
	if err == nil {
		err = root(invocation).Run(running, append([]string{"agentstore"}, helpFlagLast(args)...))
	}
	switch failure := out.failure(); {
	case errors.Is(failure, syscall.EPIPE), errors.Is(failure, io.ErrClosedPipe):
		return exitPipe // the reader has seen enough: not an error
	case failure != nil:
		err = fmt.Errorf("write the output: %w", failure)
	}
	if err != nil {
		fmt.Fprintf(invocation.stderr, "agentstore: %s\n", message(err))
	}
	return exitCode(ctx, err)
}

func init() {
	// The library would print a help of its own for a flag of this name.
	urfave.HelpFlag = nil
}

// root builds the tree of commands for one run: flags keep their values.
func root(world invocation) *urfave.Command {
	command := group("agentstore", "migrates, reads and maintains an agentstore database", "", commands(world)...)
	command.Description = exitCodesText
	command.EnableShellCompletion = true
	command.ConfigureShellCompletionCommand = configureCompletion(world)
	command.Reader, command.Writer, command.ErrWriter = world.stdin, world.stdout, world.stderr
	command.ExitErrHandler = func(context.Context, *urfave.Command, error) {}
	// The library would add a help command below every command, but an argument
	// "help" may be the name of an action or a key.
	command.HideHelp = true
	command.Flags = []urfave.Flag{&urfave.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "print this text"}}
	return command
}
