package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/schema"
)

// verb is one of migrate's actions.
type verb struct {
	name    string
	summary string
	// flags are what this verb takes.
	flags func(*migrateFlags) []urfave.Flag
	run   func(ctx context.Context, invocation invocation, flags migrateFlags) error
}

func verbs() []verb {
	return []verb{
		{"up", "apply the pending versions", upFlags, migrateUp},
		{"down", "revert the newest version, or more with --steps or --to", downFlags, migrateDown},
		{"status", "list every version, and when it was applied", readFlags, migrateStatus},
		{"validate", "check that this binary works on the database", readFlags, migrateValidate},
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

func migrateCommand(world invocation) *urfave.Command {
	var commands []*urfave.Command
	for _, verb := range verbs() {
		commands = append(commands, verb.command(world))
	}
	return group("migrate", "apply, revert and inspect the database schema", migrateHelp, commands...)
}

func (v verb) command(world invocation) *urfave.Command {
	values := migrateFlags{to: unset}
	return leaf{
		name: v.name, summary: v.summary, flags: v.flags(&values), more: migrateExamples[v.name],
		run: func(ctx context.Context, invocation invocation) error { return v.start(ctx, invocation, values) },
	}.command(world)
}

// start runs the verb within its --timeout.
func (v verb) start(ctx context.Context, invocation invocation, values migrateFlags) error {
	if values.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, values.timeout, fmt.Errorf("not done within --timeout %s", values.timeout))
		defer cancel()
	}
	err := v.run(ctx, invocation, values)
	if cause := context.Cause(ctx); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if values.json {
		return reportFailure(invocation, err)
	}
	return err
}

const migrateHelp = `Any number of processes may migrate one database at once: one works, the others
wait for it. Each version runs in a transaction.

The database is given by --database-url or by DATABASE_URL in the environment,
which keeps the password out of the process list.

` + exitCodesText

var migrateExamples = map[string]string{
	"up": `Examples:
  agentstore migrate up --dry-run
  agentstore migrate up --timeout 5m`,
	"down": `Examples:
  agentstore migrate down                           # the newest version
  agentstore migrate down --to 2 --allow-data-loss`,
	"sql": `Examples:
  agentstore migrate sql --version 3 | psql "$DATABASE_URL"`,
	"grants": `Examples:
  agentstore migrate grants --application-role shop | psql "$DATABASE_URL"`,
}

func jsonFlag(values *migrateFlags) []urfave.Flag {
	return []urfave.Flag{boolFlag(&values.json, "json", "print one JSON object instead of text")}
}

func readFlags(values *migrateFlags) []urfave.Flag {
	return append(jsonFlag(values),
		databaseFlag(&values.databaseURL),
		durationFlag(&values.timeout, "timeout", "give up after this `time`, for example 90s (otherwise: never)", 0),
	)
}

func runFlags(values *migrateFlags) []urfave.Flag {
	return append(readFlags(values),
		int64Flag(&values.to, "to", "stop at this `version`", unset),
		boolFlag(&values.dryRun, "dry-run", "only print what would be run"),
		durationFlag(&values.lockTimeout, "lock-timeout", "wait this `time` for another process that is migrating; 0 does not wait", schema.DefaultLockTimeout),
		durationFlag(&values.progressEvery, "progress-every", "report a version that is still running each time this `time` has passed; 0 never", 10*time.Second),
	)
}

func upFlags(values *migrateFlags) []urfave.Flag {
	return append(runFlags(values), intFlag(&values.steps, "steps", "apply at most this `number` of versions (otherwise: all)", 0))
}

func downFlags(values *migrateFlags) []urfave.Flag {
	return append(runFlags(values),
		intFlag(&values.steps, "steps", "revert this `number` of versions (otherwise: 1)", 0),
		boolFlag(&values.allowDataLoss, "allow-data-loss", "revert even if that destroys rows"),
	)
}

func sqlFlags(values *migrateFlags) []urfave.Flag {
	return []urfave.Flag{
		int64Flag(&values.version, "version", "the `version` (otherwise: all)", 0),
		boolFlag(&values.down, "down", "print how it is reverted instead of applied"),
	}
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
