package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// plans is repo.Plans: reading here, making and moving in the files beside.
type plans struct{ exec executor }

func planNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "plan", ID: id} }

func (p *plans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	row, err := run(ctx, p.exec.read, queries.PlanGet, toUUID(id))
	if isNoRows(err) {
		return repo.Plan{}, planNotFound(id)
	}
	if err != nil {
		return repo.Plan{}, err
	}
	return planOf(row)
}

func (p *plans) List(ctx context.Context, filter repo.PlanFilter, page repo.Page) (repo.PlanPage, error) {
	filter, err := filter.Normalize()
	if err != nil {
		return repo.PlanPage{}, err
	}
	limit, err := repo.CheckLimit(page.Limit)
	if err != nil {
		return repo.PlanPage{}, err
	}
	after, err := filter.Place(page.After)
	if err != nil {
		return repo.PlanPage{}, err
	}
	rows, err := p.list(ctx, filter, after, int32(limit+1)) // one more tells whether there is a next page
	if err != nil {
		return repo.PlanPage{}, err
	}
	plans, next, err := pageOf(rows, limit, planOf, func(last repo.Plan) repo.Cursor { return filter.CursorAfter(last.ID) })
	return repo.PlanPage{Plans: plans, Next: next}, err
}

// list takes the query whose index selects most.
func (p *plans) list(ctx context.Context, filter repo.PlanFilter, after repo.ID, maxRows int32) ([]db.PlanDetail, error) {
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
	for _, stage := range filter.Stages() {
		phases, states = append(phases, string(stage.Phase)), append(states, string(stage.State))
	}
	return run(ctx, p.exec.read, queries.PlanListByStage, db.PlanListByStageParams{
		Phases: phases, States: states, Namespace: filter.Namespace, AfterID: toUUID(after), MaxRows: maxRows,
	})
}

func (p *plans) History(ctx context.Context, id repo.ID, from int64, limit int) ([]repo.PlanEvent, error) {
	if err := repo.CheckSequence("from", from); err != nil {
		return nil, err
	}
	limit, err := repo.CheckLimit(limit)
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
	if violates(err, linkSession) { // it was deleted meanwhile
		return sessionNotFound(sessionID)
	}
	return err
}

func (p *plans) Unlink(ctx context.Context, sessionID, planID repo.ID) error {
	return p.exec.writeByID(ctx, func(q db.DBTX) error {
		found, err := queries.PlanUnlink(ctx, q, toUUID(sessionID), toUUID(planID))
		if err == nil && found.Made {
			found, err = queries.PlanUnlink(ctx, q, toUUID(sessionID), toUUID(planID))
		}
		return bothFound(err, found.Session, found.Plan, sessionID, planID)
	})
}

func bothFound(err error, session, plan bool, sessionID, planID repo.ID) error {
	switch {
	case err != nil:
		return err
	case !session:
		return &answer{sessionNotFound(sessionID)}
	case !plan:
		return &answer{planNotFound(planID)}
	}
	return nil
}
