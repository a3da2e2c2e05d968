package repotest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	documents "github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

func stateTests() []test {
	return []test{
		onPlans("Get", testStateGet),
		onPlans("Change", testStateChange),
		onPlans("Remove", testStateRemove),
		onPlans("AllOrNothing", testStateAllOrNothing),
		onPlans("KeyConditions", testStateKeyConditions),
		onPlans("ScopeConditions", testStateScopeConditions),
		onPlans("Increment", testStateIncrement),
		onPlans("NotIncremented", testStateNotIncremented),
		onPlans("Bounds", testStateBounds),
		onPlans("BoundsOfTurns", testStateBoundsOfTurns),
		onPlans("Read", testStateRead),
		onPlans("List", testStateList),
		onPlans("Prefixes", testStatePrefixes),
		onPlans("Cursors", testStateCursors),
		onPlans("Values", testStateValues),
		onPlans("InvalidValues", testStateInvalidValues),
		onPlans("Keys", testStateKeys),
		onPlans("LookAlikes", testStateLookAlikes),
		onPlans("Invalid", testStateInvalid),
		onPlans("Erase", testStateErase),
		onPlans("SetAgainAfterErase", testStateSetAgainAfterErase),
		onPlans("EraseAgain", testStateEraseAgain),
		onPlans("SessionDeleted", testStateSessionDeleted),
		onPlans("SessionMissing", testStateSessionMissing),
		onPlans("Export", testStateExport),
		onPlans("ImportFaults", testStateImportFaults),
		onPlans("ImportedVersion", testStateImportedVersion),
		onPlans("Typed", testTypedValues),
	}
}

// shared returns a shared scope of its own.
func shared() repo.Scope { return repo.Scope{Name: "app/" + randomName()} }

func own(t *testing.T, r repo.Repositories) repo.Scope {
	t.Helper()
	return repo.Scope{SessionID: create(t, r.Sessions())}
}

func set(scope repo.Scope, key, value string) repo.StateChange {
	return repo.StateChange{Scope: scope, Key: key, Value: []byte(value)}
}

func unset(scope repo.Scope, key string) repo.StateChange {
	return repo.StateChange{Scope: scope, Key: key, Op: repo.StateRemove}
}

func increment(scope repo.Scope, key string, by int64) repo.StateChange {
	return repo.StateChange{Scope: scope, Key: key, Op: repo.StateIncrement, By: by}
}

// within bounds an increment.
func within(c repo.StateChange, atLeast, atMost int64) repo.StateChange {
	c.AtLeast, c.AtMost = &atLeast, &atMost
	return c
}

func ifVersion(c repo.StateChange, version int64) repo.StateChange {
	c.IfVersion = &version
	return c
}

// change makes changes of one scope and returns its version.
func change(t *testing.T, r repo.Repositories, changes ...repo.StateChange) int64 {
	t.Helper()
	versions, err := r.State().Change(t.Context(), changes)
	if must(t, versions, err); len(versions) != 1 || versions[0].Scope != changes[0].Scope {
		t.Fatalf("the changed scopes are %+v", versions)
	}
	return versions[0].Version
}

func getState(t *testing.T, r repo.Repositories, scope repo.Scope, key string) repo.StateValue {
	t.Helper()
	value, err := r.State().Get(t.Context(), scope, key)
	return must(t, value, err)
}

// readState returns the keys of a scope with their values, and its version.
func readState(t *testing.T, r repo.Repositories, scope repo.Scope) (map[string]string, int64) {
	t.Helper()
	states, err := r.State().Read(t.Context(), scope)
	must(t, states, err)
	values := map[string]string{}
	for _, value := range states[0].Values {
		values[value.Key] = string(value.Value)
	}
	return values, states[0].Version
}

func wantState(t *testing.T, r repo.Repositories, scope repo.Scope, want map[string]string) {
	t.Helper()
	if got, _ := readState(t, r, scope); !reflect.DeepEqual(got, want) {
		t.Errorf("the state is %v, want %v", got, want)
	}
}

func wantStateNotFound(t *testing.T, err error, scope repo.Scope, key string) {
	t.Helper()
	if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); ok {
		wantEqual(t, got, repo.NotFoundError{Kind: "state", Scope: scope, Name: key})
	}
}

func wantStateConflict(t *testing.T, err error, want repo.VersionConflictError) {
	t.Helper()
	if got, ok := wantError[*repo.VersionConflictError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, want)
	}
}

func testStateGet(t *testing.T, r repo.Repositories) {
	for _, scope := range []repo.Scope{shared(), own(t, r)} {
		_, err := r.State().Get(t.Context(), scope, "color")
		wantStateNotFound(t, err, scope, "color")
		version := change(t, r, set(scope, "color", `"`+secret+`"`))
		got := getState(t, r, scope, "color")
		if got.Key != "color" || string(got.Value) != `"`+secret+`"` || got.Version != version || got.UpdatedAt.IsZero() || got.UpdatedAt.Location().String() != "UTC" {
			t.Errorf("the value is %+v, want version %d", got, version)
		}
		_, err = r.State().Get(t.Context(), scope, "colour")
		wantStateNotFound(t, err, scope, "colour")
	}
}

// A call advances the version of each scope, and the versions of the keys that it
// changed are that version. The answer has the scopes in the order of the changes.
func testStateChange(t *testing.T, r repo.Repositories) {
	first, second, third := shared(), own(t, r), shared()
	versions, err := r.State().Change(t.Context(), []repo.StateChange{
		set(second, "a", `1`), set(first, "a", `2`), set(second, "b", `3`), set(third, "c", `4`),
	})
	must(t, versions, err)
	if len(versions) != 3 || versions[0].Scope != second || versions[1].Scope != first || versions[2].Scope != third {
		t.Fatalf("the changed scopes are %+v", versions)
	}
	// The first version is the time of the clock.
	if at := getState(t, r, first, "a").UpdatedAt.UnixMicro(); versions[1].Version < at-60_000_000 || versions[1].Version > at+60_000_000 {
		t.Errorf("the first version is %d, the time of the change %d", versions[1].Version, at)
	}
	before := getState(t, r, second, "b")
	if next := change(t, r, set(second, "a", `10`), set(second, "new", `11`)); next <= versions[0].Version {
		t.Errorf("the version is %d after %d", next, versions[0].Version)
	}
	if got := getState(t, r, second, "b"); !reflect.DeepEqual(got, before) {
		t.Errorf("a key that was not changed is %+v, before %+v", got, before)
	}
	if a, new := getState(t, r, second, "a"), getState(t, r, second, "new"); a.Version <= versions[0].Version || new.Version != a.Version {
		t.Errorf("the keys are at versions %d and %d", a.Version, new.Version)
	}
	wantState(t, r, second, map[string]string{"a": "10", "b": "3", "new": "11"})
	wantState(t, r, first, map[string]string{"a": "2"})
	// Setting a key to what it has is a change.
	if next := change(t, r, set(first, "a", `2`)); next <= versions[1].Version {
		t.Errorf("the version is %d after %d", next, versions[1].Version)
	}
}

func testStateRemove(t *testing.T, r repo.Repositories) {
	scope := shared()
	version := change(t, r, set(scope, "a", `1`), set(scope, "b", `2`))
	removed := change(t, r, unset(scope, "a"), set(scope, "c", `3`))
	if removed <= version {
		t.Errorf("the version is %d after %d", removed, version)
	}
	wantState(t, r, scope, map[string]string{"b": "2", "c": "3"})
	if got := change(t, r, unset(scope, "none")); got <= removed {
		t.Errorf("the version is %d after %d", got, removed)
	}
	version = change(t, r, unset(scope, "b"), unset(scope, "c"))
	// A scope without keys keeps its version.
	if values, got := readState(t, r, scope); len(values) != 0 || got != version {
		t.Errorf("the state is %v at version %d", values, got)
	}
	fresh := shared()
	if got := change(t, r, unset(fresh, "none")); got == 0 {
		t.Error("a removal did not advance the version of a new scope")
	}
}

// A call that fails changes nothing, not even a scope that would have been created.
func testStateAllOrNothing(t *testing.T, r repo.Repositories) {
	scope, fresh := shared(), shared()
	version := change(t, r, set(scope, "text", `"x"`), set(scope, "n", `1`))
	for name, changes := range map[string][]repo.StateChange{
		"key condition": {set(scope, "n", `2`), set(fresh, "a", `1`), ifVersion(set(fresh, "b", `1`), 1)},
		"type":          {set(scope, "n", `2`), set(fresh, "a", `1`), unset(scope, "other"), increment(scope, "text", 1)},
		"session":       {set(scope, "n", `2`), set(fresh, "a", `1`), set(repo.Scope{SessionID: repo.NewID()}, "a", `1`)},
	} {
		if versions, err := r.State().Change(t.Context(), changes); err == nil {
			t.Errorf("%s: got %+v", name, versions)
		}
		wantState(t, r, scope, map[string]string{"text": `"x"`, "n": "1"})
		if values, got := readState(t, r, fresh); len(values) != 0 || got != 0 {
			t.Errorf("%s: the new scope is %v at version %d", name, values, got)
		}
		if _, got := readState(t, r, scope); got != version {
			t.Errorf("%s: the version is %d, before %d", name, got, version)
		}
	}
	if keys, err := r.State().Erase(t.Context(), fresh.Name); keys != 0 || err != nil {
		t.Errorf("Erase gave %d, %v", keys, err)
	}
}

func testStateKeyConditions(t *testing.T, r repo.Repositories) {
	scope := shared()
	refused := func(c repo.StateChange, actual int64) {
		t.Helper()
		_, err := r.State().Change(t.Context(), []repo.StateChange{c})
		wantStateConflict(t, err, repo.VersionConflictError{Kind: "state", Scope: scope, Name: c.Key, Expected: *c.IfVersion, Actual: actual})
	}
	refused(ifVersion(set(scope, "a", `1`), 7), 0)
	version := change(t, r, ifVersion(set(scope, "a", `1`), 0), ifVersion(unset(scope, "none"), 0))
	refused(ifVersion(set(scope, "a", `2`), 0), version)
	refused(ifVersion(unset(scope, "a"), version-1), version)
	refused(ifVersion(increment(scope, "a", 1), version+1), version)
	// The key's version counts, not the scope's.
	change(t, r, set(scope, "b", `1`))
	refused(ifVersion(set(scope, "a", `2`), version+1), version)
	next := change(t, r, ifVersion(increment(scope, "a", 1), version))
	change(t, r, ifVersion(unset(scope, "a"), next))
	refused(ifVersion(set(scope, "a", `1`), next), 0)
	wantState(t, r, scope, map[string]string{"b": "1"})
	// The first condition that does not hold is told.
	_, err := r.State().Change(t.Context(), []repo.StateChange{
		set(scope, "x", `1`), ifVersion(set(scope, "y", `1`), 5), ifVersion(set(scope, "z", `1`), 6),
	})
	wantStateConflict(t, err, repo.VersionConflictError{Kind: "state", Scope: scope, Name: "y", Expected: 5})
}

func testStateScopeConditions(t *testing.T, r repo.Repositories) {
	scope, other, fresh := shared(), own(t, r), shared()
	at := func(scope repo.Scope, version int64) repo.ScopeVersion {
		return repo.ScopeVersion{Scope: scope, Version: version}
	}
	try := func(conditions ...repo.ScopeVersion) error {
		_, err := r.State().Change(t.Context(), []repo.StateChange{set(scope, "a", `1`)}, conditions...)
		return err
	}
	must(t, 0, try(at(scope, 0), at(fresh, 0), at(other, 0)))
	_, version := readState(t, r, scope)
	wantStateConflict(t, try(at(scope, 0)), repo.VersionConflictError{Kind: "state", Scope: scope, Actual: version})
	must(t, 0, try(at(scope, version)))
	// Scopes that are not changed have conditions too, and are not created by them.
	must(t, 0, try(at(fresh, 0)))
	wantStateConflict(t, try(at(fresh, 5)), repo.VersionConflictError{Kind: "state", Scope: fresh, Expected: 5})
	must(t, 0, try(at(fresh, 0)))
	otherVersion := change(t, r, set(other, "a", `1`))
	wantStateConflict(t, try(at(other, 0)), repo.VersionConflictError{Kind: "state", Scope: other, Actual: otherVersion})
	must(t, 0, try(at(other, otherVersion)))
	if _, got := readState(t, r, other); got != otherVersion {
		t.Errorf("a condition moved a scope from version %d to %d", otherVersion, got)
	}
	if _, got := readState(t, r, scope); got <= version {
		t.Errorf("the version is %d after %d", got, version)
	}
}

func testStateIncrement(t *testing.T, r repo.Repositories) {
	scope := shared()
	for _, step := range []struct {
		by   int64
		want string
	}{
		{0, "0"},
		{5, "5"},
		{-7, "-2"},
		{9223372036854775807, "9223372036854775805"},
		{2, "9223372036854775807"},
		{-9223372036854775808, "-1"},
		{-9223372036854775807, "-9223372036854775808"},
	} {
		version := change(t, r, increment(scope, "n", step.by))
		if got := getState(t, r, scope, "n"); string(got.Value) != step.want || got.Version != version {
			t.Errorf("after %d the value is %s at version %d, want %s at %d", step.by, got.Value, got.Version, step.want, version)
		}
	}
	for _, stored := range []string{"-0", " 41 ", "\t\r\n41\n"} {
		change(t, r, set(scope, "n", stored))
		change(t, r, increment(scope, "n", 1))
		if got := string(getState(t, r, scope, "n").Value); got != "42" && stored != "-0" || stored == "-0" && got != "1" {
			t.Errorf("%q became %s", stored, got)
		}
	}
}

func testStateNotIncremented(t *testing.T, r repo.Repositories) {
	const noInteger, tooFar = "is not a 64-bit integer", "would no longer be a 64-bit integer"
	scope := shared()
	for _, c := range []struct {
		stored string
		by     int64
		reason string
	}{
		{`"1"`, 1, noInteger},
		{`null`, 1, noInteger},
		{`true`, 0, noInteger},
		{`[1]`, 1, noInteger},
		{`{}`, 1, noInteger},
		{`1.0`, 1, noInteger},
		{`1e2`, 1, noInteger},
		{`9223372036854775808`, 0, noInteger},
		{`9223372036854775808`, -1, noInteger},
		{`-9223372036854775809`, 1, noInteger},
		{`9999999999999999999`, -9223372036854775807, noInteger},
		{`12345678901234567890`, 1, noInteger},
		{strings.Repeat("9", 200_000), 1, noInteger},
		{`9223372036854775807`, 1, tooFar},
		{`1`, 9223372036854775807, tooFar},
		{`-9223372036854775808`, -1, tooFar},
		{`-2`, -9223372036854775807, tooFar},
	} {
		change(t, r, set(scope, "n", c.stored))
		_, err := r.State().Change(t.Context(), []repo.StateChange{increment(scope, "n", c.by)})
		if got, ok := wantError[*repo.RefusedError](t, err, repo.ErrConflict); ok {
			wantEqual(t, got, repo.RefusedError{Kind: "state", Scope: scope, Name: "n", Reason: c.reason})
		}
		if got := string(getState(t, r, scope, "n").Value); got != c.stored {
			t.Errorf("%s became %s", brief([]byte(c.stored)), brief([]byte(got)))
		}
	}
}

func testStateRead(t *testing.T, r repo.Repositories) {
	none, err := r.State().Read(t.Context())
	if must(t, none, err); len(none) != 0 {
		t.Errorf("no scopes gave %+v", none)
	}
	full, empty, mine := shared(), shared(), own(t, r)
	version := change(t, r, set(full, "b", `2`), set(full, "a", `1`), set(full, "ä", `3`))
	states, err := r.State().Read(t.Context(), mine, full, empty, full)
	must(t, states, err)
	want := repo.ScopeState{ScopeVersion: repo.ScopeVersion{Scope: full, Version: version}}
	for _, key := range []string{"a", "b", "ä"} {
		want.Values = append(want.Values, getState(t, r, full, key))
	}
	wantSame(t, "state", states, []repo.ScopeState{
		{ScopeVersion: repo.ScopeVersion{Scope: mine}}, want, {ScopeVersion: repo.ScopeVersion{Scope: empty}}, want,
	})
	missing := repo.NewID()
	_, err = r.State().Read(t.Context(), full, repo.Scope{SessionID: missing})
	wantNotFound(t, err, "session", missing)
}

func testStateReadLimits(t *testing.T, r repo.Repositories) {
	wantLimit := func(scopes ...repo.Scope) {
		t.Helper()
		_, err := r.State().Read(t.Context(), scopes...)
		_, _ = wantError[*repo.LimitExceededError](t, err, repo.ErrLimit)
		_, err = r.Sessions().Read(t.Context(), repo.ReadSessions{Scopes: namesOf(scopes)})
		_, _ = wantError[*repo.LimitExceededError](t, err, repo.ErrLimit)
	}
	many, one, empty := shared(), shared(), shared()
	var changes []repo.StateChange
	for i := range limits.MaxStateReadKeys {
		changes = append(changes, set(many, fmt.Sprint("key", i), `1`))
	}
	for part := range slices.Chunk(changes, limits.MaxStateChanges) {
		change(t, r, part...)
	}
	if values, _ := readState(t, r, many); len(values) != limits.MaxStateReadKeys {
		t.Errorf("there are %d keys", len(values))
	}
	must(t, 0, second(r.State().Read(t.Context(), empty, many, empty)))
	must(t, 0, second(r.Sessions().Read(t.Context(), repo.ReadSessions{Scopes: namesOf([]repo.Scope{empty, many, empty})})))
	change(t, r, set(one, "a", `1`))
	wantLimit(many, one)
	wantLimit(one, empty, many)
	change(t, r, set(many, "more", `1`))
	wantLimit(many)
	wantLimit(empty, many)

	large := shared()
	value := `"` + strings.Repeat("x", limits.MaxStateValueBytes-2) + `"`
	const calls, perCall = 9, 7 // 63 MiB and their keys
	for i := range calls {
		changes := make([]repo.StateChange, perCall)
		for j := range changes {
			changes[j] = set(large, fmt.Sprint(i, "/", j), value)
		}
		change(t, r, changes...)
	}
	if values, _ := readState(t, r, large); len(values) != calls*perCall {
		t.Errorf("there are %d keys", len(values))
	}
	must(t, 0, second(r.Sessions().Read(t.Context(), repo.ReadSessions{Scopes: []string{large.Name}})))
	change(t, r, set(large, "last", value))
	wantLimit(large)
	wantLimit(empty, large, one)
	if _, err := r.State().Erase(t.Context(), large.Name); err != nil {
		t.Error(err)
	}
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }

// listState reads a list to its end.
func listState(t *testing.T, r repo.Repositories, scope repo.Scope, prefix string, limit int) []repo.StateValue {
	t.Helper()
	var all []repo.StateValue
	for page := (repo.Page{Limit: limit}); ; {
		got, err := r.State().List(t.Context(), scope, prefix, page)
		if must(t, got, err); limit > 0 && len(got.Values) > limit {
			t.Fatalf("a page has %d keys, the limit is %d", len(got.Values), limit)
		}
		all = append(all, got.Values...)
		if got.Next == "" {
			return all
		}
		page.After = got.Next
	}
}

func keysOf(values []repo.StateValue) []string {
	keys := make([]string, len(values))
	for i, value := range values {
		keys[i] = value.Key
	}
	return keys
}

func testStateList(t *testing.T, r repo.Repositories) {
	for _, scope := range []repo.Scope{shared(), own(t, r)} {
		if got, err := r.State().List(t.Context(), scope, "", repo.Page{}); err != nil || len(got.Values) != 0 || got.Version != 0 || got.Next != "" {
			t.Errorf("an empty scope gave %+v, %v", got, err)
		}
		var changes []repo.StateChange
		var want []string
		for i := range 25 {
			want = append(want, fmt.Sprintf("k%02d", i))
			changes = append(changes, set(scope, want[i], fmt.Sprint(i)))
		}
		version := change(t, r, changes...)
		for _, limit := range []int{1, 7, 24, 25, 26, 0} {
			got := listState(t, r, scope, "", limit)
			if !slices.Equal(keysOf(got), want) {
				t.Errorf("in pages of %d the keys are %q", limit, keysOf(got))
			}
			wantSame(t, "value", got[3], getState(t, r, scope, want[3]))
		}
		page, err := r.State().List(t.Context(), scope, "k1", repo.Page{Limit: 4})
		if must(t, page, err); page.Version != version || !slices.Equal(keysOf(page.Values), want[10:14]) || page.Next == "" {
			t.Errorf("the page is %+v", page)
		}
		// The key with which a page ended may be gone, and others come.
		version = change(t, r, unset(scope, "k13"), set(scope, "k135", `1`), set(scope, "k12x", `1`))
		page, err = r.State().List(t.Context(), scope, "k1", repo.Page{Limit: 3, After: page.Next})
		if must(t, page, err); page.Version != version || !slices.Equal(keysOf(page.Values), []string{"k135", "k14", "k15"}) {
			t.Errorf("the next page is %+v", page)
		}
	}
	missing := repo.NewID()
	_, err := r.State().List(t.Context(), repo.Scope{SessionID: missing}, "", repo.Page{})
	wantNotFound(t, err, "session", missing)
}

// A prefix is compared byte by byte: it is no pattern, and no collation applies.
func testStatePrefixes(t *testing.T, r repo.Repositories) {
	keys := []string{
		"%", "%%", "%a", "_", "_a", "a", "a%", "aZ", "a\\", "a\\%", "a_", "ab", "A", "Ab", "B", "b", "ß", "ä", "ä1", "a\u0308", "Ä", "日本", "日本語",
		"\ud7ff", "\ud7ffx", "\ue000", "\uffff", "\uffffx", "\U00010000", "\U0010ffff", "\U0010ffff\U0010ffff", "\U0010ffffz", "z\U0010ffff", "z\U0010ffff1", "{",
		" ", "\t", "user:", "user:1", "user;", "a.b", "a*", "a?", "a[b]", "'", "\"", "\x7f", "é", "e",
	}
	scope := shared()
	var changes []repo.StateChange
	for _, key := range keys {
		changes = append(changes, set(scope, key, `1`))
	}
	change(t, r, changes...)
	slices.Sort(keys)
	for _, prefix := range append([]string{"", "zz", "a\u0308x", "日", "%_", "user"}, keys...) {
		var want []string
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		for _, limit := range []int{0, 2} {
			if got := keysOf(listState(t, r, scope, prefix, limit)); !slices.Equal(got, want) {
				t.Errorf("with the prefix %q the keys are %q, want %q", prefix, got, want)
			}
		}
	}
	states, err := r.State().Read(t.Context(), scope)
	if must(t, states, err); !slices.Equal(keysOf(states[0].Values), keys) {
		t.Errorf("the keys are %q", keysOf(states[0].Values))
	}
}

func testStateCursors(t *testing.T, r repo.Repositories) {
	scope, other := shared(), shared()
	longest := strings.Repeat("k", limits.MaxStateKeyBytes)
	for _, scope := range []repo.Scope{scope, other} {
		change(t, r, set(scope, "k", `1`), set(scope, longest, `1`), set(scope, "l", `1`))
	}
	page, err := r.State().List(t.Context(), scope, "", repo.Page{Limit: 2})
	must(t, page, err)
	if got, err := r.State().List(t.Context(), scope, "", repo.Page{After: page.Next}); err != nil || len(got.Values) != 1 || got.Values[0].Key != "l" {
		t.Errorf("after the longest key there is %+v, %v", got, err)
	}
	for name, list := range map[string]func() error{
		"another scope":  func() error { return second(r.State().List(t.Context(), other, "", repo.Page{After: page.Next})) },
		"another prefix": func() error { return second(r.State().List(t.Context(), scope, "k", repo.Page{After: page.Next})) },
		"no cursor":      func() error { return second(r.State().List(t.Context(), scope, "", repo.Page{After: "x"})) },
	} {
		t.Run(name, func(t *testing.T) { wantInvalid(t, list(), "page.after") })
	}
	_, err = r.State().List(t.Context(), scope, "", repo.Page{Limit: repo.MaxPageSize + 1})
	wantInvalid(t, err, "limit")
	_, err = r.State().List(t.Context(), scope, "", repo.Page{Limit: -1})
	wantInvalid(t, err, "limit")
}

// erasures returns the ids in the entries that tell that a shared scope with so many keys was
// erased.
func erasures(t *testing.T, r repo.Repositories, keys int) (ids []string) {
	t.Helper()
	told := regexp.MustCompile(fmt.Sprintf(`^\{"entity":"state_scope","id":"([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})","keys":%d\}$`, keys))
	for _, e := range listAll(t, r.Audit(), repo.AuditFilter{Type: events.EntityDeleted, OldestFirst: true}, 100) {
		if match := told.FindSubmatch(e.Details); match != nil {
			ids = append(ids, string(match[1]))
		}
	}
	return ids
}

// setMany sets the keys of a scope and returns its version.
func setMany(t *testing.T, r repo.Repositories, scope repo.Scope, keys int) int64 {
	t.Helper()
	changes := make([]repo.StateChange, keys)
	for i := range changes {
		changes[i] = set(scope, fmt.Sprint(i), `1`)
	}
	return change(t, r, changes...)
}

func testStateErase(t *testing.T, r repo.Repositories) {
	const many = 211 // as no other test erases
	scope, other := repo.Scope{Name: secret + randomName()}, shared()
	setMany(t, r, scope, many)
	change(t, r, set(other, "a", `1`))
	keys, err := r.State().Erase(t.Context(), scope.Name)
	if must(t, keys, err); keys != many {
		t.Errorf("%d keys were erased, want %d", keys, many)
	}
	if values, version := readState(t, r, scope); len(values) != 0 || version != 0 {
		t.Errorf("the state is %v at version %d", values, version)
	}
	wantState(t, r, other, map[string]string{"a": "1"})
	if got := erasures(t, r, many); len(got) != 1 {
		t.Errorf("the audit trail tells of %q", got)
	}
}

// A scope that is made again does not repeat a version.
func testStateSetAgainAfterErase(t *testing.T, r repo.Repositories) {
	scope := shared()
	version := change(t, r, set(scope, "0", `1`), set(scope, "1", `1`))
	_, err := r.State().Erase(t.Context(), scope.Name)
	must(t, scope, err)
	if again := change(t, r, ifVersion(set(scope, "0", `1`), 0)); again <= version {
		t.Errorf("the scope is at version %d, before %d", again, version)
	}
	wantState(t, r, scope, map[string]string{"0": "1"})
}

// Erasing what does not exist changes nothing and leaves no entry. A scope that is made again
// has another id, and another version.
func testStateEraseAgain(t *testing.T, r repo.Repositories) {
	const many = 223 // as no other test erases
	scope := shared()
	versions := map[int64]bool{}
	for range 5 {
		version := setMany(t, r, scope, many)
		if versions[version] {
			t.Errorf("version %d was there twice", version)
		}
		versions[version] = true
		for _, want := range []int64{many, 0, 0} {
			if keys, err := r.State().Erase(t.Context(), scope.Name); keys != want || err != nil {
				t.Errorf("Erase gave %d, %v, want %d", keys, err, want)
			}
		}
	}
	ids := erasures(t, r, many)
	if slices.Sort(ids); len(ids) != 5 || len(slices.Compact(ids)) != 5 {
		t.Errorf("the audit trail tells of %q", ids)
	}
	// A scope whose keys were removed leaves an entry, as in no other test.
	change(t, r, set(scope, "a", `1`))
	change(t, r, unset(scope, "a"))
	if keys, err := r.State().Erase(t.Context(), scope.Name); keys != 0 || err != nil || len(erasures(t, r, 0)) != 1 {
		t.Errorf("Erase gave %d, %v, and the audit trail tells of %q", keys, err, erasures(t, r, 0))
	}
}

// A session's own state is deleted with the session; shared scopes stay.
func testStateSessionDeleted(t *testing.T, r repo.Repositories) {
	scope, kept, other := own(t, r), shared(), own(t, r)
	change(t, r, set(scope, "a", `1`), set(scope, "b", `1`), set(scope, "c", `1`))
	change(t, r, unset(scope, "c"))
	change(t, r, set(kept, "a", `1`))
	change(t, r, set(other, "a", `1`))
	deleted, err := r.Sessions().Delete(t.Context(), scope.SessionID)
	wantSame(t, "deletion", must(t, deleted, err), repo.DeletedSession{StateKeys: 2})
	entries := listAll(t, r.Audit(), repo.AuditFilter{Type: events.EntityDeleted, SessionID: scope.SessionID, OldestFirst: true}, 10)
	if len(entries) != 1 || string(entries[0].Details) != `{"entity":"session","messages":0,"plans":0,"state_keys":2}` {
		t.Errorf("the audit trail tells %+v", entries)
	}
	_, err = r.State().Get(t.Context(), scope, "a")
	wantNotFound(t, err, "session", scope.SessionID)
	wantState(t, r, kept, map[string]string{"a": "1"})
	wantState(t, r, other, map[string]string{"a": "1"})
}

func testStateSessionMissing(t *testing.T, r repo.Repositories) {
	missing := repo.NewID()
	scope := repo.Scope{SessionID: missing}
	_, err := r.State().Get(t.Context(), scope, "a")
	wantNotFound(t, err, "session", missing)
	_, err = r.State().Read(t.Context(), scope)
	wantNotFound(t, err, "session", missing)
	_, err = r.State().Change(t.Context(), []repo.StateChange{set(scope, "a", `1`)})
	wantNotFound(t, err, "session", missing)
	_, err = r.State().Change(t.Context(), []repo.StateChange{set(shared(), "a", `1`)}, repo.ScopeVersion{Scope: scope})
	wantNotFound(t, err, "session", missing)
}

// stateful creates a session with messages and state.
func stateful(t *testing.T, r repo.Repositories) repo.Scope {
	t.Helper()
	id := used(t, r.Sessions())
	scope := repo.Scope{SessionID: id}
	for _, text := range stateValues() {
		change(t, r, set(scope, "key "+randomName(), text))
	}
	change(t, r, set(scope, "\u2028\"\\", `1`), unset(scope, "none"))
	return scope
}

func testStateExport(t *testing.T, r repo.Repositories) {
	scope := stateful(t, r)
	states, err := r.State().Read(t.Context(), scope)
	must(t, states, err)
	wantRoundTrip(t, r.Sessions(), scope.SessionID)
	again, err := r.State().Read(t.Context(), scope)
	wantSame(t, "state", must(t, again, err), states)
	// The imported state is alive.
	if next := change(t, r, set(scope, "a", `1`)); next <= states[0].Version {
		t.Errorf("the version is %d after %d", next, states[0].Version)
	}
	// A scope without keys keeps its version, too.
	empty := own(t, r)
	change(t, r, set(empty, "a", `1`))
	version := change(t, r, unset(empty, "a"))
	wantRoundTrip(t, r.Sessions(), empty.SessionID)
	if values, got := readState(t, r, empty); len(values) != 0 || got != version {
		t.Errorf("the state is %v at version %d, want %d", values, got, version)
	}
	// A session without state has no such member.
	if document := export(t, r.Sessions(), create(t, r.Sessions())); bytes.Contains(document, []byte(`"state"`)) {
		t.Errorf("the document is %s", document)
	}
}

// More than fits a chunk of an import, or the memory of an export.
func testStateExportLong(t *testing.T, r repo.Repositories) {
	scope := own(t, r)
	value := `"` + strings.Repeat("x", 1500) + `"`
	for i := range 3 {
		changes := make([]repo.StateChange, limits.MaxStateChanges)
		for j := range changes {
			changes[j] = set(scope, fmt.Sprintf("%d/%04d", i, j), value)
		}
		change(t, r, changes...)
	}
	wantRoundTrip(t, r.Sessions(), scope.SessionID)
	if got := listState(t, r, scope, "", 1000); len(got) != 3*limits.MaxStateChanges {
		t.Errorf("there are %d keys", len(got))
	}
}

// No import leaves a version to which a change cannot add one, or from which a change makes one
// that no import takes.
func testStateImportedVersion(t *testing.T, r repo.Repositories) {
	largest := time.Now().AddDate(100, 0, 0).UnixMicro()
	for version, accepted := range map[int64]bool{largest: true, largest + 3600e6: false, 1 << 62: false, math.MaxInt64: false} {
		now := time.Now()
		scope := repo.Scope{SessionID: repo.NewID()}
		var document bytes.Buffer
		writer, err := documents.NewWriter(&document, repo.Session{
			ID: scope.SessionID, Namespace: randomName(), Metadata: json.RawMessage(`{}`), CreatedAt: now, UpdatedAt: now,
		}, nil)
		if err == nil {
			err = cmp.Or(writer.BeginState(version), writer.WriteState(repo.StateValue{Key: "a", Value: json.RawMessage(`1`), Version: version, UpdatedAt: now}), writer.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if !accepted {
			_, err := r.Sessions().Import(t.Context(), &document, true)
			wantImportError(t, err)
			if fault, ok := errors.AsType[*repo.ImportError](err); ok && fault.Field != "state.version" {
				t.Errorf("the field is %s", fault.Field)
			}
			continue
		}
		importFrom(t, r.Sessions(), &document)
		if got := change(t, r, increment(scope, "a", 1)); got != version+1 {
			t.Errorf("version %d follows %d", got, version)
		}
		wantState(t, r, scope, map[string]string{"a": "2"})
		wantRoundTrip(t, r.Sessions(), scope.SessionID)
	}
}

func testStateImportFaults(t *testing.T, r repo.Repositories) {
	scope := own(t, r)
	version := change(t, r, set(scope, "aa", `{"x":1}`), set(scope, "bb", `2`))
	document := string(export(t, r.Sessions(), scope.SessionID))
	remove(t, r.Sessions(), scope.SessionID)
	for name, faulty := range map[string]string{
		"value":       strings.Replace(document, `{"x":1}`, `{"x":2}`, 1),
		"twice":       strings.Replace(document, `"bb"`, `"aa"`, 1),
		"order":       strings.Replace(document, `"bb"`, `"a"`, 1),
		"no key":      strings.Replace(document, `"bb"`, `""`, 1),
		"no JSON":     strings.Replace(document, `"value":2`, `"value":x`, 1),
		"no value":    strings.Replace(document, `"value":2`, `"value":`, 1),
		"twice in it": strings.Replace(document, `{"x":1}`, `{"x":1,"x":1}`, 1),
		"version":     strings.Replace(document, fmt.Sprintf(`"state":{"version":%d`, version), fmt.Sprintf(`"state":{"version":%d`, version-1), 1),
		"key version": strings.Replace(document, fmt.Sprintf(`"bb","version":%d`, version), `"bb","version":0`, 1),
		"zero":        strings.Replace(document, fmt.Sprintf(`"state":{"version":%d`, version), `"state":{"version":0`, 1),
		"member":      strings.Replace(document, `"state":{`, `"state":{"x":1,`, 1),
		"removed":     document[:strings.Index(document, `"state"`)] + document[strings.Index(document, `"checksum"`):],
		"cut off":     document[:strings.Index(document, `"bb"`)],
	} {
		if faulty == document {
			t.Fatalf("%s: the document is unchanged: %s", name, document)
		}
		_, err := r.Sessions().Import(t.Context(), strings.NewReader(faulty), true)
		if wantImportError(t, err); err == nil {
			t.Errorf("%s was imported", name)
		}
		_, err = r.Sessions().Get(t.Context(), scope.SessionID)
		wantNotFound(t, err, "session", scope.SessionID)
	}
	importFrom(t, r.Sessions(), strings.NewReader(document))
	wantState(t, r, scope, map[string]string{"aa": `{"x":1}`, "bb": "2"})
}
