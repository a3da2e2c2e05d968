package cli

import (
	"fmt"
	"regexp"
	"slices"

	urfave "github.com/urfave/cli/v3"
)

// helpFlagLast turns "help audit verify" into "audit verify --help", and "--version"
// into "version".
func helpFlagLast(args []string) []string {
	if len(args) == 1 && args[0] == "--version" {
		return []string{"version"}
	}
	if len(args) == 0 || args[0] != "help" || args[len(args)-1] == completionFlag {
		return args
	}
	topic := args[1:]
	if len(topic) > 0 && topic[0] == "help" {
		topic = nil
	}
	return append(slices.Clone(topic), "--help")
}

const helpTemplate = `{{.FullName}}: {{.Usage}}.

Usage:
  {{.FullName}}{{if .Commands}} <command>{{end}}{{with .ArgsUsage}} {{.}}{{end}} [flags]
{{with .Commands}}
Commands:
{{range .}}{{printf "  %-10s  %s\n" .Name .Usage}}{{end}}{{end}}
Flags:
{{range .Flags}}{{flag .}}{{end}}  -h, --help                print this text
{{with trim .Description}}
{{.}}
{{end}}`

// printHelp prints the help of a command.
func printHelp(command *urfave.Command) {
	urfave.HelpPrinterCustom(command.Root().Writer, helpTemplate, command, map[string]any{"flag": flagText})
}

// valueName matches the name of a flag's value, in backquotes in its usage.
var valueName = regexp.MustCompile("`(.*)`")

// flagText returns a flag's line. --help has a line of its own.
func flagText(flag urfave.Flag) string {
	name, usage := "--"+flag.Names()[0], documented(flag).GetUsage()
	if name == "--help" {
		return ""
	}
	if value := valueName.FindStringSubmatch(usage); value != nil {
		name += " " + value[1]
	}
	usage = valueName.ReplaceAllString(usage, "$1")
	if standard := documented(flag).GetValue(); !slices.Contains([]string{"", "0", "0s", "false", "-1"}, standard) {
		usage += fmt.Sprintf(" (default %s)", standard)
	}
	return fmt.Sprintf("  %-24s  %s\n", name, usage)
}
