package memory

import (
	"bytes"
	"context"
	"iter"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// streamed is what a follower finds: parts of a stream, its end, or else what to wait
// for, which it is no longer than until the row expires.
type streamed struct {
	row   *streamRow
	parts [][]byte
	ended bool
	watch *watch
}

func (s streams) Follow(ctx context.Context, key string, from repo.StreamPosition) iter.Seq2[repo.StreamPart, error] {
	return func(yield func(repo.StreamPart, error) bool) {
		for at := from; ; {
			found, err := s.look(ctx, key, at)
			if err == nil {
				at.StreamID = found.row.ID
				err = s.wait(ctx, found)
			}
			for _, data := range found.parts {
				if err = ctx.Err(); err != nil {
					break
				}
				part := repo.StreamPart{StreamID: at.StreamID, Sequence: at.Sequence, Data: bytes.Clone(data), Restart: len(data) == 0}
				if at = part.Next(); !yield(part, nil) {
					return
				}
			}
			switch {
			case err == nil && found.ended && at.Sequence > found.row.Next:
				err = rules.BeyondStream(key, at, found.row.Next)
			case err == nil && found.ended && found.row.Status == repo.StreamFailed:
				err = &repo.StreamFailedError{Key: key, ID: found.row.ID, Reason: found.row.Reason}
			case err == nil && found.ended:
				return
			}
			if err != nil {
				yield(repo.StreamPart{}, err)
				return
			}
		}
	}
}

// look reads the next parts for a follower.
func (s streams) look(ctx context.Context, key string, at repo.StreamPosition) (streamed, error) {
	if err := rules.CheckStreamPosition(key, at); err != nil {
		return streamed{}, err
	}
	if s.tables.base != nil {
		return streamed{}, rules.CannotFollowStream()
	}
	return run(ctx, s.read, func(t *tables) (streamed, error) {
		row := t.newestStream(rules.InView(s.options.view, key))
		if !at.StreamID.IsZero() {
			if row = t.streams.get(at.StreamID); row != nil && !s.has(t, row) {
				row = nil
			}
		}
		named := ""
		if row != nil {
			named = rules.OutOfView(row.Key)
		}
		switch {
		case named != key:
			return streamed{}, rules.NoStream(key, at)
		case !row.ExpiresAt.After(t.now()):
			return streamed{}, rules.StreamGone(key, row.ID)
		}
		found := streamed{row: row}
		if at.Sequence < row.Next {
			found.parts = row.parts[at.Sequence:min(at.Sequence+streamChunk, row.Next)]
		}
		found.ended = row.Status != repo.StreamOpen && at.Sequence+int64(len(found.parts)) >= row.Next
		if len(found.parts) == 0 && !found.ended {
			found.watch = t.watch(row.ID)
		}
		return found, nil
	})
}

func (s streams) FollowSession(ctx context.Context, sessionID repo.ID) iter.Seq2[repo.Stream, error] {
	return func(yield func(repo.Stream, error) bool) {
		seen := map[repo.ID]bool{}
		for first := true; ; first = false {
			fresh, watch, err := s.lookAtSession(ctx, sessionID, seen, first)
			if err == nil {
				err = sessions(s).wait(ctx, sessionID, followed{watch: watch})
			}
			for _, stream := range fresh {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(stream, nil) {
					return
				}
			}
			if err != nil {
				yield(repo.Stream{}, err)
				return
			}
		}
	}
}

// lookAtSession returns the streams of a session that its follower has not seen, or else what to
// wait for.
func (s streams) lookAtSession(
	ctx context.Context, sessionID repo.ID, seen map[repo.ID]bool, first bool,
) (fresh []repo.Stream, watch *watch, err error) {
	if s.tables.base != nil {
		return nil, nil, rules.CannotFollowStream()
	}
	err = exec(ctx, s.read, func(t *tables) error {
		if _, missing := s.session(t, sessionID); missing != nil {
			return rules.Deleted(sessionID, !first)
		}
		listed := s.ofSession(t, sessionID, repo.Stream{Status: "~"})
		if fresh = rules.FreshStreams(seen, listed[:min(len(listed), repo.MaxPageSize)], first); len(fresh) == 0 {
			watch = t.watch(sessionID)
		}
		return nil
	})
	return fresh, watch, err
}

// wait waits until the stream may have changed or expired, if nothing was found. Errors:
// the context's, repo.ErrClosed.
func (s streams) wait(ctx context.Context, found streamed) (err error) {
	if found.watch == nil {
		return nil
	}
	defer s.tables.unwatch(found.row.ID, found.watch)
	s.tables.clock.reach(found.row.ExpiresAt, func(expired <-chan struct{}) {
		select {
		case <-found.watch.changed:
		case <-expired:
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.closing:
			err = repo.ErrClosed
		}
	})
	return err
}
