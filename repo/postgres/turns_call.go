package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// turnsCall is a call that makes turns. Those that name their session by its key are made for
// the session that is found, or for the one that is created: what a turn stores depends on the
// id.
type turnsCall struct {
	sessions *sessions
	given    []repo.Turn
	// normalize checks what is given, as turns of the sessions with these ids.
	normalize func(rules.NamedSessions) ([]*rules.Turn, error)
	// ids are those of the sessions that are named by their keys. fresh are those that no
	// session has yet.
	ids   rules.NamedSessions
	fresh map[repo.ID]bool
	turns []*rules.Turn
	items []*turn
	// creates: a session that is named by its key was not found.
	creates bool
	// alone: no group makes the turns.
	alone bool
}

func (s *sessions) call(given []repo.Turn, normalize func(rules.NamedSessions) ([]*rules.Turn, error)) *turnsCall {
	counted := func(ids rules.NamedSessions) ([]*rules.Turn, error) {
		turns, err := normalize(ids)
		for _, t := range turns {
			if t != nil {
				s.counter.Add(t.Messages)
				t.InView(s.view)
			}
		}
		return turns, err
	}
	return &turnsCall{sessions: s, given: given, normalize: counted, ids: rules.NamedSessions{}, fresh: map[repo.ID]bool{}}
}

// prepare checks the turns before anything is sent, and then finds the sessions that they
// name by their keys.
func (c *turnsCall) prepare(ctx context.Context) (err error) {
	var unknown []repo.SessionKey
	for _, turn := range c.given {
		key, named := rules.KeyOfTurn(turn)
		if _, found := c.ids[key]; !named || found {
			continue
		}
		id, known, err := c.sessions.exec.known(ctx, key)
		if err != nil {
			return err
		}
		if c.ids[key] = id; !known {
			unknown = append(unknown, key)
			c.refresh(key)
		}
	}
	if c.turns, err = c.normalize(c.ids); err != nil {
		return err
	}
	// A view has not found the session: whoever creates it meanwhile may be another one.
	c.creates = c.sessions.view != "" && slices.ContainsFunc(c.turns, func(t *rules.Turn) bool {
		return t.Create != nil && t.Create.Existing == repo.ExistingNone
	})
	c.items = each(c.turns, newTurn)
	for _, key := range unknown {
		id, err := c.sessions.Find(ctx, key)
		switch {
		case err == nil:
			c.ids[key] = id
		case errors.Is(err, repo.ErrNotFound):
			c.creates = true
		default:
			return err
		}
	}
	return c.renew()
}

// refresh gives a key an id that no session has.
func (c *turnsCall) refresh(key repo.SessionKey) {
	id := repo.NewID()
	c.ids[key], c.fresh[id] = id, true
}

// replace is called if a session was missing: if it is named by its key, that one needs another id.
func (c *turnsCall) replace(missing repo.ID) error {
	for key, id := range c.ids {
		if id == missing {
			c.refresh(key)
		}
	}
	return c.renew()
}

// renew makes the turns of sessions that have another id than before. No attempt has stored
// them there.
func (c *turnsCall) renew() (err error) {
	var renewed []*rules.Turn
	for i, turn := range c.given {
		key, named := rules.KeyOfTurn(turn)
		if !named || c.turns[i].SessionID == c.ids[key] {
			continue
		}
		if renewed == nil {
			if renewed, err = c.normalize(c.ids); err != nil {
				return err
			}
		}
		plan := c.items[i].plan
		c.turns[i], c.items[i] = renewed[i], newTurn(renewed[i])
		if c.items[i].plan = plan; plan != nil {
			plan.plan.ID, plan.plan.RootID = renewed[i].PlanID, renewed[i].PlanID
		}
	}
	return nil
}

// together creates the sessions that do not exist, and makes the turns, in one transaction,
// which waits for the rows that it needs.
func (c *turnsCall) together(ctx context.Context) (results []repo.AppendedTurn, err error) {
	exec := c.sessions.exec
	unsure := slices.ContainsFunc(c.items, func(a *turn) bool { return a.Unsure })
	for attempt := 1; ; attempt++ {
		err = exec.atomically(ctx, func(q db.DBTX) (err error) {
			results, err = c.attempt(ctx, &sessions{bound{tx: q.(pgx.Tx)}, c.sessions.audited, c.sessions.counter, c.sessions.view})
			return err
		})
		lost := errors.Is(err, repo.ErrUnknownOutcome)
		missing, vanished := c.hasVanished(err)
		if lost {
			unsure = true
			for _, a := range c.items {
				a.Unsure = true
			}
		}
		if vanished {
			if err := c.replace(missing); err != nil {
				return nil, err
			}
			err = &conn.Error{Sentinel: repo.ErrContention, Cause: errVanished}
		}
		if !lost && !vanished || ctx.Err() != nil || !conn.Pause(ctx, attempt) {
			break
		}
	}
	if err == nil {
		for _, a := range c.items {
			exec.changed(newsOf(a)...)
		}
		for key, id := range c.ids {
			exec.learn(key, id)
		}
	}
	return results, exec.noted(conn.Settled(conn.AfterDoubt(unsure, err)))
}

// hasVanished reports whether a session that the turns create was missing: somebody else
// had created it first, and has deleted it.
func (c *turnsCall) hasVanished(err error) (repo.ID, bool) {
	missing, is := errors.AsType[*repo.NotFoundError](err)
	if !is || missing.Kind != "session" {
		return repo.ID{}, false
	}
	first := slices.IndexFunc(c.turns, func(t *rules.Turn) bool { return t.SessionID == missing.ID })
	return missing.ID, first >= 0 && c.turns[first].Create != nil
}

// attempt creates sessions and makes turns in a transaction.
func (c *turnsCall) attempt(ctx context.Context, in *sessions) ([]repo.AppendedTurn, error) {
	created, err := c.create(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := appendAll(ctx, in.exec.(bound).tx, c.items, atLength); err != nil {
		return nil, err
	}
	results := make([]repo.AppendedTurn, len(c.items))
	for i, a := range c.items {
		var err error
		if results[i], err = in.appendedTurn(ctx, a); err != nil {
			return nil, &conn.Answer{Err: err}
		}
		results[i].Created = created[a.sessionID] && c.turns[i].Create != nil
		delete(created, a.sessionID) // by the first of its turns
	}
	return results, nil
}

// create creates the sessions that do not exist, in an order that all transactions have, and
// finds those that exist with the key. It returns the created ones.
func (c *turnsCall) create(ctx context.Context, in *sessions) (map[repo.ID]bool, error) {
	sorted := slices.SortedStableFunc(slices.Values(c.turns), func(a, b *rules.Turn) int { return a.SessionID.Compare(b.SessionID) })
	var creating []*rules.Turn // only its first turn creates a session
	for i, t := range sorted {
		if t.Create != nil && (i == 0 || sorted[i-1].SessionID != t.SessionID) {
			creating = append(creating, t)
		}
	}
	slices.SortStableFunc(creating, func(a, b *rules.Turn) int {
		return cmp.Or(cmp.Compare(a.Create.Namespace, b.Create.Namespace), cmp.Compare(a.Create.Key, b.Create.Key), a.SessionID.Compare(b.SessionID))
	})
	created := map[repo.ID]bool{}
	for _, t := range creating {
		_, err := createSession(ctx, in.exec.(bound).tx, in.createParams(*t.Create, !t.Named))
		switch {
		case err == nil:
			created[t.SessionID] = true
		case !conn.IsNoRows(err):
			return nil, err
		default:
			id, err := c.existing(ctx, in, t)
			if err != nil {
				return nil, err
			}
			// It may have been created by an attempt whose answer was lost.
			created[id] = c.fresh[id]
		}
	}
	return created, c.renew()
}

// existing returns the id of a session that a turn does not create, because it exists.
func (c *turnsCall) existing(ctx context.Context, in *sessions, t *rules.Turn) (repo.ID, error) {
	key := repo.SessionKey{Namespace: t.Create.Namespace, Key: t.Create.Key}
	if t.Named {
		row, err := queries.SessionFind(ctx, in.exec.(bound).tx, db.SessionFindParams{Namespace: key.Namespace, Key: key.Key})
		if err != nil {
			return repo.ID{}, conn.OrMissing(err, &conn.Answer{Err: sessionNotFound(t.SessionID)})
		}
		c.ids[key] = row.Bytes
		return row.Bytes, nil
	}
	stored, err := in.taken(ctx, t.SessionID, key.Namespace, key.Key)
	switch {
	case err != nil:
		return repo.ID{}, err
	case slices.ContainsFunc(stored, func(s repo.Session) bool { return s.ID == t.SessionID && in.view != "" && in.view != s.Namespace }):
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
