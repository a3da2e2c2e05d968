package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
)

func holdFlags(hold *auditlog.Hold) []urfave.Flag {
	return []urfave.Flag{
		idFlag(&hold.PlanID, "plan", "the entries about the plan of this `id`"),
		idFlag(&hold.SessionID, "session", "the entries about the session of this `id`"),
	}
}

// needsSubject checks that a hold names a plan or a session. command is the name of the
// command.
func needsSubject(hold *auditlog.Hold, command string) error {
	if hold.PlanID.IsZero() == hold.SessionID.IsZero() {
		return usageError{text: command + " needs --plan or --session, and not both"}
	}
	return nil
}

func auditHold() leaf {
	var hold auditlog.Hold
	return leaf{
		name: "hold", summary: "keep the entries of a plan or a session from being pruned",
		flags: append(holdFlags(&hold), stringFlag(&hold.Reason, "reason", "the `reason`, for audit holds; required")),
		json:  "print one JSON object instead of text",
		more: `The entries stay until audit release, whether or not the plan or the session still
exists. If they are on hold already, nothing changes, and the first reason stays.
Only the owner of the tables may hold and release.

Examples:
  agentstore audit hold --session 019c21f3-dc74-7000-8000-000000000001 --reason "case 4711"`,
		before: func(*invocation) error {
			if err := needsSubject(&hold, "audit hold"); err != nil {
				return err
			}
			if hold.Reason == "" {
				return usageError{text: "audit hold needs --reason"}
			}
			return nil
		},
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			if err := store.AuditLog().Hold(ctx, hold); err != nil {
				return invalidUsage(err)
			}
			return printHeld(invocation, hold, true)
		},
	}
}

func auditRelease() leaf {
	var hold auditlog.Hold
	return leaf{
		name: "release", summary: "end the hold of a plan or a session, so that its entries can be pruned",
		flags: holdFlags(&hold),
		json:  "print one JSON object instead of text",
		more: `If there is no such hold, nothing changes. Entries about this session that a plan's
hold keeps stay on hold, and the other way round: see audit holds.

Examples:
  agentstore audit release --session 019c21f3-dc74-7000-8000-000000000001`,
		before: func(*invocation) error { return needsSubject(&hold, "audit release") },
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			if err := store.AuditLog().Release(ctx, hold); err != nil {
				return err
			}
			return printHeld(invocation, hold, false)
		},
	}
}

func printHeld(invocation invocation, hold auditlog.Hold, held bool) error {
	if invocation.json {
		return printJSON(invocation.stdout, object{{"plan_id", given{hold.PlanID}}, {"session_id", given{hold.SessionID}}, {"held", held}})
	}
	subject, text := "plan "+hold.PlanID.String(), "the entries of %s are on hold\n"
	if hold.PlanID.IsZero() {
		subject = "session " + hold.SessionID.String()
	}
	if !held {
		text = "there is no hold of %s now\n" // another hold may name its entries
	}
	_, err := fmt.Fprintf(invocation.stdout, text, subject)
	return err
}

func auditHolds() leaf {
	return leaf{
		name: "holds", summary: "list all holds, of plans and then of sessions, by id",
		details: "their reasons, too", json: "print one JSON object on each line instead of a table",
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			holds, err := store.AuditLog().Holds(ctx)
			if err != nil {
				return err
			}
			all := list[auditlog.Hold]{
				columns: headings("PLAN", "SESSION", "CREATED"),
				cells:   func(h auditlog.Hold) []any { return []any{h.PlanID, h.SessionID, h.CreatedAt, h.Reason} },
				line:    holdLine,
			}
			if invocation.details {
				all.columns = headings("PLAN", "SESSION", "CREATED", "REASON")
			}
			return all.printPage(invocation, newTable(invocation, all.columns...), holds)
		},
	}
}

func holdLine(h auditlog.Hold, details bool) any {
	if !details {
		h.Reason = ""
	}
	return object{{"plan_id", given{h.PlanID}}, {"session_id", given{h.SessionID}}, {"created_at", h.CreatedAt}, {"reason", given{h.Reason}}}
}
