package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func define(arguments ...repo.Argument) repo.ActionDefinition {
	return repo.ActionDefinition{Arguments: arguments}
}

func values(pairs ...string) []repo.ArgumentValue {
	var list []repo.ArgumentValue
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, repo.ArgumentValue{Name: pairs[i], Value: json.RawMessage(pairs[i+1])})
	}
	return list
}

func TestArgumentValues(t *testing.T) {
	ab := repo.Argument{Type: repo.ArgumentString, Pattern: "^[ab]+$", Min: ptr(1.0), Max: ptr(3.0)}
	for _, test := range []struct {
		argument repo.Argument
		want     string // the error's; empty: all are accepted
		values   []string
	}{
		{repo.Argument{Type: repo.ArgumentString}, "", []string{`""`, ` "x" `, `"\u00e9😀"`, `"null"`}},
		{repo.Argument{Type: repo.ArgumentString}, "is not a string", []string{`1`, `null`, `true`, `["x"]`, `{}`}},
		{repo.Argument{Type: repo.ArgumentString}, "JSON", []string{``, `x`, `"x`, `"x" "y"`, `'x'`, "\"\x01\""}},
		{ab, "", []string{`"a"`, `"aba"`, `"\u0061"`}},
		{ab, "does not match", []string{`"c"`, `"a\n"`}},
		{ab, "below 1", []string{`""`}},
		{ab, "above 3", []string{`"aaaa"`, `"` + secret + `"`}},
		// Characters, not bytes.
		{repo.Argument{Type: repo.ArgumentString, Max: ptr(2.0)}, "", []string{`"é😀"`}},
		{repo.Argument{Type: repo.ArgumentString, Min: ptr(3.0)}, "below 3", []string{`"é😀"`}},

		{repo.Argument{Type: repo.ArgumentInteger}, "", []string{`0`, `-1`, " 7\n", strconv.Itoa(math.MaxInt64), strconv.Itoa(math.MinInt64)}},
		{repo.Argument{Type: repo.ArgumentInteger}, "is not an integer", []string{`1.0`, `1e3`, `9223372036854775808`, `"1"`, `null`, `true`, `[]`}},
		{repo.Argument{Type: repo.ArgumentInteger}, "JSON", []string{`01`, `+1`, `0x1`, `1_000`, ``}},
		{repo.Argument{Type: repo.ArgumentInteger, Min: ptr(-1.0), Max: ptr(2.0)}, "", []string{`-1`, `0`, `2`}},
		{repo.Argument{Type: repo.ArgumentInteger, Min: ptr(-1.0), Max: ptr(2.0)}, "below -1", []string{`-2`}},
		{repo.Argument{Type: repo.ArgumentInteger, Min: ptr(-1.0), Max: ptr(2.0)}, "above 2", []string{`3`}},

		// A float64 has only even ones above 2^53.
		{repo.Argument{Type: repo.ArgumentInteger, Min: ptr(0x1p53), Max: ptr(0x1p53)}, "", []string{`9007199254740992`}},
		{repo.Argument{Type: repo.ArgumentInteger, Max: ptr(0x1p53)}, "above 9.007", []string{`9007199254740993`}},
		{repo.Argument{Type: repo.ArgumentInteger, Min: ptr(-0x1p53)}, "below -9.007", []string{`-9007199254740993`}},
		{repo.Argument{Type: repo.ArgumentInteger, Min: ptr(-0x1p63), Max: ptr(0x1p63)}, "", []string{strconv.Itoa(math.MaxInt64), strconv.Itoa(math.MinInt64)}},
		{repo.Argument{Type: repo.ArgumentInteger, Min: ptr(0x1p63)}, "below 9.223", []string{strconv.Itoa(math.MaxInt64)}},

		{repo.Argument{Type: repo.ArgumentFloat}, "", []string{`0`, `-1.5`, `1e308`, `1e-999`, ` 2 `}},
		{repo.Argument{Type: repo.ArgumentFloat}, "is not a number", []string{`1e309`, `-1e309`, `"1"`, `null`, `true`, `[]`}},
		{repo.Argument{Type: repo.ArgumentFloat}, "JSON", []string{`NaN`, `Infinity`, `.5`, `1.`}},
		{repo.Argument{Type: repo.ArgumentFloat, Min: ptr(0.5), Max: ptr(0.5)}, "", []string{`0.5`, `5e-1`}},
		{repo.Argument{Type: repo.ArgumentFloat, Min: ptr(0.5)}, "below 0.5", []string{`0.49`, `-1`}},
		{repo.Argument{Type: repo.ArgumentFloat, Max: ptr(0.5)}, "above 0.5", []string{`0.51`}},

		{repo.Argument{Type: repo.ArgumentBoolean}, "", []string{`true`, ` false `}},
		{repo.Argument{Type: repo.ArgumentBoolean}, "is not a boolean", []string{`0`, `1`, `"true"`, `null`, `[]`}},

		{repo.Argument{Type: repo.ArgumentList}, "", []string{`[]`, ` [1, "a", null, {"b":[]}] `, `[1e999]`}},
		{repo.Argument{Type: repo.ArgumentList}, "is not a list", []string{`{}`, `null`, `"[]"`, `0`}},
		{repo.Argument{Type: repo.ArgumentList}, "JSON", []string{`[1,]`, `[`, `[]]`}},
		{repo.Argument{Type: repo.ArgumentList, Min: ptr(1.0), Max: ptr(2.0)}, "", []string{`[null]`, `[1,2]`}},
		{repo.Argument{Type: repo.ArgumentList, Min: ptr(1.0)}, "below 1", []string{`[]`}},
		{repo.Argument{Type: repo.ArgumentList, Max: ptr(2.0)}, "above 2", []string{`[1,2,3]`}},
		{repo.Argument{Type: repo.ArgumentList}, "more than", []string{`["` + strings.Repeat("x", repo.MaxMetadataBytes) + `"]`}},
		{repo.Argument{Type: repo.ArgumentList}, "nest", []string{strings.Repeat("[", 600) + strings.Repeat("]", 600)}},
	} {
		for _, text := range test.values {
			test.argument.Name = "x"
			got, err := rules.Bind(t.Context(), define(test.argument), values("x", text))
			wantInvalid(t, err, fieldIf(test.want, "arguments.x"), test.want)
			if err == nil && (len(got) != 1 || string(got[0].Value) != text) {
				t.Errorf("%s became %v", text, got)
			}
			// The same applies to a default.
			test.argument.Default = json.RawMessage(text)
			_, err = rules.NormalizeDefinition(define(test.argument))
			wantInvalid(t, err, fieldIf(test.want, "arguments[0].default"), test.want)
		}
	}
}

func TestBind(t *testing.T) {
	d := define(
		repo.Argument{Name: "a", Type: repo.ArgumentInteger, Required: true},
		repo.Argument{Name: "b", Type: repo.ArgumentString, Default: json.RawMessage(` "d" `)},
		repo.Argument{Name: "c", Type: repo.ArgumentString},
	)
	for _, test := range []struct{ given, want []repo.ArgumentValue }{
		{values("a", "1"), values("a", "1", "b", ` "d" `)},
		{values("c", `""`, "b", `"x"`, "a", "1"), values("a", "1", "b", `"x"`, "c", `""`)},
	} {
		got, err := rules.Bind(t.Context(), d, test.given)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s became %s, %v", test.given, got, err)
		}
	}
	for _, test := range []struct {
		field, want string
		given       []repo.ArgumentValue
	}{
		{"arguments.a", "is required", nil},
		{"arguments.a", "is required", values("b", `"x"`)},
		{"arguments[1]", "twice", values("a", "1", "a", "1")},
		{"arguments[1]", "is not an argument", values("a", "1", secret, "1")},
		{"arguments[0]", "is not an argument", values("A", "1", "a", "1")},
		{"arguments[0]", "is not an argument", values("", "1", "a", "1")},
		{"arguments.a", "is not an integer", values("a", `"`+secret+`"`)},
	} {
		_, err := rules.Bind(t.Context(), d, test.given)
		wantInvalid(t, err, test.field, test.want)
	}
	if _, err := rules.Bind(t.Context(), repo.ActionDefinition{}, values("a", "1")); err == nil {
		t.Error("an action without arguments takes one")
	}
}

func TestArgumentRules(t *testing.T) {
	check := func(name, field, want string, argument repo.Argument) {
		t.Run(field+"/"+name, func(t *testing.T) {
			_, err := rules.NormalizeDefinition(define(argument))
			wantInvalid(t, err, fieldIf(want, "arguments[0]."+field), want)
		})
	}
	for _, name := range []string{"a", "_", "A9_z", strings.Repeat("n", 100)} {
		check(name, "name", "", repo.Argument{Name: name, Type: repo.ArgumentString})
	}
	for _, name := range []string{"", "9a", "a-b", "a.b", "é", "a b", "a\n", strings.Repeat("n", 101), secret + "!"} {
		check(name, "name", "is not a letter", repo.Argument{Name: name, Type: repo.ArgumentString})
	}
	for _, kind := range []repo.ArgumentType{"", "int", "String", "object"} {
		check(string(kind), "type", "is not string", repo.Argument{Name: "a", Type: kind})
	}
	for name, text := range texts(limits.MaxTextBytes) {
		check(name, "description", text.want, repo.Argument{Name: "a", Type: repo.ArgumentString, Description: text.value})
	}
	for _, kind := range []repo.ArgumentType{"string", "integer", "float", "list"} {
		argument := repo.Argument{Name: "a", Type: kind, Min: ptr(-1.5), Max: ptr(-1.5)}
		check(string(kind), "min", "", argument)
		argument.Max = ptr(-2.0)
		check(string(kind), "min", "is above max", argument)
		for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			check(string(kind), "min", "is not a finite", repo.Argument{Name: "a", Type: kind, Min: &f})
			check(string(kind), "max", "is not a finite", repo.Argument{Name: "a", Type: kind, Max: &f})
		}
		pattern := "only a string"
		if kind == repo.ArgumentString {
			pattern = ""
		}
		check(string(kind), "pattern", pattern, repo.Argument{Name: "a", Type: kind, Pattern: "x"})
	}
	check("boolean", "min", "no bounds", repo.Argument{Name: "a", Type: repo.ArgumentBoolean, Min: ptr(0.0)})
	check("boolean", "max", "no bounds", repo.Argument{Name: "a", Type: repo.ArgumentBoolean, Max: ptr(0.0)})
	for pattern, want := range map[string]string{
		"(": "regular expression", "a{2,1}": "regular expression", `(?=x)`: "regular expression", `\1`: "regular expression",
		"\x00": "NUL", "\xff": "UTF-8", strings.Repeat("a", 1000): "", strings.Repeat("a", 1001): "more than",
		"x{1000}": "", strings.Repeat("x{1000}", 10): "more than 10000 instructions", "(.{0,99}){10}{10}": "regular expression",
		secret + "(": "regular expression",
	} {
		check(pattern, "pattern", want, repo.Argument{Name: "a", Type: repo.ArgumentString, Pattern: pattern})
	}
	check("required", "default", "is required", repo.Argument{Name: "a", Type: repo.ArgumentBoolean, Required: true, Default: json.RawMessage("true")})

	_, err := rules.NormalizeDefinition(define(repo.Argument{Name: "a", Type: "string"}, repo.Argument{Name: "b", Type: "string"}, repo.Argument{Name: "a", Type: "list"}))
	wantInvalid(t, err, "arguments[2].name", "twice")
	many := make([]repo.Argument, limits.MaxArguments+1)
	for i := range many {
		many[i] = repo.Argument{Name: "a" + strconv.Itoa(i), Type: repo.ArgumentString}
	}
	_, err = rules.NormalizeDefinition(define(many[1:]...))
	wantInvalid(t, err, "", "")
	_, err = rules.NormalizeDefinition(define(many...))
	wantInvalid(t, err, "arguments", "more than")
}

// The length is looked at before the pattern, and what a pattern costs is bounded, however it is
// written: the bytes of a text times the instructions.
func TestPatternCosts(t *testing.T) {
	long := func(count int) string { return `"` + strings.Repeat("x", count) + `"` }
	slow := repo.Argument{Name: "a", Type: repo.ArgumentString, Pattern: "(.?){1000}y"}
	bounded := slow
	bounded.Max = ptr(10.0)
	plain := repo.Argument{Name: "a", Type: repo.ArgumentString, Pattern: "^x+$"}
	begun := time.Now()
	for _, test := range []struct {
		argument repo.Argument
		value    string
		want     string
	}{
		{slow, long(1_000_000), "is too long for the pattern"},
		{slow, long(4000), "does not match"},
		{bounded, long(1_000_000), "above 10"},
		{repo.Argument{Name: "a", Type: repo.ArgumentString, Pattern: strings.Repeat("x{1000}", 100)}, `"x"`, "is too long for the pattern"},
		{plain, long(1_000_000), ""},
	} {
		_, err := rules.Bind(t.Context(), define(test.argument), values("a", test.value))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %s", test.argument.Pattern, err, test.want)
		}
	}
	// Together, too.
	var arguments []repo.Argument
	var given []string
	for i := range limits.MaxArguments {
		argument := slow
		argument.Name = "a" + strconv.Itoa(i)
		argument.Pattern = "(.?){1000}"
		arguments, given = append(arguments, argument), append(given, argument.Name, long(4000))
	}
	_, err := rules.Bind(t.Context(), define(arguments...), values(given...))
	wantInvalid(t, err, "arguments.a1", "the ones before it")
	if _, err := rules.Bind(t.Context(), define(arguments...), values(given[:2]...)); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rules.Bind(ended, define(arguments...), values(given...)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	t.Logf("it took %v", time.Since(begun))
}
