package memory

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

func (s *sessions) Message(ctx context.Context, sessionID, id repo.ID) (repo.Message, error) {
	v, err := s.at.read(ctx)
	if err != nil {
		return repo.Message{}, err
	}
	defer s.at.unlock()
	r := v.find(sessionID)
	if r == nil {
		return repo.Message{}, notFound(sessionID)
	}
	m := r.message(id)
	if m == nil {
		return repo.Message{}, &repo.NotFoundError{Kind: "message", ID: id}
	}
	return copyMessage(*m), nil
}

func (s *sessions) MessagesFrom(ctx context.Context, sessionID repo.ID, from int64, limit int) ([]repo.Message, error) {
	if err := repo.CheckSequence("from", from); err != nil {
		return nil, err
	}
	limit, err := repo.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	found, err := s.from(ctx, sessionID, from, limit)
	if err != nil {
		return nil, err
	}
	return copyMessages(found), nil
}

func (s *sessions) MessagesBefore(ctx context.Context, sessionID repo.ID, before int64, limit int) ([]repo.Message, error) {
	if err := repo.CheckSequence("before", before); err != nil {
		return nil, err
	}
	found, err := s.before(ctx, sessionID, before, limit)
	slices.Reverse(found)
	return found, err
}

func (s *sessions) LastMessages(ctx context.Context, sessionID repo.ID, limit int) ([]repo.Message, error) {
	return s.before(ctx, sessionID, math.MaxInt64, limit)
}

// from returns up to limit messages from sequence from on: the stored ones, for
// the caller to copy after the lock.
func (s *sessions) from(ctx context.Context, sessionID repo.ID, from int64, limit int) ([]*repo.Message, error) {
	v, err := s.at.read(ctx)
	if err != nil {
		return nil, err
	}
	defer s.at.unlock()
	r := v.find(sessionID)
	if r == nil {
		return nil, notFound(sessionID)
	}
	from = min(from, int64(len(r.messages))) // so that the sum cannot overflow
	return r.between(from, from+int64(limit)), nil
}

// before returns the last limit messages below before, ascending.
func (s *sessions) before(ctx context.Context, sessionID repo.ID, before int64, limit int) ([]repo.Message, error) {
	limit, err := repo.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	v, err := s.at.read(ctx)
	if err != nil {
		return nil, err
	}
	r := v.find(sessionID)
	if r == nil {
		s.at.unlock()
		return nil, notFound(sessionID)
	}
	before = min(before, int64(len(r.messages)))
	found := r.between(max(0, before-int64(limit)), before)
	s.at.unlock()
	return copyMessages(found), nil
}

// streamChunk is how many messages a stream takes under one lock. It copies
// each when it yields it.
const streamChunk = 256

func (s *sessions) Stream(ctx context.Context, sessionID repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		if err := repo.CheckSequence("from", from); err != nil {
			yield(repo.Message{}, err)
			return
		}
		for next := from; ; next += streamChunk {
			chunk, err := s.from(ctx, sessionID, next, streamChunk)
			if err != nil {
				yield(repo.Message{}, err)
				return
			}
			for _, m := range chunk {
				if !yield(copyMessage(*m), nil) {
					return
				}
			}
			if len(chunk) < streamChunk {
				return
			}
		}
	}
}
