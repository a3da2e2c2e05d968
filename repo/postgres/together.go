package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// Turns that are made together are one item of a group. It is queued under the first of
// its sessions. A group locks the rows of all of them, decides on the parts one after the
// other, and takes back what it has decided if one is refused.
//
// If one of the rows is locked elsewhere, the item leaves the groups, since in its queue
// it would hold up the sessions that are free. Its caller submits it again, after pauses
// that grow, and holds no row meanwhile. Rows for which others queue may never be found
// free all at once. So every other time a caller waits for the row that was skipped
// alone, and then for all of them, in the order that all transactions have, each for a
// short time. Only few callers at a time do that. If others queue for a session, it would
// be theirs again by then: so the caller waits its turn, and keeps the row. That is out
// of order, but groups do not wait for sessions, and nobody's wait for the others is long.

// errApart: a message is stored already. Only a transaction that compares it before it
// commits can make the turns.
var errApart = errors.New("turns that are made together need a transaction of their own")

// appendApart makes turns together in a transaction of their own, which waits for each
// row for a short time.
func (p *appender) appendApart(ctx context.Context, w *together) error {
	met := w.barrier()
	err := p.conns.Run(ctx, conn.Reading, func(q db.DBTX) error {
		wait := &conn.Pipeline{} // alone: nobody waits for a row that this one has
		if met.awaited != nil && !met.keeps {
			wait.Add(func(q db.DBTX) error { return queries.TurnLimitWait(ctx, q) })
			wait.Add(func(q db.DBTX) error { return met.awaited(ctx, q) })
			if err := wait.Send(ctx, q); err != nil {
				return err
			}
		}
		tx, err := q.(conn.Alone).Conn.BeginTx(ctx, conn.ReadCommitted)
		if err != nil {
			return err
		}
		defer conn.Rollback(ctx, tx)
		if met.awaited != nil && met.keeps {
			wait.Add(func(q db.DBTX) error { return queries.TurnLimitQueue(ctx, q) })
			wait.Add(func(q db.DBTX) error { return met.awaited(ctx, q) })
			if err := wait.Send(ctx, tx); err != nil {
				return err
			}
		}
		if err := appendAll(ctx, tx, w.turns(), briefly); err != nil {
			return err
		}
		switch {
		case w.mayConflict():
			return &conn.Answer{Err: errApart}
		case ctx.Err() != nil:
			return ctx.Err()
		case tx.Conn().IsClosed(): // surely not committed
			return conn.ErrClosedBetween
		}
		if err := tx.Commit(ctx); err != nil {
			return &conn.Answer{Err: conn.Translate(ctx, p.conns.Doubted(err), conn.Committing)}
		}
		return nil
	})
	switch {
	case err == nil:
		p.tell(newsOf(w.turns()...)...)
	case errors.Is(err, repo.ErrUnknownOutcome):
		w.Doubt()
	}
	return conn.AfterDoubt(slices.ContainsFunc(w.turns(), func(a *turn) bool { return a.Unsure }), err)
}
