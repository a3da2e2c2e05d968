package convert

import (
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// AfterUse sets what the database decides.
func AfterUse(plan *repo.Plan, created db.PlanCreateRow, action repo.Action) {
	plan.CreatedAt, plan.UpdatedAt = created.CreatedAt.UTC(), created.UpdatedAt.UTC()
	plan.Deadline = rules.DeadlineOf(*plan, action.MaxAge)
}

// PlanParams returns the arguments with which a plan is made.
func PlanParams(plan repo.Plan, action repo.Action, use repo.UseAction) db.PlanCreateParams {
	maxAge := action.MaxAge
	if rules.DeadlineOf(plan, maxAge).IsZero() {
		maxAge = 0
	}
	params := db.PlanCreateParams{
		ActionName: plan.Action.String(), ActionVersion: action.Version, ID: UUID(plan.ID), Name: Nullable(plan.Name),
		Namespace: plan.Namespace, Key: Nullable(plan.Key), ParentID: OptionalUUID(plan.ParentID),
		RootID: UUID(plan.RootID), Depth: int32(plan.Depth), Attempt: int32(plan.Attempt),
		MaxAttempts: int32(plan.MaxAttempts), Priority: int16(plan.Priority), NotBefore: ToTime(plan.NotBefore),
		MaxAgeMicros: maxAge.Microseconds(), KeepMicros: plan.Keep.Microseconds(), Phases: Phases(plan.Phases),
		Description: plan.Description, DefinitionOfDone: plan.DefinitionOfDone, Phase: string(plan.Phase),
		State: string(plan.State), AutomationProfile: Nullable(plan.AutomationProfile),
		AutomationProfileSource: Nullable(plan.AutomationProfileSource),
		AutomationSnapshot:      string(plan.AutomationSnapshot), Trace: Nullable(plan.Trace),
		SessionID: OptionalUUID(use.SessionID), Projects: []string{}, ProjectAliases: []string{},
		ProjectReadOnlys: []bool{}, ArgumentNames: []string{}, ArgumentValues: []string{}, Invariants: []string{},
		InvariantSources: []string{}, Actor: Nullable(use.Actor), Details: string(rules.UseDetails(plan.Action)),
	}
	for _, link := range plan.Projects {
		params.Projects = append(params.Projects, link.Project)
		params.ProjectAliases = append(params.ProjectAliases, link.Alias)
		params.ProjectReadOnlys = append(params.ProjectReadOnlys, link.ReadOnly)
	}
	for _, value := range plan.Arguments {
		params.ArgumentNames = append(params.ArgumentNames, value.Name)
		params.ArgumentValues = append(params.ArgumentValues, string(value.Value))
	}
	for _, invariant := range plan.Invariants {
		params.Invariants = append(params.Invariants, invariant.Text)
		params.InvariantSources = append(params.InvariantSources, invariant.Source)
	}
	return params
}
