package repotest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// stateValues are values that must be kept byte for byte.
func stateValues() []string {
	return append([]string{
		`0`, `-0`, `1.10`, `1e400`, `-1E+2`, `12345678901234567890123`, `true`, `false`, `null`, `""`, `[]`, ` [ 1 , 2 ] `, "\n\t{}\r\n", `"\u00e4ä\/"`, `"😀"`,
		`[[],{}]`, strings.Repeat("[", limits.MaxJSONDepth) + strings.Repeat("]", limits.MaxJSONDepth),
	}, objects()...)
}

func testStateValues(t *testing.T, r repo.Repositories) {
	scope := shared()
	values := append(stateValues(), `"`+strings.Repeat("x", limits.MaxStateValueBytes-2)+`"`, strings.Repeat(" ", limits.MaxStateValueBytes-1)+"1")
	for i, value := range values {
		key := fmt.Sprint(i)
		change(t, r, set(scope, key, value))
		if got := string(getState(t, r, scope, key).Value); got != value {
			t.Errorf("%s is stored as %s", brief([]byte(value)), brief([]byte(got)))
		}
	}
	for _, got := range listState(t, r, scope, "", 5) {
		if !slices.Contains(values, string(got.Value)) {
			t.Errorf("the list has %s", brief(got.Value))
		}
	}
}

func testStateInvalidValues(t *testing.T, r repo.Repositories) {
	scope := shared()
	for name, value := range map[string]string{
		"none":           ``,
		"space":          ` `,
		"limit":          `"` + strings.Repeat("x", limits.MaxStateValueBytes-1) + `"`,
		"no JSON":        `{`,
		"two":            `1 2`,
		"twice":          `{"a":1,"b":{"c":1,"c":2}}`,
		"twice escaped":  `[{"a":1,"\u0061":2}]`,
		"deep":           strings.Repeat("[", limits.MaxJSONDepth+1) + strings.Repeat("]", limits.MaxJSONDepth+1),
		"NUL":            `"\u0000"`,
		"half a pair":    `["\ud83d"]`,
		"invalid UTF-8":  "\"\xff\"",
		"leading zero":   `01`,
		"not a number":   `NaN`,
		"trailing comma": `[1,]`,
	} {
		_, err := r.State().Change(t.Context(), []repo.StateChange{set(scope, "a", `1`), set(scope, "b", value)})
		if wantInvalid(t, err, "changes[1].value"); t.Failed() {
			t.Fatal(name)
		}
	}
	_, err := r.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "a"}})
	wantInvalid(t, err, "changes[0].value")
	wantState(t, r, scope, map[string]string{})
}

func testStateKeys(t *testing.T, r repo.Repositories) {
	scope := shared()
	keys := append([]string{"a", strings.Repeat("k", limits.MaxStateKeyBytes), strings.Repeat("ä", limits.MaxStateKeyBytes/2)}, texts()...)
	for i, key := range keys {
		change(t, r, set(scope, key, fmt.Sprint(i)))
		if got := getState(t, r, scope, key); got.Key != key || string(got.Value) != fmt.Sprint(i) {
			t.Errorf("the key %q has %+v", key, got)
		}
		named := repo.Scope{Name: key}
		change(t, r, set(named, key, fmt.Sprint(i)))
		wantState(t, r, named, map[string]string{key: fmt.Sprint(i)})
	}
	invalid := append([]string{strings.Repeat("k", limits.MaxStateKeyBytes+1), strings.Repeat("ä", limits.MaxStateKeyBytes/2) + "x"}, invalidTexts()...)
	for _, key := range append(invalid, "") {
		_, err := r.State().Change(t.Context(), []repo.StateChange{set(scope, key, `1`)})
		wantInvalid(t, err, "changes[0].key")
		_, err = r.State().Get(t.Context(), scope, key)
		wantInvalid(t, err, "key")
	}
	for _, text := range invalid {
		_, err := r.State().List(t.Context(), scope, text, repo.Page{})
		wantInvalid(t, err, "prefix")
		named := repo.Scope{Name: text}
		_, err = r.State().Change(t.Context(), []repo.StateChange{set(named, "a", `1`)})
		wantInvalid(t, err, "changes[0].scope.name")
		_, err = r.State().Change(t.Context(), []repo.StateChange{set(scope, "a", `1`)}, repo.ScopeVersion{Scope: named})
		wantInvalid(t, err, "conditions[0].scope.name")
		_, err = r.State().Get(t.Context(), named, "a")
		wantInvalid(t, err, "scope.name")
		_, err = r.State().Read(t.Context(), scope, named)
		wantInvalid(t, err, "scopes[1].name")
		_, err = r.State().List(t.Context(), named, "", repo.Page{})
		wantInvalid(t, err, "scope.name")
		_, err = r.State().Erase(t.Context(), text)
		wantInvalid(t, err, "scope_name")
	}
}

// Keys and names that look alike are different.
func testStateLookAlikes(t *testing.T, r repo.Repositories) {
	scope := shared()
	alike := []string{"key", "KEY", "Key", "kеy", "key ", " key", "kéy", "ke\u0301y", "k\u200bey", "ｋｅｙ", "key\n", "key\x00"[:3] + "\x01"}
	want := map[string]string{}
	var changes []repo.StateChange
	for i, key := range alike {
		want[key] = fmt.Sprint(i)
		changes = append(changes, set(scope, key, want[key]), set(repo.Scope{Name: scope.Name + key}, "a", want[key]))
	}
	versions, err := r.State().Change(t.Context(), changes)
	if must(t, versions, err); len(versions) != 1+len(alike) {
		t.Errorf("%d scopes were changed", len(versions))
	}
	wantState(t, r, scope, want)
	for _, key := range alike {
		wantState(t, r, repo.Scope{Name: scope.Name + key}, map[string]string{"a": want[key]})
	}
}

func testStateInvalid(t *testing.T, r repo.Repositories) {
	scope := shared()
	both := repo.Scope{SessionID: create(t, r.Sessions()), Name: "x"}
	value := json.RawMessage(`1`)
	for field, changes := range map[string][]repo.StateChange{
		"changes":               {},
		"changes[0].scope":      {set(repo.Scope{}, "a", `1`)},
		"changes[1].scope":      {set(scope, "a", `1`), set(both, "a", `1`)},
		"changes[0].op":         {{Scope: scope, Key: "a", Op: "add", Value: value}},
		"changes[0].value":      {{Scope: scope, Key: "a", Op: repo.StateRemove, Value: value}},
		"changes[1].value":      {set(scope, "a", `1`), {Scope: scope, Key: "b", Op: repo.StateIncrement, By: 1, Value: value}},
		"changes[0].by":         {{Scope: scope, Key: "a", Value: value, By: 1}},
		"changes[0].at_most":    {{Scope: scope, Key: "a", Value: value, AtMost: ptr(int64(0))}},
		"changes[0].at_least":   {{Scope: scope, Key: "a", Op: repo.StateRemove, AtLeast: ptr(int64(0))}},
		"changes[1].at_most":    {set(scope, "a", `1`), within(increment(scope, "b", 0), 1, 0)},
		"changes[0].if_version": {ifVersion(set(scope, "a", `1`), -1)},
	} {
		_, err := r.State().Change(t.Context(), changes)
		wantInvalid(t, err, field)
	}
	// One key may not be changed twice.
	_, err := r.State().Change(t.Context(), []repo.StateChange{set(scope, "a", `1`), set(scope, "b", `1`), unset(scope, "a")})
	wantInvalid(t, err, "changes")
	try := func(conditions ...repo.ScopeVersion) error {
		return second(r.State().Change(t.Context(), []repo.StateChange{set(scope, "a", `1`)}, conditions...))
	}
	wantInvalid(t, try(repo.ScopeVersion{Scope: scope, Version: -1}), "conditions[0].version")
	wantInvalid(t, try(repo.ScopeVersion{}), "conditions[0].scope")
	wantInvalid(t, try(repo.ScopeVersion{Scope: scope}, repo.ScopeVersion{Scope: scope}), "conditions")
	_, err = r.State().Get(t.Context(), repo.Scope{}, "a")
	wantInvalid(t, err, "scope")
	_, err = r.State().Read(t.Context(), scope, both)
	wantInvalid(t, err, "scopes[1]")
	_, err = r.State().List(t.Context(), both, "", repo.Page{})
	wantInvalid(t, err, "scope")
	_, err = r.State().Erase(t.Context(), "")
	wantInvalid(t, err, "scope_name")
	if values, version := readState(t, r, scope); len(values) != 0 || version != 0 {
		t.Errorf("the state is %v at version %d", values, version)
	}
}

func testStateLimits(t *testing.T, r repo.Repositories) {
	many := func(count int, scope func(int) repo.Scope) []repo.StateChange {
		changes := make([]repo.StateChange, count)
		for i := range changes {
			changes[i] = increment(scope(i), fmt.Sprint(i), 1)
		}
		return changes
	}
	one := shared()
	same := func(int) repo.Scope { return one }
	change(t, r, many(limits.MaxStateChanges, same)...)
	_, err := r.State().Change(t.Context(), many(limits.MaxStateChanges+1, same))
	wantInvalid(t, err, "changes")

	another := func(i int) repo.Scope { return repo.Scope{Name: fmt.Sprint(one.Name, i)} }
	versions, err := r.State().Change(t.Context(), many(limits.MaxStateScopes, another))
	if must(t, versions, err); len(versions) != limits.MaxStateScopes {
		t.Errorf("%d scopes were changed", len(versions))
	}
	conditions := make([]repo.ScopeVersion, limits.MaxStateScopes)
	scopes := make([]repo.Scope, limits.MaxStateScopes+1)
	for i := range scopes {
		scopes[i] = another(-i)
	}
	for i := range conditions {
		conditions[i].Scope = scopes[i+1]
	}
	_, err = r.State().Change(t.Context(), many(1, same), conditions...)
	wantInvalid(t, err, "changes") // and conditions, together
	_, err = r.State().Change(t.Context(), many(1, same), append(conditions, repo.ScopeVersion{Scope: shared()})...)
	wantInvalid(t, err, "conditions")
	_, err = r.State().Read(t.Context(), scopes...)
	wantInvalid(t, err, "scopes")

	large := make([]repo.StateChange, 65)
	for i := range large {
		large[i] = set(one, fmt.Sprint(i), `"`+strings.Repeat("x", limits.MaxStateValueBytes-2)+`"`)
	}
	_, err = r.State().Change(t.Context(), large)
	wantInvalid(t, err, "changes")
}
