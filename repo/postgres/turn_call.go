package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

// turnCall is a call that makes a turn. If it names its session by its key, it is made for the
// session that is found, or created: what a turn stores depends on the id.
type turnCall struct {
	sessions *sessions
	given    repo.Turn
	// key is what names the session, if named, and id the session that has it, or is to get it: then it is fresh.
	key   repo.SessionKey
	named bool
	id    repo.ID
	fresh bool

	turn *rules.Turn
	item *write.Turn
	// alone: no group makes the turn.
	alone bool
}

// prepare checks the turn before anything is sent, and then finds the session that it
// names by its key.
func (c *turnCall) prepare(ctx context.Context) (err error) {
	c.key, c.named = rules.KeyOfTurn(c.sessions.view, c.given)
	known := !c.named
	if c.named {
		if c.id, known, err = c.sessions.exec.known(ctx, c.key); err != nil {
			return err
		}
		if !known {
			c.id, c.fresh = repo.NewID(), true
		}
	}
	if c.turn, err = c.normalize(); err != nil {
		return err
	}
	if err := c.inView(ctx); err != nil {
		return err
	}
	c.item = write.NewTurn(c.turn)
	if known {
		return nil
	}
	id, err := c.sessions.Find(ctx, c.key)
	if errors.Is(err, repo.ErrNotFound) {
		c.alone = true
		return nil
	}
	if err == nil {
		err = c.renew(id, false)
	}
	return err
}

func (c *turnCall) normalize() (*rules.Turn, error) {
	t, err := rules.NormalizeTurn(c.sessions.view, c.given, c.id)
	if err == nil {
		c.sessions.counter.Add(t.Messages)
	}
	return t, err
}

// renew makes the turn of a session that has another id than before, if it is named by its key. No attempt has stored
// it there.
func (c *turnCall) renew(id repo.ID, fresh bool) (err error) {
	if !c.named || id == c.id {
		return nil
	}
	if c.id, c.fresh = id, fresh; fresh {
		c.id = repo.NewID()
	}
	if c.turn, err = c.normalize(); err != nil {
		return err
	}
	plan := c.item.Plan
	if c.item = write.NewTurn(c.turn); plan != nil {
		c.item.Plan = plan
		plan.Plan.ID, plan.Plan.RootID = c.turn.PlanID, c.turn.PlanID
	}
	return nil
}

// apart creates the session if it does not exist, and makes the turn, in one transaction,
// which waits for the rows that it needs.
func (c *turnCall) apart(ctx context.Context) (result repo.AppendedTurn, err error) {
	exec := c.sessions.exec
	unsure := c.item.Unsure
	for attempt := 1; ; attempt++ {
		err = exec.atomically(ctx, func(q db.DBTX) (err error) {
			result, err = c.attempt(ctx, &sessions{
				base{exec: bound{tx: q.(pgx.Tx)}, view: c.sessions.view},
				c.sessions.audited,
				c.sessions.counter,
			})
			return err
		})
		lost, vanished := errors.Is(err, repo.ErrUnknownOutcome), c.hasVanished(err)
		if lost {
			unsure, c.item.Unsure = true, true
		}
		if vanished {
			if err := c.renew(repo.ID{}, true); err != nil {
				return repo.AppendedTurn{}, err
			}
			err = &conn.Error{Sentinel: repo.ErrContention, Cause: errVanished}
		}
		if !lost && !vanished || ctx.Err() != nil || !conn.Pause(ctx, attempt) {
			break
		}
	}
	if err == nil {
		exec.changed(newsOfTurn(c.item)...)
		if c.named {
			exec.learn(c.key, c.id)
		}
	}
	return result, exec.noted(conn.Settled(conn.AfterDoubt(unsure, err)))
}

// hasVanished reports whether the session that the turn creates was missing: another
// caller had created it first, and has deleted it.
func (c *turnCall) hasVanished(err error) bool {
	missing, is := errors.AsType[*repo.NotFoundError](err)
	return is && missing.Kind == "session" && c.turn.SessionID == missing.ID && c.turn.Create != nil
}

// attempt creates the session and makes the turn in a transaction.
func (c *turnCall) attempt(ctx context.Context, in *sessions) (result repo.AppendedTurn, err error) {
	created := false
	if c.turn.Create != nil {
		if created, err = c.create(ctx, in); err != nil {
			return result, err
		}
	}
	if err := write.InTx(ctx, in.exec.(bound).tx, c.item); err != nil {
		return result, err
	}
	if result, err = in.appendedTurn(ctx, c.item); err != nil {
		return result, &conn.Answer{Err: err}
	}
	result.Created = created
	return result, nil
}

// create creates the session, or finds the one that exists with the key. It reports whether this call has created it.
func (c *turnCall) create(ctx context.Context, in *sessions) (bool, error) {
	_, err := createSession(ctx, in.exec.(bound).tx, in.createParams(*c.turn.Create, !c.turn.Named))
	if !conn.IsNoRows(err) {
		return err == nil, err
	}
	fresh := c.fresh // it may have been created by an attempt whose answer was lost
	id, err := c.existing(ctx, in)
	if err != nil {
		return false, err
	}
	same := id == c.turn.SessionID
	return fresh && same, c.renew(id, false)
}

// existing returns the id of the session that the turn does not create, because it exists.
func (c *turnCall) existing(ctx context.Context, in *sessions) (repo.ID, error) {
	t := c.turn
	if t.Named {
		row, err := queries.SessionFind(ctx, in.exec.(bound).tx, db.SessionFindParams{
			Namespace: c.key.Namespace,
			Key:       c.key.Key,
		})
		return row.Bytes, conn.OrMissing(err, &conn.Answer{Err: convert.SessionNotFound(t.SessionID)})
	}
	stored, err := in.taken(ctx, t.SessionID, t.Create.Namespace, t.Create.Key)
	switch {
	case err != nil:
		return repo.ID{}, err
	case slices.ContainsFunc(stored, func(s repo.Session) bool {
		return s.ID == t.SessionID && !rules.IsInView(in.view, s.Namespace)
	}):
		return repo.ID{}, &conn.Answer{Err: rules.InOtherNamespace(t.SessionID)}
	case slices.ContainsFunc(stored, func(s repo.Session) bool { return s.ID == t.SessionID }):
		return t.SessionID, nil
	case len(stored) > 0:
		return repo.ID{}, &conn.Answer{Err: rules.KeyTaken(stored[0].ID)}
	}
	deleted, err := in.wasDeleted(ctx, t.SessionID)
	if err == nil && deleted {
		err = &conn.Answer{Err: rules.SessionDeleted(t.SessionID)}
	}
	return t.SessionID, err
}
