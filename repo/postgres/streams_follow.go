package postgres

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// The ends of a stream for its followers.
var (
	errStreamFinished = errors.New("the stream is finished")
	errStreamGone     = errors.New("the stream has expired")
)

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
				if err = endOfStream(ctx, key, id, err); err != nil {
					yield(repo.StreamPart{}, err)
				}
				return
			}
			part.Data = bytes.Clone(part.Data)
			if !yield(part, nil) {
				return
			}
		}
	}
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
		row, err := run2(ctx, p.read, queries.StreamGet, streamNamespace, key)
		return p, row.ID.Bytes, conn.OrMissing(err, rules.NoStream(key, from))
	}
	has, err := hasKey(ctx, p, key, from.StreamID)
	if err == nil && !has {
		err = rules.NoStream(key, from)
	}
	return p, from.StreamID, conn.OrMissing(err, rules.NoStream(key, from))
}

func hasKey(ctx context.Context, p *pooled, key string, id repo.ID) (bool, error) {
	return run(ctx, p.read, queries.StreamHasKey, db.StreamHasKeyParams{Namespace: streamNamespace, Key: key, ID: toUUID(id)})
}

// endOfStream translates what ends a follower. Nil: the stream is finished.
func endOfStream(ctx context.Context, key string, id repo.ID, err error) error {
	failed, hasFailed := errors.AsType[*streamFailed](err)
	switch {
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

// newPartsHub returns the followers of streams. Their marks are zero: no two streams have
// one id.
func (l *live) newPartsHub() *follow.Hub[repo.ID, repo.StreamPart] {
	return follow.New(follow.Config[repo.ID, repo.StreamPart]{
		Read:      l.readParts,
		Newest:    l.movedStreams,
		Size:      func(p repo.StreamPart) int { return len(p.Data) },
		Passes:    conn.IsPassing,
		Interval:  l.interval,
		Readers:   readerBound(int(l.conns.Pool.Config().MaxConns)),
		Positions: maxPositions,
	})
}

// readParts implements follow.Config.Read.
func (l *live) readParts(ctx context.Context, positions []follow.Position[repo.ID]) ([]follow.Found[repo.StreamPart], error) {
	params := db.StreamListNewsParams{MaxBytes: maxNewsBytes}
	params.StreamIds, params.FromSequences, params.MaxRows = positionColumns(positions)
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
		case complete && status == repo.StreamFinished:
			f.End = errStreamFinished
		case complete && status == repo.StreamFailed:
			f.End = &streamFailed{row.Reason}
		}
	}
	return found
}

// movedStreams implements follow.Config.Newest.
func (l *live) movedStreams(ctx context.Context, known []news) (moved []news, err error) {
	var ids []pgtype.UUID
	var nexts []int64
	for _, k := range known {
		ids, nexts = append(ids, toUUID(k.Key)), append(nexts, k.Next)
	}
	err = l.within(ctx, pollTimeout, 1, func(ctx context.Context, q db.DBTX) error {
		rows, err := queries.StreamListMoved(ctx, q, ids, nexts)
		moved = each(rows, func(r db.StreamListMovedRow) news { return news{Key: r.StreamID.Bytes, Next: r.NextSequence} })
		return err
	})
	return moved, err
}
