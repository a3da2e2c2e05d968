package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"
)

func stringFlag(to *string, name, usage string) urfave.Flag {
	return &urfave.StringFlag{Name: name, Usage: usage, Destination: to}
}

func boolFlag(to *bool, name, usage string) urfave.Flag {
	return &urfave.BoolFlag{Name: name, Usage: usage, Destination: to}
}

func intFlag(to *int, name, usage string, standard int) urfave.Flag {
	return &urfave.IntFlag{Name: name, Usage: usage, Value: standard, Destination: to}
}

func int64Flag(to *int64, name, usage string, standard int64) urfave.Flag {
	return &urfave.Int64Flag{Name: name, Usage: usage, Value: standard, Destination: to}
}

func durationFlag(to *time.Duration, name, usage string, standard time.Duration) urfave.Flag {
	return &urfave.DurationFlag{Name: name, Usage: usage, Value: standard, Destination: to}
}

func databaseFlag(to *string) urfave.Flag {
	return stringFlag(to, "database-url", "the database `URL`, else DATABASE_URL of the environment")
}

// choiceFlag takes one of some values.
type choiceFlag struct {
	*urfave.StringFlag
	values []string
}

func oneOf[T ~string](to *string, name, usage string, values ...T) urfave.Flag {
	choice := &choiceFlag{StringFlag: &urfave.StringFlag{Name: name, Destination: to}}
	for _, value := range values {
		choice.values = append(choice.values, string(value))
	}
	choice.Usage = usage + ": " + strings.Join(choice.values, ", ")
	choice.Validator = func(given string) error {
		if given == "" || slices.Contains(choice.values, given) {
			return nil
		}
		return fmt.Errorf("it must be one of %s%s", strings.Join(choice.values, ", "), didYouMean("", given, choice.values))
	}
	return choice
}

// timeOf reads the value of a flag. Empty is the zero time.
func timeOf(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usageError{text: "--" + flag + " is not a time such as 2026-01-31 or 2026-01-31T12:00:00Z"}
}
