package memory

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Append does what a turn of nothing but messages does, with less work. It checks, copies and compares outside of the lock.
func (s sessions) Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error) {
	given, repeatable, err := rules.NormalizeMessages(messages)
	if err != nil {
		return nil, err
	}
	s.counter().Add(given)
	added := messagesOf(sessionID, given, time.Time{})
	known, err := runOn(ctx, s.write, s.editSession, sessionID, func(t *tables, r *sessionRow) ([]*repo.Message, error) {
		if repeatable {
			if known := r.stored(added); known != nil {
				return known, nil
			}
		}
		err := t.fenceOf(r, 0).Check(0)
		if err == nil {
			now := t.now()
			for i := range added {
				added[i].CreatedAt = now
			}
			r.add(added)
			r.touch(now)
		}
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	if known == nil {
		return each(added, func(m repo.Message) repo.Message { return copyMessage(&m) }), nil
	}
	found := each(known, copyMessage)
	if err := rules.AppendConflict(sessionID, given, found); err != nil {
		return nil, err
	}
	return found, nil
}

// messagesOf returns messages as they are stored. They share one allocation, since they are stored and deleted together.
func messagesOf(sessionID repo.ID, given []repo.NewMessage, now time.Time) []repo.Message {
	return each(given, func(m repo.NewMessage) repo.Message { return rules.StoredMessage(m, sessionID, 0, now) }) // normalized: a copy already
}
