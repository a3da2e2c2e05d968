// Package cli is the agentstore command without its process: [Execute] takes
// arguments, streams and environment, and returns the exit code, so that tests
// drive it with buffers. Each subcommand is a file of its own with one entry in
// the table below.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// commands in the order in which help lists them.
func commands() []command {
	return []command{
		{name: "migrate", summary: "apply, revert and inspect the database schema", run: migrate},
		{name: "audit", summary: "verify, prove, prune and look after the audit trail", run: runAudit},
		{name: "demo", summary: "show the main job on a database, in a few seconds", run: runDemo},
		{name: "bench", summary: "measure the library on a database beside doing it by hand", run: runBench},
		{name: "version", summary: "print the version of this binary and of its schema", run: version},
	}
}

// command is a subcommand. run returns nil, or an error from which [Execute]
// prints the message and takes the exit code.
type command struct {
	name    string
	summary string
	run     func(ctx context.Context, invocation invocation) error
}

// invocation is what a command gets: what stands behind its name, and the world.
type invocation struct {
	args   []string
	stdout io.Writer
	stderr io.Writer
	env    func(string) string
}

// Execute runs the command that args name (without the program's own name) and
// returns its exit code. It ends early, and cleans up, when ctx does.
func Execute(ctx context.Context, args []string, stdout, stderr io.Writer, env func(string) string) int {
	err := dispatch(ctx, invocation{args: args, stdout: stdout, stderr: stderr, env: env})
	if asked, ok := errors.AsType[helpError](err); ok {
		fmt.Fprint(stdout, asked.text)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "agentstore: %s\n", message(err))
	}
	return exitCode(ctx, err)
}

func dispatch(ctx context.Context, invocation invocation) error {
	if len(invocation.args) == 0 {
		return usageError{text: "which command? See agentstore help"}
	}
	name, rest := invocation.args[0], invocation.args[1:]
	if name == "help" || name == "-h" || name == "-help" || name == "--help" {
		return help(ctx, invocation, rest)
	}
	for _, command := range commands() {
		if command.name == name {
			invocation.args = rest
			return command.run(ctx, invocation)
		}
	}
	return usageError{text: fmt.Sprintf("unknown command %q. See agentstore help", name)}
}

// help prints the overview, or that of one command.
func help(ctx context.Context, invocation invocation, topic []string) error {
	if len(topic) > 0 && topic[0] != "help" {
		invocation.args = append(topic, "--help")
		return dispatch(ctx, invocation)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "agentstore looks after an agentstore database.\n\nUsage:\n  agentstore <command> [flags]\n\nCommands:\n")
	for _, command := range commands() {
		fmt.Fprintf(&text, "  %-10s %s\n", command.name, command.summary)
	}
	fmt.Fprintf(&text, "  %-10s %s\n\n%s", "help", "this text; agentstore help <command> for one command", exitCodesText)
	return helpError{text: text.String()}
}
