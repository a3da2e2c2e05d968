package cli

import (
	"context"
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v3"
)

// helpCommand is in the list of commands; what it does, helpFlagLast has done
// before the arguments are read.
func helpCommand() *urfave.Command {
	command := leaf{
		name: "help", summary: "print this text; agentstore help <command> for one command",
		arguments: []string{"[COMMAND]"},
		run:       func(context.Context, invocation) error { return nil },
	}
	return command.command(invocation{})
}

// helpFlagLast turns "help audit verify" into "audit verify --help".
func helpFlagLast(args []string) []string {
	if len(args) == 0 || args[0] != "help" || args[len(args)-1] == completionFlag {
		return args
	}
	topic := args[1:]
	if len(topic) > 0 && topic[0] == "help" {
		topic = nil
	}
	return append(append([]string{}, topic...), "--help")
}

// helpText is all about a command.
func helpText(command *urfave.Command) string {
	var text strings.Builder
	usage := command.FullName()
	if len(command.Commands) > 0 {
		usage += " <command>"
	}
	if command.ArgsUsage != "" {
		usage += " " + command.ArgsUsage
	}
	fmt.Fprintf(&text, "%s: %s.\n\nUsage:\n  %s [flags]\n", command.FullName(), command.Usage, usage)
	if len(command.Commands) > 0 {
		text.WriteString("\nCommands:\n")
		for _, below := range command.Commands {
			fmt.Fprintf(&text, "  %-10s  %s\n", below.Name, below.Usage)
		}
	}
	text.WriteString("\nFlags:\n")
	for _, flag := range command.Flags {
		text.WriteString(flagText(flag))
	}
	if command.Root() != command {
		fmt.Fprintf(&text, "  %-24s  %s\n", "-h, --help", "print this text")
	}
	if command.Description != "" {
		text.WriteString("\n" + strings.Trim(command.Description, "\n") + "\n")
	}
	return text.String()
}

// flagText is a flag's line. The word in backquotes of its usage is the name of
// its value.
func flagText(flag urfave.Flag) string {
	described, ok := flag.(urfave.DocGenerationFlag)
	if !ok {
		return ""
	}
	usage, value := described.GetUsage(), ""
	if before, rest, found := strings.Cut(usage, "`"); found {
		if name, after, found := strings.Cut(rest, "`"); found {
			usage, value = before+name+after, " "+name
		}
	}
	name := "--" + flag.Names()[0] + value
	if len(flag.Names()) > 1 {
		name = "-" + flag.Names()[1] + ", " + name
	}
	if standard := described.GetValue(); described.TakesValue() && !isZero(standard) {
		usage += fmt.Sprintf(" (default %s)", standard)
	}
	return fmt.Sprintf("  %-24s  %s\n", name, usage)
}

func isZero(value string) bool {
	return value == "" || value == "0" || value == "0s" || value == "false" || value == "-1"
}
