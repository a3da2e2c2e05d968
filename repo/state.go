package repo

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Scope is a set of keys with values: a session's own state, which is deleted with
// the session, or a shared state, which has a name and no owner. Either SessionID or
// Name is set. In a Turn, the zero Scope is that of the turn's session.
type Scope struct {
	// SessionID is set for a session's own state.
	SessionID ID
	// Name is set for a shared state: any text of at most MaxScopeBytes, such as
	// "app/search" or JoinKey("app", app, "user", user).
	Name string
}

// StateOp says what a StateChange does to its key.
type StateOp string

// The operations.
const (
	// StateSet sets the key to Value.
	StateSet StateOp = "set"
	// StateRemove removes the key. Removing a key that does not exist is a change
	// like any other: it advances the scope's version.
	StateRemove StateOp = "remove"
	// StateIncrement adds By to the key's value, an integer between -2^63 and
	// 2^63-1 that is written without a fraction or an exponent. A key that does not
	// exist counts as 0. A value that is not such an integer, or a sum that is not,
	// is a StateTypeError.
	StateIncrement StateOp = "increment"
)

// StateChange changes one key.
type StateChange struct {
	Scope Scope
	// Key is any text of 1 to MaxStateKeyBytes.
	Key string
	// Op: empty means StateSet.
	Op StateOp
	// Value is JSON of at most MaxStateValueBytes, stored byte for byte. As in a
	// message's metadata, no object has a member name twice, arrays and objects nest
	// at most MaxJSONDepth deep, and no string holds NUL or half of a surrogate pair.
	// Only for StateSet.
	Value json.RawMessage
	// By is only for StateIncrement.
	By int64
	// IfVersion, if set, is the version that the key must have before the change; 0
	// means that it must not exist. Otherwise nothing is changed: StateConflictError.
	IfVersion *int64
}

// ScopeVersion is a scope at a version: the condition of a change, or its result. A
// scope that was never changed, or was erased, has version 0. The first change makes
// it the time of the database's clock, in microseconds since 1970, and each further
// one adds one. So a scope that is made again after it was erased does not repeat a
// version, unless the clock was set back meanwhile.
type ScopeVersion struct {
	Scope   Scope
	Version int64
}

// StateValue is the value of a key.
type StateValue struct {
	Key string
	// Value is JSON, stored byte for byte.
	Value json.RawMessage
	// Version is the scope's version at the key's last change.
	Version int64
	// UpdatedAt is set by the database's clock.
	UpdatedAt time.Time
}

// ScopeState is a scope with all of its keys, ordered by their bytes.
type ScopeState struct {
	ScopeVersion
	Values []StateValue
}

// Value returns the value of a key, or nil if the scope does not have the key.
func (s ScopeState) Value(key string) json.RawMessage {
	i, found := slices.BinarySearchFunc(s.Values, key, func(v StateValue, key string) int { return strings.Compare(v.Key, key) })
	if !found {
		return nil
	}
	return s.Values[i].Value
}

// StatePage is one page of a scope's keys, ordered by their bytes.
type StatePage struct {
	// Version is the scope's when the page was read.
	Version int64
	Values  []StateValue
	// Next continues the list. Empty: this was the last page.
	Next Cursor
}
