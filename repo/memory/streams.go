package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// streams is repo.Streams. The clock is the process's.
type streams struct{ *handle }

// streamRow is a stream with its parts. It never changes, but is replaced. Rows of one
// stream share the array of its parts, in which none is overwritten that a row in the
// tables has.
type streamRow struct {
	repo.Stream
	ttl   time.Duration
	parts [][]byte
}

// putStream stores a stream's row, and wakes those who follow it.
func (t *tables) putStream(row *streamRow) {
	t.streams.put(row.ID, row)
	t.wake(row.ID)
}

// newestStream returns the newest stream of a key. Nil: there is none.
func (t *tables) newestStream(key string) *streamRow {
	id := t.streamKeys.get(key)
	if id == nil {
		return nil
	}
	return t.streams.get(*id)
}

// commitStreams makes an overlay's streams the committed ones.
func (t *tables) commitStreams() {
	for id := range t.streams.rows {
		t.base.wake(id)
	}
	t.streams.commit()
	t.streamKeys.commit()
}

func (s streams) Get(ctx context.Context, key string) (repo.Stream, error) {
	if err := rules.CheckStreamKey(key); err != nil {
		return repo.Stream{}, err
	}
	return run(ctx, s.read, func(t *tables) (repo.Stream, error) {
		row := t.newestStream(key)
		switch {
		case row == nil:
			return repo.Stream{}, rules.NoStream(key, repo.StreamPosition{})
		case !row.ExpiresAt.After(t.now()):
			return repo.Stream{}, rules.StreamGone(key, row.ID)
		}
		return row.Stream, nil
	})
}

func (s streams) Open(ctx context.Context, stream repo.NewStream) (repo.Stream, error) {
	stream, err := rules.NormalizeStream(stream)
	if err != nil {
		return repo.Stream{}, err
	}
	return run(ctx, s.write, func(t *tables) (repo.Stream, error) {
		now := t.now()
		t.removeStreams(now, repo.DefaultStreamRemoval)
		row := t.newestStream(stream.Key)
		var opened streamRow
		if row != nil && rules.StreamGoesOn(&row.Stream, now) {
			opened = *row
		} else {
			opened.Stream = repo.Stream{Key: stream.Key, ID: repo.NewID(), Status: repo.StreamOpen, OpenedAt: now}
			t.streamKeys.put(stream.Key, &opened.ID)
		}
		opened.Owner, opened.ttl, opened.Fence = stream.Owner, stream.TTL, t.newToken()
		opened.ExpiresAt = rules.StreamExpiry(opened.ExpiresAt, now, opened.ttl)
		t.putStream(&opened)
		return opened.Stream, nil
	})
}

// writable returns a stream for its writer, as it is before the write and as it is to be
// changed.
func (t *tables) writable(stream repo.Stream) (row *streamRow, changed streamRow, err error) {
	now := t.now()
	row = t.streams.get(stream.ID)
	if row == nil {
		return nil, changed, rules.CheckStreamWriter(stream, nil, true)
	}
	changed = *row
	changed.ExpiresAt = rules.StreamExpiry(row.ExpiresAt, now, row.ttl)
	return row, changed, rules.CheckStreamWriter(stream, &row.Stream, !row.ExpiresAt.After(now))
}

func (s streams) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	parts, err := rules.NormalizeParts(parts)
	if err = cmp.Or(rules.CheckStream(stream), err); err != nil {
		return stream.Next, err
	}
	next := stream.Next + int64(len(parts))
	err = exec(ctx, s.write, func(t *tables) error {
		row, changed, err := t.writable(stream)
		if err != nil {
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
	if err := cmp.Or(rules.CheckStream(stream), rules.CheckStreamReason(reason)); err != nil {
		return err
	}
	return exec(ctx, s.write, func(t *tables) error {
		row, changed, err := t.writable(stream)
		if err != nil {
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

func (s streams) RemoveExpired(ctx context.Context, limit int) (repo.RemovedStreams, error) {
	limit, err := rules.CheckStreamRemoval(limit)
	if err != nil {
		return repo.RemovedStreams{}, err
	}
	return run(ctx, s.write, func(t *tables) (repo.RemovedStreams, error) { return t.removeStreams(t.now(), limit), nil })
}

// removeStreams removes streams that have expired, those first that expired first. It keeps
// the newest one of a key while one before it lives: its key still has a stream.
func (t *tables) removeStreams(now time.Time, limit int) (removed repo.RemovedStreams) {
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
		room := limit - int(removed.Parts)
		if int(removed.Streams) == limit || len(row.parts) > 0 && room == 0 {
			break
		}
		removed.Parts += int64(min(room, len(row.parts)))
		if len(row.parts) > room {
			rest := *row
			rest.parts = row.parts[room:] // nobody reads them
			t.streams.put(row.ID, &rest)
			break
		}
		if newest := t.streamKeys.get(row.Key); newest != nil && *newest == row.ID && lives[row.Key] {
			if len(row.parts) > 0 {
				rest := *row
				rest.parts = nil
				t.streams.put(row.ID, &rest)
			}
			continue
		}
		removed.Streams++
		t.streams.remove(row.ID)
		t.wake(row.ID)
		if newest := t.streamKeys.get(row.Key); newest != nil && *newest == row.ID {
			t.streamKeys.remove(row.Key)
		}
	}
	return removed
}
