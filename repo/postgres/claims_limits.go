package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

func (p *plans) SetLimit(ctx context.Context, limit repo.PlanLimit) error {
	limit, err := rules.NormalizeLimit(limit)
	if err != nil {
		return err
	}
	err = p.exec.writeByID(ctx, func(q db.DBTX) error {
		return queries.PlanLimitSet(ctx, q, db.PlanLimitSetParams{
			Namespace: limit.Namespace, ActionName: limit.Action, AtOnce: int32(max(limit.AtOnce, -1)),
		})
	})
	if err == nil {
		p.exec.queued(limit.Namespace) // more may be allowed now
	}
	return err
}

func (p *plans) Limits(ctx context.Context, page repo.Page) (repo.List[repo.PlanLimit], error) {
	list, err := rules.LimitList(p.view, page)
	return listed(p.exec.read, list, err, func(by way) ([]db.PlanLimitListRow, error) {
		namespace, action, _ := strings.Cut(list.After, "\x00")
		return run(ctx, by, queries.PlanLimitList, db.PlanLimitListParams{
			Namespace: namespace, ActionName: action, MaxRows: int32(list.Limit + 1), View: toNullable(p.view),
		})
	}, func(row db.PlanLimitListRow) (repo.PlanLimit, error) {
		return repo.PlanLimit{Namespace: row.Namespace, Action: row.ActionName, AtOnce: int(row.AtOnce), Claimed: int(row.Claimed)}, nil
	})
}

const (
	// A claim of all namespaces looks at a few lanes at once, and at others if these were not enough.
	laneRows   = 16
	laneRounds = 16
	// lockPause is the pause before a claim tries again for which somebody else had the lock of a limit, and
	// lockTries how often it does.
	lockPause = 2 * time.Millisecond
	lockTries = 8
	// maxActionLanes bounds the lanes that stand for those of any action.
	maxActionLanes = 1000
)

// claimPlans claims one plan for each owner, as far as there are any. The rows have the owners'
// places.
func claimPlans(ctx context.Context, q db.DBTX, claim repo.Claim, owners []string, heads *queueHeads, key string) ([]db.PlanClaimRow, error) {
	for try := 0; ; try++ {
		rows, skipped, err := claimOnce(ctx, q, claim, owners, heads, key)
		if err != nil {
			return claimedSoFar(q, rows, err)
		}
		if len(rows) > 0 || !skipped || try == lockTries {
			return rows, nil
		}
		select {
		case <-ctx.Done():
			return rows, nil // the caller looks at ctx
		case <-time.After(rand.N(2 * lockPause)):
		}
	}
}

// claimMore claims plans for the owners who have none in rows: those behind them, and others. A plan whose lease somebody has acquired
// meanwhile leaves its owner without. The rows have places in owners.
func claimMore(owners []string, rows []db.PlanClaimRow, claim func(owners []string) ([]db.PlanClaimRow, error)) ([]db.PlanClaimRow, error) {
	served := make([]bool, len(owners))
	for _, row := range rows {
		served[row.Place-1] = true
	}
	var left []string
	var places []int64
	for i, owner := range owners {
		if !served[i] {
			left, places = append(left, owner), append(places, int64(i)+1)
		}
	}
	more, err := claim(left)
	for _, row := range more {
		row.Place = places[row.Place-1]
		rows = append(rows, row)
	}
	return rows, err
}

func claimOnce(
	ctx context.Context, q db.DBTX, claim repo.Claim, owners []string, heads *queueHeads, key string,
) (rows []db.PlanClaimRow, skipped bool, err error) {
	if claim.AllNamespaces {
		return claimAnywhere(ctx, q, claim, owners, heads, key)
	}
	l := &looking{byAction: heads.byAction(key)}
	if !l.byAction {
		from, looked := heads.from(key)
		l = newLooking(claim, lanesOf(claim), from, len(owners))
		l.looked, l.anyAction = looked, len(claim.Actions) == 0
		rows, err = l.claimIn(ctx, q, owners, heads, key)
	}
	if err != nil || !l.byAction || len(claim.Actions) > 0 || len(rows) == len(owners) {
		return rows, l.skipped, err
	}
	lanes, err := actionLanes(ctx, q, lanesOf(claim))
	if err != nil {
		return rows, false, err
	}
	heads.setByAction(key)
	l = newLooking(claim, lanes, time.Time{}, len(owners)-len(rows))
	rows, err = claimMore(owners, rows, func(owners []string) ([]db.PlanClaimRow, error) { return l.claimIn(ctx, q, owners, &queueHeads{}, "") })
	return rows, l.skipped, err
}

// claimAnywhere goes on where the last claim like it has ended, so that the namespaces take turns.
func claimAnywhere(
	ctx context.Context, q db.DBTX, claim repo.Claim, owners []string, heads *queueHeads, key string,
) (rows []db.PlanClaimRow, skipped bool, err error) {
	after, first := heads.turn(key), ""
	for round := range laneRounds {
		lanes, last, err := lanesAnywhere(ctx, q, claim, after, len(owners)-len(rows)+laneRows)
		if err != nil || len(lanes.places) == 0 {
			return rows, skipped, err
		}
		if round == 0 {
			first = lanes.namespaces[0]
		} else if lanes.namespaces[0] == first {
			return rows, skipped, nil // once around
		}
		l := newLooking(claim, lanes, time.Time{}, len(owners)-len(rows))
		before := len(rows)
		rows, err = claimMore(owners, rows, func(owners []string) ([]db.PlanClaimRow, error) { return l.claimIn(ctx, q, owners, &queueHeads{}, "") })
		skipped = skipped || l.skipped
		if after = last; len(rows) > before {
			after = rows[len(rows)-1].Plan.Namespace
		}
		heads.setTurn(key, after)
		if err != nil || len(rows) == len(owners) {
			return rows, skipped, err
		}
	}
	return rows, skipped, nil
}

// lanesAnywhere returns lanes of the namespaces behind one, and the last one of these.
func lanesAnywhere(ctx context.Context, q db.DBTX, claim repo.Claim, after string, maxRows int) (l lanes, last string, err error) {
	phases := make([]string, len(claim.Phases))
	for i, phase := range claim.Phases {
		phases[i] = string(phase)
	}
	actions := claim.Actions
	if len(actions) == 0 {
		actions = []string{""}
	}
	rows, err := byIndex(ctx, q, func(q db.DBTX) ([]db.PlanLanesRow, error) {
		return queries.PlanLanes(ctx, q, db.PlanLanesParams{LeaseNamespace: leaseNamespace, After: after, Phases: phases, Actions: actions, MaxRows: int32(maxRows)})
	})
	if err != nil {
		return l, "", err
	}
	var any lanes // of namespaces that have limits of actions
	for _, row := range rows {
		switch {
		case row.Phase == "": // its claims alone
			for _, phase := range phases {
				for _, action := range rules.ActionsIn(actions, row.Namespace) {
					l.add(row.Namespace, phase, noPriority, action)
				}
			}
			continue
		case row.ByAction && row.Action == "":
			any.add(row.Namespace, row.Phase, row.Priority, "")
		default:
			l.add(row.Namespace, row.Phase, row.Priority, row.Action)
		}
		last = row.Namespace
	}
	if len(any.places) > 0 {
		each, err := actionLanes(ctx, q, any)
		if err != nil {
			return l, "", err
		}
		for i, namespace := range each.namespaces {
			l.add(namespace, each.phases[i], each.priorities[i], each.actions[i])
		}
	}
	return l, last, nil
}

// noPriority is that of a lane which has no queued plans, but claims that may have expired.
const noPriority = -1

// add adds a lane. Namespaces have places in the order in which they come.
func (l *lanes) add(namespace, phase string, priority int16, action string) {
	place := int32(len(l.places))
	if i := slices.Index(l.namespaces, namespace); i >= 0 {
		place = l.places[i]
	}
	l.places, l.namespaces = append(l.places, place), append(l.namespaces, namespace)
	l.phases, l.priorities, l.actions = append(l.phases, phase), append(l.priorities, priority), append(l.actions, action)
}

// actionLanes returns a lane for each action that has plans in a lane for any.
func actionLanes(ctx context.Context, q db.DBTX, any lanes) (l lanes, err error) {
	rows, err := byIndex(ctx, q, func(q db.DBTX) ([]db.PlanActionLanesRow, error) {
		return queries.PlanActionLanes(ctx, q, db.PlanActionLanesParams{
			Namespaces: any.namespaces, Phases: any.phases, Priorities: any.priorities, MaxRows: maxActionLanes,
		})
	})
	for i, namespace := range any.namespaces {
		l.add(namespace, any.phases[i], noPriority, "")
	}
	for _, row := range rows {
		i := row.Place - 1
		l.add(any.namespaces[i], any.phases[i], any.priorities[i], row.Action)
	}
	return l, err
}

// byIndex runs a query after PlanByIndex, unless it is in a caller's transaction.
func byIndex[Answer any](ctx context.Context, q db.DBTX, query func(db.DBTX) (Answer, error)) (Answer, error) {
	if _, alone := q.(conn.Alone); !alone {
		return query(q)
	}
	return conn.After(ctx, q, func(q db.DBTX) error { return queries.PlanByIndex(ctx, q) }, query)
}
