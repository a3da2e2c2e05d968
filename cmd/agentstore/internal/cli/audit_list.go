package cli

import (
	"context"
	"io"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// auditFilterFlags select entries, as all filters together.
type auditFilterFlags struct {
	filter                       repo.AuditFilter
	kind, plan, session          string
	occurredFrom, occurredBefore string
}

func (f *auditFilterFlags) flags() []urfave.Flag {
	return []urfave.Flag{
		stringFlag(&f.kind, "type", "only those of this `type`, such as "+string(repo.EventToolInvoked)),
		stringFlag(&f.filter.Actor, "actor", "only those of this `actor`"),
		stringFlag(&f.filter.User, "user", "only those of this `user`"),
		stringFlag(&f.plan, "plan", "only those about the plan of this `id`"),
		stringFlag(&f.session, "session", "only those about the session of this `id`"),
		stringFlag(&f.filter.Project, "project", "only those about this `project`"),
		stringFlag(&f.occurredFrom, "occurred-from", "only those that occurred at this `time` (RFC 3339, or 2006-01-02) or later"),
		stringFlag(&f.occurredBefore, "occurred-before", "only those that occurred before this `time`"),
	}
}

func (f *auditFilterFlags) selected() (filter repo.AuditFilter, err error) {
	filter = f.filter
	if filter.PlanID, err = parseID("--plan", f.plan); err != nil {
		return filter, err
	}
	if filter.SessionID, err = parseID("--session", f.session); err != nil {
		return filter, err
	}
	if filter.OccurredFrom, err = timeOf("occurred-from", f.occurredFrom); err != nil {
		return filter, err
	}
	if filter.OccurredBefore, err = timeOf("occurred-before", f.occurredBefore); err != nil {
		return filter, err
	}
	if filter.Type = repo.EventType(f.kind); f.kind != "" {
		// The application's own types are not known to this binary.
		if err := repo.RegisterEventType(filter.Type); err != nil {
			return filter, usageError{text: "--type: " + err.Error()}
		}
	}
	return filter, nil
}

func auditListCommand(world invocation) *urfave.Command {
	var flags listFlags
	var selection auditFilterFlags
	var oldestFirst bool
	return leaf{
		name: "list", summary: "list entries of the audit trail, newest first",
		flags: flags.flags("their details, too",
			append(selection.flags(), boolFlag(&oldestFirst, "oldest-first", "oldest first"))...),
		more: `Examples:
  agentstore audit list --type tool_invoked --limit 20 --details
  agentstore audit list --session 01KGGZ7Q3M0000000000000001 --oldest-first --json`,
		run: func(ctx context.Context, invocation invocation) error {
			filter, err := selection.selected()
			if err != nil {
				return err
			}
			order := repo.NewestFirst
			if oldestFirst {
				order = repo.OldestFirst
			}
			return withStore(ctx, invocation, flags.databaseURL, func(store *agentstore.Store) error {
				return auditList(store, filter, order, flags.details).print(ctx, invocation, flags)
			})
		},
	}.command(world)
}

func auditList(store *agentstore.Store, filter repo.AuditFilter, order repo.AuditOrder, details bool) list[repo.AuditEntry] {
	l := list[repo.AuditEntry]{
		page: func(ctx context.Context, page repo.Page) ([]repo.AuditEntry, repo.Cursor, error) {
			found, err := store.Audit().List(ctx, filter, order, page)
			return found.Entries, found.Next, err
		},
		weigh: func(e repo.AuditEntry) int { return len(e.Details) },
		columns: []column{
			{name: "OCCURRED"}, {name: "ID"}, {name: "TYPE"}, {name: "SESSION"}, {name: "PLAN"},
			{name: "PROJECT"}, {name: "USER"}, {name: "ACTOR"},
		},
		cells: func(e repo.AuditEntry) []string {
			cells := []string{
				when(e.OccurredAt), e.ID.String(), string(e.Type), optional(e.SessionID), optional(e.PlanID),
				e.Project, e.User, e.Actor,
			}
			if details {
				cells = append(cells, string(e.Details))
			}
			return cells
		},
		line: func(e repo.AuditEntry) any { return auditLine(e, details) },
	}
	if details {
		l.columns = append(l.columns, column{name: "DETAILS"})
	}
	return l
}

// auditLine is an entry as in an export, with its details where those are asked
// for.
func auditLine(e repo.AuditEntry, details bool) any {
	line := repo.ExportedEntry(e)
	if details {
		return line
	}
	return struct {
		repo.ExportedAuditEntry
		Details struct{} `json:"details,omitzero"`
	}{ExportedAuditEntry: line}
}

func auditExportCommand(world invocation) *urfave.Command {
	var databaseURL, file string
	var selection auditFilterFlags
	return leaf{
		name: "export", summary: "write entries with their details as JSON lines, oldest first",
		flags: append(selection.flags(), outputFlag(&file), databaseFlag(&databaseURL)),
		more: `Examples:
  agentstore audit export --occurred-before 2026-01-01 --output 2025.jsonl
  agentstore audit export --type auth_failure | jq .actor`,
		run: func(ctx context.Context, invocation invocation) error {
			filter, err := selection.selected()
			if err != nil {
				return err
			}
			return withStore(ctx, invocation, databaseURL, func(store *agentstore.Store) error {
				return writeTo(invocation, file, func(w io.Writer) error {
					return invalidUsage(store.Audit().Export(ctx, filter, w))
				})
			})
		},
	}.command(world)
}
