package repo

import "context"

// State is the repository of state: keys with JSON values, in scopes. docs/state.md
// has an example.
//
// Every scope has a version. A change locks its scopes until it is committed and
// advances the version of each by one, however many keys it changes, so that
// versions ascend in the order of commits. Writers of one scope wait for each other,
// and none of them overwrites a key that it did not change.
type State interface {
	StateReader
	StateWriter
}

// StateReader reads state. A scope of a session that does not exist is a
// NotFoundError; a shared scope that does not exist is empty, at version 0.
type StateReader interface {
	// Get returns the value of one key. Errors: InvalidError; NotFoundError;
	// StateNotFoundError if the scope does not have the key.
	Get(ctx context.Context, scope Scope, key string) (StateValue, error)
	// Read returns up to MaxStateScopes scopes with all of their keys, in the order
	// given, as they were at one moment. Errors: InvalidError; NotFoundError;
	// StateLimitError if they have more than MaxStateReadKeys keys or MaxStateBytes
	// together: List returns such a scope page by page.
	Read(ctx context.Context, scopes ...Scope) ([]ScopeState, error)
	// List returns one page of the keys that begin with prefix, ordered by their
	// bytes. Reading all pages yields every key that existed throughout exactly
	// once. Errors: InvalidError; NotFoundError.
	List(ctx context.Context, scope Scope, prefix string, page Page) (StatePage, error)
}

// StateWriter changes state.
type StateWriter interface {
	// Change makes all of the changes or none, and returns each scope that it
	// changed at its new version, in the order of changes. A shared scope that does
	// not exist is created. Conditions are versions that scopes, changed or not,
	// must have; StateChange.IfVersion is a condition of one key. They are checked
	// in the same step: until the call is committed no other one changes the scopes.
	//
	// No key may be changed twice, and no scope have two conditions. There are at
	// most MaxStateChanges changes, with MaxStateBytes of keys and values, in at most
	// MaxStateScopes scopes.
	//
	// Errors, with nothing changed: InvalidError; NotFoundError, for a session;
	// StateConflictError if a condition does not hold; StateTypeError for an
	// increment of what is not a 64-bit integer.
	//
	// ErrUnknownOutcome: the changes may have been made. Making them again would
	// advance the versions, and add increments, a second time. With a condition it
	// is safe: if the first attempt was committed, the second is a
	// StateConflictError.
	Change(ctx context.Context, changes []StateChange, conditions ...ScopeVersion) ([]ScopeVersion, error)
	// Erase deletes a shared scope with all of its keys, and returns their number. It
	// leaves an entry entity_deleted in the audit trail, with the scope's id, not its
	// name. Erasing a scope that does not exist returns 0 and leaves no entry.
	// Errors: InvalidError; ErrUnknownOutcome, and erasing again is safe.
	Erase(ctx context.Context, scopeName string) (keys int64, err error)
}
