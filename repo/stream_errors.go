package repo

import "fmt"

func streamText(key string) string { return fmt.Sprintf("stream %q", key) }

// StreamNotFoundError says that no stream has the key. It matches [ErrNotFound].
type StreamNotFoundError struct {
	Key string
}

func (e *StreamNotFoundError) Error() string        { return streamText(e.Key) + " not found" }
func (e *StreamNotFoundError) Is(target error) bool { return target == ErrNotFound }

// StreamGoneError says that a stream has expired, or was removed after that. It matches
// [ErrStreamGone].
type StreamGoneError struct {
	Key string
	// ID is zero if it is not known.
	ID ID
}

func (e *StreamGoneError) Error() string        { return streamText(e.Key) + " is gone: it has expired" }
func (e *StreamGoneError) Is(target error) bool { return target == ErrStreamGone }

// StreamFailedError ends [StreamReader].Follow after the last part of a stream that
// failed. It matches [ErrStreamFailed].
type StreamFailedError struct {
	Key string
	ID  ID
	// Reason is what [StreamWriter].Fail was given. The text of the error does not contain
	// it.
	Reason string
}

func (e *StreamFailedError) Error() string        { return streamText(e.Key) + " failed" }
func (e *StreamFailedError) Is(target error) bool { return target == ErrStreamFailed }

// StreamFencedError is returned to a writer after whom somebody else has opened the
// stream. Nothing was written. It matches [ErrConflict].
type StreamFencedError struct {
	Key string
	ID  ID
	// Fence is the caller's.
	Fence int64
}

func (e *StreamFencedError) Error() string {
	return fmt.Sprintf("%s: opened again by somebody else (fence %d)", streamText(e.Key), e.Fence)
}
func (e *StreamFencedError) Is(target error) bool { return target == ErrConflict }

// StreamEndedError is returned to a writer whose stream has ended already. Nothing was
// written. It matches [ErrConflict].
type StreamEndedError struct {
	Key string
	ID  ID
	// Status is StreamFinished or StreamFailed.
	Status StreamStatus
}

func (e *StreamEndedError) Error() string {
	return fmt.Sprintf("%s: already %s", streamText(e.Key), e.Status)
}
func (e *StreamEndedError) Is(target error) bool { return target == ErrConflict }

// StreamSequenceError is returned to a writer who appends at a sequence that is not the
// next one, where other parts are stored, or a part is missing before. Nothing was
// written. It matches [ErrConflict].
type StreamSequenceError struct {
	Key string
	ID  ID
	// Expected is the caller's sequence, Next the stream's actual next one.
	Expected, Next int64
}

func (e *StreamSequenceError) Error() string {
	return fmt.Sprintf("%s: expected next sequence %d, but it is %d", streamText(e.Key), e.Expected, e.Next)
}
func (e *StreamSequenceError) Is(target error) bool { return target == ErrConflict }
