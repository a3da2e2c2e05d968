package postgres

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

func (s *sessions) AppendTurn(ctx context.Context, turn repo.Turn) (repo.AppendedTurn, error) {
	call := &turnCall{sessions: s, given: turn}
	if err := call.prepare(ctx); err != nil {
		return repo.AppendedTurn{}, err
	}
	for range maxUses {
		if err := call.plan(ctx); err != nil {
			return repo.AppendedTurn{}, err
		}
		if result, err := call.append(ctx); !errors.Is(err, write.ErrActionChanged) { // since it was read
			return call.answer(result, err)
		}
		call.alone = true // to wait for the transaction that changes it
	}
	return repo.AppendedTurn{}, &conn.Error{Sentinel: repo.ErrContention, Cause: write.ErrActionChanged}
}

// append has a group make the turn, unless something is in its way.
func (c *turnCall) append(ctx context.Context) (repo.AppendedTurn, error) {
	if c.alone {
		return c.apart(ctx)
	}
	result, err := c.sessions.appendOne(ctx, c.item)
	switch {
	case c.hasVanished(err):
		if err := c.renew(repo.ID{}, true); err != nil {
			return repo.AppendedTurn{}, err
		}
	case !errors.Is(err, write.ErrKeyLocked):
		return result, err
	}
	return c.apart(ctx)
}

// appendedTurn returns the result of an append or a turn that was written, was found
// stored, or is at another sequence than expected.
func (s *sessions) appendedTurn(ctx context.Context, a *write.Turn) (result repo.AppendedTurn, err error) {
	result.SessionID = a.SessionID
	switch {
	case a.Outcome.Stored != nil:
		result, err = s.storedTurn(ctx, a)
		return result, s.exec.unread(err)
	case a.Outcome.Known:
		if result.Messages, err = s.stored(ctx, a.SessionID, a.Messages); err == nil && !a.OnlyMessages() {
			err = s.current(ctx, a.Turn, &result)
		}
		if err == nil && !a.OnlyMessages() {
			err = s.work(ctx, a.Turn, a.PlanID, &result)
		}
		if err != nil {
			return repo.AppendedTurn{}, s.exec.unread(err)
		}
		result.Repeated = a.Repeatable
		return result, nil
	case len(a.Messages) > 0:
		result.Messages = appended(a.SessionID, a.Messages, a.Outcome)
	}
	result.Scopes, result.Plan, result.Stream = a.Outcome.Made.Scopes, a.Outcome.Plan, a.Outcome.Stream
	if a.Usage != nil {
		result.Usage = &a.Outcome.Made.Usage
	}
	return result, nil
}

// storedTurn returns a turn that was found stored.
func (s *sessions) storedTurn(ctx context.Context, a *write.Turn) (result repo.AppendedTurn, err error) {
	result.SessionID, result.Repeated = a.SessionID, a.Given
	if result.Messages, err = s.messagesOfTurn(ctx, *a.Outcome.Stored); err != nil {
		return repo.AppendedTurn{}, err
	}
	if err := s.work(ctx, a.Turn, a.Outcome.Stored.PlanID.Bytes, &result); err != nil {
		return repo.AppendedTurn{}, err
	}
	return result, s.current(ctx, a.Turn, &result)
}

func (s *sessions) Turn(ctx context.Context, sessionID repo.ID, id string) (repo.AppendedTurn, error) {
	if err := s.checkSession(ctx, sessionID, rules.CheckTurnID(id)); err != nil {
		return repo.AppendedTurn{}, err
	}
	rows, err := run(ctx, s.exec.read, queries.TurnFind, db.TurnFindParams{
		SessionIds: convert.UUIDs([]repo.ID{sessionID}),
		Ids:        []string{id},
	})
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
	rows, err := run(ctx, s.exec.read, queries.TurnScopeVersions, convert.Scopes(scopes))
	if err != nil {
		return err
	}
	for _, row := range rows {
		versions[scopes[row.Place-1]] = row.Version
	}
	result.Scopes = t.State.Versions(versions)
	return nil
}

// newsOfTurn says what there is to follow once a turn was committed.
func newsOfTurn(a *write.Turn) (all []news) {
	if len(a.Messages) > 0 && a.Outcome.CreatedAt != nil {
		all = append(all, grown(a.SessionID, a.Outcome.First+int64(len(a.Messages))))
	}
	if plan := a.Outcome.Plan; plan != nil {
		all = append(all, queued(plan.Namespace)...)
	}
	if stream := a.Outcome.Stream; stream != nil {
		all = append(all, newsOf(aboutStreams, a.SessionID))
		if a.Open.Restart && stream.Next > 0 {
			all = append(all, grown(stream.ID, stream.Next))
		}
	}
	return all
}
