package memory

import (
	"context"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Append is a turn of nothing but messages. They are checked and copied outside of the lock.
func (s sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	given, repeatable, err := rules.NormalizeMessages(messages)
	if err != nil {
		return nil, err
	}
	turn := &rules.Turn{SessionID: sessionID, Messages: given, Repeatable: repeatable}
	s.counter().Add(turn.Messages)
	stored, err := run(ctx, s.write, func(t *tables) (repo.AppendedTurn, error) { return s.appendTurn(ctx, t, turn) })
	return stored.Messages, err
}
