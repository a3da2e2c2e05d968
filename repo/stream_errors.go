package repo

import "fmt"

// StreamFailedError ends [Streams].Follow after the last part of a stream that
// failed. It matches [ErrStreamFailed].
type StreamFailedError struct {
	Key    string
	ID     ID
	Reason string // what Streams.Fail was given; the text of the error does not contain it
}

func (e *StreamFailedError) Error() string        { return fmt.Sprintf("stream %q failed", e.Key) }
func (e *StreamFailedError) Is(target error) bool { return target == ErrStreamFailed }
