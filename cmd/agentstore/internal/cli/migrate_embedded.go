package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-df90f812/agentstore/schema"
)

type listReport struct {
	Migrations []listJSON `json:"migrations"`
}

type listJSON struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
}

// migrateList and migrateSQL read what is embedded, without a database.
func migrateList(_ context.Context, invocation invocation, flags migrateFlags) error {
	if flags.json {
		report := listReport{Migrations: []listJSON{}}
		for _, migration := range schema.List() {
			report.Migrations = append(report.Migrations, listJSON{migration.Version, migration.Name})
		}
		return printJSON(invocation.stdout, report)
	}
	for _, migration := range schema.List() {
		fmt.Fprintln(invocation.stdout, migration.Name)
	}
	return nil
}

func migrateSQL(_ context.Context, invocation invocation, flags migrateFlags) error {
	direction := schema.DirectionUp
	if flags.down {
		direction = schema.DirectionDown
	}
	if flags.version != 0 {
		return printSQL(invocation, flags.version, direction)
	}
	migrations := schema.List()
	if flags.down {
		slices.Reverse(migrations)
	}
	for _, migration := range migrations {
		if err := printSQL(invocation, migration.Version, direction); err != nil {
			return err
		}
	}
	return nil
}

func printSQL(invocation invocation, version int64, direction schema.Direction) error {
	text, err := schema.SQL(version, direction)
	if err != nil {
		return usageError{text: err.Error()}
	}
	_, err = fmt.Fprintf(invocation.stdout, "-- version %d %s\n%s\n", version, direction, text)
	return err
}
