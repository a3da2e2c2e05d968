package memory

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

func (s sessions) Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error) {
	return runOn(ctx, s.read, (*tables).session, sessionID, func(_ *tables, r *sessionRow) (repo.Message, error) {
		m := r.byID.get(id)
		if m == nil {
			return repo.Message{}, &repo.NotFoundError{Kind: "message", ID: id}
		}
		return copyMessage(m), nil
	})
}

func (s sessions) MessagesFrom(ctx context.Context, sessionID repo.ID, from int64, limit int) ([]repo.Message, error) {
	limit, err := rules.CheckPage("from", from, limit)
	if err != nil {
		return nil, err
	}
	found, err := s.between(ctx, sessionID, func(count int64) (int64, int64) {
		first := min(from, count)
		return first, min(first+int64(limit), count)
	})
	if err != nil {
		return nil, err
	}
	return each(found, copyMessage), nil
}

func (s sessions) MessagesBefore(ctx context.Context, sessionID repo.ID, before int64, limit int) ([]repo.Message, error) {
	limit, err := rules.CheckPage("before", before, limit)
	if err != nil {
		return nil, err
	}
	found, err := s.between(ctx, sessionID, func(count int64) (int64, int64) {
		end := min(before, count)
		return max(0, end-int64(limit)), end
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(found)
	return each(found, copyMessage), nil
}

func (s sessions) LastMessages(ctx context.Context, sessionID repo.ID, limit int) ([]repo.Message, error) {
	found, err := s.MessagesBefore(ctx, sessionID, math.MaxInt64, limit)
	slices.Reverse(found)
	return found, err
}

func (s sessions) MessagesOfCall(ctx context.Context, sessionID repo.ID, callID string) ([]repo.Message, error) {
	if err := rules.CheckCallID(callID); err != nil {
		return nil, err
	}
	found, err := runOn(ctx, s.read, (*tables).session, sessionID, func(_ *tables, r *sessionRow) (found []*repo.Message, _ error) {
		for _, m := range r.messages {
			if m.CallID == callID && len(found) < repo.MaxPageSize {
				found = append(found, m)
			}
		}
		return found, nil
	})
	if err != nil {
		return nil, err
	}
	return each(found, copyMessage), nil
}

// between returns the messages between the sequences that bounds makes of their
// number: the stored ones, which the caller copies after the lock.
func (s sessions) between(ctx context.Context, sessionID repo.ID, bounds func(count int64) (first, end int64)) ([]*repo.Message, error) {
	return runOn(ctx, s.read, (*tables).session, sessionID, func(_ *tables, r *sessionRow) ([]*repo.Message, error) {
		first, end := bounds(int64(len(r.messages)))
		return slices.Clone(r.messages[first:end]), nil
	})
}

// streamChunk is how many messages a stream takes under one lock. It copies
// each when it yields it.
const streamChunk = 256

func (s sessions) Stream(ctx context.Context, sessionID repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		if err := rules.CheckSequence("from", from); err != nil {
			yield(repo.Message{}, err)
			return
		}
		for next := from; ; next += streamChunk {
			chunk, err := runOn(ctx, s.read, (*tables).session, sessionID, func(_ *tables, r *sessionRow) ([]*repo.Message, error) {
				rest := r.messages[min(next, int64(len(r.messages))):]
				return slices.Clone(rest[:min(streamChunk, len(rest))]), nil
			})
			if err != nil {
				yield(repo.Message{}, err)
				return
			}
			for _, m := range chunk {
				if !yield(copyMessage(m), nil) {
					return
				}
			}
			if len(chunk) < streamChunk {
				return
			}
		}
	}
}
