package write

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// AppendInTx is InTx for what may be a lone message.
func AppendInTx(ctx context.Context, q db.DBTX, a *Turn) error {
	if isLone(a) {
		if made, err := oneBehind(ctx, q, a); made || err != nil {
			return err
		}
	}
	return InTx(ctx, q, a)
}

// InTx makes a turn in a transaction, and waits for the rows that it needs. It sets the outcome.
func InTx(ctx context.Context, q db.DBTX, a *Turn) error {
	l, p := newLedger([]*Turn{a}), &conn.Pipeline{}
	l.lock(ctx, p, waiting{sessions: true, scopes: true, creates: true})
	l.read(ctx, p, []*Turn{a})
	if err := p.Send(ctx, q); conn.Violates(err, convert.StateSession) {
		// A session was deleted while its scope was being created. The next attempt finds that it is missing.
		return &conn.Error{Sentinel: repo.ErrContention, Cause: err}
	} else if err != nil {
		return err
	}
	if err := l.catchUp(ctx, q, a); err != nil {
		return err
	}
	v, err := l.decide(a)
	if v == locked { // the session was deleted during the wait
		err = pgx.ErrNoRows
	}
	if errors.Is(err, errNoScope) {
		err = convert.SessionNotFound(ofNoSession(a.met.missing, a.met.missing))
	}
	if err != nil {
		return &conn.Answer{Err: conn.OrMissing(err, convert.SessionNotFound(a.SessionID))}
	}
	p = &conn.Pipeline{}
	if !l.write(ctx, p) {
		return nil
	}
	err = p.Send(ctx, q)
	if conn.Violates(err, convert.UniqueTurnID) {
		// It was stored after the snapshot of a caller's transaction. One that begins now
		// finds it.
		return &conn.Error{Sentinel: repo.ErrContention, Cause: err}
	}
	return err
}

// oneBehind sends the statement of one message behind one that waits for the counter row, and reports whether it was
// written.
func oneBehind(ctx context.Context, q db.DBTX, a *Turn) (bool, error) {
	row, err := conn.After(ctx, q,
		func(q db.DBTX) error { return queries.TurnAwaitCounters(ctx, q, convert.UUIDs([]repo.ID{a.SessionID})) },
		func(q db.DBTX) (db.MessageAppendOneRow, error) { return appendOne(ctx, q, a, pgtype.TID{}) })
	if conn.IsNoRows(err) {
		return false, nil
	}
	a.Outcome = Outcome{First: row.Sequence, CreatedAt: &row.UpdatedAt}
	return err == nil, err
}
