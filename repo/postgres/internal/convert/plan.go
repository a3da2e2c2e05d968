package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// OptionalUUID stores the zero id as null.
func OptionalUUID(id repo.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// OptionalID reads what OptionalUUID stores.
func OptionalID(id pgtype.UUID) repo.ID {
	if !id.Valid {
		return repo.ID{}
	}
	return id.Bytes
}

// storedName parses a stored name, which a constraint has checked.
func storedName(name string) (repo.ActionName, error) {
	parsed, err := repo.ParseActionName(name)
	if err != nil {
		return repo.ActionName{}, fmt.Errorf("%w: a stored action's name is malformed", repo.ErrSchema)
	}
	return parsed, nil
}

// Action returns an action.
func Action(row db.Action) (repo.Action, error) {
	name, err := storedName(row.Name)
	if err != nil {
		return repo.Action{}, err
	}
	arguments := make([]repo.Argument, len(row.ArgumentNames))
	for i := range arguments {
		arguments[i] = repo.Argument{
			Name: row.ArgumentNames[i], Type: repo.ArgumentType(row.ArgumentTypes[i]), Required: row.ArgumentRequireds[i],
			Description: row.ArgumentDescriptions[i], Min: fromNaN(row.ArgumentMins[i]),
			Max: fromNaN(row.ArgumentMaxs[i]), Pattern: row.ArgumentPatterns[i],
		}
		if text := row.ArgumentDefaults[i]; text != "" {
			arguments[i].Default = json.RawMessage(text)
		}
	}
	return repo.Action{
		Name:     name,
		Archived: row.State == ActionArchived,
		Version:  row.Version,
		ActionDefinition: repo.ActionDefinition{
			Description: row.Description, DefinitionOfDone: row.DefinitionOfDone,
			StrategyActor: FromNullable(row.StrategyActor), ExecutionActor: FromNullable(row.ExecutionActor),
			ReviewActor: FromNullable(row.ReviewActor), ApplyActor: FromNullable(row.ApplyActor),
			EstimationActor: FromNullable(row.EstimationActor), InvariantActor: FromNullable(row.InvariantActor),
			AutomationProfile: FromNullable(row.AutomationProfile), Reusable: row.Reusable, ReadOnly: row.ReadOnly,
			InputsSchema: row.InputsSchema, MaxAttempts: int(row.MaxAttempts), MaxAge: FromMicros(row.MaxAgeMicros),
			Keep: FromMicros(row.KeepMicros), Phases: fromPhases(row.Phases), Tags: row.Tags, Arguments: arguments,
			Invariants: row.Invariants,
		},
		CreatedBy: FromNullable(row.CreatedBy),
		CreatedAt: row.CreatedAt.UTC(),
		UpdatedAt: row.UpdatedAt.UTC(),
	}, nil
}

// phaseBits are the bits of the phases in a column. All of them stand for none, which means all.
var phaseBits = []repo.Phase{repo.PhaseStrategize, repo.PhaseExecute, repo.PhaseApply}

// Phases stores phases as bits.
func Phases(phases []repo.Phase) int16 {
	bits := int16(0)
	for i, phase := range phaseBits {
		if len(phases) == 0 || slices.Contains(phases, phase) {
			bits |= 1 << i
		}
	}
	return bits
}

func fromPhases(bits int16) (phases []repo.Phase) {
	if bits == Phases(nil) {
		return nil
	}
	for i, phase := range phaseBits {
		if bits&(1<<i) != 0 {
			phases = append(phases, phase)
		}
	}
	return phases
}

// FromMicros reads a duration.
func FromMicros(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// FromTime reads an optional time.
func FromTime(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}

// ToTime stores the zero time as null.
func ToTime(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

func fromNaN(f float64) *float64 {
	if math.IsNaN(f) {
		return nil
	}
	return &f
}

// Plan returns a plan.
func Plan(row db.Plan) (repo.Plan, error) {
	action, err := storedName(row.ActionName)
	if err != nil {
		return repo.Plan{}, err
	}
	plan := repo.Plan{
		ID: row.ID.Bytes, Name: FromNullable(row.Name), Namespace: row.Namespace, SessionID: OptionalID(row.SessionID),
		Key: FromNullable(row.Key), Action: action, ParentID: OptionalID(row.ParentID), RootID: row.RootID.Bytes,
		Depth: int(row.Depth), Attempt: int(row.Attempt), MaxAttempts: int(row.MaxAttempts),
		Priority: int(row.Priority), NotBefore: FromTime(row.NotBefore), Deadline: FromTime(row.Deadline),
		Keep: FromMicros(row.KeepMicros), Phases: fromPhases(row.Phases), Description: row.Description,
		DefinitionOfDone:        row.DefinitionOfDone,
		Stage:                   repo.Stage{Phase: repo.Phase(row.Phase), State: repo.PlanState(row.State)},
		Projects:                make([]repo.ProjectLink, len(row.Projects)),
		Arguments:               make([]repo.ArgumentValue, len(row.ArgumentNames)),
		Invariants:              make([]repo.PlanInvariant, len(row.Invariants)),
		AutomationProfile:       FromNullable(row.AutomationProfile),
		AutomationProfileSource: FromNullable(row.AutomationProfileSource), AutomationSnapshot: row.AutomationSnapshot,
		Trace: FromNullable(row.Trace), ErrorMessage: FromNullable(row.ErrorMessage), ErrorDetails: row.ErrorDetails,
		ReversionCount: int(row.ReversionCount), LastCompletedStep: row.LastCompletedStep,
		LastCheckpointID: FromNullable(row.LastCheckpointID), Version: row.Version,
		CancelReason: FromNullable(row.CancelReason), CancelledAt: FromTime(row.CancelledAt),
		CreatedAt: row.CreatedAt.UTC(), UpdatedAt: row.UpdatedAt.UTC(),
	}
	for i := range plan.Projects {
		plan.Projects[i] = repo.ProjectLink{
			Project: row.Projects[i], Alias: row.ProjectAliases[i],
			ReadOnly: row.ProjectReadOnlys[i],
		}
	}
	for i := range plan.Arguments {
		plan.Arguments[i] = repo.ArgumentValue{Name: row.ArgumentNames[i], Value: json.RawMessage(row.ArgumentValues[i])}
	}
	for i := range plan.Invariants {
		plan.Invariants[i] = repo.PlanInvariant{Text: row.Invariants[i], Source: row.InvariantSources[i]}
	}
	return plan, nil
}

// Event returns an event of a plan's history.
func Event(row db.PlanHistory) repo.PlanEvent {
	return repo.PlanEvent{
		PlanID:     row.PlanID.Bytes,
		Version:    row.Version,
		Transition: repo.Transition(row.Transition),
		From: repo.Stage{
			Phase: repo.Phase(FromNullable(row.FromPhase)),
			State: repo.PlanState(FromNullable(row.FromState)),
		},
		To:        repo.Stage{Phase: repo.Phase(row.ToPhase), State: repo.PlanState(row.ToState)},
		Actor:     FromNullable(row.Actor),
		Reason:    FromNullable(row.Reason),
		CreatedAt: row.CreatedAt.UTC(),
	}
}

// LinkedPlans returns a session's plans in a view from texts "id/phase/state/namespace": the whole store may have
// linked others.
func LinkedPlans(view string, texts []string) (plans []repo.LinkedPlan) {
	for _, text := range texts {
		parts := strings.SplitN(text, "/", 4) // as many as the database wrote
		var uuid pgtype.UUID
		_ = uuid.Scan(parts[0])
		if rules.IsInView(view, parts[3]) {
			stage := repo.Stage{Phase: repo.Phase(parts[1]), State: repo.PlanState(parts[2])}
			plans = append(plans, repo.LinkedPlan{ID: uuid.Bytes, Namespace: parts[3], Stage: stage})
		}
	}
	return plans
}

// ActionArchived is the state of an archived action.
const ActionArchived = "archived"
