package repo

import "context"

// State is the repository of keys with JSON values, in scopes: see docs/state.md.
//
// A change locks its scopes until it is committed, and advances the version of each once. Writers of one scope wait
// for each other, and none overwrites a key that it did not change.
//
// Errors of all methods: InvalidError; NotFoundError for a session. A shared scope that does not exist is empty, at
// version 0.
type State interface {
	// Get returns the value of one key. Errors: NotFoundError if the scope does not have the key.
	Get(ctx context.Context, scope Scope, key string) (StateValue, error)
	// Read returns up to 1,000 scopes with all of their keys, in the order given, as they were at one moment. Errors:
	// LimitExceededError if they have more than 10,000 keys or 64 MiB: List returns them page by page.
	Read(ctx context.Context, scopes ...Scope) ([]ScopeState, error)
	// List returns one page of the keys that begin with prefix, ordered by their bytes.
	List(ctx context.Context, scope Scope, prefix string, page Page) (StatePage, error)

	// Change makes all of the changes or none, and returns each scope at its new version, in the order of changes.
	// Conditions are versions that scopes, changed or not, must have. No key is changed twice, and no scope has two
	// conditions. There are at most 1,000 changes, with 64 MiB of keys and values, in at most 1,000 scopes.
	//
	// Errors: VersionConflictError if a condition does not hold; RefusedError for an increment of what is not a 64-bit
	// integer; LimitExceededError for one beyond its AtMost or AtLeast; ErrUnknownOutcome: made again without a condition,
	// they may be made twice.
	Change(ctx context.Context, changes []StateChange, conditions ...ScopeVersion) ([]ScopeVersion, error)
	// Erase deletes a shared scope with all of its keys, and returns their number. An entry of the audit trail has the
	// scope's id, not its name. It may be repeated.
	Erase(ctx context.Context, scopeName string) (keys int64, err error)
}
