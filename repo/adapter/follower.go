package adapter

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/seed-df90f812/agentstore/repo"
)

// Follower returns one after the other what a loop over Follow yields, for callers that
// ask for the next one when they want it, each time with a context of its own.
// [FollowMessages] and [FollowParts] return it. It is safe for concurrent use: calls of Next take turns.
type Follower[T any] struct {
	ctx    context.Context //nolint:containedctx // it ends what is followed
	cancel context.CancelCauseFunc

	turn  chan struct{} // has an element while a caller uses the rest
	items iter.Seq2[T, error]
	next  func() (T, error, bool)
	stop  func()
	err   error
}

// FollowMessages returns a follower of what Sessions.Follow yields. It ends with ctx.
// Before the first Next it holds nothing; after that it has to be closed.
func FollowMessages(ctx context.Context, messages repo.Sessions, sessionID repo.ID,
	from int64,
) *Follower[repo.Message] {
	return newFollower(ctx, func(ctx context.Context) iter.Seq2[repo.Message, error] {
		return messages.Follow(ctx, sessionID, from)
	})
}

// FollowParts is FollowMessages for what Streams.Follow yields.
func FollowParts(ctx context.Context, streams repo.Streams, key string,
	from repo.StreamPosition,
) *Follower[repo.StreamPart] {
	return newFollower(ctx, func(ctx context.Context) iter.Seq2[repo.StreamPart, error] {
		return streams.Follow(ctx, key, from)
	})
}

func newFollower[T any](ctx context.Context, follow func(context.Context) iter.Seq2[T, error]) *Follower[T] {
	f := &Follower[T]{turn: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.items = follow(f.ctx) //nolint:contextcheck // it is derived from ctx
	return f
}

// Next waits for the next item and returns it. If ctx ends meanwhile, the follower is closed,
// and Next returns ctx's error unless the item came at the same time; if ctx ends before it is
// this call's turn, nothing is closed. Other errors: io.EOF after the last item; ErrClosed;
// and errors of what is followed. After an error, Next returns it again, or ErrClosed if it
// was ctx's.
func (f *Follower[T]) Next(ctx context.Context) (item T, err error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return item, ctx.Err()
	}
	if f.err != nil {
		return item, f.err
	}
	if err := ctx.Err(); err != nil { // select may have taken the turn nevertheless
		return item, err
	}
	if f.next == nil {
		f.next, f.stop = iter.Pull2(f.items)
	}
	defer context.AfterFunc(ctx, func() { f.cancel(repo.ErrClosed) })()
	next, err, ok := f.next()
	if ok && err == nil {
		return next, nil
	}
	f.stop() // it has ended, whether Close is called or not
	switch {
	case !ok:
		f.err = io.EOF
	case errors.Is(context.Cause(f.ctx), repo.ErrClosed): //nolint:contextcheck // the follower's own
		if f.err = repo.ErrClosed; ctx.Err() != nil {
			return item, ctx.Err()
		}
	default:
		f.err = err
	}
	return item, f.err
}

// Close ends what is followed, and a Next that waits. It returns nil, and may be called
// again.
func (f *Follower[T]) Close() error {
	f.cancel(repo.ErrClosed)
	f.turn <- struct{}{} // soon, since a Next that waits has ended
	defer func() { <-f.turn }()
	f.err = repo.ErrClosed
	if f.stop != nil {
		f.stop()
	}
	return nil
}
