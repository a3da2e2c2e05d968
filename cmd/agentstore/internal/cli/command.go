package cli

import (
	"context"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v3"
)

// leaf is a command that does something. Each has its own flags and no others.
type leaf struct {
	name, summary string
	// arguments are the names of what it needs behind its name. One in brackets
	// may be left out.
	arguments []string
	flags     []urfave.Flag
	// more is what its help says below the flags: explanations, examples.
	more string
	run  func(ctx context.Context, invocation invocation) error
}

func (l leaf) command(world invocation) *urfave.Command {
	return &urfave.Command{
		Name: l.name, Usage: l.summary, ArgsUsage: strings.Join(l.arguments, " "), Description: l.more,
		Flags: l.flags, OnUsageError: wrongFlag, ShellComplete: complete,
		Action: func(ctx context.Context, command *urfave.Command) error {
			if command.Bool("help") {
				return helpError{text: helpText(command)}
			}
			world.args = command.Args().Slice()
			if err := l.check(command, world.args); err != nil {
				return err
			}
			return l.run(ctx, world)
		},
	}
}

func (l leaf) check(command *urfave.Command, args []string) error {
	if len(args) > len(l.arguments) {
		return usagef(command, "unexpected argument %q", args[len(l.arguments)])
	}
	if len(args) < len(l.arguments) && !strings.HasPrefix(l.arguments[len(args)], "[") {
		return usagef(command, "%s needs an argument: %s", path(command), l.arguments[len(args)])
	}
	return nil
}

// group is a command that only has others below it.
func group(name, summary, more string, commands ...*urfave.Command) *urfave.Command {
	return &urfave.Command{
		Name: name, Usage: summary, Description: more, Commands: commands,
		OnUsageError: wrongFlag, ShellComplete: complete,
		Action: func(_ context.Context, command *urfave.Command) error {
			unknown := command.Args().First()
			switch {
			case command.Args().Present():
				names := make([]string, 0, len(command.Commands))
				for _, below := range command.Commands {
					names = append(names, below.Name)
				}
				return usagef(command, "unknown command %q%s", unknown, didYouMean("", unknown, names))
			case command.Bool("help"):
				return helpError{text: helpText(command)}
			}
			return usagef(command, "which command?")
		},
	}
}

// path is a command's name behind the program's: "audit verify".
func path(command *urfave.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(command.FullName(), "agentstore"), " ")
}

// usagef is a mistake in the arguments of a command, with where to read on.
func usagef(command *urfave.Command, format string, args ...any) error {
	text := strings.TrimSuffix(fmt.Sprintf(format, args...), ".")
	end := ". "
	if strings.HasSuffix(text, "?") {
		end = " "
	}
	see := "agentstore help"
	if name := path(command); name != "" {
		see = "agentstore " + name + " --help"
	}
	return usageError{text: text + end + "See " + see}
}
