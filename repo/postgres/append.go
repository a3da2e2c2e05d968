package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

func (s *sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	messages, repeatable, err := rules.NormalizeMessages(messages)
	if err = s.checkSession(ctx, sessionID, err); err != nil {
		return nil, err
	}
	s.counter.Add(messages)
	result, err := s.appendOne(ctx, &turn{Turn: &rules.Turn{SessionID: sessionID, Messages: messages, Repeatable: repeatable}})
	return result.Messages, err
}

func (s *sessions) appendOne(ctx context.Context, a *turn) (repo.AppendedTurn, error) {
	err := s.exec.(appends).append(ctx, a)
	switch {
	case conn.IsNoRows(err):
		return repo.AppendedTurn{}, s.orMissing(err, a.SessionID)
	case err != nil:
		return repo.AppendedTurn{}, s.exec.noted(err)
	}
	result, err := s.appendedTurn(ctx, a)
	return result, s.exec.noted(err)
}

func appended(sessionID repo.ID, messages []repo.NewMessage, written outcome) []repo.Message {
	createdAt := written.createdAt.UTC()
	result := make([]repo.Message, len(messages))
	for i, message := range messages {
		result[i] = rules.StoredMessage(message, sessionID, written.first+int64(i), createdAt)
	}
	result[0].Follows = followsOf(written.first, written.follows)
	return result
}

// stored returns the result of an append that found an id of its messages stored: the
// stored messages if all are stored and equal, or a conflict.
func (s *sessions) stored(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) ([]repo.Message, error) {
	ids := make([]pgtype.UUID, len(messages))
	for i, message := range messages {
		ids[i] = toUUID(message.ID)
	}
	rows, err := run(ctx, s.exec.read, queries.MessageListByIDs, db.MessageListByIDsParams{Ids: ids, SessionID: toUUID(sessionID)})
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0: // messages go only with their session
		return nil, sessionNotFound(sessionID)
	}
	result := each(rows, messageOf)
	if err := rules.AppendConflict(sessionID, messages, result); err != nil {
		return nil, err
	}
	return result, nil
}
