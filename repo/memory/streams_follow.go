package memory

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// streamed is what a follower finds: parts of a stream, its end, or else what to wait
// for, and for how long at most.
type streamed struct {
	row   *streamRow
	parts [][]byte
	ended bool
	watch *watch
	lives time.Duration
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
				part := repo.StreamPart{StreamID: at.StreamID, Sequence: at.Sequence, Data: bytes.Clone(data)}
				if at = part.Next(); !yield(part, nil) {
					return
				}
			}
			switch {
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
		row := t.newestStream(key)
		if !at.StreamID.IsZero() {
			row = t.streams.get(at.StreamID)
		}
		now := t.now()
		switch {
		case row == nil || row.Key != key:
			return streamed{}, rules.NoStream(key, at)
		case !row.ExpiresAt.After(now):
			return streamed{}, rules.StreamGone(key, row.ID)
		}
		found := streamed{row: row}
		if at.Sequence < row.Next {
			found.parts = row.parts[at.Sequence:min(at.Sequence+streamChunk, row.Next)]
		}
		found.ended = row.Status != repo.StreamOpen && at.Sequence+int64(len(found.parts)) >= row.Next
		if len(found.parts) == 0 && !found.ended {
			found.watch, found.lives = t.watch(row.ID), row.ExpiresAt.Sub(now)
		}
		return found, nil
	})
}

// wait waits until the stream may have changed or expired, if nothing was found. Errors:
// the context's, repo.ErrClosed.
func (s streams) wait(ctx context.Context, found streamed) (err error) {
	if found.watch == nil {
		return nil
	}
	expired := time.NewTimer(found.lives + time.Millisecond)
	defer expired.Stop()
	select {
	case <-found.watch.changed:
		return nil
	case <-expired.C:
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.closing:
		err = repo.ErrClosed
	}
	s.tables.unwatch(found.row.ID, found.watch)
	return err
}
