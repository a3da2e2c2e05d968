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

	// stored is the plan as it was read, and moved as it is to be, or is.
	stored, moved repo.Plan
	done          bool // otherwise it is left to its caller
	moves         bool
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

// moveLimits: the plans of a group are read whole.
var moveLimits = scheduler.Limits{
	GroupRows: 100, GroupBytes: 1 << 20, ShareRows: 1, Items: 1 << 16, Rows: 1 << 16, Bytes: 256 << 20, Callers: 1 << 16,
}

// newMover returns what makes transitions in groups: transitions of different plans that are asked for while a group is
// under way are one reading and one statement. A group makes the transitions that the lifecycle allows as it is, and
// waits for no lock. It leaves all others to their callers, which find out why, or wait.
func newMover(p *pooled) *commit.Committer[repo.ID, *moving] {
	return commit.New(p.budget, commit.Config[repo.ID, *moving]{
		Kind: "transition", Limits: moveLimits, Once: true,
		Commit: func(g *movesGroup) {
			g.Run(g.Tasks, func(ctx context.Context, q db.DBTX, tasks []*moveTask) (func(), func(*moveTask) bool, error) {
				return func() { g.Made(tasks...) }, nil, makeMoves(ctx, q, tasks)
			})
		},
	})
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

// makeMoves makes the transitions of a group that can be made at once.
func makeMoves(ctx context.Context, q db.DBTX, tasks []*moveTask) error {
	moves, err := decideMoves(ctx, q, tasks)
	if err != nil {
		return &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	if len(moves) == 0 {
		return nil
	}
	return sendMoves(ctx, q, false, moves...)
}

// sendMoves moves plans, and notes which are done. One for which it waits is alone.
func sendMoves(ctx context.Context, q db.DBTX, waits bool, moves ...*moving) error {
	params := db.PlanTransitionParams{Waits: waits}
	for _, one := range moves {
		one.done = false // by a failed attempt
		one.addTo(&params)
	}
	p := &conn.Pipeline{}
	if _, alone := q.(conn.Alone); alone {
		p.Add(func(q db.DBTX) error { return queries.PlanByIndex(ctx, q) })
	}
	if waits {
		p.Add(func(q db.DBTX) error { return queries.PlanLock(ctx, q, params.Ids[0]) })
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.PlanTransition(ctx, q, params)
		for _, row := range rows {
			one := moves[row.Place-1]
			one.done, one.moved.Moved = true, true
			one.moved.UpdatedAt, one.moved.NotBefore = row.UpdatedAt.UTC(), convert.FromTime(row.NotBefore)
			one.moved.LastCompletedStep = row.LastCompletedStep
			one.moved.LastCheckpointID = convert.FromNullable(row.LastCheckpointID)
		}
		return err
	})
	return p.Send(ctx, q)
}

// decideMoves reads the plans, and returns the ones that the group may move. What the lifecycle refuses, whatever
// the fence, or what needs nothing, is done. What is not, its caller does.
func decideMoves(ctx context.Context, q db.DBTX, tasks []*moveTask) (moves []*moving, err error) {
	ids := convert.Each(tasks, func(t *moveTask) pgtype.UUID { return convert.UUID(t.Item.id) })
	rows, err := queries.PlanGetMany(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	plans := make(map[repo.ID][]repo.Plan, len(rows)) // one for each caller that asked for it: they share no memory
	for _, row := range rows {
		plan, err := convert.Plan(row)
		if err != nil {
			return nil, err
		}
		plans[plan.ID] = append(plans[plan.ID], plan)
	}
	for _, t := range tasks {
		one, stored := t.Item, plans[t.Item.id]
		if len(stored) == 0 {
			one.done, one.refused = true, planNotFound(one.id)
			continue
		}
		plans[one.id] = stored[1:]
		one.refused = one.decide(stored[0])
		switch {
		case one.refused != nil && one.cause.Fence > 0 || rules.NeedsLiveParent(one.stored, one.transition):
			one.refused = nil
		case one.moves:
			moves = append(moves, one)
		default:
			one.done = true
		}
	}
	return moves, nil
}

// decide decides on a plan that was read, whatever an earlier attempt has decided.
func (m *moving) decide(stored repo.Plan) (refused error) {
	m.stored, m.done = stored, false
	m.moved, m.moves, refused = rules.Moved(stored, m.transition, m.cause)
	return refused
}

// addTo adds the transition to the arguments of its statement.
func (m *moving) addTo(params *db.PlanTransitionParams) {
	stored, moved := m.stored, m.moved
	params.Ids, params.Versions = append(params.Ids, convert.UUID(stored.ID)), append(params.Versions, stored.Version)
	params.FromPhases = append(params.FromPhases, string(stored.Phase))
	params.FromStates = append(params.FromStates, string(stored.State))
	params.ToPhases, params.ToStates = append(params.ToPhases, string(moved.Phase)),
		append(params.ToStates, string(moved.State))
	params.Fences = append(params.Fences, m.cause.Fence)
	params.Transitions = append(params.Transitions, string(m.transition))
	params.ErrorMessages = append(params.ErrorMessages, moved.ErrorMessage)
	params.ErrorDetails = append(params.ErrorDetails, string(moved.ErrorDetails))
	params.ReversionCounts = append(params.ReversionCounts, int32(moved.ReversionCount))
	params.Attempts = append(params.Attempts, int32(moved.Attempt))
	params.DelaysMicros = append(params.DelaysMicros, rules.DelayOf(moved, m.transition, m.cause).Microseconds())
	params.Deadlines = append(params.Deadlines, rules.Until(moved.Deadline))
	params.Actors, params.Reasons = append(params.Actors, m.cause.Actor), append(params.Reasons, m.cause.Reason)
	params.EventTypes = append(params.EventTypes, rules.Event(m.transition, moved.Stage))
	params.Details = append(params.Details, string(rules.Details(m.transition, stored.Stage, moved.Stage, moved.Version)))
}
