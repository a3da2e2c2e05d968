package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// maxUses bounds the attempts of a use. An attempt is repeated if the action changed
// after it was read.
const maxUses = 10

// Use reads the action, and checks the use against it. It then writes the plan in one
// statement, which requires the action to have the version that was read.
func (p *plans) Use(ctx context.Context, action string, use repo.UseAction) (repo.Plan, error) {
	name, use, err := rules.NormalizeUse(p.view, action, use)
	if err = p.checkSession(ctx, use.SessionID, err); err != nil {
		return repo.Plan{}, err
	}
	id := repo.NewID()
	for range maxUses {
		plan, err := p.use(ctx, id, name, use)
		if again := errors.Is(err, errUseAgain) || use.Key != "" && stopsUse(err); !again {
			return plan, err
		}
		// If the plan exists, it is the answer; if not, err is.
		stored, missing := p.used(ctx, id, name, use)
		switch {
		case missing == nil:
			return p.existing(ctx, name, use, stored)
		case !errors.Is(missing, repo.ErrNotFound):
			return repo.Plan{}, p.exec.unread(missing)
		case !errors.Is(err, errUseAgain):
			return repo.Plan{}, err
		}
	}
	return repo.Plan{}, &conn.Error{Sentinel: repo.ErrContention, Cause: errors.New("the action kept changing")}
}

// errUseAgain: the statement created no plan, because the id or the key exists, or because
// something changed after the action was read.
var errUseAgain = errors.New("the action was changed meanwhile")

// stopsUse reports whether a repetition of a successful use could fail with err too,
// because the action or the parent has changed since.
func stopsUse(err error) bool {
	return errors.Is(err, repo.ErrConflict) || errors.Is(err, repo.ErrNotFound) || errors.Is(err, repo.ErrInvalid) ||
		errors.Is(err, repo.ErrLimit)
}

// used returns the plan that an earlier attempt of this call has made, under its id, or that has the use's
// key. Error: repo.NotFoundError, also if the key's namespace comes from a parent that does not exist.
func (p *plans) used(ctx context.Context, id repo.ID, name repo.ActionName, use repo.UseAction) (repo.Plan, error) {
	if use.Key == "" {
		return p.Get(ctx, id)
	}
	namespace := cmp.Or(use.Namespace, name.Namespace)
	if use.SessionID.IsZero() && use.Namespace == "" && !use.ParentID.IsZero() {
		parent, err := p.Get(ctx, use.ParentID)
		if err != nil {
			return repo.Plan{}, err
		}
		namespace = parent.Namespace
	}
	row, err := run(ctx, p.exec.read, queries.PlanGetByKey, db.PlanGetByKeyParams{
		SessionID: convert.OptionalUUID(use.SessionID), Namespace: namespace, Key: use.Key,
	})
	if err != nil {
		return repo.Plan{}, conn.OrMissing(err, planNotFound(id))
	}
	return convert.Plan(row)
}

func (p *plans) existing(ctx context.Context, name repo.ActionName, use repo.UseAction,
	stored repo.Plan,
) (repo.Plan, error) {
	if err := cmp.Or(rules.UseConflict(use, name, stored), p.found("plan", stored.ID, stored.Namespace, nil)); err != nil {
		return repo.Plan{}, err
	}
	if use.SessionID.IsZero() {
		return stored, nil
	}
	// The plan may have been unlinked since.
	if err := p.Link(ctx, use.SessionID, stored.ID); err != nil {
		return repo.Plan{}, p.exec.unread(err)
	}
	return stored, nil
}

func (p *plans) use(ctx context.Context, id repo.ID, name repo.ActionName, use repo.UseAction) (repo.Plan, error) {
	if !use.SessionID.IsZero() {
		if err := (&sessions{base: p.base}).mustExist(ctx, use.SessionID); err != nil {
			return repo.Plan{}, err
		}
	}
	action, err := (&actions{p.base}).get(ctx, name)
	if err != nil {
		return repo.Plan{}, err
	}
	plan, err := rules.NewPlan(ctx, id, use, action)
	if err != nil {
		return repo.Plan{}, err
	}
	create := func(q db.DBTX) error {
		created, err := queries.PlanCreate(ctx, q, convert.PlanParams(plan, action, use))
		if conn.IsNoRows(err) {
			return &conn.Answer{Err: errUseAgain}
		}
		convert.AfterUse(&plan, created, action)
		return err
	}
	if plan.ParentID.IsZero() {
		err = p.exec.writeByID(ctx, create)
	} else if err = p.checkPlan(ctx, plan.ParentID, nil); err == nil {
		err = p.exec.atomically(ctx, func(q db.DBTX) error {
			if err := underParent(ctx, q, &plan); err != nil {
				return err
			}
			return create(q)
		})
	}
	if conn.Violates(err, convert.LinkSession) { // the session was deleted meanwhile
		return repo.Plan{}, p.exec.noted(convert.SessionNotFound(use.SessionID))
	}
	if err != nil {
		return repo.Plan{}, err
	}
	p.learn("plan", plan.ID)
	p.exec.changed(queued(plan.Namespace)...)
	return plan, nil
}

// underParent locks the parent's tree, and puts the plan into it.
func underParent(ctx context.Context, q db.DBTX, plan *repo.Plan) error {
	if _, err := queries.PlanLockTree(ctx, q, convert.UUID(plan.ParentID)); err != nil {
		if conn.IsNoRows(err) {
			return &conn.Answer{Err: planNotFound(plan.ParentID)}
		}
		return err
	}
	parent, err := getPlan(ctx, q, plan.ParentID)
	if err != nil {
		return err
	}
	children, err := queries.PlanCountChildren(ctx, q, db.PlanCountChildrenParams{
		ParentID: convert.UUID(plan.ParentID),
		MaxRows:  limits.MaxChildPlans,
	})
	if err != nil {
		return err
	}
	if err := rules.PutBelow(plan, parent, children); err != nil {
		return &conn.Answer{Err: err}
	}
	return nil
}
