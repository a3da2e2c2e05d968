package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// parse reads flags and refuses anything behind them. The flag package prints
// by itself; here its errors are returned, and checked for credentials.
func parse(flags *flag.FlagSet, args []string, usage string) error {
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return helpError{text: usage + flagsText(flags)}
	}
	if err != nil {
		return usageError{text: fmt.Sprintf("%s. See agentstore %s --help", err, flags.Name())}
	}
	if flags.NArg() > 0 {
		return usageError{text: fmt.Sprintf("unexpected argument %q. See agentstore %s --help", flags.Arg(0), flags.Name())}
	}
	return nil
}

func flagsText(flags *flag.FlagSet) string {
	var text strings.Builder
	text.WriteString("\nFlags:\n")
	flags.VisitAll(func(f *flag.Flag) {
		kind, description := flag.UnquoteUsage(f)
		fmt.Fprintf(&text, "  %-24s %s", strings.TrimSpace("--"+f.Name+" "+kind), description)
		if !isZero(f.DefValue) {
			fmt.Fprintf(&text, " (default %s)", f.DefValue)
		}
		text.WriteString("\n")
	})
	return text.String()
}

func isZero(value string) bool {
	return value == "" || value == "0" || value == "0s" || value == "false" || value == "-1"
}
