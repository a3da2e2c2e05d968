package postgres

import (
	"context"
	"math"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// actions is repo.Actions.
type actions struct{ exec executor }

func (a *actions) Create(ctx context.Context, new repo.NewAction) (repo.Action, error) {
	name, definition, err := new.Normalize()
	if err != nil {
		return repo.Action{}, err
	}
	c := argumentColumnsOf(definition.Arguments)
	created, err := run(ctx, a.exec.writeByID, queries.ActionCreate, db.ActionCreateParams{
		Name:                 name.String(),
		Server:               name.Server,
		Namespace:            name.Namespace,
		Description:          definition.Description,
		DefinitionOfDone:     definition.DefinitionOfDone,
		StrategyActor:        toNullable(definition.Actors.Strategy),
		ExecutionActor:       toNullable(definition.Actors.Execution),
		ReviewActor:          toNullable(definition.Actors.Review),
		ApplyActor:           toNullable(definition.Actors.Apply),
		EstimationActor:      toNullable(definition.Actors.Estimation),
		InvariantActor:       toNullable(definition.Actors.Invariant),
		AutomationProfile:    toNullable(definition.AutomationProfile),
		Reusable:             definition.Reusable,
		ReadOnly:             definition.ReadOnly,
		InputsSchema:         string(definition.InputsSchema),
		Tags:                 definition.Tags,
		CreatedBy:            toNullable(new.CreatedBy),
		ArgumentNames:        c.names,
		ArgumentTypes:        c.types,
		ArgumentRequireds:    c.requireds,
		ArgumentDescriptions: c.descriptions,
		ArgumentDefaults:     c.defaults,
		ArgumentMins:         c.mins,
		ArgumentMaxs:         c.maxs,
		ArgumentPatterns:     c.patterns,
		Invariants:           definition.Invariants,
	})
	if isNoRows(err) {
		stored, err := a.get(ctx, name)
		if err != nil {
			return repo.Action{}, a.exec.unread(err)
		}
		return stored, new.Conflict(definition, stored)
	}
	if err != nil {
		return repo.Action{}, err
	}
	return repo.Action{
		Name:             name,
		State:            repo.ActionAvailable,
		Version:          1,
		ActionDefinition: definition,
		CreatedBy:        new.CreatedBy,
		CreatedAt:        created.CreatedAt.UTC(),
		UpdatedAt:        created.UpdatedAt.UTC(),
	}, nil
}

func (a *actions) Get(ctx context.Context, name string) (repo.Action, error) {
	parsed, err := repo.ParseActionName(name)
	if err != nil {
		return repo.Action{}, err
	}
	return a.get(ctx, parsed)
}

func (a *actions) get(ctx context.Context, name repo.ActionName) (repo.Action, error) {
	row, err := run(ctx, a.exec.read, queries.ActionGet, name.String())
	if isNoRows(err) {
		return repo.Action{}, &repo.ActionNotFound{Name: name}
	}
	if err != nil {
		return repo.Action{}, err
	}
	return actionOf(row)
}

func (a *actions) List(ctx context.Context, filter repo.ActionFilter, page repo.Page) (repo.ActionPage, error) {
	filter, err := filter.Normalize()
	if err != nil {
		return repo.ActionPage{}, err
	}
	limit, err := repo.CheckLimit(page.Limit)
	if err != nil {
		return repo.ActionPage{}, err
	}
	after, err := filter.Place(page.After)
	if err != nil {
		return repo.ActionPage{}, err
	}
	rows, err := run(ctx, a.exec.read, queries.ActionList, db.ActionListParams{
		Server:    filter.Server,
		Namespace: filter.Namespace,
		AfterName: after,
		State:     string(filter.State),
		Tag:       filter.Tag,
		MaxRows:   int32(limit + 1), // one more tells whether there is a next page
	})
	if err != nil {
		return repo.ActionPage{}, err
	}
	actions, next, err := pageOf(rows, limit,
		func(row db.ActionListRow) (repo.Action, error) { return actionOf(db.ActionGetRow(row)) },
		func(last repo.Action) repo.Cursor { return filter.CursorAfter(last.Name.String()) })
	return repo.ActionPage{Actions: actions, Next: next}, err
}

func (a *actions) Update(ctx context.Context, name string, version int64, definition repo.ActionDefinition) (repo.Action, error) {
	parsed, err := repo.ParseActionName(name)
	if err != nil {
		return repo.Action{}, err
	}
	if err := repo.CheckSequence("version", version); err != nil {
		return repo.Action{}, err
	}
	if definition, err = definition.Normalize(); err != nil {
		return repo.Action{}, err
	}
	c := argumentColumnsOf(definition.Arguments)
	var row db.ActionGetRow
	err = a.exec.atomically(ctx, func(q db.DBTX) error {
		stored, err := queries.ActionLock(ctx, q, parsed.String())
		if err != nil {
			return err
		}
		if version != 0 && version != stored {
			return &answer{&repo.ActionConflict{Name: parsed, Field: "version", Version: stored}}
		}
		if err := queries.ActionUpdate(ctx, q, db.ActionUpdateParams{
			Name:                 parsed.String(),
			Description:          definition.Description,
			DefinitionOfDone:     definition.DefinitionOfDone,
			StrategyActor:        toNullable(definition.Actors.Strategy),
			ExecutionActor:       toNullable(definition.Actors.Execution),
			ReviewActor:          toNullable(definition.Actors.Review),
			ApplyActor:           toNullable(definition.Actors.Apply),
			EstimationActor:      toNullable(definition.Actors.Estimation),
			InvariantActor:       toNullable(definition.Actors.Invariant),
			AutomationProfile:    toNullable(definition.AutomationProfile),
			Reusable:             definition.Reusable,
			ReadOnly:             definition.ReadOnly,
			InputsSchema:         string(definition.InputsSchema),
			Tags:                 definition.Tags,
			ArgumentNames:        c.names,
			ArgumentTypes:        c.types,
			ArgumentRequireds:    c.requireds,
			ArgumentDescriptions: c.descriptions,
			ArgumentDefaults:     c.defaults,
			ArgumentMins:         c.mins,
			ArgumentMaxs:         c.maxs,
			ArgumentPatterns:     c.patterns,
			Invariants:           definition.Invariants,
		}); err != nil {
			return err
		}
		row, err = queries.ActionGet(ctx, q, parsed.String())
		return err
	})
	if isNoRows(err) {
		return repo.Action{}, &repo.ActionNotFound{Name: parsed}
	}
	if err != nil {
		return repo.Action{}, err
	}
	return actionOf(row)
}

func (a *actions) Archive(ctx context.Context, name string) (repo.Action, error) {
	parsed, err := repo.ParseActionName(name)
	if err != nil {
		return repo.Action{}, err
	}
	err = a.exec.writeByID(ctx, func(q db.DBTX) error {
		_, err := queries.ActionArchive(ctx, q, parsed.String())
		return err
	})
	if err != nil {
		return repo.Action{}, err
	}
	archived, err := a.get(ctx, parsed)
	return archived, a.exec.unread(err)
}

func (a *actions) Delete(ctx context.Context, name string) error {
	parsed, err := repo.ParseActionName(name)
	if err != nil {
		return err
	}
	row, err := run(ctx, a.exec.write, queries.ActionDelete, parsed.String())
	switch {
	case violates(err, planAction):
		return &repo.ActionInUse{Name: parsed}
	case err != nil:
		return err
	case row.InUse:
		return &repo.ActionInUse{Name: parsed}
	case !row.Deleted:
		return &repo.ActionNotFound{Name: parsed}
	}
	return nil
}

// argumentColumns are arguments as the arrays that a statement unnests. The
// empty text stands for no default, NaN for no bound: neither can be a value.
type argumentColumns struct {
	names, types, descriptions, defaults, patterns []string
	requireds                                      []bool
	mins, maxs                                     []float64
}

func argumentColumnsOf(arguments []repo.Argument) argumentColumns {
	n := len(arguments)
	c := argumentColumns{
		names: make([]string, n), types: make([]string, n), descriptions: make([]string, n),
		defaults: make([]string, n), patterns: make([]string, n), requireds: make([]bool, n),
		mins: make([]float64, n), maxs: make([]float64, n),
	}
	for i, argument := range arguments {
		c.names[i], c.types[i], c.requireds[i] = argument.Name, string(argument.Type), argument.Required
		c.descriptions[i], c.patterns[i] = argument.Description, argument.Pattern
		c.defaults[i] = string(argument.Default)
		c.mins[i], c.maxs[i] = orNaN(argument.Min), orNaN(argument.Max)
	}
	return c
}

func orNaN(f *float64) float64 {
	if f == nil {
		return math.NaN()
	}
	return *f
}
