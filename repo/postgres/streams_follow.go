package postgres

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strconv"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
)

// The ends of a stream for its followers.
var (
	errStreamFinished = errors.New("the stream is finished")
	errStreamGone     = errors.New("the stream has expired")
)

// streamAhead is the end of a stream that has ended before its follower's position.
type streamAhead struct{ next int64 }

func (*streamAhead) Error() string { return "the position is beyond the end of the stream" }

// streamFailed is the end of a stream that failed.
type streamFailed struct{ reason string }

func (*streamFailed) Error() string { return "the stream has failed" }

func (s *streams) Follow(ctx context.Context, key string, from repo.StreamPosition) iter.Seq2[repo.StreamPart, error] {
	return func(yield func(repo.StreamPart, error) bool) {
		p, id, err := s.find(ctx, key, from)
		if err != nil {
			yield(repo.StreamPart{}, err)
			return
		}
		defer p.live.listener.Use()() //nolint:contextcheck // its goroutine is no follower's
		for part, err := range p.live.parts.Follow(ctx, p.gate.closing, id, from.Sequence) {
			if err != nil {
				if err = endOfStream(ctx, key, repo.StreamPosition{StreamID: id, Sequence: from.Sequence}, err); err != nil {
					yield(repo.StreamPart{}, err)
				}
				return
			}
			part.Data, part.Restart = bytes.Clone(part.Data), len(part.Data) == 0
			if !yield(part, nil) {
				return
			}
		}
	}
}

// FollowSession lists the streams of the session again whenever that is worth it.
func (s *streams) FollowSession(ctx context.Context, sessionID repo.ID) iter.Seq2[repo.Stream, error] {
	return func(yield func(repo.Stream, error) bool) {
		p, ok := s.exec.(*pooled)
		if !ok {
			yield(repo.Stream{}, rules.CannotFollowStream())
			return
		}
		if err := s.checkSession(ctx, sessionID, nil); err != nil {
			yield(repo.Stream{}, err)
			return
		}
		seen := map[repo.ID]bool{}
		var known int64
		for first := true; ; first = false {
			fresh, err := s.freshStreams(ctx, p, sessionID, seen, &known, first)
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

// freshStreams returns the streams of a session that its follower has not seen. It waits for some,
// unless this is the first look, or the open ones are others than known says.
func (s *streams) freshStreams(
	ctx context.Context, p *pooled, sessionID repo.ID, seen map[repo.ID]bool, known *int64, first bool,
) (fresh []repo.Stream, err error) {
	look := func() (bool, error) {
		listed, err := s.List(ctx, sessionID, repo.Page{Limit: repo.MaxPageSize})
		exists := true
		if err == nil && len(listed.Items) == 0 {
			exists, err = run(ctx, p.read, queries.SessionExists, convert.UUID(sessionID))
		}
		switch {
		case !first && errors.Is(err, repo.ErrUnavailable) && ctx.Err() == nil:
			return false, nil // until the database is back
		case err != nil:
			return false, err
		case !exists:
			return false, rules.Deleted(sessionID, !first)
		}
		sum := int64(0)
		for _, stream := range listed.Items {
			if stream.Status == repo.StreamOpen {
				sum += stream.Fence
			}
		}
		fresh = rules.FreshStreams(seen, listed.Items, first)
		found := first || len(fresh) > 0 || sum != *known
		*known = sum
		return found, nil
	}
	if first {
		_, err = look()
		return fresh, err
	}
	key := string(sessionID[:]) + strconv.FormatInt(*known, 10)
	return fresh, awaited(ctx, p, p.live.streams, key, openStreams{sessionID, *known}, [][16]byte{sessionID}, look)
}

// find returns the id of the stream to follow.
func (s *streams) find(ctx context.Context, key string, from repo.StreamPosition) (p *pooled, id repo.ID, err error) {
	if err := rules.CheckStreamPosition(key, from); err != nil {
		return nil, id, err
	}
	p, ok := s.exec.(*pooled)
	if !ok {
		return nil, id, rules.CannotFollowStream()
	}
	if from.StreamID.IsZero() {
		row, err := run(ctx, p.read, queries.StreamGet, db.StreamGetParams{Namespace: s.namespace(), Key: key})
		return p, row.ID.Bytes, conn.OrMissing(err, rules.NoStream(key, from))
	}
	row, err := run(ctx, p.read, queries.StreamFind, db.StreamFindParams{
		View: convert.UnlessZero(s.view),
		ID:   convert.UUID(from.StreamID),
	})
	if err == nil && (!row.IsIn || row.Key != key) {
		err = rules.NoStream(key, from)
	}
	return p, from.StreamID, conn.OrMissing(err, rules.NoStream(key, from))
}

// endOfStream translates what ends a follower that began at a position. Nil: the stream is
// finished.
func endOfStream(ctx context.Context, key string, from repo.StreamPosition, err error) error {
	id := from.StreamID
	failed, hasFailed := errors.AsType[*streamFailed](err)
	ahead, isAhead := errors.AsType[*streamAhead](err)
	switch {
	case isAhead:
		return rules.BeyondStream(key, from, ahead.next)
	case errors.Is(err, errStreamFinished):
		return nil
	case hasFailed:
		return &repo.StreamFailedError{Key: key, ID: id, Reason: failed.reason}
	case errors.Is(err, errStreamGone), errors.Is(err, follow.ErrMissing), errors.Is(err, follow.ErrGone):
		return rules.StreamGone(key, id)
	case errors.Is(err, follow.ErrClosed):
		return repo.ErrClosed
	}
	return conn.Translate(ctx, err, conn.Reading)
}

// openStreams says which streams of a session are open, as a caller knows that waits for others:
// the sum of their fences.
type openStreams struct {
	session repo.ID
	fences  int64
}

// otherStreams implements follow.WaitersConfig.Poll.
func (l *live) otherStreams(ctx context.Context, known []openStreams) ([]bool, error) {
	var params db.StreamListChangedParams
	for _, k := range known {
		params.SessionIds, params.Known = append(params.SessionIds, convert.UUID(k.session)), append(params.Known, k.fences)
	}
	return l.polled(ctx, len(known), inOrder, func(ctx context.Context, q db.DBTX) ([]int64, error) {
		return queries.StreamListChanged(ctx, q, params)
	})
}

// readParts implements follow.Config.Read.
func (l *live) readParts(ctx context.Context, positions []follow.Position[repo.ID]) ([]follow.Found[repo.StreamPart],
	error,
) {
	params := db.StreamListNewsParams{}
	params.StreamIds, params.FromSequences, params.MaxRows, params.MaxBytes = newsParams(positions)
	var rows []db.StreamListNewsRow
	err := l.within(ctx, readTimeout, readAttempts, func(ctx context.Context, q db.DBTX) (err error) {
		rows, err = queries.StreamListNews(ctx, q, params)
		return err
	})
	if err != nil {
		return nil, err
	}
	return foundParts(positions, rows), nil
}

func foundParts(positions []follow.Position[repo.ID], rows []db.StreamListNewsRow) []follow.Found[repo.StreamPart] {
	found := make([]follow.Found[repo.StreamPart], len(positions))
	for i := range found {
		found[i].Cut = true
	}
	for i := range rows {
		row, position := &rows[i], positions[rows[i].Place-1]
		f := &found[row.Place-1]
		f.Cut, f.Missing, f.Next = false, row.NextSequence < 0, row.NextSequence
		if row.Sequence >= 0 {
			f.Items = append(f.Items, repo.StreamPart{StreamID: position.Key, Sequence: row.Sequence, Data: row.Data})
		}
		complete := position.From+int64(len(f.Items)) >= f.Next
		switch status := repo.StreamStatus(row.Status); {
		case f.Missing:
		case row.Expired:
			f.End = errStreamGone
		case position.From > f.Next && status != repo.StreamOpen:
			f.End = &streamAhead{f.Next}
		case complete && status == repo.StreamFinished:
			f.End = errStreamFinished
		case complete && status == repo.StreamFailed:
			f.End = &streamFailed{row.Reason}
		}
	}
	return found
}

// movedStreams implements follow.Config.Newest.
func (l *live) movedStreams(ctx context.Context, known []newest) (moved []newest, err error) {
	err = l.within(ctx, pollTimeout, 1, func(ctx context.Context, q db.DBTX) error {
		rows, err := queries.StreamListMoved(ctx, q, db.StreamListMovedParams(movedParams(known)))
		moved = convert.Each(rows, func(r db.StreamListMovedRow) newest {
			return newest{Key: r.ID.Bytes, Next: r.NextSequence}
		})
		return err
	})
	return moved, err
}
