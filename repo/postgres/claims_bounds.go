package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// bounds are what a claim that has found too few plans learns about limits. The first look counts the first plans of
// a lane, as many as a limit allows, and others may have those locked.
type bounds struct {
	// limits are by namespace and action: whether they allow nothing more. waiting are the lanes that have plans.
	limits  map[[2]string]bool
	bounded map[string]bool
	waiting map[lane]bool
}

// add adds the statements that find out.
func (b *bounds) add(ctx context.Context, p *conn.Pipeline, l *looking) {
	b.limits, b.bounded, b.waiting = map[[2]string]bool{}, map[string]bool{}, map[lane]bool{}
	own := l.params(nil)
	p.Add(func(q db.DBTX) error {
		rows, err := queries.PlanLimitsFull(ctx, q, own.DueNamespaces)
		for _, row := range rows {
			b.limits[[2]string{row.Namespace, row.ActionName}], b.bounded[row.Namespace] = row.IsFull, true
		}
		return err
	})
	p.Add(func(q db.DBTX) error {
		rows, err := queries.PlanQueueWindows(ctx, q, queueWindows(own, 0))
		for _, row := range rows {
			b.waiting[l.queued[row.Place-1]] = true
		}
		return err
	})
}

// full reports whether a limit allows nothing more of a lane.
func (b *bounds) full(of lane) bool {
	return of.phase != "" && (b.limits[[2]string{of.namespace, ""}] || of.action != "" && b.limits[[2]string{of.namespace, of.action}])
}

// hidden reports whether there may be plans in a lane behind those that the first look has counted.
func (b *bounds) hidden(of lane) bool { return b.bounded[of.namespace] && b.waiting[of] }
