package jsonvalue_test

import (
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

const depth = 8

func TestCheckObjectAccepts(t *testing.T) {
	for name, raw := range map[string]string{
		"empty":                      `{}`,
		"white space":                " \t\r\n{ \n} ",
		"every kind of value":        `{"a":null,"b":true,"c":false,"d":-1.5e+10,"e":"x","f":[],"g":{}}`,
		"huge numbers":               `{"a":12345678901234567890.123e400,"b":1E-9999,"c":-0}`,
		"a pair":                     `{"a":"\ud83d\ude00"}`,
		"a pair in capitals":         `{"a":"\uD83D\uDE00"}`,
		"two pairs":                  `{"a":"\ud83d\ude00\ud83d\ude00"}`,
		"a pair in a name":           `{"\ud83d\ude00":1}`,
		"an escaped backslash":       `{"a":"\\u0000","b":"\\\\ud83d"}`,
		"unicode":                    `{"é":"你好😀` + "\u2028" + `"}`,
		"replacement character":      "{\"a\":\"\uFFFD\\ufffd\"}",
		"an empty name":              `{"":1}`,
		"names differing in case":    `{"a":1,"A":2}`,
		"one name in two objects":    `{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}`,
		"a name equal to a value":    `{"a":"a","b":["a","a"]}`,
		"brackets in strings":        `{"}":"{[","]":"]}"}`,
		"as deep as may be":          strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		"as deep as may be, arrays":  `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}",
		"wide, not deep":             `{"a":[` + strings.Repeat("[],", 100) + `{}]}`,
		"a control character, named": `{"a":"\u0001\b\f\n\r\t\/\""}`,
		"delete":                     "{\"a\":\"\x7f\"}",
	} {
		if err := jsonvalue.CheckObject([]byte(raw), depth); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckObjectRefuses(t *testing.T) {
	for name, test := range map[string]struct{ raw, want string }{
		"nothing":                  {"", "not valid JSON"},
		"white space":              {" \n", "not valid JSON"},
		"null":                     {"null", "not a JSON object"},
		"an array":                 {` [{"SECRET":1}]`, "not a JSON object"},
		"a string":                 {`"SECRET"`, "not a JSON object"},
		"a number":                 {"1", "not a JSON object"},
		"two objects":              {"{}{}", "not valid JSON"},
		"cut off":                  {`{"SECRET":`, "not valid JSON"},
		"trailing comma":           {`{"SECRET":1,}`, "not valid JSON"},
		"a comment":                {`{}/*SECRET*/`, "not valid JSON"},
		"single quotes":            {`{'SECRET':1}`, "not valid JSON"},
		"NaN":                      {`{"SECRET":NaN}`, "not valid JSON"},
		"leading zero":             {`{"SECRET":01}`, "not valid JSON"},
		"a bare dot":               {`{"SECRET":1.}`, "not valid JSON"},
		"a plus":                   {`{"SECRET":+1}`, "not valid JSON"},
		"a raw newline":            {"{\"SECRET\":\"\n\"}", "not valid JSON"},
		"an unknown escape":        {`{"SECRET":"\x41"}`, "not valid JSON"},
		"three digits":             {`{"SECRET":"\u041"}`, "not valid JSON"},
		"another white space":      {"{\u00a0}", "not valid JSON"},
		"a byte order mark":        {"\ufeff{}", "not valid JSON"},
		"invalid UTF-8":            {"{\"SECRET\":\"\xff\"}", "not valid UTF-8"},
		"a surrogate in UTF-8":     {"{\"SECRET\":\"\xed\xa0\x80\"}", "not valid UTF-8"},
		"NUL":                      {`{"SECRET":"a\u0000b"}`, `\u0000`},
		"NUL in a name":            {`{"SECRET\u0000":1}`, `\u0000`},
		"NUL after a backslash":    {`{"SECRET":"\\\u0000"}`, `\u0000`},
		"a high half":              {`{"SECRET":"\ud83d"}`, "half a surrogate pair"},
		"a high half and text":     {`{"SECRET":"\ud83dabcdef"}`, "half a surrogate pair"},
		"a high half and an n":     {`{"SECRET":"\ud83d\nabcdef"}`, "half a surrogate pair"},
		"a high half and a letter": {`{"SECRET":"\ud83d\u0041"}`, "half a surrogate pair"},
		"two high halves":          {`{"SECRET":"\ud83d\ud83d\ude00"}`, "half a surrogate pair"},
		"a low half":               {`{"SECRET":"\ude00"}`, "half a surrogate pair"},
		"a pair the wrong way":     {`{"SECRET":"\ude00\ud83d"}`, "half a surrogate pair"},
		"a pair and a half":        {`{"SECRET":"\ud83d\ude00\ude00"}`, "half a surrogate pair"},
		"a half in a name":         {`{"SECRET\udfff":1}`, "half a surrogate pair"},
		"a name twice":             {`{"SECRET":1,"b":2,"SECRET":1}`, "twice"},
		"a name twice, escaped":    {`{"SECRET":1,"\u0053ECRET":1}`, "twice"},
		"a name twice, deep":       {`{"a":[{"b":{"SECRET":[],"SECRET":{}}}]}`, "twice"},
		"an empty name twice":      {`{"":1,"":1}`, "twice"},
		"too deep":                 {strings.Repeat(`{"SECRET":`, depth+1) + "1" + strings.Repeat("}", depth+1), "deeper than 8 levels"},
		"too deep, arrays":         {`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}", "deeper than 8 levels"},
		"a million brackets":       {`{"a":` + strings.Repeat("[", 1_000_000), "is "},
		"a million levels":         {`{"a":` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + "}", "is "},
	} {
		err := jsonvalue.CheckObject([]byte(test.raw), depth)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error repeats content: %v", name, err)
		}
	}
}

// An object has many members, so that a quadratic search would be noticed.
func TestCheckObjectWithManyMembers(t *testing.T) {
	var raw strings.Builder
	raw.WriteString(`{"first":0`)
	for i := range 100_000 {
		raw.WriteString(`,"`)
		for ; i > 0; i /= 26 {
			raw.WriteByte('a' + byte(i%26))
		}
		raw.WriteString(`_":0`)
	}
	// The names are numbers in base 26, lowest digit first. None has a highest
	// digit of zero, so they are distinct.
	if err := jsonvalue.CheckObject([]byte(raw.String()+"}"), depth); err != nil {
		t.Error(err)
	}
	if err := jsonvalue.CheckObject([]byte(raw.String()+`,"first":1}`), depth); err == nil {
		t.Error("the member at both ends was not found")
	}
}
