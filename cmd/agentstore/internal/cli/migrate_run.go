package cli

import (
	"context"
	"fmt"

	"github.com/seed-df90f812/agentstore/schema"
)

func migrateUp(ctx context.Context, invocation invocation, flags migrateFlags) error {
	target := schema.TargetLatest()
	switch {
	case flags.steps < 0 || flags.to < unset:
		return usageError{text: "--steps and --to must not be negative"}
	case flags.steps > 0 && flags.to != unset:
		return usageError{text: "--steps and --to exclude each other"}
	case flags.steps > 0:
		target = schema.TargetUpSteps(flags.steps)
	case flags.to != unset:
		target = schema.TargetUp(flags.to)
	}
	return runTo(ctx, invocation, flags, target)
}

func migrateDown(ctx context.Context, invocation invocation, flags migrateFlags) error {
	target := schema.TargetDownSteps(1)
	switch {
	case flags.steps < 0 || flags.to < unset:
		return usageError{text: "--steps and --to must not be negative"}
	case flags.steps > 0 && flags.to != unset:
		return usageError{text: "--steps and --to exclude each other"}
	case flags.steps > 0:
		target = schema.TargetDownSteps(flags.steps)
	case flags.to != unset:
		target = schema.TargetDown(flags.to)
	}
	return runTo(ctx, invocation, flags, target)
}

// runReport is the JSON form of what up and down did. Error is set when the run
// stopped early; Steps are committed all the same.
type runReport struct {
	DryRun  bool       `json:"dry_run"`
	Steps   []stepJSON `json:"steps"`
	Version *int64     `json:"version,omitempty"`
	Error   string     `json:"error,omitempty"`
}

type stepJSON struct {
	Version   int64   `json:"version"`
	Name      string  `json:"name"`
	Direction string  `json:"direction"`
	Seconds   float64 `json:"seconds"`
}

func runTo(ctx context.Context, invocation invocation, flags migrateFlags, target schema.Target) error {
	progress := newProgress(invocation, flags)
	defer progress.stop()
	migrator, err := open(ctx, invocation, flags, progress.event)
	if err != nil {
		return err
	}
	var steps []schema.Step
	if flags.dryRun {
		steps, err = migrator.Plan(ctx, target)
	} else {
		steps, err = migrator.Run(ctx, target)
	}
	report := runReport{DryRun: flags.dryRun, Steps: stepsJSON(steps)}
	if err != nil {
		report.Error = message(err)
	} else if now, versionErr := migrator.Version(ctx); versionErr == nil {
		report.Version = &now
	}
	if flags.json {
		return printReport(invocation, report, err)
	}
	if flags.dryRun {
		for _, step := range steps {
			fmt.Fprintf(invocation.stdout, "%-4s  %s  would run\n", step.Direction, step.Name)
		}
	}
	if report.Version != nil {
		fmt.Fprintln(invocation.stdout, summary(len(steps), *report.Version, flags.dryRun))
	}
	return err
}

func summary(steps int, version int64, dryRun bool) string {
	if steps == 0 {
		return fmt.Sprintf("nothing to do: the database is at version %d", version)
	}
	if dryRun {
		return fmt.Sprintf("nothing was changed: the database is at version %d", version)
	}
	return fmt.Sprintf("the database is at version %d", version)
}

func stepsJSON(steps []schema.Step) []stepJSON {
	list := make([]stepJSON, 0, len(steps))
	for _, step := range steps {
		list = append(list, stepJSON{step.Version, step.Name, string(step.Direction), step.Duration.Seconds()})
	}
	return list
}
