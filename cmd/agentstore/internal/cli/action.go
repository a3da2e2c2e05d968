package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func actionCommand(world invocation) *urfave.Command {
	return group("action", "list and show actions", "", actionListCommand(world), actionShowCommand(world))
}

func actionListCommand(world invocation) *urfave.Command {
	var flags listFlags
	var filter repo.ActionFilter
	var state string
	return leaf{
		name: "list", summary: "list the actions of a namespace, by name",
		flags: flags.flags("descriptions, too; with --json the whole definition",
			stringFlag(&filter.Server, "server", "those of this `server` (otherwise: this one's own)"),
			stringFlag(&filter.Namespace, "namespace", "those of this `namespace` (otherwise: "+repo.DefaultNamespace+")"),
			oneOf(&state, "state", "only those in this `state`", repo.ActionAvailable, repo.ActionArchived),
			stringFlag(&filter.Tag, "tag", "only those with this `tag`"),
		),
		more: `Examples:
  agentstore action list --state available --tag review`,
		run: func(ctx context.Context, invocation invocation) error {
			filter.State = repo.ActionState(state)
			return withStore(ctx, invocation, flags.databaseURL, func(store *agentstore.Store) error {
				return actionList(store, filter, flags.details).print(ctx, invocation, flags)
			})
		},
	}.command(world)
}

func actionList(store *agentstore.Store, filter repo.ActionFilter, details bool) list[repo.Action] {
	l := list[repo.Action]{
		page: func(ctx context.Context, page repo.Page) ([]repo.Action, repo.Cursor, error) {
			found, err := store.Actions().List(ctx, filter, page)
			return found.Actions, found.Next, err
		},
		weigh: func(a repo.Action) int {
			return len(a.Description) + len(a.DefinitionOfDone) + len(a.InputsSchema) + len(strings.Join(a.Invariants, "")) + 1000*len(a.Arguments)
		},
		columns: []column{{name: "NAME"}, {name: "STATE"}, {name: "VERSION", number: true}, {name: "UPDATED"}, {name: "TAGS"}},
		cells: func(a repo.Action) []string {
			cells := []string{a.Name.String(), string(a.State), strconv.FormatInt(a.Version, 10), when(a.UpdatedAt), strings.Join(a.Tags, ", ")}
			if details {
				cells = append(cells, a.Description)
			}
			return cells
		},
		line: func(a repo.Action) any { return actionLine(a, details) },
	}
	if details {
		l.columns = append(l.columns, column{name: "DESCRIPTION"})
	}
	return l
}

type actionJSON struct {
	Name              string           `json:"name"`
	State             repo.ActionState `json:"state"`
	Version           int64            `json:"version"`
	Reusable          bool             `json:"reusable"`
	ReadOnly          bool             `json:"read_only"`
	AutomationProfile string           `json:"automation_profile,omitempty"`
	Tags              []string         `json:"tags"`
	CreatedBy         string           `json:"created_by,omitempty"`
	CreatedAt         stamp            `json:"created_at"`
	UpdatedAt         stamp            `json:"updated_at"`
	*actionDetails
}

// actionDetails is what an action says, of which there is no line without
// --details.
type actionDetails struct {
	Description      string          `json:"description"`
	DefinitionOfDone string          `json:"definition_of_done"`
	Actors           actorsJSON      `json:"actors"`
	InputsSchema     json.RawMessage `json:"inputs_schema"`
	Arguments        []argumentJSON  `json:"arguments"`
	Invariants       []string        `json:"invariants"`
}

type actorsJSON struct {
	Strategy   string `json:"strategy,omitempty"`
	Execution  string `json:"execution,omitempty"`
	Review     string `json:"review,omitempty"`
	Apply      string `json:"apply,omitempty"`
	Estimation string `json:"estimation,omitempty"`
	Invariant  string `json:"invariant,omitempty"`
}

type argumentJSON struct {
	Name        string            `json:"name"`
	Type        repo.ArgumentType `json:"type"`
	Required    bool              `json:"required"`
	Description string            `json:"description,omitempty"`
	Default     json.RawMessage   `json:"default,omitempty"`
	Min         *float64          `json:"min,omitempty"`
	Max         *float64          `json:"max,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
}

func actionLine(a repo.Action, details bool) actionJSON {
	line := actionJSON{
		Name: a.Name.String(), State: a.State, Version: a.Version, Reusable: a.Reusable, ReadOnly: a.ReadOnly,
		AutomationProfile: a.AutomationProfile, Tags: append([]string{}, a.Tags...), CreatedBy: a.CreatedBy,
		CreatedAt: stamp(a.CreatedAt), UpdatedAt: stamp(a.UpdatedAt),
	}
	if !details {
		return line
	}
	line.actionDetails = &actionDetails{
		Description: a.Description, DefinitionOfDone: a.DefinitionOfDone, Actors: actorsJSON(a.Actors), InputsSchema: a.InputsSchema,
		Arguments: []argumentJSON{}, Invariants: append([]string{}, a.Invariants...),
	}
	for _, argument := range a.Arguments {
		line.Arguments = append(line.Arguments, argumentJSON(argument))
	}
	return line
}

func actionShowCommand(world invocation) *urfave.Command {
	var databaseURL string
	var details, asJSON bool
	return leaf{
		name: "show", summary: "show one action, archived or not",
		arguments: []string{"NAME"},
		flags: []urfave.Flag{
			boolFlag(&details, "details", "what it says, too: description, arguments, invariants, schema"),
			boolFlag(&asJSON, "json", "print one JSON object instead of text"),
			databaseFlag(&databaseURL),
		},
		more: `NAME is "[[server:]namespace/]name".

Examples:
  agentstore action show local/review --details`,
		run: func(ctx context.Context, invocation invocation) error {
			return withStore(ctx, invocation, databaseURL, func(store *agentstore.Store) error {
				action, err := store.Actions().Get(ctx, invocation.args[0])
				if err != nil {
					return invalidUsage(err)
				}
				if asJSON {
					return printJSON(invocation.stdout, actionLine(action, details))
				}
				return printFields(invocation, actionFields(action, details)...)
			})
		},
	}.command(world)
}

func actionFields(a repo.Action, details bool) []field {
	fields := []field{
		{"Name", a.Name.String()}, {"State", string(a.State)}, {"Version", strconv.FormatInt(a.Version, 10)},
		{"Reusable", strconv.FormatBool(a.Reusable)}, {"Read-only", strconv.FormatBool(a.ReadOnly)},
		{"Automation profile", a.AutomationProfile}, {"Tags", strings.Join(a.Tags, ", ")}, {"Created by", a.CreatedBy},
		{"Created", when(a.CreatedAt)}, {"Updated", when(a.UpdatedAt)},
	}
	if !details {
		return fields
	}
	fields = append(fields,
		field{"Description", a.Description}, field{"Definition of done", a.DefinitionOfDone},
		field{"Strategy actor", a.Actors.Strategy}, field{"Execution actor", a.Actors.Execution}, field{"Review actor", a.Actors.Review},
		field{"Apply actor", a.Actors.Apply}, field{"Estimation actor", a.Actors.Estimation}, field{"Invariant actor", a.Actors.Invariant})
	for _, argument := range a.Arguments {
		fields = append(fields, field{"Argument " + argument.Name, argumentText(argument)})
	}
	for _, invariant := range a.Invariants {
		fields = append(fields, field{"Invariant", invariant})
	}
	return append(fields, field{"Inputs schema", string(a.InputsSchema)})
}

func argumentText(a repo.Argument) string {
	text := string(a.Type)
	if a.Required {
		text += ", required"
	}
	if a.Default != nil {
		text += ", default " + string(a.Default)
	}
	if a.Min != nil {
		text += ", at least " + strconv.FormatFloat(*a.Min, 'g', -1, 64)
	}
	if a.Max != nil {
		text += ", at most " + strconv.FormatFloat(*a.Max, 'g', -1, 64)
	}
	if a.Pattern != "" {
		text += ", matching " + a.Pattern
	}
	if a.Description != "" {
		text += ": " + a.Description
	}
	return text
}
