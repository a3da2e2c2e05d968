package jsonvalue_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

func TestMerge(t *testing.T) {
	for name, test := range map[string]struct{ object, patch, want string }{
		"nothing":                {` { "a" : 1.0 } `, `{}`, ` { "a" : 1.0 } `},
		"change":                 {`{ "a" : 1 , "b" : 2.50 }`, `{"a":3}`, `{ "a" : 3 , "b" : 2.50 }`},
		"add":                    {`{ "a" : 1 }`, `{"c":[ 1, null ], "b":"x"}`, `{ "a" : 1,"c":[ 1, null ],"b":"x" }`},
		"add to nothing":         {`{}`, `{"a":1}`, `{"a":1}`},
		"add to white space":     {`{ }`, `{"a":1}`, `{"a":1 }`},
		"remove the first":       {`{"a":1, "b":2, "c":3}`, `{"a":null}`, `{ "b":2, "c":3}`},
		"remove one between":     {`{"a":1, "b":2, "c":3}`, `{"b":null}`, `{"a":1, "c":3}`},
		"remove the last":        {`{"a":1, "b":2, "c":3}`, `{"c":null}`, `{"a":1, "b":2}`},
		"remove all":             {`{"a":1,"b":{"c":2}}`, `{"b":null,"a":null}`, `{}`},
		"remove what is missing": {`{"a":1}`, `{"b":null}`, `{"a":1}`},
		"remove and add":         {`{"a":1}`, `{"a":null,"b":2}`, `{"b":2}`},
		"nested":                 {`{"a":{ "b" : 1, "c":2 },"d":3}`, `{"a":{"c":null,"e":4}}`, `{"a":{ "b" : 1,"e":4 },"d":3}`},
		"an object over a value": {`{"a":1}`, `{"a":{"b":null,"c":{"d":null,"e":1}}}`, `{"a":{"c":{"e":1}}}`},
		"a value over an object": {`{"a":{"b":1}}`, `{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`},
		"an array is replaced":   {`{"a":[1,2]}`, `{"a":[3]}`, `{"a":[3]}`},
		"a name with escapes":    {`{"\u0061":1,"é":2}`, `{"a":3,"\u00e9":null}`, `{"\u0061":3}`},
		"brackets in strings":    {`{"a":"}]\"","b":1}`, `{"b":2}`, `{"a":"}]\"","b":2}`},
		"an empty name":          {`{"":1}`, `{"":null}`, `{}`},
		"numbers as written":     {`{"a":1e400,"b":-0}`, `{"c":1.00}`, `{"a":1e400,"b":-0,"c":1.00}`},
	} {
		object, patch := []byte(test.object), []byte(test.patch)
		got, err := jsonvalue.Merge([]byte("before:"), object, patch)
		if err != nil || string(got) != "before:"+test.want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, test.want)
		}
		if string(object) != test.object || string(patch) != test.patch {
			t.Errorf("%s: an argument was changed", name)
		}
	}
	if _, err := jsonvalue.Merge(nil, []byte(`{"SECRET"`), []byte(`{}`)); err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("an object that is not JSON: %v", err)
	}
}

// Both are nested as deeply as they may be and a megabyte long.
func TestMergeDeep(t *testing.T) {
	const depth = 512
	nested := func(value string) []byte {
		return []byte(strings.Repeat(`{"a":`, depth) + value + strings.Repeat("}", depth))
	}
	got, err := jsonvalue.Merge(nil, nested(`"`+strings.Repeat("x", 1<<20)+`"`), nested(`"`+strings.Repeat("y", 1<<20)+`"`))
	if err != nil || !bytes.Equal(got, nested(`"`+strings.Repeat("y", 1<<20)+`"`)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// The result means what RFC 7396 says, which a few lines on decoded values do.
func FuzzMerge(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":null}`, ` { "a" : { "b" : [ 1 ] } , "c" : "d" } `, `{"a":{"b":null,"c":1}}`, `{"\u0061":1.0,"b":{}}`} {
		for _, other := range []string{`{}`, `{"a":{"b":{"c":null}},"c":null}`, `{"a":1,"d":{"e":null}}`} {
			f.Add([]byte(seed), []byte(other))
		}
	}
	f.Fuzz(func(t *testing.T, object, patch []byte) {
		if jsonvalue.CheckObject(object, depth) != nil || jsonvalue.CheckObject(patch, depth) != nil {
			return
		}
		got, err := jsonvalue.Merge(nil, object, patch)
		if err != nil {
			t.Fatal(err)
		}
		if err := jsonvalue.CheckObject(got, depth); err != nil {
			t.Fatalf("%q and %q gave %q: %v", object, patch, got, err)
		}
		if got, want := decoded(t, got), merged(decoded(t, object), decoded(t, patch)); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q and %q gave %v, want %v", object, patch, got, want)
		}
		// A patch that repeats the object's own members changes nothing.
		if !bytes.Contains(object, []byte("null")) {
			var members map[string]json.RawMessage
			if err := json.Unmarshal(object, &members); err != nil {
				t.Fatal(err)
			}
			for name, value := range members {
				same, err := jsonvalue.Merge(nil, object, append(append(append([]byte("{"), jsonvalue.AppendString(nil, name)...), ':'), append(value, '}')...))
				if err != nil || !bytes.Equal(same, object) && !bytes.Contains(value, []byte("{")) {
					t.Fatalf("%q with its own %q became %q, %v", object, name, same, err)
				}
			}
		}
	})
}

// merged is the function of RFC 7396, section 2.
func merged(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	members, ok := target.(map[string]any)
	if !ok {
		members = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(members, name)
		} else {
			members[name] = merged(members[name], value)
		}
	}
	return members
}
