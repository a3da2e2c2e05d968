package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// streams implements repo.Streams.
type streams struct{ exec executor }

// streamNamespace is that of all streams.
const streamNamespace = repo.DefaultNamespace

func (s *streams) Get(ctx context.Context, key string) (repo.Stream, error) {
	if err := rules.CheckStreamKey(key); err != nil {
		return repo.Stream{}, err
	}
	row, err := run2(ctx, s.exec.read, queries.StreamGet, streamNamespace, key)
	switch {
	case err != nil:
		return repo.Stream{}, conn.OrMissing(err, rules.NoStream(key, repo.StreamPosition{}))
	case row.Expired:
		return repo.Stream{}, rules.StreamGone(key, row.ID.Bytes)
	}
	return repo.Stream{
		Key: key, ID: row.ID.Bytes, Owner: row.Owner, Fence: row.Fence, Status: repo.StreamStatus(row.Status), Reason: row.Reason,
		Next: row.NextSequence, OpenedAt: row.OpenedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(),
	}, nil
}

// Open sends its statements again if an answer was lost: the id of the call makes them
// idempotent.
func (s *streams) Open(ctx context.Context, stream repo.NewStream) (repo.Stream, error) {
	stream, err := rules.NormalizeStream(stream)
	if err != nil {
		return repo.Stream{}, err
	}
	opener := repo.NewID()
	opened, err := ask(ctx, s.exec.writeByID, func(q db.DBTX) (opened repo.Stream, err error) {
		for range conn.MaxAttempts {
			opened, err = openStream(ctx, q, stream, opener)
			if !conn.IsNoRows(err) { // otherwise it expired between two statements
				return opened, err
			}
		}
		return opened, &conn.Error{Sentinel: repo.ErrContention, Cause: errExpires}
	})
	if err != nil {
		return repo.Stream{}, err
	}
	if p, ok := s.exec.(*pooled); ok {
		committerOf(p, newPartsAppender).sweep(ctx, s)
	}
	return opened, nil
}

var errExpires = errors.New("the stream expired again and again while it was opened")

// openStream sends one pipeline. At read committed, its statements see what was committed
// while the first one waited.
func openStream(ctx context.Context, q db.DBTX, stream repo.NewStream, opener repo.ID) (repo.Stream, error) {
	var row db.StreamOpenRow
	var next int64
	p := &conn.Pipeline{}
	p.Add(func(q db.DBTX) error { return queries.StreamTurn(ctx, q, stream.Key, streamNamespace) })
	p.Add(func(q db.DBTX) error { return queries.StreamLapse(ctx, q, streamNamespace, stream.Key) })
	p.Add(func(q db.DBTX) (err error) {
		row, err = queries.StreamOpen(ctx, q, db.StreamOpenParams{
			ID: toUUID(opener), Namespace: streamNamespace, Key: stream.Key, Owner: stream.Owner, TtlSeconds: stream.TTL.Seconds(),
		})
		return err
	})
	p.Add(func(q db.DBTX) (err error) {
		next, err = queries.StreamNext(ctx, q, streamNamespace, stream.Key)
		return err
	})
	err := p.Send(ctx, q)
	return repo.Stream{
		Key: stream.Key, ID: row.ID.Bytes, Owner: stream.Owner, Fence: row.Fence, Status: repo.StreamOpen,
		Next: next, OpenedAt: row.OpenedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(),
	}, err
}

func (s *streams) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	parts, err := rules.NormalizeParts(parts)
	if err = cmp.Or(rules.CheckStream(stream), err); err != nil {
		return stream.Next, err
	}
	a := &partsAppending{stream: stream, parts: parts}
	if err = s.exec.(partAppends).appendParts(ctx, a); errors.Is(err, errRepeated) {
		err = s.compare(ctx, a)
	}
	if err != nil {
		return stream.Next, err
	}
	return stream.Next + int64(len(parts)), nil
}

// compare compares the parts of an append with those that are stored at their sequences.
func (s *streams) compare(ctx context.Context, a *partsAppending) error {
	stored, err := run(ctx, s.exec.read, queries.StreamPartList, db.StreamPartListParams{
		StreamID: toUUID(a.stream.ID), FromSequence: a.stream.Next, MaxRows: int32(len(a.parts)),
	})
	switch {
	case err != nil:
		return conn.Settled(conn.AfterDoubt(a.Unsure, err))
	case len(stored) < len(a.parts): // removed meanwhile
		return rules.StreamGone(a.stream.Key, a.stream.ID)
	case !rules.SameParts(a.parts, stored):
		return a.otherwise
	}
	return nil
}

func (s *streams) Finish(ctx context.Context, stream repo.Stream) error {
	return s.end(ctx, stream, repo.StreamFinished, "")
}

func (s *streams) Fail(ctx context.Context, stream repo.Stream, reason string) error {
	return s.end(ctx, stream, repo.StreamFailed, reason)
}

func (s *streams) end(ctx context.Context, stream repo.Stream, status repo.StreamStatus, reason string) error {
	if err := cmp.Or(rules.CheckStream(stream), rules.CheckStreamReason(reason)); err != nil {
		return err
	}
	var refused error
	err := s.exec.writeByID(ctx, func(q db.DBTX) error {
		var row db.StreamEndRow
		p := &conn.Pipeline{}
		p.Add(func(q db.DBTX) error { return queries.StreamLock(ctx, q, toUUID(stream.ID)) })
		p.Add(func(q db.DBTX) (err error) {
			row, err = queries.StreamEnd(ctx, q, db.StreamEndParams{
				ID: toUUID(stream.ID), Fence: stream.Fence, Status: string(status), Reason: reason,
			})
			return err
		})
		err := p.Send(ctx, q)
		if err != nil && !conn.IsNoRows(err) {
			return err
		}
		stored := &repo.Stream{Fence: row.Fence, Status: repo.StreamStatus(row.Status), Reason: row.Reason}
		refused = rules.CheckStreamWriter(stream, stored, err != nil || row.Expired)
		if refused != nil {
			return &conn.Answer{Err: errNotMoved} // in doubt if an earlier attempt may have ended it
		}
		_, refused = rules.EndedStream(stream, stored, status, reason)
		return nil
	})
	switch {
	case errors.Is(err, errNotMoved) && !errors.Is(err, repo.ErrUnknownOutcome):
		return refused
	case err != nil:
		return err
	}
	if refused == nil {
		s.exec.changed(news{Key: stream.ID, Next: follow.Look})
	}
	return refused
}

func (s *streams) RemoveExpired(ctx context.Context, limit int) (removed repo.RemovedStreams, err error) {
	limit, err = rules.CheckStreamRemoval(limit)
	if err != nil {
		return removed, err
	}
	// Those that have expired first may be kept: there may be others behind them.
	for expired := int64(limit); err == nil && expired == int64(limit) && removed == (repo.RemovedStreams{}); {
		expired, removed, err = s.removeExpired(ctx, limit)
	}
	return removed, err
}

// removeExpired also returns of how many streams it has found that they have expired.
func (s *streams) removeExpired(ctx context.Context, limit int) (expired int64, removed repo.RemovedStreams, err error) {
	err = s.exec.write(ctx, func(q db.DBTX) error {
		p := &conn.Pipeline{}
		p.Add(func(q db.DBTX) (err error) {
			expired, err = queries.StreamExpire(ctx, q, int64(limit))
			return err
		})
		p.Add(func(q db.DBTX) (err error) {
			removed.Parts, err = queries.StreamPartRemove(ctx, q, int64(limit))
			return err
		})
		p.Add(func(q db.DBTX) (err error) {
			removed.Streams, err = queries.StreamRemove(ctx, q, int64(limit))
			return err
		})
		return p.Send(ctx, q)
	})
	if err != nil {
		return 0, repo.RemovedStreams{}, err
	}
	return expired, removed, nil
}
