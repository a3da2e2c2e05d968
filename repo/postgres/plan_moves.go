package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// moving is a transition that is under way.
type moving struct {
	commit.Progress

	id         repo.ID
	transition repo.Transition
	cause      repo.Cause

	moved  repo.Plan
	params db.PlanTransitionParams
	done   bool // otherwise it is left to its caller
	moves  bool
	// refused is why the lifecycle does not allow it.
	refused error
}

// Size implements commit.Item.
func (m *moving) Size() scheduler.Size {
	return scheduler.Size{Rows: 1, Bytes: len(m.cause.Reason) + len(m.cause.Details)}
}

type (
	movesGroup = commit.Group[repo.ID, *moving]
	moveTask   = commit.Task[repo.ID, *moving]
)

// mover makes transitions in groups: those of different plans that are asked for while a group is under
// way are one reading and one statement. A group makes those that the lifecycle allows
// as it is, and waits for nobody. All others it leaves to their callers, who
// find out why, or wait.
type mover struct {
	*commit.Committer[repo.ID, *moving]
}

// moveLimits: the plans of a group are read whole.
var moveLimits = scheduler.Limits{
	GroupRows: 100, GroupBytes: 1 << 20, ShareRows: 1, Items: 1 << 16, Rows: 1 << 16, Bytes: 256 << 20, Callers: 1 << 16,
}

func newMover(p *pooled) *mover {
	return &mover{commit.New(p.budget, commit.Config[repo.ID, *moving]{
		Kind: "transition", Limits: moveLimits, Once: true, Commit: func(g *movesGroup) { g.Run(g.Tasks, (&moves{g}).send) },
	})}
}

// transition makes a transition with others. Not done and without an error: it was left to the caller.
func (p *pooled) transition(ctx context.Context, one *moving) error {
	err := p.submitted(ctx, "transition", one, func() error { return committerOf(p, newMover).Submit(ctx, one.id, one) })
	if err != nil {
		return err // one may still be in a group
	}
	return one.refused
}

// transition leaves all to the caller, whose transaction waits for rows anyway.
func (b bound) transition(context.Context, *moving) error { return nil }

// moves are the transitions of a group.
type moves struct{ *movesGroup }

// send makes those that can be made at once.
func (g *moves) send(ctx context.Context, q db.DBTX, tasks []*moveTask) (answer func(), carried func(*moveTask) bool, err error) {
	moving, err := decideMoves(ctx, q, tasks)
	if err != nil {
		return nil, nil, &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	var rows []db.PlanTransitionManyRow
	if len(moving) > 0 {
		params := transitionManyParams(moving)
		rows, err = conn.After(ctx, q,
			func(q db.DBTX) error { return queries.PlanByIndex(ctx, q) },
			func(q db.DBTX) ([]db.PlanTransitionManyRow, error) {
				return queries.PlanTransitionMany(ctx, q, params)
			})
	}
	return func() {
		for _, row := range rows {
			one := moving[row.Place-1].Item
			one.done = true
			afterMove(&one.moved, db.PlanTransitionRow{
				UpdatedAt: row.UpdatedAt, NotBefore: row.NotBefore, LastCompletedStep: row.LastCompletedStep, LastCheckpointID: row.LastCheckpointID,
			})
		}
		for _, t := range tasks {
			g.Done(t, nil)
		}
	}, nil, err
}

// decideMoves reads the plans, and returns those that may be moved.
func decideMoves(ctx context.Context, q db.DBTX, tasks []*moveTask) (moves []*moveTask, err error) {
	ids := make([]pgtype.UUID, len(tasks))
	for i, t := range tasks {
		ids[i] = convert.UUID(t.Item.id)
	}
	rows, err := queries.PlanGetMany(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	plans := make(map[repo.ID][]repo.Plan, len(rows)) // one for each who asked for it: they share no memory
	for _, row := range rows {
		plan, err := convert.Plan(row)
		if err != nil {
			return nil, err
		}
		plans[plan.ID] = append(plans[plan.ID], plan)
	}
	for _, t := range tasks {
		stored := plans[t.Item.id]
		if len(stored) == 0 {
			t.Item.done, t.Item.refused = true, planNotFound(t.Item.id)
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
// or the transition is refused, whatever its fence, that is the answer.
func (m *moving) decide(stored repo.Plan) bool {
	m.done, m.moves, m.refused = false, false, nil // what an earlier attempt has decided
	moved, moves, err := rules.Moved(stored, m.transition, m.cause)
	switch {
	case err != nil && m.cause.Fence > 0 || rules.NeedsLiveParent(stored, m.transition):
		return false
	case err != nil || !moves:
		m.moved, m.done, m.refused = stored, true, err
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
		params.Attempts = append(params.Attempts, p.Attempt)
		params.DelaysMicros = append(params.DelaysMicros, p.DelayMicros)
		params.Deadlines = append(params.Deadlines, rules.Until(convert.FromTime(p.Deadline)))
		params.Actors = append(params.Actors, text(p.Actor))
		params.Reasons = append(params.Reasons, text(p.Reason))
		params.EventTypes = append(params.EventTypes, p.EventType)
		params.Details = append(params.Details, p.Details)
	}
	return params
}
