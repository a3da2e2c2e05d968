package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func sessionCommand(world invocation) *urfave.Command {
	return group("session", "list, show, follow, fork, export, import and delete sessions", "",
		sessionListCommand(world),
		sessionNamespacesCommand(world),
		sessionShowCommand(world),
		sessionTailCommand(world),
		sessionForkCommand(world),
		sessionExportCommand(world),
		sessionImport().command(world),
		sessionDeleteCommand(world),
	)
}

// The orders of a list of sessions.
const (
	byCreation = "creation"
	byActivity = "activity"
)

func sessionListCommand(world invocation) *urfave.Command {
	var filter repo.SessionFilter
	var order string
	return list[repo.Session]{
		leaf: leaf{
			name: "list", summary: "list the sessions of a namespace, newest or last active first",
			flags: []urfave.Flag{
				stringFlag(&filter.Namespace, "namespace", "sessions of this `namespace` (otherwise: "+repo.DefaultNamespace+")"),
				stringFlag(&filter.Owner, "owner", "only sessions of this `owner`"),
				stringFlag(&filter.Actor, "actor", "only sessions of this `actor`"),
				timeFlag(&filter.CreatedFrom, "created-from", "only sessions made at this `time` (RFC 3339, or 2006-01-02) or later"),
				timeFlag(&filter.CreatedBefore, "created-before", "only sessions made before this `time`"),
				oneOf(&order, "order", "the `order` (otherwise: by creation); by activity, all of an owner or of the namespace", byCreation, byActivity),
			},
			details: "metadata, too",
			more: `Examples:
  agentstore session list --namespace shop --created-from 2026-01-01
  agentstore session list --owner user-42 --order activity --limit 20
  agentstore session list --json | jq -r 'select(.message_count > 100) | .id'`,
		},
		page: func(ctx context.Context, _ invocation, store *agentstore.Store, page repo.Page) ([]repo.Session, string, error) {
			filter.ByActivity, filter.AnyOwner = order == byActivity, filter.Owner == ""
			found, err := store.Sessions().List(ctx, filter, page)
			return found.Items, found.Next, err
		},
		weigh:   func(s repo.Session) int { return len(s.Metadata) + 100*len(s.Plans) },
		columns: headings("ID", "CREATED", "UPDATED", "#MESSAGES", "#COST", "#PLANS", "KEY", "OWNER", "ACTOR", "METADATA"),
		cells: func(s repo.Session) []any {
			return []any{s.ID, s.CreatedAt, s.UpdatedAt, s.MessageCount, s.Usage.Cost, len(s.Plans), s.Key, s.Owner, s.Actor, s.Metadata}
		},
		line: sessionLine,
	}.command(world)
}

func sessionNamespacesCommand(world invocation) *urfave.Command {
	return list[string]{
		leaf: leaf{name: "namespaces", summary: "list the namespaces that have sessions"},
		page: func(ctx context.Context, _ invocation, store *agentstore.Store, page repo.Page) ([]string, string, error) {
			found, err := store.Sessions().Namespaces(ctx, page)
			return found.Items, found.Next, err
		},
		weigh:   func(namespace string) int { return len(namespace) },
		columns: headings("NAMESPACE", ""),
		cells:   func(namespace string) []any { return []any{namespace, ""} },
		line:    func(namespace string, _ bool) any { return object{{"namespace", namespace}} },
	}.command(world)
}

func sessionLine(s repo.Session, details bool) any {
	if !details {
		s.Metadata = nil
	}
	return object{
		{"id", s.ID},
		{"namespace", s.Namespace},
		{"key", given{s.Key}},
		{"owner", given{s.Owner}},
		{"actor", given{s.Actor}},
		{"automation_profile", given{s.AutomationProfile}},
		{"usage", object{{"input_tokens", s.Usage.InputTokens}, {"output_tokens", s.Usage.OutputTokens}, {"cost_nanos", s.Usage.Cost}}},
		{"budget_nanos", given{s.Budget}},
		{"fenced_only", given{s.FencedOnly}},
		{"message_count", s.MessageCount},
		{"version", s.Version},
		{"plans", objects(s.Plans, func(p repo.LinkedPlan) object {
			return object{{"id", p.ID}, {"phase", p.Phase}, {"state", p.State}}
		})},
		{"created_at", s.CreatedAt},
		{"updated_at", s.UpdatedAt},
		{"metadata", given{s.Metadata}},
	}
}

func sessionShowCommand(world invocation) *urfave.Command {
	var flags messageFlags
	var choice sessionChoice
	return leaf{
		name: "show", summary: "show one session, and its messages on request",
		arguments: []string{"[ID]"},
		flags:     append(choice.flags(), flags.flags()...),
		json:      "print one JSON object on each line: the session's, then the messages'",
		more: `Examples:
  agentstore session show 019c21f3-dc74-7000-8000-000000000001
  agentstore session show --key acme/support/42/1 --namespace shop
  agentstore session show 019c21f3-dc74-7000-8000-000000000001 --last 20 --contents
  agentstore session show 019c21f3-dc74-7000-8000-000000000001 --messages --from 100 --limit 50
  agentstore session show 019c21f3-dc74-7000-8000-000000000001 --branch 12 --contents`,
		before: func(invocation *invocation) error {
			if err := choice.check(invocation, "session show"); err != nil {
				return err
			}
			return flags.check()
		},
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			if err := choice.find(ctx, &invocation, store); err != nil {
				return err
			}
			session, err := store.Sessions().Get(ctx, invocation.id)
			if err != nil {
				return err
			}
			if err := printOne(invocation, sessionLine(session, flags.details), sessionFields(session, flags.details)); err != nil || !flags.wanted() {
				return err
			}
			if !invocation.json {
				fmt.Fprint(invocation.stdout, "\nMessages:\n")
			}
			return printMessages(ctx, invocation, store, session, flags)
		},
	}.command(world)
}

func sessionFields(s repo.Session, details bool) []field {
	fields := []field{
		{"ID", s.ID},
		{"Namespace", s.Namespace},
		{"Key", s.Key},
		{"Owner", s.Owner},
		{"Actor", s.Actor},
		{"Automation profile", s.AutomationProfile},
		{"Messages", s.MessageCount},
		{"Tokens", fmt.Sprintf("%d in, %d out", s.Usage.InputTokens, s.Usage.OutputTokens)},
		{"Cost", s.Usage.Cost},
		{"Budget", s.Budget},
	}
	if s.FencedOnly {
		fields = append(fields, field{"Writes", "only under a lease"})
	}
	for _, plan := range s.Plans {
		fields = append(fields, field{"Plan", plan.ID.String() + "  " + textOf(plan.Stage)})
	}
	fields = append(fields, field{"Created", s.CreatedAt}, field{"Updated", s.UpdatedAt})
	if details {
		fields = append(fields, field{"Metadata", s.Metadata})
	}
	return fields
}
