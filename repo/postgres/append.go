package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

func (s *sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	messages, repeatable, err := rules.NormalizeMessages(messages)
	if err = s.checkSession(ctx, sessionID, err); err != nil {
		return nil, err
	}
	s.counter.Add(messages)
	result, err := s.appendOne(ctx, &write.Turn{Turn: &rules.Turn{
		SessionID: sessionID, Messages: messages,
		Repeatable: repeatable,
	}})
	return result.Messages, err
}

func (s *sessions) appendOne(ctx context.Context, a *write.Turn) (repo.AppendedTurn, error) {
	err := s.exec.append(ctx, a)
	switch {
	case conn.IsNoRows(err):
		return repo.AppendedTurn{}, s.orMissing(err, a.SessionID)
	case err != nil:
		return repo.AppendedTurn{}, s.exec.noted(err)
	}
	result, err := s.appendedTurn(ctx, a)
	return result, s.exec.noted(err)
}

func appended(sessionID repo.ID, messages []repo.NewMessage, written write.Outcome) []repo.Message {
	createdAt := written.CreatedAt.UTC()
	result := make([]repo.Message, len(messages))
	for i, message := range messages {
		result[i] = rules.StoredMessage(message, sessionID, written.First+int64(i), createdAt)
	}
	result[0].Follows = convert.Follows(written.First, written.Follows)
	return result
}

// stored returns the result of an append that found an id of its messages stored: the
// stored messages if all are stored and equal, or a conflict.
func (s *sessions) stored(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) ([]repo.Message, error) {
	ids := make([]pgtype.UUID, len(messages))
	for i, message := range messages {
		ids[i] = convert.UUID(message.ID)
	}
	rows, err := run(ctx, s.exec.read, queries.MessageListByIDs,
		db.MessageListByIDsParams{Ids: ids, SessionID: convert.UUID(sessionID)})
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0: // messages go only with their session
		return nil, convert.SessionNotFound(sessionID)
	}
	result := convert.Each(rows, convert.Message)
	if err := rules.AppendConflict(sessionID, messages, result); err != nil {
		return nil, err
	}
	return result, nil
}

func (p *pooled) append(ctx context.Context, a *write.Turn) error {
	return p.submitted(ctx, "append", a, func() error { return committerOf(p, newTurns).Make(ctx, a) })
}

func newTurns(p *pooled) *write.Appender {
	return write.New(p.conns, p.budget, func(made ...*write.Turn) {
		var news []news
		for _, a := range made {
			news = append(news, newsOfTurn(a)...)
		}
		p.changed(news...)
	})
}

// append waits for the counter row.
func (b bound) append(ctx context.Context, a *write.Turn) error {
	err := b.read(ctx, func(q db.DBTX) error { return write.AppendInTx(ctx, q, a) })
	if err == nil {
		b.changed(newsOfTurn(a)...)
	}
	return err
}

func (s *sessions) AddUsage(ctx context.Context, id repo.ID, add repo.NewUsage) (repo.Usage, error) {
	turn, err := rules.UsageTurn(id, add)
	if err = s.checkSession(ctx, id, err); err != nil {
		return repo.Usage{}, err
	}
	added, err := s.appendOne(ctx, write.NewTurn(turn))
	if err != nil {
		return repo.Usage{}, err
	}
	return *added.Usage, nil
}
