package memory

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

func (s sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	return s.append(ctx, sessionID, nil, messages)
}

func (s sessions) AppendAt(ctx context.Context, sessionID repo.ID, expected int64, messages ...repo.NewMessage) ([]repo.Message, error) {
	if err := rules.CheckSequence("expected", expected); err != nil {
		return nil, err
	}
	return s.append(ctx, sessionID, &expected, messages)
}

// append checks, copies and compares outside the lock.
func (s sessions) append(ctx context.Context, sessionID repo.ID, expected *int64, given []repo.NewMessage) ([]repo.Message, error) {
	given, repeatable, err := rules.NormalizeMessages(given)
	if err != nil {
		return nil, err
	}
	// The messages of a batch share one allocation, since they are stored and
	// deleted together.
	messages := make([]repo.Message, len(given))
	for i := range given {
		messages[i] = rules.StoredMessage(given[i], sessionID, 0, time.Time{}) // normalized: a copy already
	}
	known, err := s.store(ctx, sessionID, expected, messages, repeatable)
	if err != nil {
		return nil, err
	}
	if known != nil {
		stored := each(known, copyMessage)
		if err := rules.AppendConflict(sessionID, given, stored); err != nil {
			return nil, err
		}
		return stored, nil
	}
	copies := make([]repo.Message, len(messages))
	for i := range messages {
		copies[i] = copyMessage(&messages[i])
	}
	return copies, nil
}

// store appends the messages under the lock. If some are stored already, by their ids,
// it changes nothing and returns those, in the order of messages.
func (s sessions) store(ctx context.Context, sessionID repo.ID, expected *int64, messages []repo.Message, repeatable bool) ([]*repo.Message, error) {
	return runOn(ctx, s.write, (*tables).editSession, sessionID, func(t *tables, r *sessionRow) ([]*repo.Message, error) {
		if repeatable {
			if known := r.stored(messages); known != nil {
				return known, nil
			}
		}
		if err := t.fenceOf(r, 0).Check(0); err != nil {
			return nil, err
		}
		if next := int64(len(r.messages)); expected != nil && *expected != next {
			return nil, &repo.SequenceConflictError{SessionID: sessionID, Expected: *expected, Next: next}
		}
		now := t.now()
		for i := range messages {
			messages[i].CreatedAt = now
		}
		r.add(messages)
		r.touch(now)
		return nil, nil
	})
}
