package repo

import "time"

// NewStream asks for a stream to write to.
type NewStream struct {
	// Key is the caller's name of the stream, of 1 to MaxKeyBytes. JoinKey makes one of several parts.
	Key string
	// Owner names the writer, for people to read, in 1 to 1,024 bytes. Only the Fence decides which writer may write.
	Owner string
	// Session is the session that the stream is about, and with which it goes. Zero: none, or whichever an open one has.
	Session ID
	// Restart: a writer that goes on with a stream that has parts begins again. Readers get a StreamPart that says so.
	Restart bool
	// TTL is how long the stream lives if nothing is added, from MinStreamTTL to MaxStreamTTL. Zero: 5 minutes.
	TTL time.Duration
}

// StreamStatus is whether a stream has ended.
type StreamStatus string

// The statuses.
const (
	StreamOpen     StreamStatus = "open"     // parts may follow
	StreamFinished StreamStatus = "finished" // the parts are all there are
	StreamFailed   StreamStatus = "failed"   // others are missing
)

// Stream is a stream as the database had it. Its writer has Open's.
type Stream struct {
	Key, Owner string // Owner opened it last
	ID         ID     // tells it apart from earlier streams of the key
	Session    ID     // that it is about
	// Fence was given to its last opener. A smaller one can no longer write.
	Fence  int64
	Status StreamStatus
	Reason string        // why it failed
	Next   int64         // the sequence of the next part, and so the number of parts
	TTL    time.Duration // of its last opener
	// by the database's clock: when it was first opened, and when it expires if nothing is added
	OpenedAt, ExpiresAt time.Time
}

// StreamPart is a part of a stream.
type StreamPart struct {
	StreamID ID
	Sequence int64 // from 0, without gaps
	Data     []byte
	// Restart, without Data: a new writer has begun again (NewStream.Restart). The parts before were given up.
	Restart bool
}

// Next is where to go on after this part.
func (p StreamPart) Next() StreamPosition {
	return StreamPosition{StreamID: p.StreamID, Sequence: p.Sequence + 1}
}

// StreamPosition is a place in the streams of one key. The zero value is the begin of the newest one.
type StreamPosition struct {
	StreamID ID    // zero: the newest one
	Sequence int64 // of the first part to read
}
