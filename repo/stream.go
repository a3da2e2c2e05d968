package repo

import "time"

// NewStream asks for a stream to write to.
type NewStream struct {
	// Key is the caller's name of the stream: any text of 1 to MaxKeyBytes, such as a
	// session's id and what is being answered. JoinKey makes a key of several parts.
	Key string
	// Owner is who writes: any text of 1 to MaxUserIDBytes. It is for people to read: who
	// may write is decided by the Fence alone.
	Owner string
	// TTL is how long the stream lives if nothing is added to it, from MinStreamTTL to
	// MaxStreamTTL. Zero: DefaultStreamTTL.
	TTL time.Duration
}

// StreamStatus is whether a stream has ended.
type StreamStatus string

// The statuses.
const (
	// StreamOpen: parts may follow.
	StreamOpen StreamStatus = "open"
	// StreamFinished: the parts are all there are.
	StreamFinished StreamStatus = "finished"
	// StreamFailed: the parts are all there are, and others are missing.
	StreamFailed StreamStatus = "failed"
)

// Stream is a stream as the database had it. What Open returns is also what its writer
// writes with.
type Stream struct {
	Key string
	// ID tells the stream apart from those that had the key before.
	ID ID
	// Owner is who opened it last.
	Owner string
	// Fence was given to who opened it last. It is larger than all that were given before
	// for this stream. Whoever has a smaller one can no longer write.
	Fence  int64
	Status StreamStatus
	// Reason is why it failed.
	Reason string
	// Next is the sequence of the next part, and so the number of parts.
	Next int64
	// OpenedAt is when it was first opened, and ExpiresAt when it expires if nothing is
	// added to it: times of the database's clock.
	OpenedAt, ExpiresAt time.Time
}

// StreamPart is a part of a stream.
type StreamPart struct {
	// StreamID is the ID of its stream.
	StreamID ID
	// Sequence is 0 for the first part of a stream, without gaps.
	Sequence int64
	Data     []byte
}

// Next is where to go on after this part.
func (p StreamPart) Next() StreamPosition {
	return StreamPosition{StreamID: p.StreamID, Sequence: p.Sequence + 1}
}

// StreamPosition is a place in the streams of one key. The zero value is the begin of the
// newest one.
type StreamPosition struct {
	// StreamID is the ID of a stream. Zero: the newest one. Only with an ID does who goes on
	// after an interruption find out that another stream has the key by now.
	StreamID ID
	// Sequence is that of the first part to read.
	Sequence int64
}

// RemovedStreams is what was removed of streams that had expired.
type RemovedStreams struct {
	// Streams is the number of streams of which nothing is left.
	Streams int64
	// Parts is the number of parts.
	Parts int64
}
