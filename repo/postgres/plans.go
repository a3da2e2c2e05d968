package postgres

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// plans implements repo.Plans. Use is in plan_use.go; the transitions and progress are
// in plan_move.go.
type plans struct{ base }

func planNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "plan", ID: id} }

func (p *plans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	plan, err := ask(ctx, p.exec.read, func(q db.DBTX) (repo.Plan, error) { return getPlan(ctx, q, id) })
	if err = p.found("plan", id, plan.Namespace, conn.OrMissing(err, planNotFound(id))); err != nil {
		return repo.Plan{}, err
	}
	return plan, nil
}

func (p *plans) List(ctx context.Context, filter repo.PlanFilter, page repo.Page) (repo.List[repo.Plan], error) {
	if is, err := rules.SelectsInView(p.view, &filter.Namespace); !is {
		return repo.List[repo.Plan]{}, err
	}
	list, err := rules.PlanList(p.view, filter, page)
	return listed(p.exec.read, list, err, func(by way) ([]db.Plan, error) {
		// one extra row tells whether there is a next page
		return p.list(ctx, by, list.Filter, list.After, int32(list.Limit+1))
	}, convert.Plan)
}

// list chooses the query with the most selective index.
func (p *plans) list(ctx context.Context, by way, filter repo.PlanFilter, after repo.ID,
	maxRows int32,
) ([]db.Plan, error) {
	switch {
	case !filter.SessionID.IsZero():
		return run(ctx, by, queries.PlanListBySession, db.PlanListBySessionParams{
			SessionID: convert.UUID(filter.SessionID), AfterID: convert.UUID(after), MaxRows: maxRows,
			Namespace: filter.Namespace, Phase: string(filter.Phase), State: string(filter.State),
		})
	case filter.Project != "":
		return run(ctx, by, queries.PlanListByProject, db.PlanListByProjectParams{
			Project: filter.Project, AfterID: convert.UUID(after), MaxRows: maxRows,
			Namespace: filter.Namespace, Phase: string(filter.Phase), State: string(filter.State),
		})
	case filter.Action != "" && filter.Namespace == "":
		phases, states := stagesOf(filter)
		return run(ctx, by, queries.PlanListByAction, db.PlanListByActionParams{
			Phases: phases, States: states, ActionName: filter.Action, AfterID: convert.UUID(after), MaxRows: maxRows,
		})
	case !filter.ParentID.IsZero() || filter.Phase == "" && filter.State == "" && filter.Action == "":
		return run(ctx, filtered(by), queries.PlanList, db.PlanListParams{
			AfterID: convert.UUID(after), MaxRows: maxRows, ParentID: convert.OptionalUUID(filter.ParentID),
			Namespace: convert.Nullable(filter.Namespace), Phase: convert.Nullable(string(filter.Phase)),
			State: convert.Nullable(string(filter.State)),
		})
	}
	phases, states := stagesOf(filter)
	return run(ctx, by, queries.PlanListByStage, db.PlanListByStageParams{
		Phases: phases, States: states, Namespace: filter.Namespace, AfterID: convert.UUID(after), MaxRows: maxRows,
		ActionName: filter.Action,
	})
}

func stagesOf(filter repo.PlanFilter) (phases, states []string) {
	for _, stage := range rules.StagesOf(filter) {
		phases, states = append(phases, string(stage.Phase)), append(states, string(stage.State))
	}
	return phases, states
}

func (p *plans) Counts(ctx context.Context, namespace string, page repo.Page) (repo.List[repo.PlanCount], error) {
	if is, err := rules.SelectsInView(p.view, &namespace); !is {
		return repo.List[repo.PlanCount]{}, err
	}
	list, err := rules.CountList(namespace, page)
	return listed(p.exec.read, list, err, func(by way) ([]db.PlanCountsRow, error) {
		return run(ctx, by, queries.PlanCounts, db.PlanCountsParams{
			Namespace: namespace, AfterNamespace: list.After.Namespace, AfterPhase: string(list.After.Phase),
			AfterState: string(list.After.State),
			MaxRows:    int32(list.Limit + 1), Bound: limits.MaxPlanCount,
		})
	}, func(row db.PlanCountsRow) (repo.PlanCount, error) {
		stage := repo.Stage{Phase: repo.Phase(row.Phase), State: repo.PlanState(row.State)}
		count := repo.PlanCount{Namespace: row.Namespace, Stage: stage, Count: int(row.Count)}
		if row.Oldest.Before(rules.Until(time.Time{})) {
			count.Oldest = row.Oldest.UTC()
		}
		return count, nil
	})
}

func (p *plans) History(ctx context.Context, id repo.ID, from int64, limit int) ([]repo.PlanEvent, error) {
	limit, err := rules.CheckPage("from", from, limit)
	if err = p.checkPlan(ctx, id, err); err != nil {
		return nil, err
	}
	rows, err := run(ctx, p.exec.read, queries.PlanHistory, db.PlanHistoryParams{
		PlanID: convert.UUID(id), FromVersion: from, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		if _, err := p.Get(ctx, id); err != nil {
			return nil, err
		}
	}
	return convert.Each(rows, convert.Event), nil
}

func (p *plans) Link(ctx context.Context, sessionID, planID repo.ID) error {
	if err := p.checkPlan(ctx, planID, p.checkSession(ctx, sessionID, nil)); err != nil {
		return err
	}
	err := p.exec.writeByID(ctx, func(q db.DBTX) error {
		found, err := queries.PlanLink(ctx, q, db.PlanLinkParams{
			SessionID: convert.UUID(sessionID),
			PlanID:    convert.UUID(planID),
		})
		return bothFound(err, found.Session, found.Plan, sessionID, planID)
	})
	if conn.Violates(err, convert.LinkSession) { // the session was deleted meanwhile
		err = convert.SessionNotFound(sessionID)
	}
	return p.exec.noted(err)
}

func (p *plans) Unlink(ctx context.Context, sessionID, planID repo.ID) error {
	if err := p.checkPlan(ctx, planID, p.checkSession(ctx, sessionID, nil)); err != nil {
		return err
	}
	return p.exec.noted(p.exec.writeByID(ctx, func(q db.DBTX) error {
		found, err := queries.PlanUnlink(ctx, q, db.PlanUnlinkParams{
			SessionID: convert.UUID(sessionID),
			PlanID:    convert.UUID(planID),
		})
		if err == nil && found.Made {
			found, err = queries.PlanUnlink(ctx, q, db.PlanUnlinkParams{
				SessionID: convert.UUID(sessionID),
				PlanID:    convert.UUID(planID),
			})
		}
		return bothFound(err, found.Session, found.Plan, sessionID, planID)
	}))
}

func bothFound(err error, session, plan bool, sessionID, planID repo.ID) error {
	switch {
	case err != nil:
		return err
	case !session:
		return &conn.Answer{Err: convert.SessionNotFound(sessionID)}
	case !plan:
		return &conn.Answer{Err: planNotFound(planID)}
	}
	return nil
}
