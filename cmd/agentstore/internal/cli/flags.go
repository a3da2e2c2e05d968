package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
)

// errEmpty ends a message about a flag or a list. A flag that is left out often means everything:
// an empty variable of a script must not mean that.
var errEmpty = errors.New(" is empty: leave it out, or see why it is")

func stringFlag(to *string, name, usage string) urfave.Flag {
	return &urfave.StringFlag{Name: name, Usage: usage, Destination: to, Validator: notEmpty(name), OnlyOnce: true}
}

func notEmpty(name string) func(string) error {
	return func(given string) error {
		if given == "" {
			return fmt.Errorf("--%s%w", name, errEmpty)
		}
		return nil
	}
}

// checkSwitches refuses --name=, which for the library is the same as --name, also of --yes.
func checkSwitches(args []string) error {
	for _, argument := range args {
		name, empty := strings.CutSuffix(argument, "=")
		switch {
		case argument == "--":
			return nil
		case empty && strings.HasPrefix(name, "--") && !strings.Contains(name, "="):
			return usageError{text: fmt.Sprintf("%s%s", name, errEmpty)}
		}
	}
	return nil
}

func boolFlag(to *bool, name, usage string) urfave.Flag {
	return &urfave.BoolFlag{Name: name, Usage: usage, Destination: to}
}

func intFlag(to *int, name, usage string, standard int) urfave.Flag {
	return &urfave.IntFlag{Name: name, Usage: usage, Value: standard, Destination: to, OnlyOnce: true}
}

// unset is the value of an int64Flag that was not given, if 0 has a meaning.
const unset = -1

// int64Flag takes a value that is not negative.
func int64Flag(to *int64, name, usage string, standard int64) urfave.Flag {
	return &urfave.Int64Flag{Name: name, Usage: usage, Value: standard, Destination: to, Validator: notNegative[int64], OnlyOnce: true}
}

func notNegative[T int64 | time.Duration](given T) error {
	if given < 0 {
		return errors.New("it is negative")
	}
	return nil
}

// durationFlag takes a value that is not negative.
func durationFlag(to *time.Duration, name, usage string, standard time.Duration) urfave.Flag {
	return &urfave.DurationFlag{Name: name, Usage: usage, Value: standard, Destination: to, Validator: notNegative[time.Duration], OnlyOnce: true}
}

const databaseFlagName = "database-url"

func databaseFlag(to *string) urfave.Flag {
	return stringFlag(to, databaseFlagName, "the database `URL` (otherwise: DATABASE_URL in the environment)")
}

const schemaFlagName = "schema"

func schemaFlag() urfave.Flag {
	return &urfave.StringFlag{Name: schemaFlagName, OnlyOnce: true, Validator: notEmpty(schemaFlagName), Usage: "the `name` of the schema of the tables (otherwise: AGENTSTORE_SCHEMA in the environment, or else the search_path)"}
}

// withSchema adds --schema to the flags of a command that takes a database.
func withSchema(flags []urfave.Flag) []urfave.Flag {
	for _, flag := range flags {
		if flag.Names()[0] == databaseFlagName {
			return append(slices.Clone(flags), schemaFlag())
		}
	}
	return flags
}

// choiceFlag takes one of several values.
type choiceFlag struct {
	*urfave.StringFlag
	values []string
}

func oneOf[T ~string](to *string, name, usage string, values ...T) urfave.Flag {
	choice := &choiceFlag{StringFlag: &urfave.StringFlag{Name: name, Destination: to, OnlyOnce: true}}
	for _, value := range values {
		choice.values = append(choice.values, string(value))
	}
	choice.Usage = usage + ": " + strings.Join(choice.values, ", ")
	choice.Validator = func(given string) error {
		if slices.Contains(choice.values, given) {
			return nil
		}
		if err := notEmpty(name)(given); err != nil {
			return err
		}
		return fmt.Errorf("it must be one of %s%s", strings.Join(choice.values, ", "), didYouMean("", given, choice.values))
	}
	return choice
}

// parsed is the value of a flag that is parsed from text, which is not empty. An error
// of read follows the flag's name in the message.
type parsed[T any] struct {
	to   *T
	name string
	read func(string) (T, error)
}

func (p parsed[T]) String() string { return "" } // no defaults
func (p parsed[T]) Get() any       { return *p.to }

func (p parsed[T]) Set(text string) (err error) {
	if err := notEmpty(p.name)(text); err != nil {
		return err
	}
	if *p.to, err = p.read(text); err != nil {
		err = fmt.Errorf("--%s%w", p.name, err)
	}
	return err
}

func parsedFlag[T any](to *T, name, usage string, read func(string) (T, error)) urfave.Flag {
	return &urfave.GenericFlag{Name: name, Usage: usage, Value: parsed[T]{to, name, read}, OnlyOnce: true}
}

// viewFlag is for what each namespace has of its own.
func viewFlag(to *string) urfave.Flag {
	return stringFlag(to, "namespace", "what the view of this `namespace` has (otherwise: "+repo.DefaultNamespace+")")
}

// viewed returns what a viewFlag chooses.
func viewed(store *agentstore.Store, namespace string) repo.Store {
	if namespace == "" {
		return store
	}
	return store.In(namespace)
}

// each is the value of a flag that is given once for each text, which may have commas.
type each struct {
	to   *[]string
	name string
}

func (e each) String() string { return "" }
func (e each) Get() any       { return *e.to }

func (e each) Set(text string) error {
	if err := notEmpty(e.name)(text); err != nil {
		return err
	}
	*e.to = append(*e.to, text)
	return nil
}

func eachFlag(to *[]string, name, usage string) urfave.Flag {
	return &urfave.GenericFlag{Name: name, Usage: usage + "; one of several", Value: each{to, name}}
}

// countFlag takes a number above 0, which means all if it is left out.
func countFlag(to *int, name, usage string) urfave.Flag {
	return &urfave.IntFlag{Name: name, Usage: usage, Destination: to, OnlyOnce: true, Validator: func(n int) error {
		if n < 1 {
			return errors.New("it must be at least 1")
		}
		return nil
	}}
}

func idFlag(to *repo.ID, name, usage string) urfave.Flag { return parsedFlag(to, name, usage, readID) }

func readID(text string) (repo.ID, error) {
	id, err := repo.ParseID(text)
	if err != nil {
		return repo.ID{}, errors.New(" is not an id such as 019c21f3-dc74-7000-8000-000000000001")
	}
	return id, nil
}

// readNewFile refuses what elsewhere means stdout.
func readNewFile(text string) (string, error) {
	if text == "-" {
		return "", errors.New(" is not the name of a file: leave it out to print on stdout")
	}
	return text, nil
}

// needsID parses the id that is a command's argument.
func needsID(invocation *invocation) (err error) {
	if invocation.args[0] == "" {
		return usageError{text: "ID is empty"}
	}
	if invocation.id, err = readID(invocation.args[0]); err != nil {
		return usageError{text: "ID" + err.Error()}
	}
	return nil
}

func timeFlag(to *time.Time, name, usage string) urfave.Flag {
	return parsedFlag(to, name, usage, readTime)
}

func readTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errors.New(" is not a time such as 2026-01-31 or 2026-01-31T12:00:00Z")
}

// readType accepts any type: applications have types that this binary does not
// know.
func readType(text string) (string, error) {
	if err := audit.RegisterEventType(text); err != nil {
		return "", fmt.Errorf(": %w", err)
	}
	return text, nil
}

func readTypes(text string) (types []string, err error) {
	for name := range strings.SplitSeq(text, ",") {
		kind, err := readType(name)
		if err != nil {
			return nil, err
		}
		types = append(types, kind)
	}
	return types, nil
}
