package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/schema"
)

// verb is one of migrate's actions.
type verb struct {
	name    string
	summary string
	// flags adds what this verb takes beside the common flags.
	flags func(*flag.FlagSet, *migrateFlags)
	run   func(ctx context.Context, invocation invocation, flags migrateFlags) error
}

func verbs() []verb {
	return []verb{
		{"up", "apply the pending versions", upFlags, migrateUp},
		{"down", "revert the newest version, or more with --steps or --to", downFlags, migrateDown},
		{"status", "list every version, and when it was applied", readFlags, migrateStatus},
		{"validate", "check that the database is what this binary wants", readFlags, migrateValidate},
		{"version", "print the database's version", readFlags, migrateVersion},
		{"list", "list the versions in this binary; needs no database", jsonFlag, migrateList},
		{"sql", "print the SQL of a version; needs no database", sqlFlags, migrateSQL},
		{"grants", "print the SQL that grants roles what they need; needs no database", grantsFlags, migrateGrants},
	}
}

// migrateFlags are the flags of all verbs together; each verb declares its own.
type migrateFlags struct {
	databaseURL   string
	timeout       time.Duration
	lockTimeout   time.Duration
	progressEvery time.Duration
	to            int64
	steps         int
	version       int64
	down          bool
	dryRun        bool
	json          bool
	allowDataLoss bool
	roles         schema.Roles
}

// unset is the value of --to when it was not given: 0 has a meaning.
const unset = -1

func migrate(ctx context.Context, invocation invocation) error {
	if len(invocation.args) == 0 {
		return usageError{text: "migrate what? See agentstore migrate --help"}
	}
	name := invocation.args[0]
	if strings.HasPrefix(name, "-h") || name == "--help" || name == "help" {
		return helpError{text: migrateUsage()}
	}
	for _, verb := range verbs() {
		if verb.name != name {
			continue
		}
		values := migrateFlags{to: unset}
		flags := flag.NewFlagSet("migrate "+name, flag.ContinueOnError)
		verb.flags(flags, &values)
		usage := fmt.Sprintf("agentstore migrate %s: %s.\n", verb.name, verb.summary)
		if err := parse(flags, invocation.args[1:], usage); err != nil {
			return err
		}
		if values.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, values.timeout, fmt.Errorf("not done within --timeout %s", values.timeout)) //nolint:fatcontext // one verb is run
			defer cancel()
		}
		err := verb.run(ctx, invocation, values)
		if cause := context.Cause(ctx); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		if values.json {
			return reportFailure(invocation, err)
		}
		return err
	}
	return usageError{text: fmt.Sprintf("unknown migrate command %q. See agentstore migrate --help", name)}
}

func migrateUsage() string {
	var text strings.Builder
	text.WriteString("agentstore migrate applies, reverts and inspects the database schema.\n\nUsage:\n  agentstore migrate <command> [flags]\n\nCommands:\n")
	for _, verb := range verbs() {
		fmt.Fprintf(&text, "  %-10s %s\n", verb.name, verb.summary)
	}
	text.WriteString(`
Any number of processes may migrate one database at once: one works, the others
wait for it. Each version runs in a transaction. See agentstore migrate <command>
--help for the flags.

The database is given by --database-url or by DATABASE_URL in the environment,
which keeps the password out of the process list.

` + exitCodesText)
	return text.String()
}

func jsonFlag(flags *flag.FlagSet, values *migrateFlags) {
	flags.BoolVar(&values.json, "json", false, "print one JSON object instead of text")
}

func readFlags(flags *flag.FlagSet, values *migrateFlags) {
	jsonFlag(flags, values)
	flags.StringVar(&values.databaseURL, "database-url", "", "`url` of the database (otherwise: DATABASE_URL)")
	flags.DurationVar(&values.timeout, "timeout", 0, "give up after this `time`, for example 90s (otherwise: never)")
}

func runFlags(flags *flag.FlagSet, values *migrateFlags) {
	readFlags(flags, values)
	flags.Int64Var(&values.to, "to", unset, "stop at this `version`")
	flags.BoolVar(&values.dryRun, "dry-run", false, "only print what would be run")
	flags.DurationVar(&values.lockTimeout, "lock-timeout", schema.DefaultLockTimeout, "wait this `time` for another process that is migrating; 0 does not wait")
	flags.DurationVar(&values.progressEvery, "progress-every", 10*time.Second, "report a version that is still running each time this `time` has passed; 0 never")
}

func upFlags(flags *flag.FlagSet, values *migrateFlags) {
	runFlags(flags, values)
	flags.IntVar(&values.steps, "steps", 0, "apply at most this `number` of versions (otherwise: all)")
}

func downFlags(flags *flag.FlagSet, values *migrateFlags) {
	runFlags(flags, values)
	flags.IntVar(&values.steps, "steps", 0, "revert this `number` of versions (otherwise: 1)")
	flags.BoolVar(&values.allowDataLoss, "allow-data-loss", false, "revert even if that destroys rows")
}

func sqlFlags(flags *flag.FlagSet, values *migrateFlags) {
	flags.Int64Var(&values.version, "version", 0, "the `version` (otherwise: all)")
	flags.BoolVar(&values.down, "down", false, "print how it is reverted instead of applied")
}

// open makes the migrator for a verb that needs the database.
func open(ctx context.Context, invocation invocation, values migrateFlags, progress func(schema.Event)) (*schema.Migrator, error) {
	databaseURL := values.databaseURL
	if databaseURL == "" {
		databaseURL = invocation.env("DATABASE_URL")
	}
	if databaseURL == "" {
		return nil, usageError{text: "which database? Give --database-url or set DATABASE_URL"}
	}
	lockTimeout := values.lockTimeout
	if lockTimeout <= 0 {
		lockTimeout = -1 // for a person 0 means no wait; for Options, the default
	}
	return schema.Open(ctx, databaseURL, schema.Options{
		LockTimeout:   lockTimeout,
		AllowDataLoss: values.allowDataLoss,
		Progress:      progress,
	})
}
