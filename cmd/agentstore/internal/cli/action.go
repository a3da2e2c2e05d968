package cli

import (
	"context"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func actionCommand(world invocation) *urfave.Command {
	return group("action", "list and show actions", "", actionListCommand(world), actionShow.command(world))
}

func actionListCommand(world invocation) *urfave.Command {
	var filter repo.ActionFilter
	var state string
	return list[repo.Action]{
		leaf: leaf{
			name: "list", summary: "list the actions of a namespace, by name",
			flags: []urfave.Flag{
				stringFlag(&filter.Server, "server", "actions of this `server` (otherwise: actions without a server)"),
				stringFlag(&filter.Namespace, "namespace", "actions of this `namespace` (otherwise: "+repo.DefaultNamespace+")"),
				oneOf(&state, "state", "only actions in this `state`", actionAvailable, actionArchived),
				stringFlag(&filter.Tag, "tag", "only actions with this `tag`"),
			},
			details: "descriptions, too; with --json the whole definition",
			more: `Examples:
  agentstore action list --state available --tag review`,
		},
		page: func(ctx context.Context, _ invocation, store *agentstore.Store, page repo.Page) ([]repo.Action, string, error) {
			filter.Available, filter.Archived = state == actionAvailable, state == actionArchived
			found, err := store.Actions().List(ctx, filter, page)
			return found.Items, found.Next, err
		},
		weigh: func(a repo.Action) int {
			return len(a.Description) + len(a.DefinitionOfDone) + len(a.InputsSchema) + len(strings.Join(a.Invariants, "")) + 1000*len(a.Arguments)
		},
		columns: headings("NAME", "STATE", "#VERSION", "UPDATED", "TAGS", "DESCRIPTION"),
		cells: func(a repo.Action) []any {
			return []any{a.Name, actionState(a), a.Version, a.UpdatedAt, a.Tags, a.Description}
		},
		line: actionLine,
	}.command(world)
}

const actionAvailable, actionArchived = "available", "archived"

func actionState(a repo.Action) string {
	if a.Archived {
		return actionArchived
	}
	return actionAvailable
}

func actionLine(a repo.Action, details bool) any {
	line := object{
		{"name", a.Name.String()},
		{"state", actionState(a)},
		{"version", a.Version},
		{"reusable", a.Reusable},
		{"read_only", a.ReadOnly},
		{"phases", given{a.Phases}},
		{"automation_profile", given{a.AutomationProfile}},
		{"tags", append([]string{}, a.Tags...)},
		{"created_by", given{a.CreatedBy}},
		{"created_at", a.CreatedAt},
		{"updated_at", a.UpdatedAt},
	}
	if !details {
		return line
	}
	return append(line, object{
		{"description", a.Description},
		{"definition_of_done", a.DefinitionOfDone},
		{"actors", object{
			{"strategy", given{a.StrategyActor}},
			{"execution", given{a.ExecutionActor}},
			{"review", given{a.ReviewActor}},
			{"apply", given{a.ApplyActor}},
			{"estimation", given{a.EstimationActor}},
			{"invariant", given{a.InvariantActor}},
		}},
		{"inputs_schema", a.InputsSchema},
		{"arguments", objects(a.Arguments, argumentLine)},
		{"invariants", append([]string{}, a.Invariants...)},
	}...)
}

func argumentLine(a repo.Argument) object {
	return object{
		{"name", a.Name},
		{"type", a.Type},
		{"required", a.Required},
		{"description", given{a.Description}},
		{"default", given{a.Default}},
		{"min", given{a.Min}},
		{"max", given{a.Max}},
		{"pattern", given{a.Pattern}},
	}
}

var actionShow = leaf{
	name: "show", summary: "show one action, archived or not",
	arguments: []string{"NAME"},
	details:   "its texts, too: description, arguments, invariants, schema",
	json:      "print one JSON object instead of text",
	more: `NAME is "[[server:]namespace/]name".

Examples:
  agentstore action show local/review --details`,
	onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
		action, err := store.Actions().Get(ctx, invocation.args[0])
		if err != nil {
			return invalidUsage(err)
		}
		return printOne(invocation, actionLine(action, invocation.details), actionFields(action, invocation.details))
	},
}

func actionFields(a repo.Action, details bool) []field {
	fields := []field{
		{"Name", a.Name},
		{"State", actionState(a)},
		{"Version", a.Version},
		{"Reusable", a.Reusable},
		{"Read-only", a.ReadOnly},
		{"Automation profile", a.AutomationProfile},
		{"Tags", a.Tags},
		{"Created by", a.CreatedBy},
		{"Created", a.CreatedAt},
		{"Updated", a.UpdatedAt},
	}
	if !details {
		return fields
	}
	fields = append(fields,
		field{"Description", a.Description}, field{"Definition of done", a.DefinitionOfDone},
		field{"Strategy actor", a.StrategyActor}, field{"Execution actor", a.ExecutionActor}, field{"Review actor", a.ReviewActor},
		field{"Apply actor", a.ApplyActor}, field{"Estimation actor", a.EstimationActor}, field{"Invariant actor", a.InvariantActor})
	for _, argument := range a.Arguments {
		fields = append(fields, field{"Argument " + argument.Name, argumentText(argument)})
	}
	for _, invariant := range a.Invariants {
		fields = append(fields, field{"Invariant", invariant})
	}
	return append(fields, field{"Inputs schema", a.InputsSchema})
}

func argumentText(a repo.Argument) string {
	text := []string{string(a.Type)}
	if a.Required {
		text = append(text, ", required")
	}
	for _, part := range []field{
		{", default ", a.Default}, {", at least ", a.Min}, {", at most ", a.Max}, {", matching ", a.Pattern}, {": ", a.Description},
	} {
		if value := textOf(part.value); value != "" {
			text = append(text, part.name, value)
		}
	}
	return strings.Join(text, "")
}
