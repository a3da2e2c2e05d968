package memory

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	// It is checked, copied and compared outside the lock.
	given, repeatable, err := rules.NormalizeMessages(messages)
	if err != nil {
		return nil, err
	}
	s.counter().Add(given)
	// The messages of a batch share one allocation, since they are stored and
	// deleted together.
	stored := make([]repo.Message, len(given))
	for i := range given {
		stored[i] = rules.StoredMessage(given[i], sessionID, 0, time.Time{}) // normalized: a copy already
	}
	known, err := s.store(ctx, sessionID, stored, repeatable)
	if err != nil {
		return nil, err
	}
	if known != nil {
		found := each(known, copyMessage)
		if err := rules.AppendConflict(sessionID, given, found); err != nil {
			return nil, err
		}
		return found, nil
	}
	copies := make([]repo.Message, len(stored))
	for i := range stored {
		copies[i] = copyMessage(&stored[i])
	}
	return copies, nil
}

// store appends the messages under the lock. If some are stored already, by their ids,
// it changes nothing and returns those, in the order of messages.
func (s sessions) store(ctx context.Context, sessionID repo.ID, messages []repo.Message, repeatable bool) ([]*repo.Message, error) {
	return runOn(ctx, s.write, s.editSession, sessionID, func(t *tables, r *sessionRow) ([]*repo.Message, error) {
		if repeatable {
			if known := r.stored(messages); known != nil {
				return known, nil
			}
		}
		if err := t.fenceOf(r, 0).Check(0); err != nil {
			return nil, err
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
