package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/schema"
)

func grantsFlags(values *migrateFlags) []urfave.Flag {
	return []urfave.Flag{
		stringFlag(&values.roles.Application, "application-role", "`name` of the role that services use (otherwise: agentstore_application)"),
		stringFlag(&values.roles.Reader, "reader-role", "`name` of the role that only reads (otherwise: agentstore_reader)"),
		stringFlag(&values.roles.Audit, "audit-role", "`name` of the role that writes the audit trail (otherwise: agentstore_audit)"),
	}
}

// migrateGrants prints what a person who administers the database runs: with
// psql, as the owner of the tables.
func migrateGrants(_ context.Context, invocation invocation, flags migrateFlags) error {
	text, err := schema.Grants(flags.roles)
	if err != nil {
		return usageError{text: err.Error()}
	}
	_, err = fmt.Fprint(invocation.stdout, text)
	return err
}
