package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

func (s *sessions) AppendTurn(ctx context.Context, sessionID repo.ID, turn repo.Turn) (repo.AppendedTurn, error) {
	t, err := rules.NormalizeTurn(sessionID, turn)
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	a := newTurn(t)
	result, err := s.appendOne(ctx, a)
	if t.Create == nil || !isSessionMissing(err) {
		return result, err
	}
	results, err := s.appendTogether(ctx, []*rules.Turn{t}, []*appending{a})
	if err != nil {
		return repo.AppendedTurn{}, err
	}
	return results[0], nil
}

func isSessionMissing(err error) bool {
	missing, is := errors.AsType[*repo.NotFoundError](err)
	return is && missing.Kind == "session"
}

// AppendTurns makes the turns in a group, or, if it has to create a session, in a
// transaction of its own.
func (s *sessions) AppendTurns(ctx context.Context, turns ...repo.SessionTurn) ([]repo.AppendedTurn, error) {
	normal, err := rules.NormalizeTurns(turns)
	if err != nil {
		return nil, err
	}
	items := make([]*appending, len(normal))
	for i, t := range normal {
		items[i] = newTurn(t)
	}
	pool, ok := s.exec.(*pooled)
	if !ok {
		return s.appendTogether(ctx, normal, items)
	}
	_, err = pool.append(ctx, newTogether(items))
	creates := slices.ContainsFunc(normal, func(t *rules.Turn) bool { return t.Create != nil })
	switch {
	case errors.Is(err, errApart) || creates && isSessionMissing(err):
		return s.appendTogether(ctx, normal, items)
	case err != nil:
		return nil, err
	}
	results := make([]repo.AppendedTurn, len(items))
	for i, a := range items {
		if results[i], err = s.appendedTurn(ctx, a); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// newTurn returns the append of a turn. One that has only messages is like any other.
func newTurn(t *rules.Turn) *appending {
	a := &appending{
		sessionID: t.SessionID, expected: t.Expected, messages: t.Messages, repeatable: t.Repeatable, creates: t.Create != nil,
		fence: t.Fence,
	}
	if !t.OnlyMessages() {
		a.turn = t
	}
	return a
}

// shares reports whether others than the writers of the session may lock a row that the
// turn locks.
func (a *appending) shares() bool {
	return a.spans || slices.ContainsFunc(a.each(), func(part *appending) bool {
		return part.turn != nil && slices.ContainsFunc(part.turn.State.Scopes, func(s rules.StateScope) bool { return s.Scope.Name != "" })
	})
}

// appendTogether creates the sessions that do not exist, and makes the turns, in one
// transaction, which waits for the rows that it needs.
func (s *sessions) appendTogether(ctx context.Context, turns []*rules.Turn, items []*appending) (results []repo.AppendedTurn, err error) {
	unsure := slices.ContainsFunc(items, func(a *appending) bool { return a.unsure })
	for attempt := 1; ; attempt++ {
		err = s.exec.atomically(ctx, func(q db.DBTX) (err error) {
			results, err = appendIn(ctx, &sessions{bound{tx: q.(pgx.Tx)}, s.audited}, turns, items)
			return err
		})
		lost, vanished := errors.Is(err, repo.ErrUnknownOutcome), hasVanished(turns, err)
		if lost {
			unsure = true
			for _, a := range items {
				a.unsure = true
			}
		}
		if vanished {
			err = &storeError{repo.ErrContention, errVanished}
		}
		if !lost && !vanished || ctx.Err() != nil || !pause(ctx, attempt) {
			break
		}
	}
	if err == nil {
		for _, a := range items {
			s.exec.changed(a.news(a.row)...)
		}
	}
	return results, settled(afterDoubt(unsure, err))
}

var errVanished = errors.New("others create the session and delete it again and again")

// hasVanished reports whether a session that the turns create was missing: somebody else
// had created it first, and has deleted it.
func hasVanished(turns []*rules.Turn, err error) bool {
	missing, is := errors.AsType[*repo.NotFoundError](err)
	if !is || missing.Kind != "session" {
		return false
	}
	first := slices.IndexFunc(turns, func(t *rules.Turn) bool { return t.SessionID == missing.ID })
	return first >= 0 && turns[first].Create != nil
}

// appendIn creates sessions and makes turns in a transaction.
func appendIn(ctx context.Context, in *sessions, turns []*rules.Turn, items []*appending) ([]repo.AppendedTurn, error) {
	created := map[repo.ID]bool{}
	sorted := slices.SortedStableFunc(slices.Values(turns), func(a, b *rules.Turn) int { return a.SessionID.Compare(b.SessionID) })
	for i, t := range sorted {
		if t.Create == nil || i > 0 && sorted[i-1].SessionID == t.SessionID { // only its first turn creates a session
			continue
		}
		_, err := queries.SessionCreate(ctx, in.exec.(bound).tx, in.createParams(*t.Create))
		switch {
		case err == nil:
			created[t.SessionID] = true
		case !isNoRows(err):
			return nil, err
		}
	}
	if err := appendAll(ctx, in.exec.(bound).tx, items, atLength); err != nil {
		return nil, err
	}
	results := make([]repo.AppendedTurn, len(items))
	for i, a := range items {
		var err error
		if results[i], err = in.appendedTurn(ctx, a); err != nil {
			return nil, &answer{err}
		}
		results[i].Created = created[a.sessionID] && turns[i].Create != nil
		delete(created, a.sessionID) // by the first of its turns
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
// that it needs. If one is refused it writes nothing. It sets the results.
func appendAll(ctx context.Context, q db.DBTX, items []*appending, waits length) error {
	l, p := newLedger(items), &pipeline{}
	l.lock(ctx, p, waiting{sessions: true, scopes: true, creates: true, brief: bool(waits)})
	l.read(ctx, p, items)
	if err := p.send(ctx, q); err != nil {
		return err
	}
	if err := l.catchUp(ctx, q, items); err != nil {
		return err
	}
	for _, a := range items {
		switch l.decide(a) {
		case held: // the session was deleted during the wait
			a.err = pgx.ErrNoRows
		case deferred: // rules.NormalizeTurns excludes it
			a.err = repo.ErrContention
		}
		if isNoRows(a.err) {
			a.err = sessionNotFound(a.sessionID)
		}
		if a.err != nil {
			return &answer{a.err}
		}
	}
	p = &pipeline{}
	if !l.write(ctx, p, atAnyLevel) {
		return nil
	}
	err := p.send(ctx, q)
	if violates(err, uniqueTurnID) {
		// It was stored after the snapshot of a caller's transaction. One that begins now
		// finds it.
		return &storeError{repo.ErrContention, err}
	}
	return err
}

// makeScopes creates the rows of a turn's scopes that a group found missing. A transaction
// that is creating one of them may stay open for long. So the call waits for it in short
// attempts, of which there is one at a time, and leaves the pool's connections to others,
// until its patience is at an end.
func (p *pooled) makeScopes(ctx context.Context, a *appending) error {
	begun := time.Now()
	for attempt := 1; ; attempt++ {
		err := p.tryScopes(ctx, a.missing)
		switch {
		case violates(err, stateSession):
			if a.parts != nil {
				return nil // a group finds out whose session was deleted
			}
			return sessionNotFound(a.sessionID)
		case hasCode(err, lockNotAvailable):
			if a.patience > 0 && time.Since(begun) >= a.patience {
				return &storeError{repo.ErrContention, errLockTimeout}
			}
			attempt = 1
		case !isPassing(err):
			return err
		}
		again := pause(ctx, attempt)
		if ctx.Err() != nil {
			return translate(ctx, ctx.Err(), unsent)
		}
		if !again {
			return err
		}
	}
}

func (p *pooled) tryScopes(ctx context.Context, scopes []rules.StateScope) error {
	select {
	case p.appender.making <- struct{}{}:
	case <-ctx.Done():
		return translate(ctx, ctx.Err(), unsent)
	}
	defer func() { <-p.appender.making }()
	ids, names := scopeColumns(scopes, ofStateScope)
	// A scope at version 0 is as none: whether it was created is all one.
	return p.conns.run(ctx, reading, func(q db.DBTX) error {
		p := &pipeline{}
		p.add(func(q db.DBTX) error { return queries.TurnLimitWait(ctx, q) })
		p.add(func(q db.DBTX) error { return queries.StateScopeLock(ctx, q, ids, names) })
		return p.send(ctx, q)
	})
}

// appendedTurn returns the result of an append or a turn that was written, was found
// stored, or is at another sequence than expected.
func (s *sessions) appendedTurn(ctx context.Context, a *appending) (result repo.AppendedTurn, err error) {
	switch {
	case a.stored:
		result, err = s.storedTurn(ctx, a)
		return result, s.exec.unread(err)
	case isKnown(a.row):
		if result.Messages, err = s.stored(ctx, a.sessionID, a.messages); err == nil && a.turn != nil {
			err = s.current(ctx, a.turn, &result)
		}
		if err != nil {
			return repo.AppendedTurn{}, s.exec.unread(err)
		}
		result.Repeated = a.repeatable
		return result, nil
	case len(a.messages) > 0 && a.row.CreatedAt == nil:
		return result, &repo.SequenceConflictError{SessionID: a.sessionID, Expected: *a.expected, Next: a.row.NextSequence}
	case len(a.messages) > 0:
		result.Messages = appended(a.sessionID, a.messages, a.row)
	}
	result.Scopes = a.made.Scopes
	if a.turn != nil && a.turn.Usage != nil {
		result.Usage = &a.made.Usage
	}
	return result, nil
}

// storedTurn returns a turn that was found stored.
func (s *sessions) storedTurn(ctx context.Context, a *appending) (result repo.AppendedTurn, err error) {
	result.Repeated = a.turn.Given
	if len(a.messages) > 0 {
		rows, err := run(ctx, s.exec.read, queries.TurnListMessages, db.TurnListMessagesParams{
			SessionID: toUUID(a.sessionID), ID: toUUID(a.turn.ID), Digest: a.turn.Digest[:], MaxRows: int32(len(a.messages)),
		})
		if err != nil {
			return repo.AppendedTurn{}, err
		}
		if len(rows) < len(a.messages) { // turns and messages go only with their session
			return repo.AppendedTurn{}, sessionNotFound(a.sessionID)
		}
		result.Messages = each(rows, messageOf)
	}
	return result, s.current(ctx, a.turn, &result)
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
	var ids []pgtype.UUID
	for _, scope := range t.State.Scopes {
		if scope.Changed {
			versions[scope.Scope] = 0
			ids = append(ids, toUUID(scope.ID))
		}
	}
	rows, err := run(ctx, s.exec.read, queries.TurnScopeVersions, ids)
	if err != nil {
		return err
	}
	for _, row := range rows {
		for _, scope := range t.State.Scopes {
			if scope.Changed && scope.ID == row.ID.Bytes {
				versions[scope.Scope] = row.Version
			}
		}
	}
	result.Scopes = t.State.Versions(versions)
	return nil
}
