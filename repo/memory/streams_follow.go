package memory

import (
	"bytes"
	"context"
	"iter"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (s streams) Follow(ctx context.Context, key string, from repo.StreamPosition) iter.Seq2[repo.StreamPart, error] {
	return func(yield func(repo.StreamPart, error) bool) {
		at := from
		follow(ctx, s.handle, yield, func() (followed[repo.StreamPart], error) {
			row, parts, watch, err := s.look(ctx, key, at)
			if err != nil {
				return followed[repo.StreamPart]{}, err
			}
			found := followed[repo.StreamPart]{watch: watch, due: row.ExpiresAt}
			at.StreamID = row.ID
			for _, data := range parts {
				part := repo.StreamPart{
					StreamID: at.StreamID, Sequence: at.Sequence, Data: bytes.Clone(data),
					Restart: len(data) == 0,
				}
				found.items = append(found.items, part)
				at = part.Next()
			}
			found.ended = row.Status != repo.StreamOpen && at.Sequence >= row.Next
			switch {
			case at.Sequence > row.Next:
				found.fault = rules.BeyondStream(key, at, row.Next)
			case row.Status == repo.StreamFailed:
				found.fault = &repo.StreamFailedError{Key: key, ID: row.ID, Reason: row.Reason}
			}
			return found, nil
		})
	}
}

// look returns a stream and its next parts for a follower, or else what to wait for, unless it has ended.
func (s streams) look(ctx context.Context, key string, at repo.StreamPosition) (row *streamRow, parts [][]byte,
	watch *watch, err error,
) {
	err = rules.CheckStreamPosition(key, at)
	if err == nil && s.tables.base != nil {
		err = rules.CannotFollowStream()
	}
	err = exec(ctx, unless(err, s.read), func(t *tables) error {
		row = t.newestStream(rules.InView(s.options.view, key))
		if !at.StreamID.IsZero() {
			row = t.streams.get(at.StreamID)
		}
		switch {
		case row == nil || rules.OutOfView(row.Key) != key || !at.StreamID.IsZero() && !s.has(t, row):
			return rules.NoStream(key, at)
		case !row.ExpiresAt.After(t.now()):
			return rules.StreamGone(key, row.ID)
		case at.Sequence < row.Next:
			parts = row.parts[at.Sequence:min(at.Sequence+streamChunk, row.Next)]
		case row.Status == repo.StreamOpen:
			watch = t.watch(topic{id: row.ID})
		}
		return nil
	})
	return row, parts, watch, err
}

func (s streams) FollowSession(ctx context.Context, sessionID repo.ID) iter.Seq2[repo.Stream, error] {
	return func(yield func(repo.Stream, error) bool) {
		seen, first := map[repo.ID]bool{}, true
		follow(ctx, s.handle, yield, func() (found followed[repo.Stream], err error) {
			if s.tables.base != nil {
				return found, rules.CannotFollowStream()
			}
			err = exec(ctx, s.read, func(t *tables) error {
				if _, missing := s.session(t, sessionID); missing != nil {
					return rules.Deleted(sessionID, !first)
				}
				listed := s.ofSession(t, sessionID, repo.Stream{Status: "~"})
				if found.items = rules.FreshStreams(seen, listed[:min(len(listed), repo.MaxPageSize)],
					first); len(found.items) == 0 {
					found.watch = t.watch(topic{id: sessionID})
				}
				return nil
			})
			first = false
			return found, err
		})
	}
}
