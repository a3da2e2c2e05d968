package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s *sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	return s.append(ctx, sessionID, nil, messages)
}

func (s *sessions) AppendAt(ctx context.Context, sessionID repo.ID, expected int64, messages ...repo.NewMessage) ([]repo.Message, error) {
	if err := repo.CheckSequence("expected", expected); err != nil {
		return nil, err
	}
	return s.append(ctx, sessionID, &expected, messages)
}

func (s *sessions) append(ctx context.Context, sessionID repo.ID, expected *int64, messages []repo.NewMessage) ([]repo.Message, error) {
	messages, repeatable, err := repo.NormalizeMessages(messages)
	if err != nil {
		return nil, err
	}
	params := appendParams(sessionID, expected, messages)
	var row db.MessageAppendRow
	err = s.exec.writeByID(ctx, func(q db.DBTX, again bool) (err error) {
		// Whether an id is stored is looked up only where it can be.
		params.CheckIds = repeatable || again
		if params.CheckIds && s.exec.inTx() {
			// The append looks with the eyes of its beginning. A statement of
			// its own that waits for the lock makes sure that it sees what was
			// committed meanwhile; to fail on it would spoil the transaction.
			if _, err := queries.SessionLock(ctx, q, params.SessionID); err != nil {
				return err
			}
		}
		row, err = sendAppend(ctx, q, params)
		return err
	})
	if violates(err, uniqueMessageID) {
		// On the pool: the message was committed while this append waited for
		// the lock. An append that begins now sees it.
		err = s.exec.writeByID(ctx, func(q db.DBTX, _ bool) (err error) {
			params.CheckIds = true
			row, err = sendAppend(ctx, q, params)
			return err
		})
	}
	switch {
	case isNoRows(err):
		return nil, sessionNotFound(sessionID)
	case err != nil:
		return nil, err
	case row.CreatedAt != nil:
		return appended(sessionID, messages, row), nil
	case row.Known != nil && *row.Known:
		return s.stored(ctx, sessionID, messages)
	default:
		return nil, &repo.SequenceConflict{SessionID: sessionID, Expected: *expected, Next: row.NextSequence}
	}
}

func appendParams(sessionID repo.ID, expected *int64, messages []repo.NewMessage) db.MessageAppendParams {
	c := newColumns(len(messages))
	for _, m := range messages {
		c.add(m.ID, m.Role, m.Content, m.Metadata, m.Payload, m.OccurredAt)
	}
	return db.MessageAppendParams{
		SessionID:   toUUID(sessionID),
		Expected:    expected,
		Ids:         c.ids,
		Roles:       c.roles,
		Contents:    c.contents,
		Metadatas:   c.metadatas,
		Payloads:    c.payloads,
		OccurredAts: c.occurredAts,
	}
}

// sendAppend sends one append and waits until it is committed, or, in a
// transaction, carried out.
func sendAppend(ctx context.Context, q db.DBTX, params db.MessageAppendParams) (row db.MessageAppendRow, err error) {
	results := queries.MessageAppend(ctx, q, []db.MessageAppendParams{params})
	results.QueryRow(func(_ int, r db.MessageAppendRow, e error) { row, err = r, e })
	// The row comes before the commit. An error of the commit shows only here.
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return row, err
}

func appended(sessionID repo.ID, messages []repo.NewMessage, row db.MessageAppendRow) []repo.Message {
	createdAt := row.CreatedAt.UTC()
	result := make([]repo.Message, len(messages))
	for i, message := range messages {
		result[i] = message.Stored(sessionID, row.NextSequence+int64(i), createdAt)
	}
	return result
}

// stored answers an append that found an id of its messages stored: with the
// stored messages if they are all there and the same.
func (s *sessions) stored(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) ([]repo.Message, error) {
	ids := make([]pgtype.UUID, len(messages))
	for i, message := range messages {
		ids[i] = toUUID(message.ID)
	}
	var rows []db.Message
	err := s.exec.read(ctx, func(q db.DBTX) (err error) {
		rows, err = queries.MessageListByIDs(ctx, q, ids, toUUID(sessionID))
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0: // messages go only with their session
		return nil, sessionNotFound(sessionID)
	case len(rows) < len(messages):
		return nil, &repo.MessageConflict{SessionID: sessionID, ID: rows[0].ID.Bytes, Field: "batch"}
	}
	result := messagesOf(rows)
	for i, message := range messages {
		if err := message.Conflict(result[i]); err != nil {
			return nil, err
		}
	}
	return result, nil
}
