package postgres

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// moving is a transition that is under way.
type moving struct {
	id         repo.ID
	transition repo.Transition
	cause      repo.Cause

	moved  repo.Plan
	params db.PlanTransitionParams
	done   bool // otherwise it is left to its caller
	moves  bool
	err    error

	// taken: a group has begun to send it, or its caller has given it up before that.
	taken atomic.Bool
}

// take returns true once: to the group, which then sends it, or to the caller, who then
// knows that nobody will.
func (m *moving) take() bool { return !m.taken.Swap(true) }

type (
	movesBatch = scheduler.Batch[repo.ID, *moving]
	moveTask   = scheduler.Task[repo.ID, *moving]
)

// mover makes transitions in groups: those of different plans that are asked for while a group is under
// way are one reading and one statement. A group makes those that the lifecycle allows
// as it is, and waits for nobody. All others it leaves to their callers, who
// find out why, or wait. All stores on a pool share one.
type mover struct {
	conns     conn.Conns
	scheduler *scheduler.Scheduler[repo.ID, *moving]
}

// moveLimits: the plans of a group are read whole.
var moveLimits = scheduler.Limits{
	GroupRows: 100, GroupBytes: 1 << 20, ShareRows: 1, Items: 1 << 16, Rows: 1 << 16, Bytes: 256 << 20, Callers: 1 << 16,
}

// maxMoveGroups bounds the groups under way: they leave connections to others, and are
// larger for it.
const maxMoveGroups = 2

func newMover(conns conn.Conns) *mover {
	m := &mover{conns: conns}
	m.scheduler = scheduler.New(scheduler.Config[repo.ID, *moving]{
		Limits: moveLimits,
		Groups: min(groupBound(int(conns.Pool.Config().MaxConns)), maxMoveGroups),
		Group:  m.moveAll,
	})
	return m
}

func (m *mover) close() { m.scheduler.Close() }

// transition makes a transition with others. Not done and without an error: it was left to the caller.
func (p *pooled) transition(ctx context.Context, one *moving) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.gate.leave()
	err := p.mover.scheduler.Submit(ctx, one.id, one, scheduler.Size{Rows: 1, Bytes: len(one.cause.Reason) + len(one.cause.Details)})
	switch {
	case err == nil:
		return one.err
	case errors.Is(err, scheduler.ErrWithdrawn), errors.Is(err, scheduler.ErrLeft) && one.take():
		return conn.Translate(ctx, ctx.Err(), conn.Unsent)
	case errors.Is(err, scheduler.ErrClosed):
		return repo.ErrClosed
	case errors.Is(err, scheduler.ErrFull):
		return &conn.Error{Sentinel: repo.ErrUnavailable, Cause: err}
	}
	return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: ctx.Err()}
}

// transition leaves all to the caller, whose transaction waits for rows anyway.
func (b bound) transition(context.Context, *moving) error { return nil }

// moveAll makes the transitions of a batch that can be made at once.
func (m *mover) moveAll(b *movesBatch) {
	defer func() {
		for _, t := range b.Tasks {
			b.Done(t)
		}
	}()
	tasks, err := m.decide(b.Context(), b.Tasks)
	if err != nil || len(tasks) == 0 {
		return
	}
	var rows []db.PlanTransitionManyRow
	err = m.conns.Run(b.Context(), conn.Committing, func(q db.DBTX) (err error) {
		tasks = slices.DeleteFunc(tasks, func(t *moveTask) bool { return !t.Item.take() })
		if len(tasks) == 0 {
			return nil
		}
		params := transitionManyParams(tasks)
		rows, err = conn.After(b.Context(), q,
			func(q db.DBTX) error { return queries.PlanByIndex(b.Context(), q) },
			func(q db.DBTX) ([]db.PlanTransitionManyRow, error) {
				return queries.PlanTransitionMany(b.Context(), q, params)
			})
		return err
	})
	if errors.Is(err, repo.ErrUnknownOutcome) {
		for _, t := range tasks {
			t.Item.err = err
		}
	}
	if err != nil { // nothing was written: each finds out whether that was its own fault
		return
	}
	for _, row := range rows {
		one := tasks[row.Place-1].Item
		one.done = true
		afterMove(&one.moved, db.PlanTransitionRow{
			UpdatedAt: row.UpdatedAt, LastCompletedStep: row.LastCompletedStep, LastCheckpointID: row.LastCheckpointID,
		})
	}
}

// decide reads the plans, and returns those that may be moved.
func (m *mover) decide(ctx context.Context, tasks []*moveTask) (moves []*moveTask, err error) {
	ids := make([]pgtype.UUID, len(tasks))
	for i, t := range tasks {
		ids[i] = toUUID(t.Item.id)
	}
	var rows []db.Plan
	err = m.conns.Run(ctx, conn.Reading, func(q db.DBTX) (err error) {
		rows, err = queries.PlanGetMany(ctx, q, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	plans := make(map[repo.ID][]repo.Plan, len(rows)) // one for each who asked for it: they share no memory
	for _, row := range rows {
		plan, err := planOf(row)
		if err != nil {
			return nil, err
		}
		plans[plan.ID] = append(plans[plan.ID], plan)
	}
	for _, t := range tasks {
		stored := plans[t.Item.id]
		if len(stored) == 0 {
			t.Item.done, t.Item.err = true, planNotFound(t.Item.id)
			continue
		}
		plans[t.Item.id] = stored[1:]
		if t.Item.decide(stored[0]) {
			moves = append(moves, t)
		}
	}
	return moves, nil
}

// decide reports whether the plan is to be moved by the group. If nothing is to be done,
// or the transition is refused, whatever its token, that is the answer.
func (m *moving) decide(stored repo.Plan) bool {
	moved, moves, err := rules.Moved(stored, m.transition, m.cause)
	switch {
	case err != nil && m.cause.Fence > 0 || rules.NeedsLiveParent(stored, m.transition):
		return false
	case err != nil || !moves:
		m.moved, m.done, m.err = stored, true, err
		return false
	}
	m.moved, m.moves, m.params = moved, true, transitionParams(stored, moved, m.transition, m.cause)
	return true
}

func transitionManyParams(tasks []*moveTask) (params db.PlanTransitionManyParams) {
	text := func(value *string) string {
		if value == nil {
			return ""
		}
		return *value
	}
	for _, t := range tasks {
		p := t.Item.params
		params.Ids = append(params.Ids, p.ID)
		params.FromPhases = append(params.FromPhases, p.FromPhase)
		params.FromStates = append(params.FromStates, p.FromState)
		params.Versions = append(params.Versions, p.Version)
		params.Fences = append(params.Fences, p.Fence)
		params.ToPhases = append(params.ToPhases, p.ToPhase)
		params.ToStates = append(params.ToStates, p.ToState)
		params.Transitions = append(params.Transitions, p.Transition)
		params.ErrorMessages = append(params.ErrorMessages, text(p.ErrorMessage))
		params.ErrorDetails = append(params.ErrorDetails, text(p.ErrorDetails))
		params.ReversionCounts = append(params.ReversionCounts, p.ReversionCount)
		params.Actors = append(params.Actors, text(p.Actor))
		params.Reasons = append(params.Reasons, text(p.Reason))
		params.EventTypes = append(params.EventTypes, p.EventType)
		params.Details = append(params.Details, p.Details)
	}
	return params
}
