package jsonvalue_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

func TestAppendCanonical(t *testing.T) {
	for name, test := range map[string]struct{ raw, want string }{
		"empty":              {`{}`, `{}`},
		"white space":        {" { \"a\" : [ 1 , { } , [ ] ] } \n", `{"a":[1,{},[]]}`},
		"members":            {`{"b":1,"a":2,"":0,"B":3,"aa":4}`, `{"":0,"B":3,"a":2,"aa":4,"b":1}`},
		"members, deep":      {`{"x":[{"b":1,"a":{"d":1,"c":2}}]}`, `{"x":[{"a":{"c":2,"d":1},"b":1}]}`},
		"names in bytes":     {`{"😀":1,"\uffee":2,"é":3,"z":4}`, `{"z":4,"é":3,"` + "\uffee" + `":2,"😀":1}`},
		"sorted as they are": {`{"\"":1,"!":2,"#":3,"\n":4}`, `{"\n":4,"!":2,"\"":1,"#":3}`},
		"arrays keep order":  {`{"a":[3,1,2]}`, `{"a":[3,1,2]}`},
		"numbers as written": {`{"a":[1,1.0,1e0,1E+0,-0,12345678901234567890.123e400]}`, `{"a":[1,1.0,1e0,1E+0,-0,12345678901234567890.123e400]}`},
		"literals":           {`{"a":[true,false,null]}`, `{"a":[true,false,null]}`},
		"fewest escapes":     {`{"a":"\u0041\/\u00e9\ud83d\ude00\u007f<>&"}`, `{"a":"A/é😀` + "\x7f" + `<>&"}`},
		"one escape":         {`{"a":"\u2028\u2029` + "\u2028" + `"}`, `{"a":"\u2028\u2029\u2028"}`},
		"needed escapes":     {`{"a":"\u0022\\\u0008\u000C\u000a\u000d\u0009\u0001\u001F"}`, `{"a":"\"\\\b\f\n\r\t\u0001\u001f"}`},
	} {
		got, err := jsonvalue.AppendCanonical([]byte("before:"), []byte(test.raw))
		if err != nil || string(got) != "before:"+test.want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, test.want)
		}
	}
}

func TestAppendCanonicalRefuses(t *testing.T) {
	for _, raw := range []string{"", "{", `{"SECRET":}`, `{"SECRET"`} {
		if got, err := jsonvalue.AppendCanonical(nil, []byte(raw)); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: got %q, %v", raw, got, err)
		}
	}
}

func TestEqual(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`{}`, `{}`, true},
		{`{}`, ` { } `, true},
		{`{"a":1,"b":[{"c":1,"d":2}]}`, "{\"b\":[{\"d\":2, \"c\":1}],\n\"\\u0061\":1}", true},
		{`{"a":"é/"}`, `{"a":"\u00E9\/"}`, true},
		{`{"a":1}`, `{"a":1.0}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{`{"a":null}`, `{}`, false},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":{}}`, `{"a":[]}`, false},
		{`{"a":1}`, `{"A":1}`, false},
		{`{"a":"{}"}`, `{"a":{}}`, false},
		{`{"a":1}`, `{"a":1`, false},
	} {
		a, b := []byte(test.a), []byte(test.b)
		if jsonvalue.Equal(a, b) != test.want || jsonvalue.Equal(b, a) != test.want {
			t.Errorf("Equal(%s, %s) is not %v", a, b, test.want)
		}
	}
}

func TestAppendString(t *testing.T) {
	var all strings.Builder
	for r := range rune(0x300) {
		all.WriteRune(r)
	}
	all.WriteString("\u2028\uFFFD\U0010FFFF")
	got := jsonvalue.AppendString([]byte("x"), all.String())
	var back string
	if err := json.Unmarshal(got[1:], &back); err != nil || back != all.String() {
		t.Errorf("came back as %q, %v", back, err)
	}
	if n := jsonvalue.LenString(all.String()); n != len(got)-1 {
		t.Errorf("it has %d bytes, not %d", len(got)-1, n)
	}
	if string(jsonvalue.AppendString(nil, "")) != `""` {
		t.Error("the empty string")
	}
}
