package cli

import (
	"context"
	"fmt"

	"github.com/seed-df90f812/agentstore/schema"
)

// runTo runs or plans migrations to what the flags select: steps, to, or without
// either target. If the run ends early with an error, the steps that it reports are
// committed.
func (f *migrateFlags) runTo(target schema.Target, steps func(int) schema.Target, to func(int64) schema.Target) migration {
	return func(ctx context.Context, invocation invocation, migrator *schema.Migrator) error {
		target := target
		switch {
		case f.steps > 0:
			target = steps(f.steps)
		case f.to != unset:
			target = to(f.to)
		}
		run := migrator.Run
		if f.dryRun {
			run = migrator.Plan
		}
		done, err := run(ctx, target)
		var version *int64 // unknown
		if err == nil {
			if now, err := migrator.Version(ctx); err == nil {
				version = &now
			}
		}
		if f.json {
			return printReport(invocation, object{
				{"dry_run", f.dryRun}, {"steps", objects(done, stepLine)}, {"version", given{version}}, {"error", given{message(err)}},
			}, err)
		}
		if f.dryRun {
			for _, step := range done {
				fmt.Fprintf(invocation.stdout, "%-4s  %s  would run\n", step.Direction, step.Name)
			}
		}
		if version != nil {
			state := "the"
			if len(done) == 0 {
				state = "nothing to do: the"
			} else if f.dryRun {
				state = "nothing was changed: the"
			}
			fmt.Fprintln(invocation.stdout, state, "database is at version", *version)
		}
		return err
	}
}

func stepLine(step schema.Step) object {
	return object{{"version", step.Version}, {"name", step.Name}, {"direction", step.Direction}, {"seconds", step.Duration.Seconds()}}
}
