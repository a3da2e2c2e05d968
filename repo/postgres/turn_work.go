package postgres

import (
	"context"
	"errors"
	"sync"

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

// actionCache has actions as they were read. Whoever uses one finds out whether it has changed.
type actionCache struct {
	mu    sync.Mutex
	known map[repo.ActionName]repo.Action
}

const maxKnownActions = 1000

// usedAction returns an action. again: it has changed.
func (s *sessions) usedAction(ctx context.Context, name repo.ActionName, again bool) (repo.Action, error) {
	pool, cached := s.exec.(*pooled)
	if cached && !again {
		pool.actions.mu.Lock()
		action, known := pool.actions.known[name]
		pool.actions.mu.Unlock()
		if known {
			return action, nil
		}
	}
	action, err := (&actions{s.base}).get(ctx, name)
	if cached {
		pool.actions.mu.Lock()
		defer pool.actions.mu.Unlock()
		if delete(pool.actions.known, name); err != nil {
			return action, err
		}
		if len(pool.actions.known) >= maxKnownActions || pool.actions.known == nil {
			pool.actions.known = map[repo.ActionName]repo.Action{}
		}
		pool.actions.known[name] = action
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
