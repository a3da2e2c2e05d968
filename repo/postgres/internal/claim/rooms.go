package claim

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// limited adds statements that lock the limits of namespaces, and then read what they allow.
func (c *choosing) limited(ctx context.Context, p *conn.Pipeline, namespaces []string) {
	locked := map[repo.PlanLimit]bool{}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.PlanLimitLock(ctx, q, namespaces)
		for _, row := range rows {
			locked[repo.PlanLimit{Namespace: row.Namespace, Action: row.ActionName}] = true
		}
		return err
	})
	p.Add(func(q db.DBTX) error {
		rows, err := queries.PlanLimitRoom(ctx, q, namespaces)
		for _, row := range rows {
			key := repo.PlanLimit{Namespace: row.Namespace, Action: row.ActionName}
			c.Rooms[key] = int(row.Room)
			if !locked[key] {
				c.Rooms[key] = min(c.Rooms[key], 0)
				c.skipped = c.skipped || row.IsCurrent
			}
			c.byAction = c.byAction || key.Action != ""
		}
		return err
	})
}
