package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo/postgres"
)

var errFindings = errors.New("the audit trail needs attention")

func auditDoctor(ctx context.Context, invocation invocation, flags auditFlags, _ []string, store *agentstore.Store) error {
	findings, err := store.AuditDoctor(ctx)
	if err != nil {
		return err
	}
	if len(findings) > 0 {
		err = errFindings
	}
	if flags.json {
		return printReport(invocation, struct {
			Findings []postgres.AuditFinding `json:"findings"`
		}{append([]postgres.AuditFinding{}, findings...)}, err)
	}
	for _, finding := range findings {
		fmt.Fprintf(invocation.stdout, "%s: %s\n  %s\n", finding.Check, finding.Problem, finding.Action)
	}
	if err == nil {
		fmt.Fprintln(invocation.stdout, "partitions, triggers, grants and sealing are as they should be")
	}
	return err
}
