package rules

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/pattern"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeUse makes the checks of a use that do not need its action, and returns
// the action's name, and the use as it is stored.
func NormalizeUse(view, action string, u repo.UseAction) (repo.ActionName, repo.UseAction, error) {
	parsed, err := ParseAction(view, action)
	if err = cmp.Or(MadeInView(view, "namespace", &u.Namespace), err); err != nil {
		return repo.ActionName{}, u, err
	}
	u, err = normalizeUse(u)
	return parsed, u, err
}

func normalizeUse(u repo.UseAction) (repo.UseAction, error) {
	err := cmp.Or(
		invalidIf(u.Existing != "" && u.Existing != repo.ExistingSame && u.Existing != repo.ExistingAny, "existing",
			"is neither empty, same nor any"),
		invalidIf(u.Name != "" && !u.ParentID.IsZero(), "name", "is set, but a child plan has none"),
		checkNames(
			name{"key", u.Key}, name{"name", u.Name}, name{"namespace", u.Namespace}, name{"actor", u.Actor},
			name{"automation_profile", u.AutomationProfile}, name{"automation_profile_source", u.AutomationProfileSource},
		),
		invalidIf(u.AutomationProfile == "" && u.AutomationProfileSource != "", "automation_profile_source",
			"is set, but the profile is not"),
		invalidIf(u.Attempt < 0 || u.Attempt > 1<<31-1, "attempt", "is not between 1 and 2^31-1"),
		invalidIf(u.Priority < 0 || u.Priority > limits.MaxPriority, "priority", "is not between 0 and %d",
			limits.MaxPriority),
		invalidIf(u.NotBefore.Before(time.Time{}) || !u.NotBefore.Before(endOfTime), "not_before",
			"is not in the years 1 to 9999"),
		checkText("description", u.Description, limits.MaxTextBytes),
		checkText("trace", u.Trace, limits.MaxTraceBytes),
		normalizeObject("automation_snapshot", &u.AutomationSnapshot),
		normalizeProjects(&u.Projects),
		normalizePlanInvariants(&u.Invariants),
	)
	if err != nil {
		return u, err
	}
	if u.AutomationProfile != "" && u.AutomationProfileSource == "" {
		u.AutomationProfileSource = repo.SourcePlan
	}
	u.Attempt = max(u.Attempt, 1)
	u.NotBefore = u.NotBefore.UTC().Truncate(time.Microsecond)
	u.Arguments = slices.Clone(u.Arguments)
	for i := range u.Arguments {
		u.Arguments[i].Value = bytes.Clone(u.Arguments[i].Value)
	}
	return u, nil
}

func normalizeProjects(projects *[]repo.ProjectLink) error {
	normal := orEmpty(*projects)
	*projects = normal
	return checkEach("projects", len(normal), limits.MaxProjects, func(field string, i int) error {
		link := &normal[i]
		link.Alias = cmp.Or(link.Alias, link.Project)
		twice := slices.ContainsFunc(normal[:i], func(other repo.ProjectLink) bool { return other.Alias == link.Alias })
		return within(field+".", cmp.Or(
			invalidIf(link.Project == "", "project", "is empty"),
			checkNames(name{"project", link.Project}, name{"alias", link.Alias}),
			invalidIf(twice, "alias", "is in the list twice"),
		))
	})
}

func normalizePlanInvariants(invariants *[]repo.PlanInvariant) error {
	normal := orEmpty(*invariants)
	*invariants = normal
	return checkEach("invariants", len(normal), limits.MaxInvariants, func(field string, i int) error {
		normal[i].Source = cmp.Or(normal[i].Source, repo.SourcePlan)
		return within(field+".", cmp.Or(checkInvariant("text", normal[i].Text), checkNames(name{"source", normal[i].Source})))
	})
}

// NewPlan checks the normalized use against the action and returns the plan with this id that it
// makes, without what the database sets: its tree (RootID, Depth; a child's
// namespace), version and times. Errors: InvalidError, RefusedError.
func NewPlan(ctx context.Context, id repo.ID, u repo.UseAction, action repo.Action) (repo.Plan, error) {
	if action.Archived {
		return repo.Plan{}, &repo.RefusedError{Kind: "action", Name: action.Name.String(), Reason: "is archived"}
	}
	plan := repo.Plan{
		ID: id, SessionID: u.SessionID, Key: u.Key, Name: u.Name, Namespace: u.Namespace, Action: action.Name,
		ParentID: u.ParentID, RootID: id, Attempt: u.Attempt, MaxAttempts: action.MaxAttempts, Priority: u.Priority,
		NotBefore: u.NotBefore, Keep: action.Keep, Description: u.Description, Phases: action.Phases,
		Stage: repo.Stage{Phase: phasesOf(action.Phases)[0], State: repo.PlanQueued}, Projects: u.Projects,
		AutomationProfile: u.AutomationProfile, AutomationProfileSource: u.AutomationProfileSource,
		AutomationSnapshot: u.AutomationSnapshot, Trace: u.Trace, Version: 1,
	}
	if plan.Namespace == "" && u.ParentID.IsZero() {
		plan.Namespace = action.Name.Namespace
	}
	plan.Description = cmp.Or(plan.Description, action.Description)
	if plan.AutomationProfile == "" && action.AutomationProfile != "" {
		plan.AutomationProfile, plan.AutomationProfileSource = action.AutomationProfile, repo.SourceAction
	}
	if action.ReadOnly {
		plan.Projects = make([]repo.ProjectLink, len(u.Projects))
		for i, link := range u.Projects {
			link.ReadOnly = true
			plan.Projects[i] = link
		}
	}
	plan.Invariants = make([]repo.PlanInvariant, 0, len(action.Invariants)+len(u.Invariants))
	for _, text := range action.Invariants {
		plan.Invariants = append(plan.Invariants, repo.PlanInvariant{Text: text, Source: repo.SourceAction})
	}
	plan.Invariants = append(plan.Invariants, u.Invariants...)
	var err error
	if plan.Arguments, err = Bind(ctx, action.ActionDefinition, u.Arguments); err != nil {
		return repo.Plan{}, err
	}
	plan.DefinitionOfDone, err = Render(action.ActionDefinition, plan.Arguments)
	return plan, err
}

// PutBelow puts a new plan into the tree of its parent, which has so many children.
// Errors: TransitionConflictError, LimitExceededError.
func PutBelow(plan *repo.Plan, parent repo.Plan, children int64) error {
	switch {
	case !parent.Live():
		return Refuse(parent, repo.TransitionUse, repo.Cause{})
	case parent.Depth >= limits.MaxPlanDepth:
		return &repo.LimitExceededError{Kind: "depth", ID: parent.ID, Limit: limits.MaxPlanDepth}
	case children >= limits.MaxChildPlans:
		return &repo.LimitExceededError{Kind: "children", ID: parent.ID, Limit: limits.MaxChildPlans}
	}
	plan.RootID, plan.Depth = parent.RootID, parent.Depth+1
	plan.Namespace = cmp.Or(plan.Namespace, parent.Namespace)
	return nil
}

// UseDetails returns the details of the audit entry that records a use.
func UseDetails(action repo.ActionName) json.RawMessage {
	return json.RawMessage(`{"action":"` + action.String() + `"}`) // a name needs no escapes
}

// Bind checks values against a definition's arguments and returns them in the
// definition's order, with defaults for missing ones. Errors: InvalidError of
// "arguments.NAME", or of "arguments[i]" for an unknown name.
func Bind(ctx context.Context, d repo.ActionDefinition, given []repo.ArgumentValue) ([]repo.ArgumentValue, error) {
	byName := make(map[string]repo.ArgumentValue, len(given))
	for i, value := range given {
		if _, twice := byName[value.Name]; twice {
			return nil, invalid(at("arguments", i), "is in the list twice")
		}
		byName[value.Name] = value
	}
	bound, steps := make([]repo.ArgumentValue, 0, len(d.Arguments)), 0
	for _, argument := range d.Arguments {
		value, found := byName[argument.Name]
		switch {
		case found:
			if err := ctx.Err(); err != nil { // a check may take a while
				return nil, fmt.Errorf("agentstore: %w", err)
			}
			if steps += stepsOf(argument, value.Value); steps > limits.MaxPatternSteps {
				// Its own check may say more about it.
				return nil, cmp.Or(checkValue(argument, value.Value), invalid("arguments."+argument.Name,
					"is too long for its pattern and the ones before it"))
			}
			if err := checkValue(argument, value.Value); err != nil {
				return nil, err
			}
			delete(byName, argument.Name)
			bound = append(bound, value)
		case argument.Default != nil:
			bound = append(bound, repo.ArgumentValue{Name: argument.Name, Value: argument.Default})
		case argument.Required:
			return nil, invalid("arguments."+argument.Name, "is required")
		}
	}
	for i, value := range given {
		if _, unknown := byName[value.Name]; unknown {
			return nil, invalid(at("arguments", i), "is not an argument of the action")
		}
	}
	return bound, nil
}

// stepsOf returns what it costs to match a value with the argument's pattern.
func stepsOf(argument repo.Argument, value json.RawMessage) int {
	if argument.Pattern == "" {
		return 0
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return 0 // Check refuses it
	}
	steps, err := pattern.Steps(argument.Pattern, len(text))
	if err != nil {
		return 0
	}
	return steps
}

// UseConflict returns an error that says how the stored plan differs from the one
// that the normalized use made, or nil. action is the name that was used. The
// action's definition is not compared: it may have changed since. The attempt may have
// grown, and when it is due depends on it. A repetition may be in another trace.
func UseConflict(u repo.UseAction, action repo.ActionName, stored repo.Plan) error {
	if u.Existing == repo.ExistingAny {
		return nil
	}
	return conflict(repo.ExistsError{Kind: "plan", ID: stored.ID},
		difference{"action", stored.Action != action},
		difference{"name", stored.Name != u.Name},
		difference{"namespace", u.Namespace != "" && stored.Namespace != u.Namespace},
		difference{"parent_id", stored.ParentID != u.ParentID},
		difference{"attempt", stored.Attempt < u.Attempt},
		difference{"priority", stored.Priority != u.Priority},
		difference{"description", u.Description != "" && stored.Description != u.Description},
		difference{"automation_profile", u.AutomationProfile != "" && stored.AutomationProfile != u.AutomationProfile},
		difference{"automation_profile_source", u.AutomationProfile != "" &&
			stored.AutomationProfileSource != u.AutomationProfileSource},
		difference{"automation_snapshot", !jsonvalue.Equal(u.AutomationSnapshot, stored.AutomationSnapshot)},
		difference{"projects", !sameProjects(u.Projects, stored.Projects)},
		difference{"invariants", !sameInvariants(u.Invariants, stored.Invariants)},
		difference{"arguments", !sameArguments(u.Arguments, stored.Arguments)},
	)
}

// sameProjects ignores ReadOnly, which the action may have forced.
func sameProjects(given, stored []repo.ProjectLink) bool {
	return slices.EqualFunc(given, stored, func(given, stored repo.ProjectLink) bool {
		return given.Project == stored.Project && given.Alias == stored.Alias && (stored.ReadOnly || !given.ReadOnly)
	})
}

// sameInvariants compares the last stored ones, which are the use's own.
func sameInvariants(given, stored []repo.PlanInvariant) bool {
	return len(stored) >= len(given) && slices.Equal(stored[len(stored)-len(given):], given)
}

// sameArguments compares the arguments that were given; others have their defaults.
func sameArguments(given, stored []repo.ArgumentValue) bool {
	values := make(map[string]repo.ArgumentValue, len(stored))
	for _, value := range stored {
		values[value.Name] = value
	}
	for _, argument := range given {
		value, found := values[argument.Name]
		if !found || !jsonvalue.Equal(argument.Value, value.Value) {
			return false
		}
	}
	return true
}
