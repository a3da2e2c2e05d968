package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/schema"
)

type statusReport struct {
	Versions []statusJSON `json:"versions"`
}

type statusJSON struct {
	Version int64  `json:"version"`
	Name    string `json:"name,omitempty"`
	State   string `json:"state"`
	// OldestLibrary is the oldest that works with this version applied.
	OldestLibrary int64      `json:"oldest_library"`
	AppliedAt     *time.Time `json:"applied_at,omitempty"`
}

func migrateStatus(ctx context.Context, invocation invocation, flags migrateFlags) error {
	migrator, err := open(ctx, invocation, flags, nil)
	if err != nil {
		return err
	}
	list, err := migrator.Status(ctx)
	if err != nil {
		return err
	}
	if flags.json {
		report := statusReport{Versions: []statusJSON{}}
		for _, status := range list {
			entry := statusJSON{Version: status.Version, Name: status.Name, State: string(status.State), OldestLibrary: status.OldestLibrary}
			if status.State != schema.StatePending {
				at := status.AppliedAt.UTC()
				entry.AppliedAt = &at
			}
			report.Versions = append(report.Versions, entry)
		}
		return printJSON(invocation.stdout, report)
	}
	for _, status := range list {
		line := fmt.Sprintf("%-8s  %s", status.State, status.Name)
		if status.State == schema.StateUnknown {
			line = fmt.Sprintf("%-8s  version %d, of a newer binary", status.State, status.Version)
		}
		if status.State != schema.StatePending {
			line += "  " + status.AppliedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintln(invocation.stdout, line)
	}
	return nil
}

type validateReport struct {
	Valid bool   `json:"valid"`
	Error string `json:"error,omitempty"`
}

func migrateValidate(ctx context.Context, invocation invocation, flags migrateFlags) error {
	migrator, err := open(ctx, invocation, flags, nil)
	if err != nil {
		return err
	}
	err = migrator.Validate(ctx)
	var version int64
	if err == nil {
		version, err = migrator.Version(ctx)
	}
	if flags.json {
		report := validateReport{Valid: err == nil}
		if err != nil {
			report.Error = message(err)
		}
		return printReport(invocation, report, err)
	}
	switch {
	case err != nil:
	case version > schema.Latest():
		fmt.Fprintf(invocation.stdout, "valid: the database is at version %d, and allows this binary, which knows %d\n", version, schema.Latest())
	default:
		fmt.Fprintf(invocation.stdout, "valid: the database is at version %d\n", version)
	}
	return err
}

type versionReport struct {
	Version int64 `json:"version"`
	Latest  int64 `json:"latest"`
}

func migrateVersion(ctx context.Context, invocation invocation, flags migrateFlags) error {
	migrator, err := open(ctx, invocation, flags, nil)
	if err != nil {
		return err
	}
	now, err := migrator.Version(ctx)
	if err != nil {
		return err
	}
	if flags.json {
		return printJSON(invocation.stdout, versionReport{Version: now, Latest: schema.Latest()})
	}
	fmt.Fprintln(invocation.stdout, now)
	return nil
}
