package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// plans implements repo.Plans. Use is in plan_use.go; the transitions and progress are
// in plan_move.go.
type plans struct{ exec executor }

func planNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "plan", ID: id} }

func (p *plans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	plan, err := ask(ctx, p.exec.read, func(q db.DBTX) (repo.Plan, error) { return getPlan(ctx, q, id) })
	return plan, conn.OrMissing(err, planNotFound(id))
}

func (p *plans) List(ctx context.Context, filter repo.PlanFilter, page repo.Page) (repo.PlanPage, error) {
	list, err := rules.PlanList(filter, page)
	if err != nil {
		return repo.PlanPage{}, err
	}
	rows, err := p.list(ctx, list.Filter, list.After, int32(list.Limit+1)) // one extra row tells whether there is a next page
	if err != nil {
		return repo.PlanPage{}, err
	}
	plans, next, err := rules.PageOf(list, rows, planOf)
	return repo.PlanPage{Plans: plans, Next: next}, err
}

// list chooses the query with the most selective index.
func (p *plans) list(ctx context.Context, filter repo.PlanFilter, after repo.ID, maxRows int32) ([]db.Plan, error) {
	switch {
	case !filter.SessionID.IsZero():
		return run(ctx, p.exec.read, queries.PlanListBySession, db.PlanListBySessionParams{
			SessionID: toUUID(filter.SessionID), AfterID: toUUID(after), MaxRows: maxRows,
			Namespace: filter.Namespace, Phase: string(filter.Phase), State: string(filter.State),
		})
	case filter.Project != "":
		return run(ctx, p.exec.read, queries.PlanListByProject, db.PlanListByProjectParams{
			Project: filter.Project, AfterID: toUUID(after), MaxRows: maxRows,
			Namespace: filter.Namespace, Phase: string(filter.Phase), State: string(filter.State),
		})
	case !filter.ParentID.IsZero() || filter.Phase == "" && filter.State == "":
		return run(ctx, filtered(p.exec.read), queries.PlanList, db.PlanListParams{
			AfterID: toUUID(after), MaxRows: maxRows, ParentID: toOptionalUUID(filter.ParentID),
			Namespace: toNullable(filter.Namespace), Phase: toNullable(string(filter.Phase)), State: toNullable(string(filter.State)),
		})
	}
	var phases, states []string
	for _, stage := range rules.StagesOf(filter) {
		phases, states = append(phases, string(stage.Phase)), append(states, string(stage.State))
	}
	return run(ctx, p.exec.read, queries.PlanListByStage, db.PlanListByStageParams{
		Phases: phases, States: states, Namespace: filter.Namespace, AfterID: toUUID(after), MaxRows: maxRows,
	})
}

func (p *plans) History(ctx context.Context, id repo.ID, from int64, limit int) ([]repo.PlanEvent, error) {
	limit, err := rules.CheckPage("from", from, limit)
	if err != nil {
		return nil, err
	}
	rows, err := run(ctx, p.exec.read, queries.PlanHistory, db.PlanHistoryParams{
		PlanID: toUUID(id), FromVersion: from, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		if err := p.exists(ctx, id); err != nil {
			return nil, err
		}
	}
	return each(rows, eventOf), nil
}

func (p *plans) exists(ctx context.Context, id repo.ID) error {
	exists, err := run(ctx, p.exec.read, queries.PlanExists, toUUID(id))
	if err == nil && !exists {
		return planNotFound(id)
	}
	return err
}

func (p *plans) Link(ctx context.Context, sessionID, planID repo.ID) error {
	err := p.exec.writeByID(ctx, func(q db.DBTX) error {
		found, err := queries.PlanLink(ctx, q, toUUID(sessionID), toUUID(planID))
		return bothFound(err, found.Session, found.Plan, sessionID, planID)
	})
	if conn.Violates(err, linkSession) { // the session was deleted meanwhile
		err = sessionNotFound(sessionID)
	}
	return p.exec.noted(err)
}

func (p *plans) Unlink(ctx context.Context, sessionID, planID repo.ID) error {
	return p.exec.noted(p.exec.writeByID(ctx, func(q db.DBTX) error {
		found, err := queries.PlanUnlink(ctx, q, toUUID(sessionID), toUUID(planID))
		if err == nil && found.Made {
			found, err = queries.PlanUnlink(ctx, q, toUUID(sessionID), toUUID(planID))
		}
		return bothFound(err, found.Session, found.Plan, sessionID, planID)
	}))
}

func bothFound(err error, session, plan bool, sessionID, planID repo.ID) error {
	switch {
	case err != nil:
		return err
	case !session:
		return &conn.Answer{Err: sessionNotFound(sessionID)}
	case !plan:
		return &conn.Answer{Err: planNotFound(planID)}
	}
	return nil
}
