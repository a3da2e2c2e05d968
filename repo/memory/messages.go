package memory

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Append does what a turn of nothing but messages does, with less work. It checks, copies and compares outside of the
// lock.
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

// messagesOf returns messages as they are stored. They share one allocation, since they are stored and deleted
// together.
func messagesOf(sessionID repo.ID, given []repo.NewMessage, now time.Time) []repo.Message {
	// normalized: a copy already
	return each(given, func(m repo.NewMessage) repo.Message { return rules.StoredMessage(m, sessionID, 0, now) })
}

func (s sessions) Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error) {
	return runOn(ctx, s.read, s.session, sessionID, func(_ *tables, r *sessionRow) (repo.Message, error) {
		m := r.byID.get(id)
		if at := slices.IndexFunc(r.inherited, func(m *repo.Message) bool { return m.ID == id }); m == nil && at >= 0 {
			m = r.inherited[at]
		}
		if m == nil {
			return repo.Message{}, &repo.NotFoundError{Kind: "message", ID: id}
		}
		return copiesOf(sessionID, []*repo.Message{m})[0], nil
	})
}

func (s sessions) MessagesFrom(ctx context.Context, sessionID repo.ID, first int64, limit int) ([]repo.Message, error) {
	limit, err := rules.CheckPage("from", first, limit)
	return s.some(ctx, err, sessionID, func(r *sessionRow) []*repo.Message {
		rest := from(r.transcript(), first)
		return rest[:min(limit, len(rest))]
	})
}

func (s sessions) MessagesBefore(ctx context.Context, sessionID repo.ID, before int64,
	limit int,
) ([]repo.Message, error) {
	limit, err := rules.CheckPage("before", before, limit)
	found, err := s.some(ctx, err, sessionID, func(r *sessionRow) []*repo.Message {
		all := r.transcript()
		end := len(all) - len(from(all, before))
		return all[max(0, end-limit):end]
	})
	slices.Reverse(found)
	return found, err
}

func (s sessions) LastMessages(ctx context.Context, sessionID repo.ID, limit int) ([]repo.Message, error) {
	found, err := s.MessagesBefore(ctx, sessionID, math.MaxInt64, limit)
	slices.Reverse(found)
	return found, err
}

func (s sessions) MessagesOfCall(ctx context.Context, sessionID repo.ID, callID string) ([]repo.Message, error) {
	return s.some(ctx, rules.CheckCallID(callID), sessionID, func(r *sessionRow) (found []*repo.Message) {
		for _, m := range r.all() {
			if m.CallID == callID && len(found) < repo.MaxPageSize {
				found = append(found, m)
			}
		}
		return found
	})
}

// some returns the messages of a session that choose returns, unless the arguments are wrong. They are copied after
// the lock.
func (s sessions) some(ctx context.Context, wrong error, sessionID repo.ID,
	choose func(*sessionRow) []*repo.Message,
) ([]repo.Message, error) {
	found, err := runOn(ctx, unless(wrong, s.read), s.session, sessionID,
		func(_ *tables, r *sessionRow) ([]*repo.Message, error) { return slices.Clone(choose(r)), nil })
	if err != nil {
		return nil, err
	}
	return copiesOf(sessionID, found), nil
}

// streamChunk is how many messages a stream takes under one lock.
const streamChunk = 256

func (s sessions) Messages(ctx context.Context, sessionID repo.ID, first int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		next := first
		follow(ctx, s.handle, yield, func() (found followed[repo.Message], err error) {
			chunk, err := runOn(ctx, unless(rules.CheckSequence("from", first), s.read), s.session, sessionID,
				func(_ *tables, r *sessionRow) ([]*repo.Message, error) {
					all := r.transcript()
					rest := from(all, next)
					if before := all[:len(all)-len(rest)]; next > first && (len(before) == 0 ||
						before[len(before)-1].Sequence != next-1) {
						return nil, &repo.SequenceConflictError{
							Kind: "head", ID: sessionID, Expected: next - 1,
							Next: rules.Head(r.follows, r.next()),
						}
					}
					return slices.Clone(rest[:min(streamChunk, len(rest))]), nil
				})
			if len(chunk) > 0 {
				next = chunk[len(chunk)-1].Sequence + 1
			}
			found.items, found.ended = copiesOf(sessionID, chunk), len(chunk) < streamChunk
			return found, err
		})
	}
}
