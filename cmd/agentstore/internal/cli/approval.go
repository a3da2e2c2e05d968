package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/repo"
)

func approvalCommand(world invocation) *urfave.Command {
	return group("approval", "list what waits for a person's approval, and decide", "", approvalListCommand(world),
		approvalDecideCommand(world, approval.Approve), approvalDecideCommand(world, approval.Deny))
}

func approvalListCommand(world invocation) *urfave.Command {
	var namespace, name string
	return list[approval.Request]{
		leaf: leaf{
			name: "list", summary: "list what waits for a person or a group, by expiry",
			flags: []urfave.Flag{viewFlag(&namespace), stringFlag(&name, "for", "the `name` of the person or the group; required")},
			before: func(*invocation) error {
				if name == "" {
					return usageError{text: "approval list needs --for"}
				}
				return nil
			},
			details: "what people are asked, too",
			more: `Names are compared byte by byte. Only the service knows the members of a group: here a
member decides only if the request names the member itself.

Examples:
  agentstore approval list --for bob
  agentstore approval list --for group:ops --namespace shop --json --details`,
		},
		page: func(ctx context.Context, _ invocation, store *agentstore.Store, page repo.Page) ([]approval.Request, string, error) {
			approvals, err := approval.New(store, namespace, approval.Options{})
			if err != nil {
				return nil, "", err
			}
			found, err := approvals.List(ctx, name, page)
			return found.Items, found.Next, err
		},
		weigh:   func(r approval.Request) int { return len(r.Text) },
		columns: headings("SESSION", "ID", "KIND", "SUBJECT", "ASKED BY", "EXPIRES", "TEXT"),
		cells: func(r approval.Request) []any {
			return []any{r.SessionID, r.ID, r.Kind, r.Subject, r.By, r.Until, r.Text}
		},
		line: func(r approval.Request, details bool) any { return approvalLine(r, details) },
	}.command(world)
}

func approvalLine(r approval.Request, details bool) object {
	line := object{
		{"session_id", r.SessionID},
		{"id", r.ID},
		{"kind", r.Kind},
		{"subject", given{r.Subject}},
		{"arguments_sha256", r.ArgumentsHash},
		{"by", r.By},
		{"deciders", r.Deciders},
		{"quorum", r.Quorum},
		{"until", r.Until},
		{"plan_id", given{r.PlanID}},
		{"status", r.Status},
		{"updated_at", r.UpdatedAt},
	}
	if !details {
		return line
	}
	return append(line, member{"text", r.Text}, member{"votes", objects(r.Votes, func(v approval.Vote) object {
		return object{{"by", v.By}, {"verdict", v.Verdict}, {"reason", given{v.Reason}}}
	})})
}

func approvalDecideCommand(world invocation, verdict approval.Verdict) *urfave.Command {
	var namespace, name, reason string
	command := "approval " + string(verdict)
	return leaf{
		name: string(verdict), summary: string(verdict) + " one request, in the name of a person",
		arguments: []string{"SESSION", "ID"},
		flags: []urfave.Flag{
			viewFlag(&namespace),
			stringFlag(&name, "as", "the decider's `name`, which the request has to list; required"),
			stringFlag(&reason, "reason", "the `reason`, for people"),
		},
		json: "print one JSON object instead of text",
		before: func(invocation *invocation) error {
			if name == "" {
				return usageError{text: command + " needs --as"}
			}
			return needsID(invocation)
		},
		more: `The command does not check the name: a role that may write to the database may give any.

Examples:
  agentstore ` + command + ` 019c21f3-dc74-7000-8000-000000000001 call-7 --as bob`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			approvals, err := approval.New(store, namespace, approval.Options{})
			if err != nil {
				return err
			}
			ref := approval.Ref{SessionID: invocation.id, ID: invocation.args[1]}
			requests, err := approvals.Decide(ctx, name, approval.Answer{Ref: ref, Verdict: verdict, Reason: reason})
			if err != nil {
				return invalidUsage(err)
			}
			if invocation.json {
				return printJSON(invocation.stdout, approvalLine(requests[0], false))
			}
			_, err = fmt.Fprintf(invocation.stdout, "the request is %s\n", requests[0].Status)
			return err
		},
	}.command(world)
}
