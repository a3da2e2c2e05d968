package postgres

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

// plan reads the action that the turn uses.
func (c *turnCall) plan(ctx context.Context) error {
	a := c.item
	if a.Use == nil {
		return nil
	}
	action, err := c.sessions.usedAction(ctx, a.Action, a.Plan != nil)
	if err == nil {
		a.Plan = &write.PlannedUse{Action: action}
		a.Plan.Plan, a.Plan.Err = a.NewPlan(ctx, action)
	} else if !errors.Is(err, repo.ErrNotFound) {
		return err
	} else {
		a.Plan = &write.PlannedUse{Err: err}
	}
	return ctx.Err()
}

// actionBytes is the memory that an action takes, more or less.
const actionBytes = 4 << 10

// usedAction returns an action. Outside of transactions it may be as it was read before: its use finds out whether
// it has changed. again: it has.
func (s *sessions) usedAction(ctx context.Context, name repo.ActionName, again bool) (repo.Action, error) {
	pool, cached := s.exec.(*pooled)
	if cached && !again {
		if action, known := pool.actions.Get(name); known {
			return action, nil
		}
	}
	action, err := (&actions{s.base}).get(ctx, name)
	switch {
	case cached && err == nil:
		pool.actions.Put(name, action, actionBytes)
	case cached:
		pool.actions.Drop(name)
	}
	return action, err
}

// work adds to the result of a turn that is stored its plan and its stream, as they are now.
func (s *sessions) work(ctx context.Context, t *rules.Turn, plan repo.ID, result *repo.AppendedTurn) error {
	if !plan.IsZero() {
		stored, err := (&plans{s.base}).Get(ctx, plan)
		if err == nil {
			result.Plan = &stored
		} else if !errors.Is(err, repo.ErrNotFound) {
			return err
		}
	}
	if t == nil || t.Open == nil {
		return nil
	}
	stream, err := (&streams{s.base}).Get(ctx, rules.OutOfView(t.Open.Key))
	if err == nil {
		stream.Fence = 0
		result.Stream = &stream
	} else if errors.Is(err, repo.ErrNotFound) {
		err = nil
	}
	return err
}
