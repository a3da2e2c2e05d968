package memory

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// actions is repo.Actions.
type actions struct{ at access }

func copyAction(a repo.Action) repo.Action {
	a.ActionDefinition = copyDefinition(a.ActionDefinition)
	return a
}

func copyDefinition(d repo.ActionDefinition) repo.ActionDefinition {
	d.InputsSchema = bytes.Clone(d.InputsSchema)
	d.Tags, d.Invariants = slices.Clone(d.Tags), slices.Clone(d.Invariants)
	d.Arguments = slices.Clone(d.Arguments)
	for i := range d.Arguments {
		argument := &d.Arguments[i]
		argument.Default = bytes.Clone(argument.Default)
		argument.Min, argument.Max = copyPointer(argument.Min), copyPointer(argument.Max)
	}
	return d
}

func copyPointer[V any](p *V) *V {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

func (a *actions) Create(ctx context.Context, new repo.NewAction) (repo.Action, error) {
	name, definition, err := new.Normalize()
	if err != nil {
		return repo.Action{}, err
	}
	v, err := a.at.write(ctx)
	if err != nil {
		return repo.Action{}, err
	}
	defer a.at.unlock()
	if stored := v.actions().get(name.String()); stored != nil {
		if err := new.Conflict(definition, *stored); err != nil {
			return repo.Action{}, err
		}
		return copyAction(*stored), nil
	}
	now := v.now()
	created := copyAction(repo.Action{
		Name: name, State: repo.ActionAvailable, Version: 1, ActionDefinition: definition,
		CreatedBy: new.CreatedBy, CreatedAt: now, UpdatedAt: now,
	})
	v.actions().put(name.String(), &created)
	return copyAction(created), nil
}

func (a *actions) Get(ctx context.Context, name string) (repo.Action, error) {
	parsed, err := repo.ParseActionName(name)
	if err != nil {
		return repo.Action{}, err
	}
	v, err := a.at.read(ctx)
	if err != nil {
		return repo.Action{}, err
	}
	defer a.at.unlock()
	stored := v.actions().get(parsed.String())
	if stored == nil {
		return repo.Action{}, &repo.ActionNotFound{Name: parsed}
	}
	return copyAction(*stored), nil
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
	v, err := a.at.read(ctx)
	if err != nil {
		return repo.ActionPage{}, err
	}
	var found []*repo.Action
	v.actions().each(func(name string, stored *repo.Action) {
		if stored.Name.Server == filter.Server && stored.Name.Namespace == filter.Namespace && name > after &&
			(filter.State == "" || filter.State == stored.State) &&
			(filter.Tag == "" || slices.Contains(stored.Tags, filter.Tag)) {
			found = append(found, stored)
		}
	})
	a.at.unlock()
	slices.SortFunc(found, func(a, b *repo.Action) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	result := repo.ActionPage{Actions: make([]repo.Action, 0, min(len(found), limit))}
	for _, stored := range found[:min(len(found), limit)] {
		result.Actions = append(result.Actions, copyAction(*stored))
	}
	if len(found) > limit {
		result.Next = filter.CursorAfter(result.Actions[limit-1].Name.String())
	}
	return result, nil
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
	return a.change(ctx, parsed, func(changed *repo.Action) (bool, error) {
		if version != 0 && version != changed.Version {
			return false, &repo.ActionConflict{Name: parsed, Field: "version", Version: changed.Version}
		}
		changed.ActionDefinition = copyDefinition(definition)
		return true, nil
	})
}

func (a *actions) Archive(ctx context.Context, name string) (repo.Action, error) {
	parsed, err := repo.ParseActionName(name)
	if err != nil {
		return repo.Action{}, err
	}
	return a.change(ctx, parsed, func(changed *repo.Action) (bool, error) {
		changes := changed.State != repo.ActionArchived
		changed.State = repo.ActionArchived
		return changes, nil
	})
}

// change stores what change makes of a copy of the action, if it says so.
func (a *actions) change(ctx context.Context, name repo.ActionName, change func(*repo.Action) (bool, error)) (repo.Action, error) {
	v, err := a.at.write(ctx)
	if err != nil {
		return repo.Action{}, err
	}
	defer a.at.unlock()
	stored := v.actions().get(name.String())
	if stored == nil {
		return repo.Action{}, &repo.ActionNotFound{Name: name}
	}
	changed := *stored
	changes, err := change(&changed)
	if err != nil {
		return repo.Action{}, err
	}
	if changes {
		changed.Version++
		changed.UpdatedAt = v.now()
		v.actions().put(name.String(), &changed)
	}
	return copyAction(changed), nil
}

func (a *actions) Delete(ctx context.Context, name string) error {
	parsed, err := repo.ParseActionName(name)
	if err != nil {
		return err
	}
	v, err := a.at.write(ctx)
	if err != nil {
		return err
	}
	defer a.at.unlock()
	used := false
	v.plans().each(func(_ repo.ID, r *planRecord) { used = used || r.plan.Action == parsed })
	if used {
		return &repo.ActionInUse{Name: parsed}
	}
	if v.actions().get(parsed.String()) == nil {
		return &repo.ActionNotFound{Name: parsed}
	}
	v.actions().remove(parsed.String())
	told(v, repo.EventEntityDeleted, v.now(), "", repo.ID{}, repo.ID{}, `{"entity":"action","name":"`+parsed.String()+`"}`)
	return nil
}
