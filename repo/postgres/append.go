package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

func (s *sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	return s.append(ctx, sessionID, nil, messages)
}

func (s *sessions) AppendAt(ctx context.Context, sessionID repo.ID, expected int64, messages ...repo.NewMessage) ([]repo.Message, error) {
	if err := rules.CheckSequence("expected", expected); err != nil {
		return nil, err
	}
	return s.append(ctx, sessionID, &expected, messages)
}

// appending is one append, whose messages were checked.
type appending struct {
	sessionID repo.ID
	expected  *int64
	messages  []repo.NewMessage
	// fence is the token of the session's lease. 0: none.
	fence int64
	// repeatable: some of the messages may be stored already.
	repeatable bool
	// turn is what is appended, unless that is nothing but messages.
	turn *rules.Turn
	// creates: the session may have to be created first.
	creates bool

	// The following fields are used outside transactions, by one goroutine at a time.
	//
	// unsure: an attempt may have been committed.
	unsure bool
	// single: the append needs a statement of its own.
	single bool
	// skipped is when a group first found its session's row locked or missing.
	skipped time.Time
	// row and err are the result.
	row db.MessageAppendRow
	err error
	// missing are the turn's scopes that have no rows, if err is errNoScope.
	missing []repo.Scope
	// made is what the turn has changed; stored: it was stored already.
	made   rules.TurnChanges
	stored bool

	// parts are turns that are made together, of more than one session if spans is set.
	// Then sessionID is the first of these, and the other fields of one turn are unused.
	parts []*appending
	spans bool
	// If a group has skipped a row: awaited waits for it (nil: it is not known), and keeps
	// says that the transaction that follows keeps it.
	awaited func(context.Context, db.DBTX) error
	keeps   bool
	// patience is as in answerRow. It is set with awaited and with missing.
	patience time.Duration
}

// news says what there is to follow once the append was committed with this answer.
func (a *appending) news(row db.MessageAppendRow) (all []news) {
	for _, part := range a.parts {
		all = append(all, part.news(part.row)...)
	}
	if len(a.messages) == 0 || row.CreatedAt == nil {
		return all
	}
	return []news{{Key: a.sessionID, Next: row.NextSequence + int64(len(a.messages))}}
}

func (a *appending) params() db.MessageAppendParams {
	return appendParams(a.sessionID, a.expected, a.repeatable, a)
}

func (s *sessions) append(ctx context.Context, sessionID repo.ID, expected *int64, messages []repo.NewMessage) ([]repo.Message, error) {
	messages, repeatable, err := rules.NormalizeMessages(messages)
	if err != nil {
		return nil, err
	}
	result, err := s.appendOne(ctx, &appending{sessionID: sessionID, expected: expected, messages: messages, repeatable: repeatable})
	return result.Messages, err
}

func (s *sessions) appendOne(ctx context.Context, a *appending) (repo.AppendedTurn, error) {
	row, err := s.exec.append(ctx, a)
	switch {
	case isNoRows(err):
		return repo.AppendedTurn{}, s.orMissing(err, a.sessionID)
	case err != nil:
		return repo.AppendedTurn{}, s.exec.noted(err)
	}
	a.row = row
	result, err := s.appendedTurn(ctx, a)
	return result, s.exec.noted(err)
}

// isKnown reports whether the answer is that an id is stored already.
func isKnown(row db.MessageAppendRow) bool { return row.Known != nil && *row.Known }

// appendParams returns the arguments of the statement that appends the messages of
// several appends to one session, one after the other.
func appendParams(sessionID repo.ID, expected *int64, checkIDs bool, appends ...*appending) db.MessageAppendParams {
	size := 0
	for _, a := range appends {
		size += len(a.messages)
	}
	c := newColumns(size)
	for _, a := range appends {
		c.add(a.messages...)
	}
	return db.MessageAppendParams{
		CheckIds:    checkIDs,
		Fence:       appends[0].fence,
		SessionID:   toUUID(sessionID),
		Expected:    expected,
		Ids:         c.ids,
		Roles:       c.roles,
		Contents:    c.contents,
		Metadatas:   c.metadatas,
		Payloads:    c.payloads,
		Kinds:       c.kinds,
		CallIds:     c.callIDs,
		OccurredAts: c.occurredAts,
	}
}

// sendAppends sends statements in one transaction and one round trip, and waits until
// they are committed or, in a caller's transaction, executed. A statement that found no
// session has a nil row.
func sendAppends(ctx context.Context, q db.DBTX, params []db.MessageAppendParams) ([]*answerRow, error) {
	rows := make([]*answerRow, len(params))
	results := queries.MessageAppend(ctx, q, params)
	var failure error
	results.QueryRow(func(i int, row db.MessageAppendRow, err error) {
		switch {
		case err == nil:
			rows[i] = &answerRow{MessageAppendRow: row}
		case !isNoRows(err) && failure == nil:
			failure = err
		}
	})
	// The rows arrive before the commit. An error of the commit appears only here.
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
	return rows[0].MessageAppendRow, nil
}

func appended(sessionID repo.ID, messages []repo.NewMessage, row db.MessageAppendRow) []repo.Message {
	createdAt := row.CreatedAt.UTC()
	result := make([]repo.Message, len(messages))
	for i, message := range messages {
		result[i] = rules.StoredMessage(message, sessionID, row.NextSequence+int64(i), createdAt)
	}
	return result
}

// stored returns the result of an append that found an id of its messages stored: the
// stored messages if all are stored and equal, or a conflict.
func (s *sessions) stored(ctx context.Context, sessionID repo.ID, messages []repo.NewMessage) ([]repo.Message, error) {
	ids := make([]pgtype.UUID, len(messages))
	for i, message := range messages {
		ids[i] = toUUID(message.ID)
	}
	rows, err := run2(ctx, s.exec.read, queries.MessageListByIDs, ids, toUUID(sessionID))
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
