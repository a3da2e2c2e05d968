package write

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

func (c *counterRow) fenceOf(session repo.ID) rules.Fence {
	return rules.Fence{Key: repo.SessionLease(session), Latest: c.fence, Only: c.fencedOnly}
}

// refusal returns the error of a turn that was not accepted. If it is for want of a fence, or for an expected
// sequence that is to come, an earlier attempt may arrive when the session takes writes without one, or is there.
func (a *Turn) refusal(err error) error {
	fenced, isFenced := errors.AsType[*repo.FencedError](err)
	conflict, isConflict := errors.AsType[*repo.SequenceConflictError](err)
	if a.Unsure && (isFenced && fenced.Fence == 0 || isConflict && conflict.Kind == "session" &&
		conflict.Expected > conflict.Next) {
		return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
	}
	return err
}

// isAhead reports a write that was refused because its fence is larger than what the
// session or plan knew of.
func isAhead(err error) bool {
	fenced, is := errors.AsType[*repo.FencedError](err)
	return is && fenced.Fence > fenced.Latest
}

// catchUp tells a session of the lease whose fence it did not know. It returns nil if the
// write may be tried again.
func catchUp(ctx context.Context, q db.DBTX, refused error) error {
	fenced, _ := errors.AsType[*repo.FencedError](refused)
	id, err := repo.ParseID(fenced.Key.Name)
	if err != nil {
		return err
	}
	row, err := queries.FenceCatchUpSession(ctx, q, db.FenceCatchUpSessionParams{
		SessionID: convert.UUID(id),
		Namespace: convert.LeaseNamespace,
	})
	switch {
	case conn.IsNoRows(err):
		return nil // a new attempt finds no session
	case err != nil:
		return err
	case row.Fence == fenced.Fence:
		return nil
	}
	return &conn.Answer{Err: &repo.FencedError{Key: fenced.Key, Fence: fenced.Fence, Latest: row.Fence}}
}

// catchUp tells the session of a turn of its lease. Its row is locked.
func (l *ledger) catchUp(ctx context.Context, q db.DBTX, a *Turn) error {
	counter := l.counters[a.SessionID]
	if counter == nil || a.Fence <= counter.fence {
		return nil
	}
	row, err := queries.FenceCatchUpSession(ctx, q, db.FenceCatchUpSessionParams{
		SessionID: convert.UUID(a.SessionID),
		Namespace: convert.LeaseNamespace,
	})
	if err != nil {
		return err
	}
	counter.fence, counter.hint = row.Fence, row.Hint
	return nil
}
