package repo

import (
	"context"
	"iter"
)

// Streams is the repository of streams: what is live but not history, such as the parts of an answer. One writer at
// a time adds parts, and any number of readers in any process get each soon after. docs/live.md has an example.
//
// A key may have one stream after the other; the ID tells them apart. A stream to which nothing was added for its
// TTL, or up to an eighth longer, whether it has ended or not, is gone.
//
// Of a Stream that methods take, they use the ID and the Fence. Errors, in this order: InvalidError; NotFoundError;
// FencedError; RefusedError; ErrUnknownOutcome: call again.
type Streams interface {
	StreamReader

	// Open opens a stream for a new writer, with a new fence: the previous writer can no longer write. If the key's
	// newest stream is open and has not expired, the writer goes on at its Next. Otherwise a new stream begins; one that
	// has ended before it can be read until it expires, by its ID. Opening again is safe. Errors: RefusedError if the
	// stream that is open is of another session, or of none.
	Open(ctx context.Context, stream NewStream) (Stream, error)
	// Append appends up to 1,000 parts of 1 to MaxPartBytes, 16 MiB together, at the sequence stream.Next, all or none,
	// and returns the next sequence, or with an error stream.Next. Without parts it renews the stream's life. If the same
	// parts are stored there already, Append changes nothing and succeeds, also if the stream has ended since. Further
	// error: SequenceConflictError.
	Append(ctx context.Context, stream Stream, parts ...[]byte) (next int64, err error)
	// Finish ends a stream, in InTx also together with an append. It may be repeated. An expired stream has ended,
	// which is no error.
	Finish(ctx context.Context, stream Stream) error
	// Fail is Finish of an incomplete stream. Followers get the reason, at most 64 KiB. It may be repeated with the
	// same reason.
	Fail(ctx context.Context, stream Stream, reason string) error
	// Delete lets all streams of a key expire at once, open or not.
	Delete(ctx context.Context, key string) error
	// RemoveExpired removes up to limit (zero: 1,000; at most 10,000) parts of streams that have expired, and streams
	// without parts, at once, before the store does it in its own time. If it removed nothing, all are removed, or other
	// calls are removing them.
	RemoveExpired(ctx context.Context, limit int) (streams, parts int64, err error)
}

// StreamReader reads streams, and follows them.
type StreamReader interface {
	// Get returns the newest stream of the key.
	Get(ctx context.Context, key string) (Stream, error)
	// Follow yields the parts of a stream, ascending, from a position on, and then each further one soon after it was
	// appended, by whomever: each sequence once, and none left out. It ends without an error after the last part of a
	// stream that was finished. It holds no connection while it waits or the loop's body runs. docs/live.md has its cost.
	//
	// An error is yielded once, with a zero StreamPart, and ends it: StreamFailedError after the last part of a stream
	// that failed; NotFoundError if the stream expires before it has ended and all its parts were yielded, or does not
	// exist; SequenceConflictError if the stream ends before the position; the context's; ErrClosed; InvalidError, also in
	// InTx and Bind; ErrUnavailable when Follow begins: later on it waits.
	Follow(ctx context.Context, key string, from StreamPosition) iter.Seq2[StreamPart, error]
	// List returns the streams of a session that have not expired: the open ones first, and of these and the others the
	// newest first. One that ends between two pages may be on both.
	List(ctx context.Context, sessionID ID, page Page) (List[Stream], error)
	// FollowSession yields the streams of a session that are open, and then each further one, once, while no more than
	// MaxPageSize have not expired. Errors: as of Follow, but NotFoundError if the session does not exist, or is deleted.
	FollowSession(ctx context.Context, sessionID ID) iter.Seq2[Stream, error]
}
