package memory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// actions is repo.Actions.
type actions struct{ *handle }

func (a actions) Create(ctx context.Context, given repo.NewAction) (repo.Action, error) {
	name, definition, err := rules.NormalizeAction(a.options.view, given)
	return run(ctx, unless(err, a.write), func(t *tables) (repo.Action, error) {
		if stored := t.actions.get(name.String()); stored != nil {
			if err := rules.ActionConflict(given, definition, *stored); err != nil {
				return repo.Action{}, err
			}
			return copyOf(stored), nil
		}
		now := t.now()
		created := &repo.Action{
			Name: name, Version: 1, ActionDefinition: definition,
			CreatedBy: given.CreatedBy, CreatedAt: now, UpdatedAt: now,
		}
		t.actions.put(name.String(), created)
		return copyOf(created), nil
	})
}

func (a actions) Get(ctx context.Context, name string) (repo.Action, error) {
	parsed, err := rules.ParseAction(a.options.view, name)
	return runOn(ctx, unless(err, a.read), (*tables).action, parsed,
		func(_ *tables, stored *repo.Action) (repo.Action, error) { return copyOf(stored), nil })
}

func (a actions) List(ctx context.Context, filter repo.ActionFilter, page repo.Page) (repo.List[repo.Action], error) {
	if is, err := rules.SelectsInView(a.options.view, &filter.Namespace); !is {
		return repo.List[repo.Action]{}, err
	}
	list, err := rules.ActionList(filter, page)
	return run(ctx, unless(err, a.read), func(t *tables) (repo.List[repo.Action], error) {
		found := t.actions.where(func(stored *repo.Action) bool {
			return stored.Name.Server == list.Filter.Server && stored.Name.Namespace == list.Filter.Namespace &&
				(!list.Filter.Available || !stored.Archived) && (!list.Filter.Archived || stored.Archived) &&
				(list.Filter.Tag == "" || slices.Contains(stored.Tags, list.Filter.Tag)) && stored.Name.String() > list.After
		})
		return pageOf(list, found, func(a, b *repo.Action) int { return strings.Compare(a.Name.String(), b.Name.String()) },
			copyOf)
	})
}

func (a actions) Update(ctx context.Context, name string, version int64,
	definition repo.ActionDefinition,
) (repo.Action, error) {
	parsed, definition, err := rules.NormalizeActionUpdate(a.options.view, name, version, definition)
	return runOn(ctx, unless(err, a.write), (*tables).action, parsed,
		func(t *tables, stored *repo.Action) (repo.Action, error) {
			if version != 0 && version != stored.Version {
				return repo.Action{}, &repo.VersionConflictError{
					Kind: "action", Name: parsed.String(), Expected: version,
					Actual: stored.Version,
				}
			}
			changed := *stored
			changed.ActionDefinition = definition
			return t.putNext(changed, t.now()), nil
		})
}

func (a actions) Archive(ctx context.Context, name string) (repo.Action, error) {
	parsed, err := rules.ParseAction(a.options.view, name)
	return runOn(ctx, unless(err, a.write), (*tables).action, parsed,
		func(t *tables, stored *repo.Action) (repo.Action, error) {
			if stored.Archived {
				return copyOf(stored), nil
			}
			return t.archive(*stored, t.now()), nil
		})
}

func (t *tables) archive(action repo.Action, now time.Time) repo.Action {
	action.Archived = true
	return t.putNext(action, now)
}

// putNext stores an action's next version.
func (t *tables) putNext(action repo.Action, now time.Time) repo.Action {
	action.Version++
	action.UpdatedAt = now
	t.actions.put(action.Name.String(), &action)
	return copyOf(&action)
}

func (a actions) Delete(ctx context.Context, name string) error {
	parsed, err := rules.ParseAction(a.options.view, name)
	return exec(ctx, unless(err, a.write), func(t *tables) error {
		if len(t.plans.where(func(r *planRow) bool { return r.Action == parsed })) > 0 {
			return &repo.RefusedError{Kind: "action", Name: parsed.String(), Reason: "is in use"}
		}
		if _, err := t.action(parsed); err != nil {
			return err
		}
		t.actions.remove(parsed.String())
		details := json.RawMessage(`{"entity":"action","name":"` + parsed.String() + `"}`)
		t.recordEvent(t.now(), repo.AuditEntry{Type: events.EntityDeleted, Namespace: parsed.Namespace, Details: details})
		return nil
	})
}
