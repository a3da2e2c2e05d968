package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func planCommand(world invocation) *urfave.Command {
	return group("plan", "list and show plans, and their history", "",
		planListCommand(world), planShowCommand(world), planHistoryCommand(world))
}

func stageText(stage repo.Stage) string {
	if stage == (repo.Stage{}) {
		return ""
	}
	return string(stage.Phase) + "/" + string(stage.State)
}

func planListCommand(world invocation) *urfave.Command {
	var flags listFlags
	var filter repo.PlanFilter
	var phase, state, session, parent string
	return leaf{
		name: "list", summary: "list plans, newest first",
		flags: flags.flags("descriptions, too; with --json all that a plan holds",
			stringFlag(&filter.Namespace, "namespace", "those of this `namespace` (otherwise: "+repo.DefaultNamespace+"; with --session, --parent or --project: any)"),
			oneOf(&phase, "phase", "only those in this `phase`", repo.PhaseStrategize, repo.PhaseExecute, repo.PhaseApply),
			oneOf(&state, "state", "only those in this `state`", repo.StateQueued, repo.StateProcessing, repo.StateComplete,
				repo.StateErrored, repo.StateCancelled, repo.StateApplied, repo.StateConstrained),
			stringFlag(&session, "session", "only those linked to the session of this `id`"),
			stringFlag(&parent, "parent", "only the children of the plan of this `id`"),
			stringFlag(&filter.Project, "project", "only those that work on this `project`"),
		),
		more: `At most one of --session, --parent and --project is given.

Examples:
  agentstore plan list --phase execute --state errored
  agentstore plan list --session 01KGGZ7Q3M0000000000000001 --json`,
		run: func(ctx context.Context, invocation invocation) (err error) {
			filter.Phase, filter.State = repo.Phase(phase), repo.PlanState(state)
			if filter.SessionID, err = parseID("--session", session); err != nil {
				return err
			}
			if filter.ParentID, err = parseID("--parent", parent); err != nil {
				return err
			}
			return withStore(ctx, invocation, flags.databaseURL, func(store *agentstore.Store) error {
				return planList(store, filter, flags.details).print(ctx, invocation, flags)
			})
		},
	}.command(world)
}

func planList(store *agentstore.Store, filter repo.PlanFilter, details bool) list[repo.Plan] {
	l := list[repo.Plan]{
		page: func(ctx context.Context, page repo.Page) ([]repo.Plan, repo.Cursor, error) {
			found, err := store.Plans().List(ctx, filter, page)
			return found.Plans, found.Next, err
		},
		weigh: planWeight,
		columns: []column{
			{name: "ID"}, {name: stageColumn}, {name: "VERSION", number: true}, {name: "UPDATED"},
			{name: "NAMESPACE"}, {name: "ACTION"}, {name: "NAME"},
		},
		cells: func(p repo.Plan) []string {
			cells := []string{
				p.ID.String(), stageText(p.Stage), strconv.FormatInt(p.Version, 10), when(p.UpdatedAt),
				p.Namespace, p.Action.String(), p.Name,
			}
			if details {
				cells = append(cells, p.Description)
			}
			return cells
		},
		line: func(p repo.Plan) any { return planLine(p, details) },
	}
	if details {
		l.columns = append(l.columns, column{name: "DESCRIPTION"})
	}
	return l
}

func planWeight(p repo.Plan) int {
	weight := len(p.Description) + len(p.DefinitionOfDone) + len(p.AutomationSnapshot) + len(p.ErrorMessage) + len(p.ErrorDetails) + len(p.CancelReason)
	for _, argument := range p.Arguments {
		weight += len(argument.Value)
	}
	for _, invariant := range p.Invariants {
		weight += len(invariant.Text)
	}
	return weight
}

type planJSON struct {
	ID                      repo.ID        `json:"id"`
	Name                    string         `json:"name,omitempty"`
	Namespace               string         `json:"namespace"`
	Action                  string         `json:"action"`
	ParentID                *repo.ID       `json:"parent_id,omitempty"`
	RootID                  repo.ID        `json:"root_id"`
	Depth                   int            `json:"depth"`
	Attempt                 int            `json:"attempt"`
	Phase                   repo.Phase     `json:"phase"`
	State                   repo.PlanState `json:"state"`
	Version                 int64          `json:"version"`
	Projects                []projectJSON  `json:"projects"`
	AutomationProfile       string         `json:"automation_profile,omitempty"`
	AutomationProfileSource string         `json:"automation_profile_source,omitempty"`
	ReversionCount          int            `json:"reversion_count"`
	LastCompletedStep       *int64         `json:"last_completed_step,omitempty"`
	LastCheckpointID        string         `json:"last_checkpoint_id,omitempty"`
	CancelledAt             *stamp         `json:"cancelled_at,omitempty"`
	CreatedAt               stamp          `json:"created_at"`
	UpdatedAt               stamp          `json:"updated_at"`
	*planDetails
}

// planDetails is what a plan says, of which there is no line without --details.
type planDetails struct {
	Description        string          `json:"description"`
	DefinitionOfDone   string          `json:"definition_of_done"`
	Arguments          []valueJSON     `json:"arguments"`
	Invariants         []invariantJSON `json:"invariants"`
	AutomationSnapshot json.RawMessage `json:"automation_snapshot"`
	ErrorMessage       string          `json:"error_message,omitempty"`
	ErrorDetails       json.RawMessage `json:"error_details,omitempty"`
	CancelReason       string          `json:"cancel_reason,omitempty"`
}

type projectJSON struct {
	Project  string `json:"project"`
	Alias    string `json:"alias"`
	ReadOnly bool   `json:"read_only"`
}

type valueJSON struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

type invariantJSON struct {
	Text   string `json:"text"`
	Source string `json:"source"`
}

func planLine(p repo.Plan, details bool) planJSON {
	line := planJSON{
		ID: p.ID, Name: p.Name, Namespace: p.Namespace, Action: p.Action.String(), ParentID: idOf(p.ParentID), RootID: p.RootID,
		Depth: p.Depth, Attempt: p.Attempt, Phase: p.Phase, State: p.State, Version: p.Version, Projects: []projectJSON{},
		AutomationProfile: p.AutomationProfile, AutomationProfileSource: p.AutomationProfileSource,
		ReversionCount: p.ReversionCount, LastCompletedStep: p.LastCompletedStep, LastCheckpointID: p.LastCheckpointID,
		CancelledAt: stampOf(p.CancelledAt), CreatedAt: stamp(p.CreatedAt), UpdatedAt: stamp(p.UpdatedAt),
	}
	for _, project := range p.Projects {
		line.Projects = append(line.Projects, projectJSON(project))
	}
	if !details {
		return line
	}
	line.planDetails = &planDetails{
		Description: p.Description, DefinitionOfDone: p.DefinitionOfDone, Arguments: []valueJSON{}, Invariants: []invariantJSON{},
		AutomationSnapshot: p.AutomationSnapshot, ErrorMessage: p.ErrorMessage, ErrorDetails: p.ErrorDetails, CancelReason: p.CancelReason,
	}
	for _, argument := range p.Arguments {
		line.Arguments = append(line.Arguments, valueJSON(argument))
	}
	for _, invariant := range p.Invariants {
		line.Invariants = append(line.Invariants, invariantJSON(invariant))
	}
	return line
}

func planShowCommand(world invocation) *urfave.Command {
	var databaseURL string
	var details, asJSON bool
	return leaf{
		name: "show", summary: "show one plan",
		arguments: []string{"ID"},
		flags: []urfave.Flag{
			boolFlag(&details, "details", "what it says, too: description, arguments, invariants, errors"),
			boolFlag(&asJSON, "json", "print one JSON object instead of text"),
			databaseFlag(&databaseURL),
		},
		more: `Examples:
  agentstore plan show 01KGGZ7Q3M0000000000000001 --details`,
		run: func(ctx context.Context, invocation invocation) error {
			id, err := argumentID(invocation)
			if err != nil {
				return err
			}
			return withStore(ctx, invocation, databaseURL, func(store *agentstore.Store) error {
				plan, err := store.Plans().Get(ctx, id)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(invocation.stdout, planLine(plan, details))
				}
				return printFields(invocation, planFields(plan, details)...)
			})
		},
	}.command(world)
}

func planFields(p repo.Plan, details bool) []field {
	fields := []field{
		{"ID", p.ID.String()}, {"Name", p.Name}, {"Namespace", p.Namespace}, {"Action", p.Action.String()},
		{"Stage", stageText(p.Stage)}, {"Version", strconv.FormatInt(p.Version, 10)},
		{"Parent", optional(p.ParentID)},
	}
	if p.RootID != p.ID {
		fields = append(fields, field{"Root", p.RootID.String()}, field{"Depth", strconv.Itoa(p.Depth)})
	}
	fields = append(fields, field{"Attempt", strconv.Itoa(p.Attempt)}, field{"Reversions", strconv.Itoa(p.ReversionCount)})
	for _, project := range p.Projects {
		value := project.Project
		if project.Alias != project.Project {
			value += " as " + project.Alias
		}
		if project.ReadOnly {
			value += " (read-only)"
		}
		fields = append(fields, field{"Project", value})
	}
	if p.AutomationProfile != "" {
		fields = append(fields, field{"Automation profile", fmt.Sprintf("%s (of the %s)", p.AutomationProfile, p.AutomationProfileSource)})
	}
	if p.LastCompletedStep != nil {
		fields = append(fields, field{"Completed step", strconv.FormatInt(*p.LastCompletedStep, 10)})
	}
	fields = append(fields, field{"Checkpoint", p.LastCheckpointID},
		field{"Created", when(p.CreatedAt)}, field{"Updated", when(p.UpdatedAt)}, field{"Cancelled", when(p.CancelledAt)})
	if !details {
		return fields
	}
	fields = append(fields, field{"Description", p.Description}, field{"Definition of done", p.DefinitionOfDone})
	for _, argument := range p.Arguments {
		fields = append(fields, field{"Argument " + argument.Name, string(argument.Value)})
	}
	for _, invariant := range p.Invariants {
		fields = append(fields, field{"Invariant", fmt.Sprintf("%s (of the %s)", invariant.Text, invariant.Source)})
	}
	return append(fields, field{"Automation snapshot", string(p.AutomationSnapshot)},
		field{"Error", p.ErrorMessage}, field{"Error details", string(p.ErrorDetails)}, field{"Cancel reason", p.CancelReason})
}

func planHistoryCommand(world invocation) *urfave.Command {
	var databaseURL string
	var from int64
	var limit int
	var details, asJSON bool
	return leaf{
		name: "history", summary: "list the transitions that one plan made, oldest first",
		arguments: []string{"ID"},
		flags: []urfave.Flag{
			int64Flag(&from, "from", "those that led to this `version` or a later one", 1),
			intFlag(&limit, "limit", "stop after this `number` of rows, and say where to continue (otherwise: all)", 0),
			boolFlag(&details, "details", "reasons, too"),
			boolFlag(&asJSON, "json", "print one JSON object on each line instead of a table"),
			databaseFlag(&databaseURL),
		},
		more: `Examples:
  agentstore plan history 01KGGZ7Q3M0000000000000001`,
		run: func(ctx context.Context, invocation invocation) error {
			id, err := argumentID(invocation)
			if err != nil {
				return err
			}
			return withStore(ctx, invocation, databaseURL, func(store *agentstore.Store) error {
				flags := listFlags{limit: limit, json: asJSON, after: strconv.FormatInt(from, 10)}
				return planHistory(store, id, details).print(ctx, invocation, flags)
			})
		},
	}.command(world)
}

type planEventJSON struct {
	PlanID     repo.ID         `json:"plan_id"`
	Version    int64           `json:"version"`
	Transition repo.Transition `json:"transition"`
	From       string          `json:"from,omitempty"`
	To         string          `json:"to"`
	Actor      string          `json:"actor,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	CreatedAt  stamp           `json:"created_at"`
}

// planHistory is a list whose cursor is a version.
func planHistory(store *agentstore.Store, id repo.ID, details bool) list[repo.PlanEvent] {
	l := list[repo.PlanEvent]{
		goOn: "--from",
		page: func(ctx context.Context, page repo.Page) ([]repo.PlanEvent, repo.Cursor, error) {
			from, err := strconv.ParseInt(string(page.After), 10, 64)
			if err != nil {
				return nil, "", err
			}
			events, err := store.Plans().History(ctx, id, from, page.Limit)
			if err != nil || len(events) < page.Limit {
				return events, "", err
			}
			return events, repo.Cursor(strconv.FormatInt(events[len(events)-1].Version+1, 10)), nil
		},
		weigh: func(e repo.PlanEvent) int { return len(e.Reason) },
		columns: []column{
			{name: "VERSION", number: true}, {name: "TIME"}, {name: "TRANSITION"}, {name: "FROM"}, {name: stageColumn}, {name: "ACTOR"},
		},
		cells: func(e repo.PlanEvent) []string {
			cells := []string{strconv.FormatInt(e.Version, 10), when(e.CreatedAt), string(e.Transition), stageText(e.From), stageText(e.To), e.Actor}
			if details {
				cells = append(cells, e.Reason)
			}
			return cells
		},
		line: func(e repo.PlanEvent) any {
			line := planEventJSON{
				PlanID: e.PlanID, Version: e.Version, Transition: e.Transition, From: stageText(e.From), To: stageText(e.To),
				Actor: e.Actor, CreatedAt: stamp(e.CreatedAt),
			}
			if details {
				line.Reason = e.Reason
			}
			return line
		},
	}
	if details {
		l.columns = append(l.columns, column{name: "REASON"})
	}
	return l
}
