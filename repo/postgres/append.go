package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
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
	// skipped is when a group first found its session's row locked or missing.
	skipped time.Time
	// outcome and err are the result.
	outcome outcome
	err     error
	// missing are the turn's scopes that have no rows, if err is errNoScope.
	missing []repo.Scope
	// made is what the turn has changed; stored: it was stored already.
	made   rules.TurnChanges
	stored bool
	// heldScope is what a group has found locked, if err is errScopeHeld.
	heldScope *repo.Scope

	// parts are turns that are made together, of more than one session if spans is set.
	// Then sessionID is the first of these, and the other fields of one turn are unused.
	parts []*appending
	spans bool
	// If a group has skipped a row: awaited waits for it (nil: it is not known), and keeps
	// says that the transaction that follows keeps it.
	awaited func(context.Context, db.DBTX) error
	keeps   bool
	// patience is as in patienceOf. It is set with awaited and with missing.
	patience time.Duration
}

// outcome is what has become of messages.
type outcome struct {
	// first is the sequence of the first one, or, if they were not written, the next one.
	first int64
	// createdAt is nil if they were not written.
	createdAt *time.Time
	// known: an id of theirs is stored already.
	known bool
}

// news says what there is to follow once the append was committed.
func (a *appending) news() (all []news) {
	for _, part := range a.parts {
		all = append(all, part.news()...)
	}
	if len(a.messages) == 0 || a.outcome.createdAt == nil {
		return all
	}
	return []news{{Key: a.sessionID, Next: a.outcome.first + int64(len(a.messages))}}
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
	err := s.exec.append(ctx, a)
	switch {
	case conn.IsNoRows(err):
		return repo.AppendedTurn{}, s.orMissing(err, a.sessionID)
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
