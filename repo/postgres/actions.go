package postgres

import (
	"context"
	"math"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// actions implements repo.Actions.
type actions struct{ base }

func (a *actions) Create(ctx context.Context, given repo.NewAction) (repo.Action, error) {
	name, definition, err := rules.NormalizeAction(a.view, given)
	if err != nil {
		return repo.Action{}, err
	}
	created, err := run(ctx, a.exec.writeByID, queries.ActionCreate, actionParams(name, definition, given.CreatedBy))
	if conn.IsNoRows(err) {
		stored, err := a.get(ctx, name)
		if err != nil {
			return repo.Action{}, a.exec.unread(err)
		}
		return stored, rules.ActionConflict(given, definition, stored)
	}
	if err != nil {
		return repo.Action{}, err
	}
	return repo.Action{
		Name: name, Version: 1, ActionDefinition: definition, CreatedBy: given.CreatedBy,
		CreatedAt: created.CreatedAt.UTC(), UpdatedAt: created.UpdatedAt.UTC(),
	}, nil
}

func (a *actions) Get(ctx context.Context, name string) (repo.Action, error) {
	parsed, err := rules.ParseAction(a.view, name)
	if err != nil {
		return repo.Action{}, err
	}
	return a.get(ctx, parsed)
}

func (a *actions) get(ctx context.Context, name repo.ActionName) (repo.Action, error) {
	row, err := run(ctx, a.exec.read, queries.ActionGet, name.String())
	if err != nil {
		return repo.Action{}, conn.OrMissing(err, &repo.NotFoundError{Kind: "action", Name: name.String()})
	}
	return convert.Action(row)
}

func (a *actions) List(ctx context.Context, filter repo.ActionFilter, page repo.Page) (repo.List[repo.Action], error) {
	if is, err := rules.SelectsInView(a.view, &filter.Namespace); !is {
		return repo.List[repo.Action]{}, err
	}
	list, err := rules.ActionList(filter, page)
	return listed(a.exec.read, list, err, func(by way) ([]db.Action, error) {
		return run(ctx, by, queries.ActionList, db.ActionListParams{
			Server: list.Filter.Server, Namespace: list.Filter.Namespace, AfterName: list.After,
			State: stateOf(list.Filter), Tag: list.Filter.Tag,
			MaxRows: int32(list.Limit + 1), // one extra row tells whether there is a next page
		})
	}, convert.Action)
}

// stateOf returns the state that a filter selects. Empty: any.
func stateOf(filter repo.ActionFilter) string {
	switch {
	case filter.Available:
		return "available"
	case filter.Archived:
		return convert.ActionArchived
	}
	return ""
}

func (a *actions) Update(ctx context.Context, name string, version int64,
	definition repo.ActionDefinition,
) (repo.Action, error) {
	parsed, definition, err := rules.NormalizeActionUpdate(a.view, name, version, definition)
	if err != nil {
		return repo.Action{}, err
	}
	params := db.ActionUpdateParams(actionParams(parsed, definition, "")) // an update does not change created_by
	var row db.Action
	err = a.exec.atomically(ctx, func(q db.DBTX) error {
		stored, err := queries.ActionLock(ctx, q, parsed.String())
		if err != nil {
			return err
		}
		if version != 0 && version != stored {
			return &conn.Answer{Err: &repo.VersionConflictError{
				Kind: "action", Name: parsed.String(), Expected: version,
				Actual: stored,
			}}
		}
		row, err = queries.ActionUpdate(ctx, q, params)
		return err
	})
	if err != nil {
		return repo.Action{}, conn.OrMissing(err, &repo.NotFoundError{Kind: "action", Name: parsed.String()})
	}
	return convert.Action(row)
}

func (a *actions) Archive(ctx context.Context, name string) (repo.Action, error) {
	parsed, err := rules.ParseAction(a.view, name)
	if err != nil {
		return repo.Action{}, err
	}
	if _, err := run(ctx, a.exec.writeByID, queries.ActionArchive, parsed.String()); err != nil {
		return repo.Action{}, err
	}
	archived, err := a.get(ctx, parsed)
	return archived, a.exec.unread(err)
}

func (a *actions) Delete(ctx context.Context, name string) error {
	parsed, err := rules.ParseAction(a.view, name)
	if err != nil {
		return err
	}
	row, err := run(ctx, a.exec.write, queries.ActionDelete, parsed.String())
	switch {
	case conn.Violates(err, convert.PlanAction):
		return &repo.RefusedError{Kind: "action", Name: parsed.String(), Reason: "is in use"}
	case err != nil:
		return err
	case row.InUse:
		return &repo.RefusedError{Kind: "action", Name: parsed.String(), Reason: "is in use"}
	case !row.Deleted:
		return &repo.NotFoundError{Kind: "action", Name: parsed.String()}
	}
	return nil
}

// actionParams returns the parameters that create or update an action. An empty text
// stands for no default, and NaN for no bound: neither is a valid value.
func actionParams(name repo.ActionName, definition repo.ActionDefinition, createdBy string) db.ActionCreateParams {
	params := db.ActionCreateParams{
		Name: name.String(), Server: name.Server, Namespace: name.Namespace, Description: definition.Description,
		DefinitionOfDone: definition.DefinitionOfDone, StrategyActor: convert.Nullable(definition.StrategyActor),
		ExecutionActor: convert.Nullable(definition.ExecutionActor),
		ReviewActor:    convert.Nullable(definition.ReviewActor), ApplyActor: convert.Nullable(definition.ApplyActor),
		EstimationActor:   convert.Nullable(definition.EstimationActor),
		InvariantActor:    convert.Nullable(definition.InvariantActor),
		AutomationProfile: convert.Nullable(definition.AutomationProfile), Reusable: definition.Reusable,
		ReadOnly: definition.ReadOnly, InputsSchema: string(definition.InputsSchema), Tags: definition.Tags,
		CreatedBy: convert.Nullable(createdBy), ArgumentNames: []string{}, ArgumentTypes: []string{},
		ArgumentRequireds: []bool{}, ArgumentDescriptions: []string{}, ArgumentDefaults: []string{},
		ArgumentMins: []float64{}, ArgumentMaxs: []float64{}, ArgumentPatterns: []string{},
		Invariants: definition.Invariants, MaxAttempts: int32(definition.MaxAttempts),
		MaxAgeMicros: definition.MaxAge.Microseconds(), KeepMicros: definition.Keep.Microseconds(),
		Phases: convert.Phases(definition.Phases),
	}
	for _, argument := range definition.Arguments {
		params.ArgumentNames = append(params.ArgumentNames, argument.Name)
		params.ArgumentTypes = append(params.ArgumentTypes, string(argument.Type))
		params.ArgumentRequireds = append(params.ArgumentRequireds, argument.Required)
		params.ArgumentDescriptions = append(params.ArgumentDescriptions, argument.Description)
		params.ArgumentDefaults = append(params.ArgumentDefaults, string(argument.Default))
		params.ArgumentMins = append(params.ArgumentMins, orNaN(argument.Min))
		params.ArgumentMaxs = append(params.ArgumentMaxs, orNaN(argument.Max))
		params.ArgumentPatterns = append(params.ArgumentPatterns, argument.Pattern)
	}
	return params
}

func orNaN(f *float64) float64 {
	if f == nil {
		return math.NaN()
	}
	return *f
}
