package cli

import (
	"context"
	"io"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
)

// auditFilterFlags select entries that match all of them.
func auditFilterFlags(filter *repo.AuditFilter) []urfave.Flag {
	return []urfave.Flag{
		parsedFlag(&filter.Type, "type", "only entries of this `type`, such as "+string(audit.EventToolInvoked), readType),
		stringFlag(&filter.Actor, "actor", "only entries of this `actor`"),
		stringFlag(&filter.User, "user", "only entries of this `user`"),
		idFlag(&filter.PlanID, "plan", "only entries about the plan of this `id`"),
		idFlag(&filter.SessionID, "session", "only entries about the session of this `id`"),
		stringFlag(&filter.Project, "project", "only entries about this `project`"),
		timeFlag(&filter.OccurredFrom, "occurred-from", "only entries that occurred at this `time` (RFC 3339, or 2006-01-02) or later"),
		timeFlag(&filter.OccurredBefore, "occurred-before", "only entries that occurred before this `time`"),
	}
}

func auditListCommand(world invocation) *urfave.Command {
	var filter repo.AuditFilter
	return list[repo.AuditEntry]{
		leaf: leaf{
			name: "list", summary: "list entries of the audit trail, newest first",
			flags:   append(auditFilterFlags(&filter), boolFlag(&filter.OldestFirst, "oldest-first", "oldest first")),
			details: "their details, too",
			more: `Examples:
  agentstore audit list --type tool_invoked --limit 20 --details
  agentstore audit list --session 019c21f3-dc74-7000-8000-000000000001 --oldest-first --json`,
		},
		page: func(ctx context.Context, _ invocation, store *agentstore.Store, page repo.Page) ([]repo.AuditEntry, string, error) {
			found, err := store.Audit().List(ctx, filter, page)
			return found.Items, found.Next, err
		},
		weigh:   func(e repo.AuditEntry) int { return len(e.Details) },
		columns: headings("OCCURRED", "ID", "TYPE", "SESSION", "PLAN", "PROJECT", "USER", "ACTOR", "DETAILS"),
		cells: func(e repo.AuditEntry) []any {
			return []any{e.OccurredAt, e.ID, e.Type, e.SessionID, e.PlanID, e.Project, e.User, e.Actor, e.Details}
		},
		line: auditLine,
	}.command(world)
}

// auditLine is an entry as in an export, with its details if requested.
func auditLine(e repo.AuditEntry, details bool) any {
	if details {
		return e
	}
	return struct {
		repo.AuditEntry
		Details struct{} `json:"details,omitzero"`
	}{AuditEntry: e}
}

func auditExportCommand(world invocation) *urfave.Command {
	var filter repo.AuditFilter
	var file string
	return leaf{
		name: "export", summary: "write entries with their details as JSON lines, oldest first",
		flags: append(auditFilterFlags(&filter), outputFlag(&file)),
		more: `Examples:
  agentstore audit export --occurred-before 2026-01-01 --output 2025.jsonl
  agentstore audit export --type auth_failure | jq .actor`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			return writeTo(invocation, file, func(w io.Writer) error {
				return invalidUsage(store.Audit().Export(ctx, filter, w))
			})
		},
	}.command(world)
}
