package rules

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeStream checks what is asked for, and replaces defaults.
func NormalizeStream(s repo.NewStream) (repo.NewStream, error) {
	s.TTL = cmp.Or(s.TTL, limits.DefaultStreamTTL).Truncate(time.Microsecond)
	return s, cmp.Or(
		CheckStreamKey(s.Key),
		checkOwner(s.Owner),
		invalidIf(s.TTL < repo.MinStreamTTL || s.TTL > repo.MaxStreamTTL, "ttl", "is not between %v and %v",
			repo.MinStreamTTL, repo.MaxStreamTTL),
	)
}

// CheckStreamKey checks the key of a stream.
func CheckStreamKey(key string) error {
	return cmp.Or(invalidIf(key == "", "key", "is empty"), checkText("key", key, repo.MaxKeyBytes))
}

// streamPlace is where a stream stands among its session's.
type streamPlace struct {
	Status repo.StreamStatus
	ID     repo.ID
}

// StreamList checks a page of the streams of a session, in descending order of their statuses, so
// that open ones are first, then ids.
func StreamList(sessionID repo.ID, page repo.Page) (List[repo.ID, streamPlace, repo.Stream], error) {
	placeOf := func(last repo.Stream) streamPlace { return streamPlace{last.Status, last.ID} }
	return newList(nil, sessionID, page, streamPlace{"~", lastID}, placeOf, "streams", sessionID.String())
}

// CompareStreams orders the streams of a session as they are listed.
func CompareStreams(a, b repo.Stream) int {
	return cmp.Or(cmp.Compare(b.Status, a.Status), bytes.Compare(b.ID[:], a.ID[:]))
}

// FreshStreams returns the streams of a session that a follower has not seen, and notes them. At
// first it also notes ended ones, and does not return them. listed are all, as they are listed.
func FreshStreams(seen map[repo.ID]bool, listed []repo.Stream, first bool) (fresh []repo.Stream) {
	now := make(map[repo.ID]bool, len(listed))
	for _, s := range listed {
		if now[s.ID] = true; !seen[s.ID] && (!first || s.Status == repo.StreamOpen) {
			fresh = append(fresh, s)
		}
	}
	clear(seen) // of what has expired
	maps.Copy(seen, now)
	return fresh
}

// StreamOfOther returns the error of opening a stream of another session.
func StreamOfOther(key string, id repo.ID) error {
	return &repo.RefusedError{Kind: "stream", Name: key, ID: id, Reason: "is of another session"}
}

// CheckStreamPosition checks where a reader of a stream begins.
func CheckStreamPosition(key string, from repo.StreamPosition) error {
	return cmp.Or(CheckStreamKey(key), CheckSequence("from.sequence", from.Sequence))
}

// CheckStream checks a stream that its writer writes to.
func CheckStream(s repo.Stream) error {
	return cmp.Or(
		invalidIf(s.ID.IsZero(), "stream.id", "is zero"),
		invalidIf(s.Fence < 1, "stream.fence", "is not one of a stream"),
		CheckSequence("stream.next", s.Next),
	)
}

// CheckStreamReason checks why a stream has failed.
func CheckStreamReason(reason string) error { return checkText("reason", reason, limits.MaxTextBytes) }

// CheckStreamRemoval checks the limit of a removal, and replaces zero by the default.
func CheckStreamRemoval(limit int) (int, error) {
	return limitOf(limit, limits.DefaultStreamRemoval, limits.MaxStreamRemoval)
}

// NormalizeParts checks parts and returns copies of them.
func NormalizeParts(parts [][]byte) ([][]byte, error) {
	if err := checkEntries("parts", len(parts), limits.MaxParts); err != nil {
		return nil, err
	}
	size := 0
	for i, part := range parts {
		size += len(part)
		switch {
		case len(part) == 0:
			return nil, invalid(at("parts", i), "is empty")
		case len(part) > repo.MaxPartBytes:
			return nil, invalid(at("parts", i), "has %d bytes, more than %d", len(part), repo.MaxPartBytes)
		case size > limits.MaxPartsBytes:
			return nil, invalid("parts", "hold more than %d bytes together", limits.MaxPartsBytes)
		}
	}
	copies := make([][]byte, len(parts))
	room := make([]byte, 0, size)
	for i, part := range parts {
		begin := len(room)
		room = append(room, part...)
		copies[i] = room[begin:len(room):len(room)]
	}
	return copies, nil
}

// StreamGoesOn reports whether opening a key goes on with its newest stream, which is
// stored; nil: there is none.
func StreamGoesOn(stored *repo.Stream, now time.Time) bool {
	return stored != nil && stored.Status == repo.StreamOpen && stored.ExpiresAt.After(now)
}

// StreamExpiry returns when a stream expires to which something is added at now. Most of
// what is added does not change that: a store need not write it.
func StreamExpiry(expiresAt, now time.Time, ttl time.Duration) time.Time {
	if expiresAt.Before(now.Add(ttl)) {
		return now.Add(ttl + ttl/8)
	}
	return expiresAt
}

// CheckStreamWriter returns why a writer can no longer write to its stream, which is
// stored; nil: it is not. gone: it has expired. An end of the stream is not looked at.
func CheckStreamWriter(s repo.Stream, stored *repo.Stream, gone bool) error {
	switch {
	case stored == nil || gone:
		return StreamGone(s.Key, s.ID)
	case stored.Fence != s.Fence:
		return &repo.FencedError{Key: repo.LeaseKey{Kind: "stream", Name: s.Key}, Fence: s.Fence}
	}
	return nil
}

// CheckStreamEnd is CheckStreamWriter for the end of a stream, perhaps with the message that has the whole answer:
// one that has expired has ended, and accepts any end, unless the key was opened since. newest is the fence of the
// key's newest stream, or zero.
func CheckStreamEnd(s repo.Stream, stored *repo.Stream, gone bool, newest int64) (ended bool, err error) {
	switch {
	case stored != nil && (!gone || stored.Fence != s.Fence):
		return false, CheckStreamWriter(s, stored, false)
	// before it expired
	case stored != nil && (stored.Status == repo.StreamFinished || stored.Status == repo.StreamFailed):
	case newest > s.Fence:
		return false, CheckStreamWriter(s, &repo.Stream{Fence: newest}, false)
	}
	return true, nil
}

// CheckStreamAppend returns why parts cannot be appended to a stream, as it is stored, by
// its writer. repeated: they may be stored already, and the error is then the one for
// other parts.
func CheckStreamAppend(s repo.Stream, stored *repo.Stream, parts int) (repeated bool, err error) {
	sequence := &repo.SequenceConflictError{Kind: "stream", Name: s.Key, ID: s.ID, Expected: s.Next, Next: stored.Next}
	switch {
	case parts > 0 && s.Next < stored.Next && s.Next+int64(parts) <= stored.Next:
		repeated, err = true, sequence
	case s.Next != stored.Next:
		err = sequence
	}
	if stored.Status != repo.StreamOpen {
		err = streamEnded(s, stored)
	}
	return repeated, err
}

// SameParts reports whether parts are equal to the stored ones.
func SameParts(parts, stored [][]byte) bool { return slices.EqualFunc(parts, stored, bytes.Equal) }

// EndedStream checks whether a stream, as it is stored, may be ended by its writer, and
// reports whether it has ended so already.
func EndedStream(s repo.Stream, stored *repo.Stream, status repo.StreamStatus,
	reason string,
) (already bool, err error) {
	switch {
	case stored.Status == repo.StreamOpen:
		return false, nil
	case stored.Status == status && stored.Reason == reason:
		return true, nil
	}
	return false, streamEnded(s, stored)
}

func streamEnded(s repo.Stream, stored *repo.Stream) error {
	return &repo.RefusedError{Kind: "stream", Name: s.Key, ID: s.ID, Reason: "is " + string(stored.Status)}
}

// StreamGone returns the error of a stream that has expired.
func StreamGone(key string, id repo.ID) error {
	return &repo.NotFoundError{Kind: "stream", Name: key, ID: id, Gone: true}
}

// NoStream returns the error of reading a key that has no stream, or not the one that
// is asked for.
func NoStream(key string, from repo.StreamPosition) error {
	if from == (repo.StreamPosition{}) {
		return &repo.NotFoundError{Kind: "stream", Name: key}
	}
	return StreamGone(key, from.StreamID)
}

// BeyondStream returns the error of following a stream from a position beyond its end.
func BeyondStream(key string, from repo.StreamPosition, next int64) error {
	return &repo.SequenceConflictError{Kind: "stream", Name: key, ID: from.StreamID, Expected: from.Sequence, Next: next}
}

// CannotFollowStream is the error of following a stream in a transaction.
func CannotFollowStream() error {
	return invalid("transaction", "cannot follow a stream: it would wait for other transactions")
}

// CannotFollow is the error of following a session in a transaction.
func CannotFollow() error {
	return invalid("transaction", "cannot follow a session: it would wait for other transactions")
}

// Deleted returns the error with which a follower ends whose session is gone. began: the
// session existed when it began.
func Deleted(sessionID repo.ID, began bool) error {
	return &repo.NotFoundError{Kind: "session", ID: sessionID, Gone: began}
}
