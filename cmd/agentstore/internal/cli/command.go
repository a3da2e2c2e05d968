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
	// arguments are the names of its arguments. One in brackets is optional.
	arguments []string
	flags     []urfave.Flag
	// details and json are the usage texts of these flags. Empty: the command has
	// no such flag.
	details, json string
	// more is the help text below the flags: explanations, examples.
	more string
	// before, if set, checks arguments and flags first.
	before func(*invocation) error
	// onStore runs a command on the store that --database-url names, and run one
	// that needs no store or opens it by itself.
	onStore handler
	run     func(ctx context.Context, invocation invocation) error
}

func (l leaf) command(world invocation) *urfave.Command {
	flags := append([]urfave.Flag{}, l.flags...)
	if l.details != "" {
		flags = append(flags, boolFlag(&world.details, "details", l.details))
	}
	if l.json != "" {
		flags = append(flags, boolFlag(&world.json, "json", l.json))
	}
	if l.onStore != nil {
		flags = append(flags, databaseFlag(&world.databaseURL))
		l.run = func(ctx context.Context, invocation invocation) error { return withStore(ctx, invocation, l.onStore) }
	}
	return &urfave.Command{
		Name: l.name, Usage: l.summary, ArgsUsage: strings.Join(l.arguments, " "), Description: l.more,
		Flags: withSchema(flags), OnUsageError: wrongFlag, ShellComplete: complete,
		Action: func(ctx context.Context, command *urfave.Command) error {
			if command.Bool("help") {
				printHelp(command)
				return nil
			}
			world.args, world.schema = command.Args().Slice(), command.String(schemaFlagName)
			err := l.check(command, world.args)
			if err == nil && l.before != nil {
				err = l.before(&world)
			}
			if err != nil {
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

// leaves builds the commands of a group.
func leaves(world invocation, all ...leaf) (commands []*urfave.Command) {
	for _, l := range all {
		commands = append(commands, l.command(world))
	}
	return commands
}

// group is a command that has only subcommands.
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
				printHelp(command)
				return nil
			}
			return usagef(command, "which command?")
		},
	}
}

// path is a command's name without the program's: "audit verify".
func path(command *urfave.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(command.FullName(), "agentstore"), " ")
}

// usagef returns a usage error of a command that refers to its help.
func usagef(command *urfave.Command, format string, args ...any) error {
	text := strings.TrimSuffix(fmt.Sprintf(format, args...), ".")
	if !strings.HasSuffix(text, "?") {
		text += "."
	}
	see := "agentstore help"
	if name := path(command); name != "" {
		see = "agentstore " + name + " --help"
	}
	return usageError{text: text + " See " + see}
}
