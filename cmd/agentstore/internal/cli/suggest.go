package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v3"
)

// wrongFlag is what the library calls for a flag that it cannot read.
func wrongFlag(_ context.Context, command *urfave.Command, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usagef(command, "%s", flagProblem(err.Error()))
	}
	hint := didYouMean("--", name, flagNames(command))
	if elsewhere := commandsWith(command.Root(), name); hint == "" && len(elsewhere) > 0 {
		hint = "; it is a flag of " + strings.Join(elsewhere, ", ")
	}
	return usagef(command, "unknown flag --%s%s", name, hint)
}

// flagProblem says what is wrong with a flag's value, which the library says in
// the words of the parser.
func flagProblem(text string) string {
	given, rest, found := strings.Cut(text, " for flag -")
	name, reason, _ := strings.Cut(rest, ": ")
	switch {
	case !found:
		return strings.Replace(text, "flag needs an argument: ", "a value is missing behind ", 1)
	case strings.HasPrefix(reason, "strconv.ParseInt"):
		reason = "it is not a whole number, or too large"
	case strings.HasPrefix(reason, "time:"):
		reason = "it is not a time such as 90s, 5m or 1h30m"
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

// commandsWith are the commands that have a flag.
func commandsWith(below *urfave.Command, flag string) (found []string) {
	for _, command := range below.Commands {
		if slices.Contains(flagNames(command), flag) {
			found = append(found, path(command))
		}
		found = append(found, commandsWith(command, flag)...)
	}
	return found
}

// didYouMean is a question that ends a sentence, or nothing when none of the
// names is near what was given.
func didYouMean(prefix, given string, names []string) string {
	best, nearest := len(given)/3+1, ""
	for _, name := range names {
		if far := distance(given, name); far <= best && far < max(len(name), 2) {
			best, nearest = far-1, name
		}
	}
	if nearest == "" {
		for _, name := range names {
			if len(given) > 1 && strings.HasPrefix(name, given) {
				nearest = name
				break
			}
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(". Did you mean %s%s?", prefix, nearest)
}

// distance is how many letters have to be put in, left out, changed or swapped
// with their neighbour to make b of a. What is too long to be a slip is far off.
func distance(a, b string) int {
	if len(a) > 40 || len(b) > 40 {
		return 100
	}
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := row[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			next[j] = min(change, row[j]+1, next[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
