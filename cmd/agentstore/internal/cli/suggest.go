package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v3"
)

// maxElsewhere is how many commands an error names that have the flag.
const maxElsewhere = 5

// wrongFlag handles the library's error for a flag that it cannot parse.
func wrongFlag(_ context.Context, command *urfave.Command, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		problem := flagProblem(err.Error())
		if strings.HasPrefix(problem, "--") { // a complete message of parsed
			return usageError{text: problem}
		}
		return usagef(command, "%s", problem)
	}
	hint := didYouMean("--", name, flagNames(command))
	var elsewhere []string
	_ = command.Root().Walk(func(other *urfave.Command) error {
		if slices.Contains(flagNames(other), name) {
			elsewhere = append(elsewhere, path(other))
		}
		return nil
	})
	switch {
	case hint != "":
	case len(elsewhere) > maxElsewhere:
		hint = "; it is a flag of other commands, and comes after their names"
	case len(elsewhere) > 0:
		hint = "; it is a flag of " + strings.Join(elsewhere, ", ")
	}
	dashes := "--"
	if len(name) == 1 {
		dashes = "-"
	}
	return usagef(command, "unknown flag %s%s%s", dashes, name, hint)
}

// flagProblem says what is wrong with a flag's value, which the library says in the
// words of its parser.
func flagProblem(text string) string {
	given, rest, found := strings.Cut(text, " for flag -")
	name, reason, _ := strings.Cut(rest, ": ")
	switch {
	case !found:
		return strings.Replace(text, "flag needs an argument: ", "a value is missing after ", 1)
	case strings.HasPrefix(reason, "--"):
		return reason
	case reason == "can't duplicate this flag": // the value may be secret
		return "--" + name + " is given twice"
	case strings.HasPrefix(reason, "strconv.ParseInt"):
		reason = "it is not a whole number, or too large"
	case strings.HasPrefix(reason, "time:"):
		reason = "it is not a duration such as 90s, 5m or 1h30m"
	case strings.HasPrefix(reason, "parse error"):
		reason = "it is neither true nor false"
	}
	return strings.TrimPrefix(given, "invalid value ") + " is not a value of --" + name + ": " + reason
}

func flagNames(command *urfave.Command) []string {
	names := []string{"help"}
	for _, flag := range command.Flags {
		names = append(names, flag.Names()[0])
	}
	return names
}

// didYouMean returns a question to append to a sentence, or nothing if no name is
// similar to the given one.
func didYouMean(prefix, given string, names []string) string {
	best, nearest := len(given)/5+1, ""
	for _, name := range names {
		if far := distance(given, name); far <= best && far < max(len(name), 2) {
			best, nearest = far-1, name
		}
	}
	begins := func(name string) bool { return len(given) > 1 && strings.HasPrefix(name, given) }
	if i := slices.IndexFunc(names, begins); nearest == "" && i >= 0 {
		nearest = names[i]
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(". Did you mean %s%s?", prefix, nearest)
}

// distance is the number of letters to insert, remove, replace or swap with their
// neighbour to turn a into b. Names too long to be a typing error have a large
// distance.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 100
	}
	far := make([][]int, len(a)+1) // distances between prefixes of a and of b
	for i := range far {
		far[i] = make([]int, len(b)+1)
		for j := range far[i] {
			if i == 0 || j == 0 {
				far[i][j] = i + j
				continue
			}
			far[i][j] = min(far[i-1][j], far[i][j-1], far[i-1][j-1]) + 1
			if a[i-1] == b[j-1] {
				far[i][j] = min(far[i][j], far[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				far[i][j] = min(far[i][j], far[i-2][j-2]+1)
			}
		}
	}
	return far[len(a)][len(b)]
}
