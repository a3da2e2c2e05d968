package repo

import "fmt"

// text returns the scope as errors name it.
func (s Scope) text() string {
	if s.Name == "" {
		return "state of session " + s.SessionID.String()
	}
	return fmt.Sprintf("state %q", s.Name)
}

// StateNotFoundError names a state key that does not exist. It matches
// [ErrNotFound].
type StateNotFoundError struct {
	Scope Scope
	Key   string
}

func (e *StateNotFoundError) Error() string {
	return fmt.Sprintf("%s: state key %q not found", e.Scope.text(), e.Key)
}
func (e *StateNotFoundError) Is(target error) bool { return target == ErrNotFound }

// StateConflictError reports that a key, or a scope, is not at the version that a
// change expects, so that nothing was changed. It matches [ErrConflict].
type StateConflictError struct {
	Scope Scope
	// Key is empty if the condition was the scope's.
	Key string
	// Expected and Actual are versions. 0: does not exist.
	Expected, Actual int64
}

func (e *StateConflictError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s: expected version %d, but it is %d", e.Scope.text(), e.Expected, e.Actual)
	}
	return fmt.Sprintf("%s: expected version %d of key %q, but it is %d", e.Scope.text(), e.Expected, e.Key, e.Actual)
}
func (e *StateConflictError) Is(target error) bool { return target == ErrConflict }

// StateTypeError reports that a key cannot be incremented, so that nothing was
// changed. It matches [ErrConflict].
type StateTypeError struct {
	Scope Scope
	Key   string
	// Reason says why, such as "is not a 64-bit integer".
	Reason string
}

func (e *StateTypeError) Error() string {
	return fmt.Sprintf("%s: key %q %s", e.Scope.text(), e.Key, e.Reason)
}
func (e *StateTypeError) Is(target error) bool { return target == ErrConflict }

// StateLimitError reports that the scopes of one Read have more than
// MaxStateReadKeys keys or MaxStateBytes together. It matches [ErrLimit].
type StateLimitError struct{}

func (*StateLimitError) Error() string {
	return fmt.Sprintf("the scopes have more than %d keys or %d bytes together: list them page by page", MaxStateReadKeys, MaxStateBytes)
}
func (*StateLimitError) Is(target error) bool { return target == ErrLimit }
