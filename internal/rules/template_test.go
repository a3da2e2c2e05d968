package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// every is a definition with an argument of each type, named by its letter.
func every(template string) repo.ActionDefinition {
	return repo.ActionDefinition{DefinitionOfDone: template, Arguments: []repo.Argument{
		{Name: "s", Type: repo.ArgumentString},
		{Name: "i", Type: repo.ArgumentInteger},
		{Name: "f", Type: repo.ArgumentFloat},
		{Name: "b", Type: repo.ArgumentBoolean},
		{Name: "l", Type: repo.ArgumentList},
		{Name: "_x9", Type: repo.ArgumentString},
	}}
}

func valuesOf(pairs ...string) []repo.ArgumentValue {
	var list []repo.ArgumentValue
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, repo.ArgumentValue{Name: pairs[i], Value: json.RawMessage(pairs[i+1])})
	}
	return list
}

func TestRender(t *testing.T) {
	for _, test := range []struct {
		template string
		values   []repo.ArgumentValue
		want     string
	}{
		{"", nil, ""},
		{"done", nil, "done"},
		{"{{.s}}|{{.i}}|{{.f}}|{{.b}}|{{.l}}|{{._x9}}", nil, "|0|0|false|[]|"},
		{
			"{{.s}}|{{.i}}|{{.f}}|{{.b}}|{{.l}}", valuesOf("s", `"é\n"`, "i", "-7", "f", "2.50", "b", "true", "l", `["x",1.0,null]`),
			"é\n|-7|2.5|true|[x 1.0 <nil>]",
		},
		{"{{if .b}}yes{{else if .s}}{{.s}}{{else}}no{{end}}", valuesOf("s", `"maybe"`), "maybe"},
		{"{{range .l}}<{{.}} of {{$.s}}>{{else}}none{{end}}", valuesOf("l", `[1,"b"]`, "s", `"all"`), "<1 of all><b of all>"},
		{"{{range .l}}x{{else}}none {{.s}}{{end}}", valuesOf("s", `"here"`), "none here"},
		{"{{if and (gt .i 3) (not .b)}}{{len .l}}{{end}}{{/* said to nobody */}}", valuesOf("i", "4", "l", "[1,2]"), "2"},
		{"{{.s | len}}{{- \" trimmed \" -}} {{`raw`}}{{'c'}}{{true}}", nil, "0 trimmed raw99true"},
		// Values are neither templates nor markup.
		{"{{.s}}", valuesOf("s", `"{{.i}}<script>{{end}}"`), "{{.i}}<script>{{end}}"},
		{"{{eq .s \"a\"}}{{ne .i 1}}{{lt .f 1.5}}{{le .i 0}}{{ge .i 0}}{{or .b .s}}", nil, "falsetruetruetruetrue"},
	} {
		got, err := rules.Render(every(test.template), test.values)
		if err != nil || got != test.want {
			t.Errorf("%q: got %q, %v, want %q", test.template, got, err, test.want)
		}
	}
}

func TestDefinitionOfDoneRefused(t *testing.T) {
	for want, templates := range map[string][]string{
		"is not a template": {
			"{{", "{{.s", "}}{{end}}", "{{if .s}}", "{{unknown .s}}", "{{.s secret}}", "{{" + secret + "}}", "{{$x}}", "{{template}}", "{{break}}",
		},
		"defines templates": {`{{define "x"}}{{end}}`, `{{block "x" .}}b{{end}}`},
		"uses template features": {
			`{{template "x"}}`, "{{with .s}}{{end}}", "{{range .l}}{{break}}{{end}}", "{{range .l}}{{continue}}{{end}}", "{{(.s).x}}", "{{eq nil .s}}",
		},
		"calls a function": {
			`{{printf "%1000000000d" 1}}`, "{{print .s}}", "{{println}}", "{{html .s}}", "{{js .s}}", "{{urlquery .s}}", "{{index .l 0}}",
			"{{slice .s 1}}", "{{call .s}}", "{{if printf .s}}{{end}}", "{{.s | print}}", "{{eq (index .l 0) 1}}", "{{if .s}}{{else}}{{print}}{{end}}",
		},
		"names something that is not": {
			"{{.S}}", "{{.unknown}}", "{{.s.x}}", "{{.l.Len}}", "{{$.unknown}}", "{{$.s.x}}", "{{$}}", "{{range .l}}{{.s}}{{end}}", "{{range .l}}{{.x}}{{end}}",
			"{{if .unknown}}{{end}}",
		},
		"declares variables":          {"{{$x := .s}}", "{{$x := .s}}{{$x = .i}}", "{{if $x := .s}}{{end}}"},
		"a nested loop":               {"{{range .l}}{{range $.l}}{{end}}{{end}}", "{{range .l}}{{if .}}{{range $.l}}{{end}}{{end}}{{end}}"},
		"a loop over something other": {"{{range $x := .l}}{{end}}", "{{range $i, $x := .l}}{{end}}", "{{range or .l .l}}{{end}}", "{{range .l | len}}{{end}}"},
		"a loop over something that":  {"{{range .i}}{{end}}", "{{range .s}}{{end}}", "{{range 1000000000}}{{end}}", "{{range .}}{{end}}", "{{range $.l}}{{end}}", "{{range (.l)}}{{end}}"},
	} {
		for _, template := range templates {
			t.Run(template, func(t *testing.T) {
				_, err := rules.NormalizeDefinition(every(template))
				wantInvalid(t, err, "definition_of_done", want)
				_, err = rules.Render(every(template), nil)
				wantInvalid(t, err, "definition_of_done", want)
			})
		}
	}
}

func TestRenderFaults(t *testing.T) {
	long := `"` + strings.Repeat("x", 1000) + `"`
	for name, test := range map[string]struct {
		template string
		values   []repo.ArgumentValue
		want     string
	}{
		"types that do not compare": {"{{lt .s .i}}", valuesOf("s", `"`+secret+`"`), "cannot be rendered"},
		"a list's element":          {"{{range .l}}{{gt . 1}}{{end}}", valuesOf("l", `["`+secret+`"]`), "cannot be rendered"},
		"of a list":                 {"{{eq .l .l}}", nil, "cannot be rendered"},
		"too long":                  {strings.Repeat("{{.s}}", 2000), valuesOf("s", long), "more than"},
		"a NUL":                     {"{{.s}}", valuesOf("s", `"\u0000"`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rules.Render(every(test.template), test.values)
			if test.want == "" { // JSON with a NUL cannot be stored: the value is invalid
				wantInvalid(t, err, "arguments.s", "")
				return
			}
			wantInvalid(t, err, "definition_of_done", test.want)
		})
	}
}

// A definition of done that does much work for each item of the longest list, but
// writes nothing that the bound on its size would count, still ends soon.
func TestRenderEndsSoon(t *testing.T) {
	list := "[" + strings.Repeat("1,", repo.MaxMetadataBytes/2-2) + "1]"
	_, err := rules.Render(every("{{range .l}}"+strings.Repeat("{{if .}}{{end}}", 4000)+"{{end}}"), valuesOf("l", list))
	wantInvalid(t, err, "definition_of_done", "too many steps")
	// One that does little work is rendered.
	got, err := rules.Render(every("{{range .l}}{{if .}}x{{end}}{{end}}"), valuesOf("l", "["+strings.Repeat("1,", 10_000)+"1]"))
	if err != nil || len(got) != 10_001 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// Render never panics, and returns a bounded text.
func FuzzRender(f *testing.F) {
	for _, template := range []string{
		"{{.s}} {{.i}}", "{{range .l}}{{.}}{{end}}", "{{if eq .s `x`}}a{{else}}b{{end}}", `{{define "a"}}{{template "a"}}{{end}}`,
		"{{len .l}}", "{{", "{{/* */}}", "{{- .f -}}", "{{not .b}}", "{{range .l}}{{$.s}}{{end}}",
	} {
		f.Add(template, `"text"`, `[1,"a",[null]]`)
	}
	f.Fuzz(func(t *testing.T, template, s, l string) {
		if len(template) > 1000 || len(l) > 1000 {
			return
		}
		definition := every(template)
		_, refused := rules.NormalizeDefinition(definition)
		got, err := rules.Render(definition, valuesOf("s", s, "l", l))
		if refused != nil && err == nil && len(template) <= limits.MaxTextBytes {
			t.Errorf("refused with %v, and rendered", refused)
		}
		if len(got) > 1<<20 || err != nil && got != "" || strings.ContainsRune(got, 0) {
			t.Errorf("rendered to %d bytes, %v", len(got), err)
		}
	})
}
