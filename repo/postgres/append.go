package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
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

// appending is one append, its messages checked.
type appending struct {
	sessionID repo.ID
	expected  *int64
	messages  []repo.NewMessage
	// repeatable: some of the messages may be stored already.
	repeatable bool

	// What becomes of it outside of a transaction. One goroutine at a time has it.
	//
	// unsure: an attempt may have been committed.
	unsure bool
	// single: it is a statement of its own.
	single bool
	// skipped: its session's row was locked, or there is none.
	skipped bool
	// row and err are the answer.
	row db.MessageAppendRow
	err error
}

func (a *appending) params() db.MessageAppendParams {
	return appendParams(a.sessionID, a.expected, a.repeatable, a)
}

func (s *sessions) append(ctx context.Context, sessionID repo.ID, expected *int64, messages []repo.NewMessage) ([]repo.Message, error) {
	messages, repeatable, err := repo.NormalizeMessages(messages)
	if err != nil {
		return nil, err
	}
	row, err := s.exec.append(ctx, &appending{sessionID: sessionID, expected: expected, messages: messages, repeatable: repeatable})
	switch {
	case isNoRows(err):
		return nil, sessionNotFound(sessionID)
	case err != nil:
		return nil, err
	case row.CreatedAt != nil:
		return appended(sessionID, messages, row), nil
	case isKnown(row):
		stored, err := s.stored(ctx, sessionID, messages)
		return stored, s.exec.unread(err)
	default:
		return nil, &repo.SequenceConflict{SessionID: sessionID, Expected: *expected, Next: row.NextSequence}
	}
}

// isKnown reports the answer that an id is stored already.
func isKnown(row db.MessageAppendRow) bool { return row.Known != nil && *row.Known }

// appendParams is the statement that appends what several appends to one
// session hold, one after the other.
func appendParams(sessionID repo.ID, expected *int64, checkIDs bool, appends ...*appending) db.MessageAppendParams {
	size := 0
	for _, a := range appends {
		size += len(a.messages)
	}
	c := newColumns(size)
	for _, a := range appends {
		c.addAll(a.messages)
	}
	return db.MessageAppendParams{
		CheckIds:    checkIDs,
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

// sendAppends sends statements in one transaction and one round trip, and waits
// until they are committed, or, in a caller's transaction, carried out. A
// statement that found no session has a nil row.
func sendAppends(ctx context.Context, q db.DBTX, params []db.MessageAppendParams) ([]*db.MessageAppendRow, error) {
	rows := make([]*db.MessageAppendRow, len(params))
	results := queries.MessageAppend(ctx, q, params)
	var failure error
	results.QueryRow(func(i int, row db.MessageAppendRow, err error) {
		switch {
		case err == nil:
			rows[i] = &row
		case !isNoRows(err) && failure == nil:
			failure = err
		}
	})
	// The rows come before the commit. An error of the commit shows only here.
	if err := results.Close(); failure == nil {
		failure = err
	}
	return rows, failure
}

func sendAppend(ctx context.Context, q db.DBTX, params db.MessageAppendParams) (db.MessageAppendRow, error) {
	rows, err := sendAppends(ctx, q, []db.MessageAppendParams{params})
	if err != nil {
		return db.MessageAppendRow{}, err
	}
	if rows[0] == nil {
		return db.MessageAppendRow{}, pgx.ErrNoRows
	}
	return *rows[0], nil
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
	result := each(rows, messageOf)
	for i, message := range messages {
		if err := message.Conflict(result[i]); err != nil {
			return nil, err
		}
	}
	return result, nil
}
