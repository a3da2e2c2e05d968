package repo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Scope is a set of keys with values: a session's own state, or a shared state with a name. In a Turn the zero Scope
// is its session's.
type Scope struct {
	SessionID ID
	Name      string // at most 1,024 bytes, such as JoinKey("app", app, "user", user)
}

// StateOp says what a StateChange does to its key.
type StateOp string

// The operations. StateRemove of a missing key advances the version, too. StateIncrement adds By to an integer of 64
// bits; a missing key is 0.
const (
	StateSet       StateOp = "set"
	StateRemove    StateOp = "remove"
	StateIncrement StateOp = "increment"
)

// StateChange changes one key.
type StateChange struct {
	Scope Scope
	Key   string  // of 1 to 1,024 bytes
	Op    StateOp // empty means StateSet
	// Value, for StateSet, is JSON of at most 1 MiB, stored byte for byte. No object has a member name twice, arrays and
	// objects nest at most 512 levels deep, and no string holds NUL or half of a surrogate pair.
	Value json.RawMessage
	By    int64 // for StateIncrement
	// AtMost and AtLeast, if set, are bounds, for StateIncrement: raising the value above AtMost, or lowering it below
	// AtLeast, is a LimitExceededError, and nothing is changed. A value that is beyond a bound may be brought back in any
	// steps. AtMost is not less than AtLeast.
	AtMost, AtLeast *int64
	// IfVersion, if set, is the version that the key must have before the change; 0 means that it must not exist.
	// Otherwise nothing is changed: VersionConflictError.
	IfVersion *int64
}

// ScopeVersion is a scope at a version: the condition of a change, or its result. Version 0: it was never changed,
// or was erased. Versions ascend in the order of commits.
type ScopeVersion struct {
	Scope   Scope
	Version int64
}

// StateValue is the value of a key.
type StateValue struct {
	Key       string
	Value     json.RawMessage
	Version   int64     // the scope's at the key's last change
	UpdatedAt time.Time // by the database's clock
}

// ScopeState is a scope with all of its keys, ordered by their bytes.
type ScopeState struct {
	ScopeVersion
	Values []StateValue
}

// Value returns the value of a key, or nil if the scope does not have the key.
func (s ScopeState) Value(key string) json.RawMessage {
	i, found := slices.BinarySearchFunc(s.Values, key, func(v StateValue, key string) int {
		return strings.Compare(v.Key, key)
	})
	if !found {
		return nil
	}
	return s.Values[i].Value
}

// StatePage is one page of a scope's keys, ordered by their bytes.
type StatePage struct {
	Version int64 // the scope's when the page was read
	Values  []StateValue
	Next    string // continues the list; empty: this was the last page
}

// text returns the scope as errors name it.
func (s Scope) text() string {
	if s.Name == "" {
		return "state of session " + s.SessionID.String()
	}
	return fmt.Sprintf("state %q", s.Name)
}
