package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

func (s *sessions) AppendTurn(ctx context.Context, turn repo.Turn) (repo.AppendedTurn, error) {
	call := s.call([]repo.Turn{turn}, func(ids rules.NamedSessions) ([]*rules.Turn, error) {
		t, err := rules.NormalizeTurn(turn, ids)
		return []*rules.Turn{t}, err
	})
	if err := call.prepare(ctx); err != nil {
		return repo.AppendedTurn{}, err
	}
	results, err := call.planned(ctx, func() (results []repo.AppendedTurn, err error) {
		if !call.creates && !call.alone {
			results = make([]repo.AppendedTurn, 1)
			results[0], err = s.appendOne(ctx, call.items[0])
			missing, vanished := call.hasVanished(err)
			if !vanished && !errors.Is(err, errKeyHeld) {
				return results, err
			}
			if vanished {
				err = call.replace(missing)
			} else {
				err = nil
			}
			if err != nil {
				return nil, err
			}
		}
		return call.together(ctx)
	})
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	return results[0], nil
}

// planned makes turns, again if an action that they use has changed since it was read.
func (c *turnsCall) planned(ctx context.Context, make func() ([]repo.AppendedTurn, error)) (results []repo.AppendedTurn, err error) {
	for range maxUses {
		if err := c.plan(ctx); err != nil {
			return nil, err
		}
		if results, err = make(); !errors.Is(err, errActionChanged) {
			return results, err
		}
		c.alone = true // to wait for whoever changes it
	}
	return nil, &conn.Error{Sentinel: repo.ErrContention, Cause: err}
}

// AppendTurns makes the turns in a group, or, if it has to create a session, in a
// transaction of its own.
func (s *sessions) AppendTurns(ctx context.Context, turns ...repo.Turn) ([]repo.AppendedTurn, error) {
	call := s.call(turns, func(ids rules.NamedSessions) ([]*rules.Turn, error) { return rules.NormalizeTurns(turns, ids) })
	if err := call.prepare(ctx); err != nil {
		return nil, err
	}
	return call.planned(ctx, func() ([]repo.AppendedTurn, error) { return call.many(ctx) })
}

func (c *turnsCall) many(ctx context.Context) ([]repo.AppendedTurn, error) {
	call, s := c, c.sessions
	pool, ok := s.exec.(*pooled)
	if !ok || call.creates || call.alone {
		return call.together(ctx)
	}
	err := pool.append(ctx, newTogether(call.items))
	missing, vanished := call.hasVanished(s.exec.noted(err))
	if vanished {
		if err := call.replace(missing); err != nil {
			return nil, err
		}
	}
	switch {
	case vanished, errors.Is(err, errApart), errors.Is(err, errKeyHeld):
		return call.together(ctx)
	case err != nil:
		return nil, err
	}
	results := make([]repo.AppendedTurn, len(call.items))
	for i, a := range call.items {
		if results[i], err = s.appendedTurn(ctx, a); err != nil {
			return nil, s.exec.noted(err)
		}
	}
	return results, nil
}

// length says how long a transaction waits for each row.
type length bool

const (
	briefly  length = true // see TurnLimitWait
	atLength length = false
)

// appendAll makes appends and turns in a transaction, in order, and waits for the rows
// that it needs. If one is refused it writes nothing. It sets the outcomes.
func appendAll(ctx context.Context, q db.DBTX, items []*turn, waits length) error {
	l, p := newLedger(items), &conn.Pipeline{}
	l.lock(ctx, p, waiting{sessions: true, scopes: true, creates: true, brief: bool(waits)})
	l.read(ctx, p, items)
	if err := p.Send(ctx, q); err != nil {
		return err
	}
	if err := l.catchUp(ctx, q, items); err != nil {
		return err
	}
	for _, a := range items {
		v, err := l.decide(a)
		switch v {
		case held: // the session was deleted during the wait
			err = pgx.ErrNoRows
		case deferred: // rules.NormalizeTurns excludes it
			err = repo.ErrContention
		}
		if err != nil {
			return &conn.Answer{Err: conn.OrMissing(err, sessionNotFound(a.sessionID))}
		}
	}
	p = &conn.Pipeline{}
	if !l.write(ctx, p) {
		return nil
	}
	err := p.Send(ctx, q)
	if conn.Violates(err, uniqueTurnID) {
		// It was stored after the snapshot of a caller's transaction. One that begins now
		// finds it.
		return &conn.Error{Sentinel: repo.ErrContention, Cause: err}
	}
	return err
}

// appendedTurn returns the result of an append or a turn that was written, was found
// stored, or is at another sequence than expected.
func (s *sessions) appendedTurn(ctx context.Context, a *turn) (result repo.AppendedTurn, err error) {
	result.SessionID = a.sessionID
	switch {
	case a.outcome.stored != nil:
		result, err = s.storedTurn(ctx, a)
		return result, s.exec.unread(err)
	case a.outcome.known:
		if result.Messages, err = s.stored(ctx, a.sessionID, a.messages); err == nil && a.more != nil {
			err = s.current(ctx, a.more, &result)
		}
		if err == nil && a.more != nil {
			err = s.work(ctx, a.more, a.more.PlanID, &result)
		}
		if err != nil {
			return repo.AppendedTurn{}, s.exec.unread(err)
		}
		result.Repeated = a.repeatable
		return result, nil
	case len(a.messages) > 0:
		result.Messages = appended(a.sessionID, a.messages, a.outcome)
	}
	result.Scopes, result.Plan, result.Stream = a.outcome.made.Scopes, a.outcome.plan, a.outcome.stream
	if a.more != nil && a.more.Usage != nil {
		result.Usage = &a.outcome.made.Usage
	}
	return result, nil
}

// storedTurn returns a turn that was found stored.
func (s *sessions) storedTurn(ctx context.Context, a *turn) (result repo.AppendedTurn, err error) {
	result.SessionID, result.Repeated = a.sessionID, a.more.Given
	if result.Messages, err = s.messagesOfTurn(ctx, *a.outcome.stored); err != nil {
		return repo.AppendedTurn{}, err
	}
	if err := s.work(ctx, a.more, a.outcome.stored.PlanID.Bytes, &result); err != nil {
		return repo.AppendedTurn{}, err
	}
	return result, s.current(ctx, a.more, &result)
}

func (s *sessions) Turn(ctx context.Context, sessionID repo.ID, id string) (repo.AppendedTurn, error) {
	if err := rules.CheckTurnID(id); err != nil {
		return repo.AppendedTurn{}, err
	}
	rows, err := run(ctx, s.exec.read, queries.TurnFind, db.TurnFindParams{SessionIds: toUUIDs([]repo.ID{sessionID}), Ids: []string{id}})
	switch {
	case err != nil:
		return repo.AppendedTurn{}, err
	case len(rows) == 0:
		if err := s.mustExist(ctx, sessionID); err != nil {
			return repo.AppendedTurn{}, err
		}
		return repo.AppendedTurn{}, &repo.NotFoundError{Kind: "turn", Name: id}
	}
	messages, err := s.messagesOfTurn(ctx, rows[0])
	if err == nil && len(messages) == 0 {
		err = s.mustExist(ctx, sessionID)
	}
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	result := repo.AppendedTurn{SessionID: sessionID, Messages: messages, Repeated: true}
	err = s.work(ctx, nil, rows[0].PlanID.Bytes, &result)
	return result, err
}

// messagesOfTurn reads the messages of a turn that was found. Its session may have been deleted
// since.
func (s *sessions) messagesOfTurn(ctx context.Context, row db.TurnFindRow) ([]repo.Message, error) {
	count := int(row.MessageCount)
	if count == 0 {
		return nil, nil
	}
	messages, err := s.own(ctx, row.SessionID.Bytes, row.FirstSequence, count, newPage(count))
	if err == nil && len(messages) < count {
		err = missingMessages()
	}
	return messages, err
}

// current adds to the result the scopes that a stored turn changed, and the usage, as
// they are now.
func (s *sessions) current(ctx context.Context, t *rules.Turn, result *repo.AppendedTurn) error {
	if t.Usage != nil {
		session, err := s.Get(ctx, t.SessionID)
		if err != nil {
			return err
		}
		result.Usage = &session.Usage
	}
	if len(t.State.Changes) == 0 {
		return nil
	}
	versions := map[repo.Scope]int64{} // 0: it was erased
	var scopes []repo.Scope
	for _, scope := range t.State.Scopes {
		if scope.Changed {
			versions[scope.Scope] = 0
			scopes = append(scopes, scope.Scope)
		}
	}
	columns := newScopeColumns(scopes)
	rows, err := run(ctx, s.exec.read, queries.TurnScopeVersions, db.TurnScopeVersionsParams{
		SessionIds: columns.sessions, Namespaces: columns.namespaces, Names: columns.names,
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		versions[scopes[row.Place-1]] = row.Version
	}
	result.Scopes = t.State.Versions(versions)
	return nil
}
