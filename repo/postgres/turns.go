package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

func (s *sessions) AppendTurn(ctx context.Context, sessionID repo.ID, turn repo.Turn) (repo.AppendedTurn, error) {
	call := s.call([]repo.SessionTurn{{SessionID: sessionID, Turn: turn}}, func(ids rules.NamedSessions) ([]*rules.Turn, error) {
		t, err := rules.NormalizeTurn(sessionID, turn, ids)
		return []*rules.Turn{t}, err
	})
	if err := call.prepare(ctx); err != nil {
		return repo.AppendedTurn{}, err
	}
	if !call.creates {
		result, err := s.appendOne(ctx, call.items[0])
		missing, vanished := call.hasVanished(err)
		if !vanished {
			return result, err
		}
		if err := call.replace(missing); err != nil {
			return repo.AppendedTurn{}, err
		}
	}
	results, err := call.together(ctx)
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	return results[0], nil
}

// AppendTurns makes the turns in a group, or, if it has to create a session, in a
// transaction of its own.
func (s *sessions) AppendTurns(ctx context.Context, turns ...repo.SessionTurn) ([]repo.AppendedTurn, error) {
	call := s.call(turns, func(ids rules.NamedSessions) ([]*rules.Turn, error) { return rules.NormalizeTurns(turns, ids) })
	if err := call.prepare(ctx); err != nil {
		return nil, err
	}
	pool, ok := s.exec.(*pooled)
	if !ok || call.creates {
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
	case vanished, errors.Is(err, errApart):
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
	case a.outcome.stored:
		result, err = s.storedTurn(ctx, a)
		return result, s.exec.unread(err)
	case a.outcome.known:
		if result.Messages, err = s.stored(ctx, a.sessionID, a.messages); err == nil && a.more != nil {
			err = s.current(ctx, a.more, &result)
		}
		if err != nil {
			return repo.AppendedTurn{}, s.exec.unread(err)
		}
		result.Repeated = a.repeatable
		return result, nil
	case len(a.messages) > 0:
		result.Messages = appended(a.sessionID, a.messages, a.outcome)
	}
	result.Scopes = a.outcome.made.Scopes
	if a.more != nil && a.more.Usage != nil {
		result.Usage = &a.outcome.made.Usage
	}
	return result, nil
}

// storedTurn returns a turn that was found stored.
func (s *sessions) storedTurn(ctx context.Context, a *turn) (result repo.AppendedTurn, err error) {
	result.SessionID, result.Repeated = a.sessionID, a.more.Given
	if len(a.messages) > 0 {
		rows, err := run(ctx, s.exec.read, queries.TurnListMessages, db.TurnListMessagesParams{
			SessionID: toUUID(a.sessionID), ID: a.more.ID, MaxRows: int32(len(a.messages)),
		})
		if err != nil {
			return repo.AppendedTurn{}, err
		}
		if len(rows) < len(a.messages) { // turns and messages go only with their session
			return repo.AppendedTurn{}, sessionNotFound(a.sessionID)
		}
		result.Messages = each(rows, messageOf)
	}
	return result, s.current(ctx, a.more, &result)
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
