// Package cli is the agentstore command without its process: [Execute] takes
// arguments, streams and environment, and returns the exit code, so that tests
// drive it with buffers. Each command is built where it is run; commands, below,
// is the list of them.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
)

// commands in the order in which help lists them.
func commands(world invocation) []*urfave.Command {
	return []*urfave.Command{
		sessionCommand(world),
		planCommand(world),
		actionCommand(world),
		auditCommand(world),
		migrateCommand(world),
		demoCommand(world),
		benchCommand(world),
		versionCommand(world),
		helpCommand(),
	}
}

// invocation is what a command gets beside its flags: the world.
type invocation struct {
	// args are what stands behind the command's name and is no flag.
	args  []string
	stdin io.Reader
	// stdout and stderr show control characters instead of passing them on to a
	// terminal. screen is stdout without that, for what escapes values itself.
	stdout, stderr, screen io.Writer
	env                    func(string) string
	terminal               bool // stdout is one
	colour                 bool
	open                   func(ctx context.Context, databaseURL string) (*agentstore.Store, error)
}

// Execute runs the command that args name (without the program's own name) and
// returns its exit code. It ends early, and cleans up, when ctx does or when
// nobody reads stdout any more.
func Execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	return execute(ctx, invocation{
		stdin: stdin, stdout: stdout, stderr: stderr, env: env,
		terminal: isTerminal(stdout),
		open: func(ctx context.Context, databaseURL string) (*agentstore.Store, error) {
			return agentstore.Open(ctx, databaseURL)
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
	err := root(invocation).Run(running, append([]string{"agentstore"}, helpFlagLast(args)...))
	if asked, ok := errors.AsType[helpError](err); ok {
		fmt.Fprint(invocation.stdout, asked.text)
		err = nil
	}
	switch failure := out.failure(); {
	case errors.Is(failure, syscall.EPIPE), errors.Is(failure, io.ErrClosedPipe):
		return exitPipe // whoever reads has seen enough: nothing went wrong
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

// root is the whole tree of commands, for one run of it: flags keep their values.
func root(world invocation) *urfave.Command {
	command := group("agentstore", "migrates, reads and maintains an agentstore database", "", commands(world)...)
	command.Description = exitCodesText
	command.EnableShellCompletion = true
	command.ConfigureShellCompletionCommand = configureCompletion(world)
	command.Reader, command.Writer, command.ErrWriter = world.stdin, world.stdout, world.stderr
	command.ExitErrHandler = func(context.Context, *urfave.Command, error) {}
	// The library's own help would be found as a command below every command: an
	// argument that is "help" is somebody's action or key.
	command.HideHelp = true
	command.Flags = []urfave.Flag{&urfave.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "print this text"}}
	return command
}
