package jsonvalue_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

// An accepted object is JSON. Its canonical form is accepted, means the same to
// another decoder, and is its own canonical form.
func FuzzCheckObject(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` {"b":[1.0,-0,1e5,null,true,false],"a":{"\u0061":"\ud83d\ude00"}} `, `{"a":"\u0000"}`, `{"a":"\ud83d"}`,
		`{"a":1,"a":2}`, "{\"a\":\"\xff\"}", `{"a":[[[[[[[[[]]]]]]]]]}`, `[]`, `{"a":"\\\"\b\f\n\r\t\/"}`, `{"a":01}`, `{"é":"` + "\u2028" + `"}`,
		`{"\ud83d\ude00":1,"\uffee":2}`, `{"a":12345678901234567890.123e400}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		err := jsonvalue.CheckObject(raw, depth)
		if !bytes.Equal(raw, before) {
			t.Fatal("the argument was changed")
		}
		if json.Valid(raw) && bytes.HasPrefix(raw, []byte("{")) && nameTwice(raw) && err == nil {
			t.Fatalf("a name stands twice: %q", raw)
		}
		if err != nil {
			if strings.Contains(err.Error(), "twice") && !nameTwice(raw) {
				t.Fatalf("no name stands twice: %q", raw)
			}
			if json.Valid(raw) && strings.Contains(err.Error(), "not valid JSON") {
				t.Fatalf("valid JSON refused as invalid: %q", raw)
			}
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("accepted what is not JSON: %q", raw)
		}
		canonical, err := jsonvalue.AppendCanonical(nil, raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := jsonvalue.CheckObject(canonical, depth); err != nil {
			t.Fatalf("the canonical form %q of %q: %v", canonical, raw, err)
		}
		if again, err := jsonvalue.AppendCanonical(nil, canonical); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("the canonical form of %q is %q, not itself: %v", canonical, again, err)
		}
		if !jsonvalue.Equal(raw, canonical) {
			t.Fatalf("%q and its canonical form differ", raw)
		}
		if a, b := decoded(t, raw), decoded(t, canonical); !reflect.DeepEqual(a, b) {
			t.Fatalf("%q became %q", raw, canonical)
		}
	})
}

// nameTwice finds duplicate names in another way: with the tokens of encoding/json.
func nameTwice(raw []byte) bool {
	type level struct {
		names   map[string]bool // nil for an array
		atValue bool
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	levels := []level{{}}
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		top := &levels[len(levels)-1]
		if name, isString := token.(string); isString && top.names != nil && !top.atValue {
			if top.names[name] {
				return true
			}
			top.names[name], top.atValue = true, true
			continue
		}
		switch token {
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
			continue
		}
		top.atValue = false
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
}

func decoded(t *testing.T, raw []byte) (value any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

var benchObject = []byte(`{"model":"gpt-5","usage":{"in":120,"out":31},"tags":["a","b"]}`)

func BenchmarkCheckObject(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := jsonvalue.CheckObject(benchObject, 512); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendCanonical(b *testing.B) {
	b.ReportAllocs()
	var buffer []byte
	for b.Loop() {
		var err error
		if buffer, err = jsonvalue.AppendCanonical(buffer[:0], benchObject); err != nil {
			b.Fatal(err)
		}
	}
}
