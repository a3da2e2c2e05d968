package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// StateChanges are the checked changes and conditions of one call.
type StateChanges struct {
	// Scopes are the scopes that the call changes or has a condition on, in the
	// order of CompareScopes.
	Scopes []StateScope
	// Changes are in the caller's order. Each has its scope and its Op.
	Changes []repo.StateChange
}

// StateScope is a scope of StateChanges.
type StateScope struct {
	Scope repo.Scope
	// IfVersion is the condition on the scope. Nil: none.
	IfVersion *int64
	// Changed is false for a scope that has only a condition.
	Changed bool
}

// CompareScopes has the order in which every writer locks scopes, so that no two wait for
// each other: sessions' scopes by their ids, and then the shared ones by their names.
func CompareScopes(a, b repo.Scope) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), a.SessionID.Compare(b.SessionID))
}

// NormalizeStateChanges checks the changes and conditions of one call and returns
// them as they are made. own is the session whose scope the zero Scope means, in a
// turn; the zero ID: there is none. Fields are named as in repo.Turn if there is one,
// and otherwise as the arguments of repo.State.Change.
func NormalizeStateChanges(own repo.ID, changes []repo.StateChange,
	conditions []repo.ScopeVersion,
) (StateChanges, error) {
	changesField, conditionsField := "state", "if_scopes"
	if own.IsZero() {
		changesField, conditionsField = "changes", "conditions"
	}
	err := cmp.Or(
		invalidIf(own.IsZero() && len(changes) == 0, changesField, "are empty"),
		checkEntries(changesField, len(changes), limits.MaxStateChanges),
		checkEntries(conditionsField, len(conditions), limits.MaxStateScopes),
	)
	if err != nil {
		return StateChanges{}, err
	}
	normal := StateChanges{Changes: slices.Clone(changes)}
	scopes := stateScopes{own: own, of: map[repo.Scope]*StateScope{}}
	if err := cmp.Or(scopes.change(changesField, normal.Changes), scopes.demand(conditionsField, conditions)); err != nil {
		return StateChanges{}, err
	}
	for _, scope := range scopes.of {
		normal.Scopes = append(normal.Scopes, *scope)
	}
	slices.SortFunc(normal.Scopes, func(a, b StateScope) int { return CompareScopes(a.Scope, b.Scope) })
	size, count := normal.Bytes(), len(normal.Scopes)
	return normal, cmp.Or(
		invalidIf(size > limits.MaxStateBytes, changesField, "have %d bytes, more than %d", size, limits.MaxStateBytes),
		invalidIf(count > limits.MaxStateScopes, changesField, "and conditions have %d scopes, more than %d", count,
			limits.MaxStateScopes),
	)
}

// stateScopes are the scopes that changes and conditions of one call name.
type stateScopes struct {
	own repo.ID // see NormalizeStateChanges
	of  map[repo.Scope]*StateScope
}

// name returns what is known of a scope, which it checks.
func (s stateScopes) name(scope *repo.Scope) (*StateScope, error) {
	if *scope == (repo.Scope{}) {
		scope.SessionID = s.own
	}
	if err := CheckScope("scope", *scope); err != nil {
		return nil, err
	}
	if s.of[*scope] == nil {
		s.of[*scope] = &StateScope{Scope: *scope}
	}
	return s.of[*scope], nil
}

// change normalizes changes, and notes their scopes.
func (s stateScopes) change(field string, changes []repo.StateChange) error {
	type place struct {
		scope repo.Scope
		key   string
	}
	seen := map[place]bool{}
	for i := range changes {
		c := &changes[i]
		scope, err := s.name(&c.Scope)
		if err = cmp.Or(err, normalizeChange(c)); err != nil {
			return within(at(field, i)+".", err)
		}
		scope.Changed = true
		key := place{c.Scope, c.Key}
		if seen[key] {
			return invalid(field, "change a key twice")
		}
		seen[key] = true
	}
	return nil
}

// demand notes conditions on scopes.
func (s stateScopes) demand(field string, conditions []repo.ScopeVersion) error {
	for i, condition := range conditions {
		scope, err := s.name(&condition.Scope)
		if err = cmp.Or(err, CheckSequence("version", condition.Version)); err != nil {
			return within(at(field, i)+".", err)
		}
		if scope.IfVersion != nil {
			return invalid(field, "name a scope twice")
		}
		scope.IfVersion = &condition.Version
	}
	return nil
}

// Bytes returns how many bytes of the caller's the changes hold.
func (c StateChanges) Bytes() (size int) {
	for i := range c.Changes {
		size += len(c.Changes[i].Key) + len(c.Changes[i].Value)
	}
	return size
}

// normalizeChange checks a change, except its scope.
func normalizeChange(c *repo.StateChange) error {
	c.Op = cmp.Or(c.Op, repo.StateSet)
	switch c.Op {
	case repo.StateSet, repo.StateRemove, repo.StateIncrement:
	default:
		return invalid("op", "is not set, remove or increment")
	}
	const noIncrement = "is given, but the operation is not increment"
	err := cmp.Or(
		CheckStateKey("key", c.Key),
		invalidIf(c.Op != repo.StateSet && c.Value != nil, "value", "is given, but the operation is not set"),
		invalidIf(c.Op != repo.StateIncrement && c.By != 0, "by", noIncrement),
		invalidIf(c.Op != repo.StateIncrement && c.AtMost != nil, "at_most", noIncrement),
		invalidIf(c.Op != repo.StateIncrement && c.AtLeast != nil, "at_least", noIncrement),
		invalidIf(c.AtMost != nil && c.AtLeast != nil && *c.AtMost < *c.AtLeast, "at_most", "is less than at_least"),
		invalidIf(c.IfVersion != nil && *c.IfVersion < 0, "if_version", "is negative"),
	)
	if err == nil && c.Op == repo.StateSet {
		err = CheckStateValue("value", c.Value)
	}
	c.Value, c.IfVersion = bytes.Clone(c.Value), ClonePointer(c.IfVersion)
	c.AtMost, c.AtLeast = ClonePointer(c.AtMost), ClonePointer(c.AtLeast)
	return err
}

// CheckScope checks that scope is a session's own or has a name.
func CheckScope(field string, scope repo.Scope) error {
	return cmp.Or(
		invalidIf(scope == (repo.Scope{}), field, "is empty"),
		invalidIf(scope.Name != "" && !scope.SessionID.IsZero(), field, "has both a session and a name"),
		checkText(field+".name", scope.Name, limits.MaxScopeBytes),
	)
}

// CheckStateKey checks the key of a state.
func CheckStateKey(field, key string) error {
	return cmp.Or(invalidIf(key == "", field, "is empty"), checkText(field, key, limits.MaxStateKeyBytes))
}

// CheckStateValue checks the value of a state's key.
func CheckStateValue(field string, value json.RawMessage) error {
	if len(value) > limits.MaxStateValueBytes {
		return invalid(field, "has %d bytes, more than %d", len(value), limits.MaxStateValueBytes)
	}
	if err := jsonvalue.Check(value, limits.MaxJSONDepth); err != nil {
		return invalid(field, "%s", err)
	}
	return nil
}

// Conflict returns the error of a scope that is at version actual, or nil if the
// condition on the scope holds or there is none.
func (s StateScope) Conflict(actual int64) error {
	return versionConflict(s.IfVersion, repo.VersionConflictError{Kind: "state", Scope: s.Scope, Actual: actual})
}

// nextStateVersion returns the version after a change of a scope that is at version; now is the
// time of the change.
func nextStateVersion(version int64, now time.Time) int64 {
	return max(version+1, now.UnixMicro())
}

// changedState returns the value that the normalized c gives to its key, or nil if it
// removes the key. stored is what the key has; nil: it does not exist. Errors:
// VersionConflictError, RefusedError, LimitExceededError.
func changedState(c repo.StateChange, stored *repo.StateValue) (json.RawMessage, error) {
	var version int64
	if stored != nil {
		version = stored.Version
	}
	err := versionConflict(c.IfVersion, repo.VersionConflictError{
		Kind: "state", Scope: c.Scope, Name: c.Key,
		Actual: version,
	})
	if err != nil {
		return nil, err
	}
	switch c.Op {
	case repo.StateRemove:
		return nil, nil
	case repo.StateIncrement:
		var value json.RawMessage
		if stored != nil {
			value = stored.Value
		}
		return incremented(c, value)
	}
	return c.Value, nil
}

// incremented returns the sum that the increment c makes of a stored value.
func incremented(c repo.StateChange, stored json.RawMessage) (json.RawMessage, error) {
	var n int64
	if stored != nil {
		// JSON's integers are a subset of what ParseInt reads: no sign "+", no zeros in
		// front.
		var err error
		if n, err = strconv.ParseInt(string(bytes.Trim(stored, " \t\r\n")), 10, 64); err != nil {
			return nil, notIncremented(c, "is not a 64-bit integer")
		}
	}
	bound, sum := c.AtMost, n+c.By
	if c.By < 0 {
		bound = c.AtLeast
	}
	tooFar := c.By > 0 && sum < n || c.By < 0 && sum > n // and so beyond each bound
	passed := bound != nil && (tooFar || c.By > 0 && sum > *bound || c.By < 0 && sum < *bound)
	switch {
	case passed:
		return nil, &repo.LimitExceededError{
			Kind: "state", Scope: c.Scope, Name: c.Key, Limit: *bound, Current: n, Requested: c.By,
		}
	case tooFar:
		return nil, notIncremented(c, "would no longer be a 64-bit integer")
	}
	return strconv.AppendInt(nil, sum, 10), nil
}

func notIncremented(c repo.StateChange, reason string) error {
	return &repo.RefusedError{Kind: "state", Scope: c.Scope, Name: c.Key, Reason: reason}
}

// CheckStateRead checks the scopes of one read.
func CheckStateRead(scopes []repo.Scope) error {
	return checkEach("scopes", len(scopes), limits.MaxStateScopes,
		func(field string, i int) error { return CheckScope(field, scopes[i]) })
}

// CheckStateGet checks the arguments of a Get.
func CheckStateGet(scope repo.Scope, key string) error {
	return cmp.Or(CheckScope("scope", scope), CheckStateKey("key", key))
}

// CheckErase checks the name of a scope to erase.
func CheckErase(scopeName string) error { return checkScopeName("scope_name", scopeName) }

// checkScopeName checks the name of a shared scope.
func checkScopeName(field, name string) error {
	return cmp.Or(invalidIf(name == "", field, "is empty"), checkText(field, name, limits.MaxScopeBytes))
}

// StateFilter selects the keys of a list: at or after Prefix and before End.
type StateFilter struct {
	Scope  repo.Scope
	Prefix string
	// End is a text after all keys with the prefix, and before all other keys that are
	// after them.
	End string
}

// StateList checks a page of a scope's keys, which are ordered by their bytes. A view's keys are other lists.
func StateList(view string, scope repo.Scope, prefix string, page repo.Page) (list List[StateFilter, string,
	repo.StateValue], err error,
) {
	err = cmp.Or(CheckScope("scope", scope), checkText("prefix", prefix, limits.MaxStateKeyBytes))
	filter := StateFilter{Scope: scope, Prefix: prefix, End: afterPrefix(prefix)}
	placeOf := func(last repo.StateValue) string { return last.Key }
	return newList(err, filter, page, "", placeOf, "state", string(scope.SessionID[:]), InView(view, scope.Name), prefix)
}

// afterAll is after every key: it is longer than the longest one.
var afterAll = strings.Repeat(string(utf8.MaxRune), limits.MaxStateKeyBytes/utf8.UTFMax+1)

// afterPrefix returns the first text, in the order of bytes, that is after all texts
// with this prefix: the prefix with its last character replaced by the next one. UTF-8
// has the order of code points.
func afterPrefix(prefix string) string {
	prefix = strings.TrimRight(prefix, string(utf8.MaxRune))
	last, size := utf8.DecodeLastRuneInString(prefix)
	if size == 0 {
		return afterAll
	}
	last++
	if last == 0xD800 {
		last = 0xE000 // surrogates are not characters
	}
	return prefix[:len(prefix)-size] + string(last)
}

// Versions returns the changed scopes in the order of the changes, at the versions
// given.
func (c StateChanges) Versions(versions map[repo.Scope]int64) []repo.ScopeVersion {
	ordered := make([]repo.ScopeVersion, 0, len(versions))
	for _, change := range c.Changes {
		if version, ok := versions[change.Scope]; ok {
			ordered = append(ordered, repo.ScopeVersion{Scope: change.Scope, Version: version})
			delete(versions, change.Scope)
		}
	}
	return ordered
}
