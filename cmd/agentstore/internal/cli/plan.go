package cli

import (
	"context"
	"fmt"
	"strconv"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func planCommand(world invocation) *urfave.Command {
	return group("plan", "list, show and retry plans, and their history and limits", "",
		planListCommand(world), planShow.command(world), planHistoryCommand(world), planRetry.command(world), planLimitsCommand(world))
}

func planListCommand(world invocation) *urfave.Command {
	var filter repo.PlanFilter
	var errored bool
	return list[repo.Plan]{
		leaf: leaf{
			name: "list", summary: "list plans, newest first",
			flags: []urfave.Flag{
				stringFlag(&filter.Namespace, "namespace", "plans of this `namespace` (otherwise: "+repo.DefaultNamespace+"; with --session, --parent, --project or --action: any)"),
				oneOf((*string)(&filter.Phase), "phase", "only plans in this `phase`", repo.PhaseStrategize, repo.PhaseExecute, repo.PhaseApply),
				oneOf((*string)(&filter.State), "state", "only plans in this `state`", repo.PlanQueued, repo.PlanProcessing, repo.PlanComplete,
					repo.PlanErrored, repo.PlanCancelled, repo.PlanApplied, repo.PlanConstrained),
				idFlag(&filter.SessionID, "session", "only plans linked to the session of this `id`"),
				idFlag(&filter.ParentID, "parent", "only the children of the plan of this `id`"),
				stringFlag(&filter.Project, "project", "only plans that work on this `project`"),
				stringFlag(&filter.Action, "action", "only plans of this `action`"),
				boolFlag(&errored, "errored", "only errored plans, for plan retry"),
			},
			details: "descriptions, too; with --json the whole plan",
			more: `At most one of --session, --parent, --project and --action is given.

Examples:
  agentstore plan list --errored --action team/answer
  agentstore plan list --session 019c21f3-dc74-7000-8000-000000000001 --json`,
		},
		page: func(ctx context.Context, _ invocation, store *agentstore.Store, page repo.Page) ([]repo.Plan, string, error) {
			if errored {
				filter.State = repo.PlanErrored
			}
			found, err := store.Plans().List(ctx, filter, page)
			return found.Items, found.Next, err
		},
		weigh:   planWeight,
		columns: headings("ID", stageColumn, "#VERSION", "UPDATED", "NAMESPACE", "ACTION", "NAME", "DESCRIPTION"),
		cells: func(p repo.Plan) []any {
			return []any{p.ID, p.Stage, p.Version, p.UpdatedAt, p.Namespace, p.Action, p.Name, p.Description}
		},
		line: func(p repo.Plan, details bool) any { return planLine(p, details) },
	}.command(world)
}

var planRetry = leaf{
	name: "retry", summary: "queue an errored plan again, for one more attempt at least",
	arguments: []string{"ID"}, before: needsID,
	json: "print one JSON object instead of text",
	more: `Examples:
  agentstore plan retry 019c21f3-dc74-7000-8000-000000000001`,
	onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
		plan, err := store.Plans().Transition(ctx, invocation.id, repo.TransitionResume, repo.Cause{Actor: "agentstore"})
		if err != nil {
			return err
		}
		return printOne(invocation, planLine(plan, false), planFields(plan, false))
	},
}

func planLimitsCommand(world invocation) *urfave.Command {
	return list[repo.PlanLimit]{
		leaf: leaf{
			name: "limits", summary: "list how many plans may be claimed at once, and how many are",
			more: `Examples:
  agentstore plan limits --json`,
		},
		page: func(ctx context.Context, _ invocation, store *agentstore.Store, page repo.Page) ([]repo.PlanLimit, string, error) {
			found, err := store.Plans().Limits(ctx, page)
			return found.Items, found.Next, err
		},
		weigh:   func(l repo.PlanLimit) int { return len(l.Namespace) + len(l.Action) },
		columns: headings("NAMESPACE", "ACTION", "#AT ONCE", "#CLAIMED", ""),
		cells:   func(l repo.PlanLimit) []any { return []any{l.Namespace, l.Action, l.AtOnce, l.Claimed, ""} },
		line: func(l repo.PlanLimit, _ bool) any {
			return object{{"namespace", l.Namespace}, {"action", given{l.Action}}, {"at_once", l.AtOnce}, {"claimed", l.Claimed}}
		},
	}.command(world)
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

func planLine(p repo.Plan, details bool) object {
	line := object{
		{"id", p.ID},
		{"name", given{p.Name}},
		{"namespace", p.Namespace},
		{"action", p.Action.String()},
		{"session_id", given{p.SessionID}},
		{"key", given{p.Key}},
		{"parent_id", given{p.ParentID}},
		{"root_id", p.RootID},
		{"depth", p.Depth},
		{"attempt", p.Attempt},
		{"max_attempts", p.MaxAttempts},
		{"priority", p.Priority},
		{"not_before", given{p.NotBefore}},
		{"deadline", given{p.Deadline}},
		{"phases", given{p.Phases}},
		{"phase", p.Phase},
		{"state", p.State},
		{"version", p.Version},
		{"projects", objects(p.Projects, func(l repo.ProjectLink) object {
			return object{{"project", l.Project}, {"alias", l.Alias}, {"read_only", l.ReadOnly}}
		})},
		{"automation_profile", given{p.AutomationProfile}},
		{"automation_profile_source", given{p.AutomationProfileSource}},
		{"reversion_count", p.ReversionCount},
		{"last_completed_step", given{p.LastCompletedStep}},
		{"last_checkpoint_id", given{p.LastCheckpointID}},
		{"cancelled_at", given{p.CancelledAt}},
		{"trace", given{p.Trace}},
		{"created_at", p.CreatedAt},
		{"updated_at", p.UpdatedAt},
	}
	if !details {
		return line
	}
	return append(line, object{
		{"description", p.Description},
		{"definition_of_done", p.DefinitionOfDone},
		{"arguments", objects(p.Arguments, func(a repo.ArgumentValue) object {
			return object{{"name", a.Name}, {"value", a.Value}}
		})},
		{"invariants", objects(p.Invariants, func(i repo.PlanInvariant) object {
			return object{{"text", i.Text}, {"source", i.Source}}
		})},
		{"automation_snapshot", p.AutomationSnapshot},
		{"error_message", given{p.ErrorMessage}},
		{"error_details", given{p.ErrorDetails}},
		{"cancel_reason", given{p.CancelReason}},
	}...)
}

var planShow = leaf{
	name: "show", summary: "show one plan",
	arguments: []string{"ID"}, before: needsID,
	details: "its texts, too: description, arguments, invariants, errors",
	json:    "print one JSON object instead of text",
	more: `Examples:
  agentstore plan show 019c21f3-dc74-7000-8000-000000000001 --details`,
	onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
		plan, err := store.Plans().Get(ctx, invocation.id)
		if err != nil {
			return err
		}
		held, err := store.Leases().List(ctx, repo.LeaseFilter{
			Kind: repo.LeaseOfPlan, Name: repo.PlanLease(plan.ID).Name, Held: true,
		}, repo.Page{Limit: 1})
		if err != nil {
			return err
		}
		line, fields := planLine(plan, invocation.details), planFields(plan, invocation.details)
		for _, lease := range held.Items {
			line = append(line, member{"lease", leaseLine(lease)})
			fields = append(fields, field{"Held by", lease.Owner}, field{"Held until", lease.ExpiresAt})
		}
		return printOne(invocation, line, fields)
	},
}

func planFields(p repo.Plan, details bool) []field {
	fields := []field{
		{"ID", p.ID},
		{"Name", p.Name},
		{"Namespace", p.Namespace},
		{"Action", p.Action},
		{"Session", p.SessionID},
		{"Key", p.Key},
		{"Stage", p.Stage},
		{"Version", p.Version},
		{"Parent", p.ParentID},
	}
	if p.RootID != p.ID {
		fields = append(fields, field{"Root", p.RootID}, field{"Depth", p.Depth})
	}
	fields = append(fields, field{"Attempt", p.Attempt}, field{"Reversions", p.ReversionCount})
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
	fields = append(fields, field{"Completed step", p.LastCompletedStep}, field{"Checkpoint", p.LastCheckpointID}, field{"Trace", p.Trace},
		field{"Created", p.CreatedAt}, field{"Updated", p.UpdatedAt}, field{"Cancelled", p.CancelledAt})
	if !details {
		return fields
	}
	fields = append(fields, field{"Description", p.Description}, field{"Definition of done", p.DefinitionOfDone})
	for _, argument := range p.Arguments {
		fields = append(fields, field{"Argument " + argument.Name, argument.Value})
	}
	for _, invariant := range p.Invariants {
		fields = append(fields, field{"Invariant", fmt.Sprintf("%s (of the %s)", invariant.Text, invariant.Source)})
	}
	return append(fields, field{"Automation snapshot", p.AutomationSnapshot},
		field{"Error", p.ErrorMessage}, field{"Error details", p.ErrorDetails}, field{"Cancel reason", p.CancelReason})
}

func planHistoryCommand(world invocation) *urfave.Command {
	var from int64
	return list[repo.PlanEvent]{
		leaf: leaf{
			name: "history", summary: "list the transitions that one plan made, oldest first",
			arguments: []string{"ID"}, before: needsID,
			flags:   []urfave.Flag{int64Flag(&from, "from", "only transitions to this `version` or a later one", 1)},
			details: "reasons, too",
			more: `Examples:
  agentstore plan history 019c21f3-dc74-7000-8000-000000000001`,
		},
		goOn: "--from",
		page: func(ctx context.Context, invocation invocation, store *agentstore.Store, page repo.Page) ([]repo.PlanEvent, string, error) {
			events, err := store.Plans().History(ctx, invocation.id, from, page.Limit)
			if err != nil || len(events) < page.Limit {
				return events, "", err
			}
			from = events[len(events)-1].Version + 1
			return events, strconv.FormatInt(from, 10), nil
		},
		weigh:   func(e repo.PlanEvent) int { return len(e.Reason) },
		columns: headings("#VERSION", "TIME", "TRANSITION", "FROM", stageColumn, "ACTOR", "REASON"),
		cells: func(e repo.PlanEvent) []any {
			return []any{e.Version, e.CreatedAt, e.Transition, e.From, e.To, e.Actor, e.Reason}
		},
		line: planEventLine,
	}.command(world)
}

func planEventLine(e repo.PlanEvent, details bool) any {
	if !details {
		e.Reason = ""
	}
	return object{
		{"plan_id", e.PlanID},
		{"version", e.Version},
		{"transition", e.Transition},
		{"from", given{textOf(e.From)}},
		{"to", textOf(e.To)},
		{"actor", given{e.Actor}},
		{"reason", given{e.Reason}},
		{"created_at", e.CreatedAt},
	}
}
