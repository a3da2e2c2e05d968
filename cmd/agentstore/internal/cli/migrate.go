package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/schema"
)

// migrateFlags are the flags of all verbs; each verb declares its own.
type migrateFlags struct {
	databaseURL                         string
	timeout, lockTimeout, progressEvery time.Duration
	to, version                         int64
	steps                               int
	down, dryRun, json, allowDataLoss   bool
	roles                               schema.Roles
}

const migrateHelp = `Any number of processes may migrate one database at once: one works, the others
wait for it. Each version runs in a transaction.

The database is given by --database-url or by DATABASE_URL in the environment,
which keeps the password out of the process list.

` + exitCodesText

func migrateCommand(world invocation) *urfave.Command {
	return group("migrate", "apply, revert and inspect the database schema", migrateHelp, leaves(world, verbs()...)...)
}

// verbs are the subcommands of migrate.
func verbs() []leaf {
	var f migrateFlags
	asJSON := []urfave.Flag{boolFlag(&f.json, "json", "print one JSON object instead of text")}
	whole := append(slices.Clip(asJSON),
		databaseFlag(&f.databaseURL),
		durationFlag(&f.timeout, "timeout", "give up after this `time`, for example 90s (otherwise: never)", 0),
	)
	return slices.Concat(f.changing(whole), []leaf{
		{name: "rebalance", summary: "have Citus spread the schemas of the database over its nodes", flags: whole, run: f.within(f.rebalance)},
		{name: "status", summary: "list every version, when it was applied, and the node of Citus", flags: whole, run: f.within(f.status)},
		{name: "validate", summary: "check that this binary works on the database", flags: whole, run: f.within(f.validate)},
		{name: "version", summary: "print the database's version", flags: whole, run: f.within(f.databaseVersion)},
	}, f.offline(asJSON))
}

// changing returns the verbs that change the schema.
func (f *migrateFlags) changing(whole []urfave.Flag) []leaf {
	running := append(slices.Clip(whole),
		int64Flag(&f.to, "to", "stop at this `version`", unset),
		boolFlag(&f.dryRun, "dry-run", "only print what would be run"),
		durationFlag(&f.lockTimeout, "lock-timeout", "wait this `time` for another process that is migrating; 0: do not wait", schema.DefaultLockTimeout),
		durationFlag(&f.progressEvery, "progress-every", "report each `time` that a version is still running; 0: never", 10*time.Second),
	)
	return []leaf{
		{
			name: "up", summary: "apply the pending versions",
			run:   f.within(f.runTo(schema.TargetLatest(), schema.TargetUpSteps, schema.TargetUp)),
			flags: append(slices.Clip(running), countFlag(&f.steps, "steps", "apply at most this `number` of versions (otherwise: all)")),
			more: `Examples:
  agentstore migrate up --dry-run
  agentstore migrate up --timeout 5m
  agentstore migrate up --schema agents              # created if it does not exist`,
		},
		{
			name: "down", summary: "revert the newest version, or more with --steps or --to",
			run: f.within(f.runTo(schema.TargetDownSteps(1), schema.TargetDownSteps, schema.TargetDown)),
			flags: append(slices.Clip(running),
				countFlag(&f.steps, "steps", "revert this `number` of versions (otherwise: 1)"),
				boolFlag(&f.allowDataLoss, "allow-data-loss", "revert even if that destroys rows"),
			),
			more: `Examples:
  agentstore migrate down                           # the newest version
  agentstore migrate down --to 2 --allow-data-loss`,
		},
		{
			name: "distribute", summary: "give the schema to a node of Citus, and print which", run: f.within(f.distribute),
			flags: append(slices.Clip(whole), durationFlag(&f.lockTimeout, "lock-timeout", "wait this `time` for another process that is migrating; 0: do not wait", schema.DefaultLockTimeout)),
			more: `No process may have the store open. Run it again after each migrate up.

Examples:
  agentstore migrate distribute --schema shard_03`,
		},
	}
}

// offline returns the verbs that need no database.
func (f *migrateFlags) offline(asJSON []urfave.Flag) []leaf {
	return []leaf{
		{name: "list", summary: "list the versions in this binary; needs no database", flags: asJSON, run: f.list},
		{
			name: "sql", summary: "print the SQL of a version, to be read; needs no database", run: f.printSQL,
			flags: []urfave.Flag{
				int64Flag(&f.version, "version", "the `version` (otherwise: all)", 0),
				boolFlag(&f.down, "down", "print the SQL that reverts it"),
			},
			more: `It is for review, not for psql: agentstore migrate up runs each version in a
transaction, and records it. Without that the version counts as pending.

Examples:
  agentstore migrate sql --version 3 | less`,
		},
		{
			name: "grants", summary: "print the SQL that creates roles and grants their privileges; needs no database", run: f.grants,
			flags: []urfave.Flag{
				stringFlag(&f.roles.Application, "application-role", "`name` of the role that services use (otherwise: agentstore_application)"),
				stringFlag(&f.roles.Reader, "reader-role", "`name` of the role that only reads (otherwise: agentstore_reader)"),
				schemaFlag(),
				stringFlag(&f.roles.Audit, "audit-role", "`name` of the role that writes the audit trail (otherwise: agentstore_audit)"),
			},
			more: `Examples:
  agentstore migrate grants --application-role shop | psql "$DATABASE_URL"`,
		},
	}
}

// migration is a verb that uses the database's migrator.
type migration func(context.Context, invocation, *schema.Migrator) error

// within runs a verb that needs the database, with its --timeout. With --json it
// also prints the verb's failure.
func (f *migrateFlags) within(run migration) func(context.Context, invocation) error {
	return func(ctx context.Context, invocation invocation) error {
		if f.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not done within --timeout %s", f.timeout))
			defer cancel()
		}
		err := f.run(ctx, invocation, run)
		if cause := context.Cause(ctx); err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		if f.json {
			return reportFailure(invocation, err)
		}
		return err
	}
}

// run runs a verb with its migrator.
func (f *migrateFlags) run(ctx context.Context, invocation invocation, run migration) error {
	databaseURL := invocation.database(f.databaseURL)
	switch {
	case f.steps > 0 && f.to != unset:
		return usageError{text: "--steps and --to exclude each other"}
	case databaseURL == "":
		return usageError{text: "no database: set DATABASE_URL or --database-url"}
	}
	if f.lockTimeout <= 0 {
		f.lockTimeout = -1 // on the command line 0 means no wait; in Options, the default
	}
	progress := f.progress(invocation)
	defer func() { progress.stop() }()
	migrator, err := schema.Open(ctx, databaseURL, schema.Options{
		Schema: invocation.inSchema(), LockTimeout: f.lockTimeout, AllowDataLoss: f.allowDataLoss, Progress: progress.event,
	})
	if err != nil {
		return err
	}
	return run(ctx, invocation, migrator)
}
