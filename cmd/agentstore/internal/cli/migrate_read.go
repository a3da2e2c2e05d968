package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/schema"
)

func (f *migrateFlags) status(ctx context.Context, invocation invocation, migrator *schema.Migrator) error {
	list, err := migrator.Status(ctx)
	if err != nil {
		return err
	}
	node, err := migrator.Node(ctx)
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(invocation.stdout, object{{"versions", objects(list, statusLine)}, {"node", given{node}}})
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
	if node != "" {
		fmt.Fprintln(invocation.stdout, "node     ", node)
	}
	return nil
}

// statusLine is the JSON of a version. It contains oldest_library.
func statusLine(status schema.Status) object {
	line := object{
		{"version", status.Version}, {"name", given{status.Name}}, {"state", status.State}, {"oldest_library", status.OldestLibrary},
	}
	if status.State != schema.StatePending {
		line = append(line, member{"applied_at", status.AppliedAt.UTC().Format(time.RFC3339Nano)})
	}
	return line
}

func (f *migrateFlags) validate(ctx context.Context, invocation invocation, migrator *schema.Migrator) error {
	err := migrator.Validate(ctx)
	var version int64
	if err == nil {
		version, err = migrator.Version(ctx)
	}
	if f.json {
		return printReport(invocation, object{{"valid", err == nil}, {"error", given{message(err)}}}, err)
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

func (f *migrateFlags) databaseVersion(ctx context.Context, invocation invocation, migrator *schema.Migrator) error {
	now, err := migrator.Version(ctx)
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(invocation.stdout, object{{"version", now}, {"latest", schema.Latest()}})
	}
	fmt.Fprintln(invocation.stdout, now)
	return nil
}

// list, printSQL and grants print what is in this binary. They use no database.
func (f *migrateFlags) list(_ context.Context, invocation invocation) error {
	if f.json {
		return printJSON(invocation.stdout, object{{"migrations", objects(schema.List(), func(m schema.Migration) object {
			return object{{"version", m.Version}, {"name", m.Name}}
		})}})
	}
	for _, migration := range schema.List() {
		fmt.Fprintln(invocation.stdout, migration.Name)
	}
	return nil
}

func (f *migrateFlags) printSQL(_ context.Context, invocation invocation) error {
	migrations, direction := schema.List(), schema.DirectionUp
	if f.version != 0 {
		migrations = []schema.Migration{{Version: f.version}}
	}
	if f.down {
		direction = schema.DirectionDown
		slices.Reverse(migrations)
	}
	for _, migration := range migrations {
		text, err := schema.SQL(migration.Version, direction)
		if err != nil {
			return usageError{text: err.Error()}
		}
		if _, err := fmt.Fprintf(invocation.stdout, "-- version %d %s\n%s\n", migration.Version, direction, text); err != nil {
			return err
		}
	}
	return nil
}

// grants prints the SQL that an administrator runs with psql, as the owner of the
// tables.
func (f *migrateFlags) grants(_ context.Context, invocation invocation) error {
	f.roles.Schema = invocation.inSchema()
	text, err := schema.Grants(f.roles)
	if err != nil {
		return usageError{text: err.Error()}
	}
	_, err = fmt.Fprint(invocation.stdout, text)
	return err
}
