package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
)

// appendAt appends messages at a sequence.
func appendAt(ctx context.Context, s repo.Sessions, sessionID repo.ID, expected int64, messages ...repo.NewMessage) ([]repo.Message, error) {
	added, err := s.AppendTurn(ctx, repo.Turn{SessionID: sessionID, Expected: &expected, Messages: messages})
	return added.Messages, err
}

// inSession returns the turn as one of a session.
func inSession(id repo.ID, turn repo.Turn) repo.Turn {
	turn.SessionID = id
	return turn
}
