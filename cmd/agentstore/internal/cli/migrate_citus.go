package cli

import (
	"context"
	"fmt"

	"github.com/seed-df90f812/agentstore/schema"
)

func (f *migrateFlags) distribute(ctx context.Context, invocation invocation, migrator *schema.Migrator) error {
	node, err := migrator.Distribute(ctx)
	if f.json {
		return printReport(invocation, object{{"node", given{node}}, {"error", given{message(err)}}}, err)
	}
	if err == nil {
		fmt.Fprintln(invocation.stdout, "the schema is on", node)
	}
	return err
}

func (f *migrateFlags) rebalance(ctx context.Context, invocation invocation, migrator *schema.Migrator) error {
	err := migrator.Rebalance(ctx)
	if f.json {
		return printReport(invocation, object{{"error", given{message(err)}}}, err)
	}
	if err == nil {
		fmt.Fprintln(invocation.stdout, "the schemas are spread over the nodes")
	}
	return err
}
