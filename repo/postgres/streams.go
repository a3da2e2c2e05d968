package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

// streams implements repo.Streams.
type streams struct{ base }

func (s *streams) Get(ctx context.Context, key string) (repo.Stream, error) {
	if err := rules.CheckStreamKey(key); err != nil {
		return repo.Stream{}, err
	}
	row, err := run(ctx, s.exec.read, queries.StreamGet, db.StreamGetParams{Namespace: s.namespace(), Key: key})
	switch {
	case err != nil:
		return repo.Stream{}, conn.OrMissing(err, rules.NoStream(key, repo.StreamPosition{}))
	case row.Expired:
		return repo.Stream{}, rules.StreamGone(key, row.ID.Bytes)
	}
	s.learn("stream", row.ID.Bytes)
	return convert.Stream(row), nil
}

// Open sends its statements again if an answer was lost: the id of the call makes them
// idempotent.
func (s *streams) Open(ctx context.Context, stream repo.NewStream) (repo.Stream, error) {
	stream, err := rules.NormalizeStream(stream)
	if err = s.checkSession(ctx, stream.Session, err); err != nil {
		return repo.Stream{}, err
	}
	opener := repo.NewID()
	var refused error
	opened, err := ask(ctx, s.exec.writeByID, func(q db.DBTX) (opened repo.Stream, err error) {
		for range conn.MaxAttempts {
			opened, err = s.sendOpen(ctx, q, stream, opener)
			if !conn.IsNoRows(err) {
				return opened, err
			}
			if refused, err = s.whyNotOpened(ctx, q, stream); err != nil || refused != nil {
				return opened, cmp.Or(err, error(&conn.Answer{Err: errNotMoved}))
			}
			// It expired between two statements.
		}
		return opened, &conn.Error{Sentinel: repo.ErrContention, Cause: errExpires}
	})
	switch {
	case errors.Is(err, errNotMoved) && !errors.Is(err, repo.ErrUnknownOutcome):
		return repo.Stream{}, refused
	case conn.Violates(err, convert.StreamSession): // the session was deleted meanwhile
		return repo.Stream{}, s.exec.noted(convert.SessionNotFound(stream.Session))
	case err != nil:
		return repo.Stream{}, err
	}
	var told []news
	if stream.Restart && opened.Next > 0 {
		told = append(told, grown(opened.ID, opened.Next))
	}
	if !opened.Session.IsZero() {
		told = append(told, newsOf(aboutStreams, opened.Session))
	}
	s.learn("stream", opened.ID)
	s.exec.changed(told...)
	s.sweep()
	return opened, nil
}

// sweep has the store remove streams that have expired, not in the caller's time.
func (s *streams) sweep() {
	if p, ok := s.exec.(*pooled); ok {
		committerOf(p, newStreamSweeper).wake()
	}
}

// whyNotOpened returns why a stream with a session cannot be opened. Nil: it can be tried again.
func (s *streams) whyNotOpened(ctx context.Context, q db.DBTX, stream repo.NewStream) (refused, err error) {
	if stream.Session.IsZero() {
		return nil, nil
	}
	row, err := queries.StreamGet(ctx, q, db.StreamGetParams{Namespace: s.namespace(), Key: stream.Key})
	switch {
	case err != nil && !conn.IsNoRows(err):
		return nil, err
	case err == nil && row.Status == string(repo.StreamOpen) && !row.Expired && row.SessionID.Bytes != stream.Session:
		return rules.StreamOfOther(stream.Key, row.ID.Bytes), nil
	}
	exists, err := queries.SessionExists(ctx, q, convert.UUID(stream.Session))
	if err == nil && !exists {
		refused = convert.SessionNotFound(stream.Session)
	}
	return refused, err
}

var errExpires = errors.New("the stream expired again and again while it was opened")

// sendOpen sends one pipeline. At read committed, its statements see what was committed
// while the first one waited.
func (s *streams) sendOpen(ctx context.Context, q db.DBTX, stream repo.NewStream, opener repo.ID) (repo.Stream, error) {
	p := &conn.Pipeline{}
	conn.Do(ctx, p, queries.StreamTurn, db.StreamTurnParams{Key: stream.Key, Namespace: s.namespace()})
	opened, next := write.OpenStream(ctx, p, s.namespace(), stream.Key, stream, opener)
	err := p.Send(ctx, q)
	if err == nil && next.BySnapshot {
		p, id := &conn.Pipeline{}, convert.UUID(opened.ID)
		conn.Do(ctx, p, queries.StreamPartTry, db.StreamPartTryParams{StreamID: id, Sequence: next.NextSequence})
		conn.Do(ctx, p, queries.StreamPartUntry, db.StreamPartUntryParams{StreamID: id, Sequence: next.NextSequence})
		err = p.Send(ctx, q)
	}
	return *opened, err
}

func (s *streams) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	parts, err := rules.NormalizeParts(parts)
	if err = cmp.Or(rules.CheckStream(stream), err); err != nil {
		return stream.Next, err
	}
	if is, err := s.isIn(ctx, stream.ID); !is {
		return stream.Next, cmp.Or(err, rules.StreamGone(stream.Key, stream.ID))
	}
	a := &partsAppending{stream: stream, parts: parts}
	if err = s.exec.appendParts(ctx, a); errors.Is(err, errRepeated) {
		err = s.compare(ctx, a)
	}
	if err != nil {
		return stream.Next, err
	}
	return stream.Next + int64(len(parts)), nil
}

// compare compares the parts of an append with the ones that are stored at their sequences.
func (s *streams) compare(ctx context.Context, a *partsAppending) error {
	stored, err := run(ctx, s.exec.read, queries.StreamPartList, db.StreamPartListParams{
		StreamID: convert.UUID(a.stream.ID), FromSequence: a.stream.Next, MaxRows: int32(len(a.parts)),
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
	is, err := s.isIn(ctx, stream.ID)
	if err != nil {
		return err
	}
	if !is {
		stream.ID = repo.NewID() // of a stream that was removed
	}
	var refused error
	err = s.exec.writeByID(ctx, func(q db.DBTX) error {
		var row db.StreamEndRow
		p := &conn.Pipeline{}
		conn.Do(ctx, p, queries.StreamLock, convert.UUID(stream.ID))
		p.Add(func(q db.DBTX) (err error) {
			row, err = queries.StreamEnd(ctx, q, db.StreamEndParams{
				ID: convert.UUID(stream.ID), Fence: stream.Fence, Status: string(status), Reason: reason,
			})
			return err
		})
		err := p.Send(ctx, q)
		stored := &repo.Stream{Fence: row.Fence, Status: repo.StreamStatus(row.Status), Reason: row.Reason}
		if conn.IsNoRows(err) { // it was removed
			var other db.StreamGetRow
			other, err = queries.StreamGet(ctx, q, db.StreamGetParams{Namespace: s.namespace(), Key: stream.Key})
			stored, row.Newest = nil, other.Fence
		}
		if err != nil && !conn.IsNoRows(err) {
			return err
		}
		var ended bool
		switch ended, refused = rules.CheckStreamEnd(stream, stored, row.Expired, row.Newest); {
		case refused != nil:
			return &conn.Answer{Err: errNotMoved} // in doubt if an earlier attempt may have ended it
		case !ended:
			_, refused = rules.EndedStream(stream, stored, status, reason)
		}
		return nil
	})
	switch {
	case errors.Is(err, errNotMoved) && !errors.Is(err, repo.ErrUnknownOutcome):
		return refused
	case err != nil:
		return err
	}
	if refused == nil {
		s.exec.changed(grown(stream.ID, follow.Look))
	}
	return refused
}

func (s *streams) List(ctx context.Context, sessionID repo.ID, page repo.Page) (repo.List[repo.Stream], error) {
	list, err := rules.StreamList(sessionID, page)
	if err = s.checkSession(ctx, sessionID, err); errors.Is(err, repo.ErrNotFound) {
		return repo.List[repo.Stream]{}, nil
	}
	return listed(s.exec.read, list, err, func(by way) ([]db.StreamListRow, error) {
		return run(ctx, by, queries.StreamList, db.StreamListParams{
			SessionID: convert.UUID(sessionID), MaxRows: int32(list.Limit) + 1,
			BeforeStatus: string(list.After.Status), BeforeID: convert.UUID(list.After.ID),
		})
	}, func(row db.StreamListRow) (repo.Stream, error) {
		s.learn("stream", row.ID.Bytes)
		return convert.Stream(db.StreamGetRow(row)), nil
	})
}

// isIn reports whether a stream is in the view.
func (s *streams) isIn(ctx context.Context, id repo.ID) (bool, error) {
	if s.has("stream", id) {
		return true, nil
	}
	row, err := run(ctx, s.exec.read, queries.StreamFind, db.StreamFindParams{
		View: convert.UnlessZero(s.view),
		ID:   convert.UUID(id),
	})
	if conn.IsNoRows(err) {
		err = nil
	}
	if row.IsIn {
		s.learn("stream", id)
	}
	return row.IsIn, err
}

func (s *streams) Delete(ctx context.Context, key string) error {
	if err := rules.CheckStreamKey(key); err != nil {
		return err
	}
	ids, err := run(ctx, s.exec.write, queries.StreamDelete, db.StreamDeleteParams{Namespace: s.namespace(), Key: key})
	switch {
	case err != nil:
		return err
	case len(ids) == 0:
		stored, err := s.Get(ctx, key)
		if err == nil { // opened since
			err = rules.StreamGone(key, stored.ID)
		}
		return err
	}
	s.exec.changed(convert.Each(ids, func(id pgtype.UUID) news { return grown(id.Bytes, follow.Look) })...)
	s.sweep()
	return nil
}

func (s *streams) RemoveExpired(ctx context.Context, limit int) (streams, parts int64, err error) {
	if limit, err = rules.CheckStreamRemoval(limit); err != nil {
		return 0, 0, err
	}
	err = s.exec.write(ctx, func(q db.DBTX) (err error) {
		streams, parts, err = removeExpired(ctx, q, limit)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return streams, parts, nil
}
