package memory

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// streams is repo.Streams. The clock is the process's.
type streams struct{ *handle }

// streamRow is a stream with its parts. It never changes, but is replaced. Rows of one
// stream share the array of its parts, in which none is overwritten that a row in the
// tables has.
type streamRow struct {
	repo.Stream
	parts [][]byte
}

// putStream stores a stream's row, and wakes its followers.
func (t *tables) putStream(row *streamRow) {
	t.streams.put(row.ID, row)
	t.wake(topic{id: row.ID})
	if row.Next == 0 { // perhaps it has just begun
		t.wake(topic{id: row.Session})
	}
}

// expireStreams lets the streams expire at once that match, and returns their number.
func (t *tables) expireStreams(matches func(*streamRow) bool) int {
	now := t.now()
	expired := t.streams.where(func(row *streamRow) bool { return row.ExpiresAt.After(now) && matches(row) })
	for _, row := range expired {
		changed := *row
		changed.ExpiresAt = time.Time{}
		t.putStream(&changed)
	}
	return len(expired)
}

// newestStream returns the newest stream of a key. Nil: there is none.
func (t *tables) newestStream(key string) *streamRow {
	return named(&t.streamKeys, key, &t.streams)
}

func (s streams) Get(ctx context.Context, key string) (repo.Stream, error) {
	err := rules.CheckStreamKey(key)
	key = rules.InView(s.options.view, key)
	return run(ctx, unless(err, s.read), func(t *tables) (repo.Stream, error) {
		row := t.newestStream(key)
		switch {
		case row == nil:
			return repo.Stream{}, rules.NoStream(key, repo.StreamPosition{})
		case !row.ExpiresAt.After(t.now()):
			return repo.Stream{}, rules.StreamGone(key, row.ID)
		}
		return outOfView(row.Stream), nil
	})
}

// outOfView returns a stream with the key that its view knows.
func outOfView(stream repo.Stream) repo.Stream {
	stream.Key = rules.OutOfView(stream.Key)
	return stream
}

// sweepPause is the least time between two looks at all streams for expired ones.
const sweepPause = time.Second

func (s streams) Open(ctx context.Context, stream repo.NewStream) (repo.Stream, error) {
	stream, err := rules.NormalizeStream(stream)
	stream.Key = rules.InView(s.options.view, stream.Key)
	return run(ctx, unless(err, s.write), func(t *tables) (repo.Stream, error) {
		now := t.now()
		if now.Sub(t.swept) >= sweepPause {
			t.swept = now
			t.removeStreams(now, math.MaxInt)
		}
		if _, err := s.session(t, stream.Session); err != nil && !stream.Session.IsZero() {
			return repo.Stream{}, err
		}
		if err := t.checkOpen(stream); err != nil {
			return repo.Stream{}, err
		}
		return outOfView(t.openStream(stream, now)), nil
	})
}

// checkOpen returns why a stream cannot be opened.
func (t *tables) checkOpen(stream repo.NewStream) error {
	row := t.newestStream(stream.Key)
	if row != nil && rules.StreamGoesOn(&row.Stream, t.now()) && !stream.Session.IsZero() &&
		stream.Session != row.Session {
		return rules.StreamOfOther(stream.Key, row.ID)
	}
	return nil
}

// openStream opens a stream that can be opened.
func (t *tables) openStream(stream repo.NewStream, now time.Time) repo.Stream {
	row := t.newestStream(stream.Key)
	var opened streamRow
	if row != nil && rules.StreamGoesOn(&row.Stream, now) {
		if opened = *row; stream.Restart && row.Next > 0 && len(row.parts[row.Next-1]) > 0 {
			opened.parts, opened.Next = append(row.parts, nil), row.Next+1
		}
	} else {
		opened.Stream = repo.Stream{
			Key: stream.Key, ID: repo.NewID(), Session: stream.Session, Status: repo.StreamOpen,
			OpenedAt: now,
		}
		t.streamKeys.put(stream.Key, &opened.ID)
	}
	opened.Owner, opened.TTL, opened.Fence = stream.Owner, stream.TTL, t.newFence()
	opened.ExpiresAt = rules.StreamExpiry(opened.ExpiresAt, now, opened.TTL)
	t.putStream(&opened)
	return opened.Stream
}

// writable returns a stream as it is, and as it is to be changed. gone: it has expired. stored is nil if it was
// removed, or is not in the view.
func (s streams) writable(t *tables, stream repo.Stream) (row *streamRow, changed streamRow, stored *repo.Stream,
	gone bool,
) {
	now := t.now()
	if row = t.streams.get(stream.ID); row == nil || !s.has(t, row) {
		return nil, changed, nil, true
	}
	changed = *row
	changed.ExpiresAt = rules.StreamExpiry(row.ExpiresAt, now, row.TTL)
	return row, changed, &row.Stream, !row.ExpiresAt.After(now)
}

func (s streams) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	parts, err := rules.NormalizeParts(parts)
	err = cmp.Or(rules.CheckStream(stream), err)
	next := stream.Next + int64(len(parts))
	err = exec(ctx, unless(err, s.write), func(t *tables) error {
		row, changed, stored, gone := s.writable(t, stream)
		if err := rules.CheckStreamWriter(stream, stored, gone); err != nil {
			return err
		}
		repeated, err := rules.CheckStreamAppend(stream, &row.Stream, len(parts))
		if repeated && rules.SameParts(parts, row.parts[stream.Next:next]) {
			return nil
		}
		if err == nil {
			changed.parts, changed.Next = append(row.parts, parts...), next
			t.putStream(&changed)
		}
		return err
	})
	if err != nil {
		return stream.Next, err
	}
	return next, nil
}

func (s streams) Finish(ctx context.Context, stream repo.Stream) error {
	return s.end(ctx, stream, repo.StreamFinished, "")
}

func (s streams) Fail(ctx context.Context, stream repo.Stream, reason string) error {
	return s.end(ctx, stream, repo.StreamFailed, reason)
}

func (s streams) end(ctx context.Context, stream repo.Stream, status repo.StreamStatus, reason string) error {
	return exec(ctx, unless(cmp.Or(rules.CheckStream(stream), rules.CheckStreamReason(reason)), s.write),
		func(t *tables) error {
			row, changed, stored, gone := s.writable(t, stream)
			key, newest := rules.InView(s.options.view, stream.Key), int64(0)
			if row != nil {
				key = row.Key
			}
			if newer := t.newestStream(key); newer != nil {
				newest = newer.Fence
			}
			if ended, err := rules.CheckStreamEnd(stream, stored, gone, newest); ended || err != nil {
				return err
			}
			already, err := rules.EndedStream(stream, &row.Stream, status, reason)
			if err == nil && !already {
				changed.Status, changed.Reason = status, reason
				t.putStream(&changed)
			}
			return err
		})
}

func (s streams) List(ctx context.Context, sessionID repo.ID, page repo.Page) (repo.List[repo.Stream], error) {
	list, err := rules.StreamList(sessionID, page)
	if err != nil {
		return repo.List[repo.Stream]{}, err
	}
	after := repo.Stream{Status: list.After.Status, ID: list.After.ID}
	return run(ctx, s.read, func(t *tables) (repo.List[repo.Stream], error) {
		return pageOf(list, s.ofSession(t, sessionID, after), rules.CompareStreams, same)
	})
}

// has reports whether a stream is in the view: it was opened there, or for a session of it. Another store has all.
func (s streams) has(t *tables, row *streamRow) bool {
	namespace, _ := rules.SplitView(row.Key)
	_, missing := s.session(t, row.Session)
	return rules.IsInView(s.options.view, namespace) || missing == nil
}

// ofSession returns the streams of a session that live, after one of them, of any owner.
func (s streams) ofSession(t *tables, sessionID repo.ID, after repo.Stream) []repo.Stream {
	if _, err := s.session(t, sessionID); err != nil {
		return nil
	}
	now := t.now()
	rows := t.streams.where(func(row *streamRow) bool {
		return row.Session == sessionID && row.ExpiresAt.After(now) && rules.CompareStreams(row.Stream, after) > 0
	})
	streams := each(rows, func(row *streamRow) repo.Stream { return outOfView(row.Stream) })
	slices.SortFunc(streams, rules.CompareStreams)
	return streams
}

func (s streams) Delete(ctx context.Context, key string) error {
	err := rules.CheckStreamKey(key)
	key = rules.InView(s.options.view, key)
	return exec(ctx, unless(err, s.write), func(t *tables) error {
		switch row := t.newestStream(key); {
		case row == nil:
			return rules.NoStream(key, repo.StreamPosition{})
		case t.expireStreams(func(row *streamRow) bool { return row.Key == key }) == 0:
			return rules.StreamGone(key, row.ID)
		}
		return nil
	})
}

func (s streams) RemoveExpired(ctx context.Context, limit int) (streams, parts int64, err error) {
	limit, err = rules.CheckStreamRemoval(limit)
	removed, err := run(ctx, unless(err, s.write), func(t *tables) (removedStreams, error) {
		return t.removeStreams(t.now(), limit), nil
	})
	return removed.streams, removed.parts, err
}

type removedStreams struct{ streams, parts int64 }

// removeStreams removes streams that have expired, the earliest first. It keeps the newest
// one of a key while one before it lives: its key still has a stream.
func (t *tables) removeStreams(now time.Time, limit int) (removed removedStreams) {
	expired := t.streams.where(func(row *streamRow) bool { return !row.ExpiresAt.After(now) })
	if len(expired) == 0 {
		return removed
	}
	lives := map[string]bool{}
	for _, row := range t.streams.all() {
		lives[row.Key] = lives[row.Key] || row.ExpiresAt.After(now)
	}
	slices.SortFunc(expired, func(a, b *streamRow) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	for _, row := range expired {
		room := limit - int(removed.parts)
		if int(removed.streams) == limit || len(row.parts) > 0 && room == 0 {
			break
		}
		removed.parts += int64(min(room, len(row.parts)))
		if len(row.parts) > room {
			rest := *row
			rest.parts = row.parts[room:] // they are read no more
			t.streams.put(row.ID, &rest)
			break
		}
		if newest := t.newestStream(row.Key); newest != nil && newest.ID == row.ID && lives[row.Key] {
			if len(row.parts) > 0 {
				rest := *row
				rest.parts = nil
				t.streams.put(row.ID, &rest)
			}
			continue
		}
		removed.streams++
		t.streams.remove(row.ID)
		t.wake(topic{id: row.ID})
		unname(&t.streamKeys, row.Key, row.ID)
	}
	return removed
}
