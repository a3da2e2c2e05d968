package memory

import (
	"context"
	"time"

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

// append does all it can before and after the lock: checks, copies, comparisons.
func (s *sessions) append(ctx context.Context, sessionID repo.ID, expected *int64, given []repo.NewMessage) ([]repo.Message, error) {
	given, repeatable, err := repo.NormalizeMessages(given)
	if err != nil {
		return nil, err
	}
	// One slab for the batch: its messages come together, and go with their
	// session.
	messages := make([]repo.Message, len(given))
	for i := range given {
		messages[i] = given[i].Stored(sessionID, 0, time.Time{}) // normalized: a copy already
	}
	known, err := s.store(ctx, sessionID, expected, messages, repeatable)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return repeated(sessionID, given, known)
	}
	copies := make([]repo.Message, len(messages))
	for i := range messages {
		copies[i] = copyMessage(messages[i])
	}
	return copies, nil
}

// store appends the messages under the lock, unless an id of them is stored
// already: then it changes nothing and returns the stored ones, in the order of
// messages, with nil for those that are not.
func (s *sessions) store(ctx context.Context, sessionID repo.ID, expected *int64, messages []repo.Message, repeatable bool) (known []*repo.Message, err error) {
	v, err := s.at.write(ctx)
	if err != nil {
		return nil, err
	}
	defer s.at.unlock()
	r := v.find(sessionID)
	if r == nil {
		return nil, notFound(sessionID)
	}
	if repeatable {
		if known := r.stored(messages); known != nil {
			return known, nil
		}
	}
	if next := int64(len(r.messages)); expected != nil && *expected != next {
		return nil, &repo.SequenceConflict{SessionID: sessionID, Expected: *expected, Next: next}
	}
	now := v.now()
	for i := range messages {
		messages[i].CreatedAt = now
	}
	r = v.edit(sessionID)
	r.add(messages)
	r.touch(now)
	return nil, nil
}

// repeated answers an append that found ids of its messages stored: with the
// stored messages if they are all there and the same.
func repeated(sessionID repo.ID, given []repo.NewMessage, known []*repo.Message) ([]repo.Message, error) {
	var some *repo.Message
	missing := false
	for _, m := range known {
		if m == nil {
			missing = true
		} else if some == nil {
			some = m
		}
	}
	if missing {
		return nil, &repo.MessageConflict{SessionID: sessionID, ID: some.ID, Field: "batch"}
	}
	for i, m := range known {
		if err := given[i].Conflict(*m); err != nil {
			return nil, err
		}
	}
	return copyMessages(known), nil
}
