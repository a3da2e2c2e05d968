package repo

import (
	"context"
	"iter"
)

// Streams is the repository of streams: what is live but not history, such as the parts
// of an answer while a model produces it. One writer at a time adds parts, and any number
// of readers in any process get each of them soon after. Some time after the last part a
// stream is removed. What is to be kept is appended to a session. docs/live.md has an
// example.
//
// A stream is named by its key, which may have one stream after the other. Its ID tells
// it apart from those before. A stream begins to exist when it is opened, and has expired
// when nothing was added to it for its TTL (or up to an eighth longer, since not each
// part prolongs its life), whether it has ended or not. It is gone then, for all
// operations, although its parts are removed only later. Time is the database's clock
// alone.
//
// In a transaction (InTx, Bind) what is written is there if and when the transaction is
// committed, so that a stream may be finished together with the append of what it was
// about to a session. Until then whoever else writes to the stream waits.
type Streams interface {
	StreamReader
	StreamWriter
}

// StreamReader reads streams.
type StreamReader interface {
	// Get returns the newest stream of the key. Errors: InvalidError; StreamNotFoundError;
	// StreamGoneError if it has expired.
	Get(ctx context.Context, key string) (Stream, error)
	// Follow yields the parts of a stream, ascending, from a position on, and then each
	// further one soon after it was appended, by whomever. It yields each sequence once, and
	// leaves none out. The loop ends without an error after the last part of a stream that
	// was finished. To go on after an interruption, follow from the last part's Next.
	//
	// It reads in chunks, and holds no connection while it waits or while the loop's body
	// runs. A slow body delays nobody, and nothing is queued for it. docs/live.md says how
	// soon parts come, and what it costs.
	//
	// An error is yielded once, with a zero StreamPart, and ends it: StreamFailedError after
	// the last part of a stream that failed; StreamGoneError if the stream expires before
	// all its parts were yielded, or before it ends, or has done so already, or if a
	// position that is not zero is of a stream that does not exist any more;
	// StreamNotFoundError if the position is zero and no stream has the key; the context's
	// error; ErrClosed; InvalidError, also in InTx and Bind, since a transaction cannot wait
	// for others. If the database cannot be reached, the error is ErrUnavailable when Follow
	// begins. Later on it waits until the database is back.
	Follow(ctx context.Context, key string, from StreamPosition) iter.Seq2[StreamPart, error]
}

// StreamWriter writes streams. Of the stream that its methods take, they use the ID, the
// Fence, and where they say so, Next; and the Key in errors.
//
// Errors of all methods but Open and RemoveExpired: InvalidError; StreamGoneError;
// StreamFencedError if somebody else has opened the stream since; StreamEndedError;
// ErrUnknownOutcome: the same call may be made again. They are found in this order.
type StreamWriter interface {
	// Open opens a stream for a new writer, with a new fence: whoever opened it before can
	// no longer write. If the key's newest stream is open and has not expired, the writer
	// goes on at its end: see Next. Otherwise a new stream begins, with another ID; one that
	// has ended before it can be read until it expires, by its ID. Errors: InvalidError;
	// ErrUnknownOutcome: opening again is safe, and fences off what the first attempt may
	// have opened.
	//
	// Some calls also remove a few streams that have expired, as RemoveExpired does.
	Open(ctx context.Context, stream NewStream) (Stream, error)
	// Append appends parts, at the sequence stream.Next, and returns the next one, for the
	// next call. If it fails, it returns stream.Next. All parts are stored or none.
	//
	// If parts are stored at these sequences already and are the same, Append changes
	// nothing and succeeds, also if the stream has ended since: so an append whose outcome
	// is unknown is made again as it was.
	//
	// A part has 1 to MaxPartBytes; one call has 1 to MaxParts of MaxPartsBytes together.
	// Appends to many streams at once are committed together. Further error:
	// StreamSequenceError.
	Append(ctx context.Context, stream Stream, parts ...[]byte) (next int64, err error)
	// Finish ends a stream. If it is finished already, Finish changes nothing and returns
	// nil.
	Finish(ctx context.Context, stream Stream) error
	// Fail ends a stream which is not complete. Those who follow it get the reason, any text
	// of at most MaxTextBytes. If it has failed already for this reason, Fail changes
	// nothing and returns nil.
	Fail(ctx context.Context, stream Stream, reason string) error
	// RemoveExpired removes up to limit parts of streams that have expired, and those
	// streams of which no part is left then, at most limit of them. Zero means
	// DefaultStreamRemoval, and MaxStreamRemoval is the most. It leaves out streams that
	// others remove at the same time. If it removed nothing, nothing is left, or others are
	// at it. Errors: InvalidError.
	RemoveExpired(ctx context.Context, limit int) (RemovedStreams, error)
}
