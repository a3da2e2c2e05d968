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
		{"done }} or } not", nil, "done }} or } not"},
		{"{{.s}}|{{.i}}|{{.f}}|{{.b}}|{{.l}}|{{._x9}}", nil, "|0|0|false|[]|"},
		{
			"{{.s}}|{{.i}}|{{.f}}|{{.b}}|{{.l}}", valuesOf("s", `"é\n"`, "i", " -7", "f", "2.50", "b", "true", "l", `[ "x<",1.0, null]`),
			"é\n|-7|2.50|true|" + `["x<",1.0,null]`,
		},
		// Values are neither placeholders nor markup.
		{"{{.s}}{{.s}}", valuesOf("s", `"{{.i}}<script>{{"`), "{{.i}}<script>{{{{.i}}<script>{{"},
	} {
		got, err := rules.Render(every(test.template), test.values)
		if err != nil || got != test.want {
			t.Errorf("%q: got %q, %v, want %q", test.template, got, err, test.want)
		}
	}
}

func TestDefinitionOfDoneRefused(t *testing.T) {
	for _, template := range []string{
		"{{", "{{.s", "{{.s}", "{{}}", "{{.}}", "{{s}}", "{{ .s }}", "{{.S}}", "{{.s.x}}", "{{.unknown}}", "{{{.s}}}", "{{.s}}{{if .b}}{{end}}",
		"{{range .l}}{{end}}", "{{" + secret + "}}",
	} {
		t.Run(template, func(t *testing.T) {
			_, err := rules.NormalizeDefinition(every(template))
			wantInvalid(t, err, "definition_of_done", "has a {{ that")
			_, err = rules.Render(every(template), nil)
			wantInvalid(t, err, "definition_of_done", "has a {{ that")
		})
	}
}

// What is rendered has the most bytes, and then one more.
func TestRenderBound(t *testing.T) {
	half := valuesOf("s", `"`+strings.Repeat("x", 1<<19)+`"`)
	got, err := rules.Render(every("{{.s}}{{.s}}"), half)
	if err != nil || len(got) != 1<<20 {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	for _, template := range []string{"{{.s}}{{.s}}!", "!{{.s}}{{.s}}", "{{.s}}{{.s}}{{.s}}"} {
		_, err = rules.Render(every(template), half)
		wantInvalid(t, err, "definition_of_done", "more than")
	}
}

// Render never panics, and returns a bounded text.
func FuzzRender(f *testing.F) {
	for _, template := range []string{"{{.s}} {{.i}}", "{{.l}}{{.l}}", "{{", "{{.s", "}}{{.f}}"} {
		f.Add(template, `"text"`, `[1,"a",[null]]`)
	}
	f.Fuzz(func(t *testing.T, template, s, l string) {
		if len(template) > 1000 || len(l) > 1000 {
			return
		}
		definition := every(template)
		_, refused := rules.NormalizeDefinition(definition)
		values, err := rules.Bind(t.Context(), definition, valuesOf("s", s, "l", l))
		if err != nil {
			return
		}
		got, err := rules.Render(definition, values)
		if refused != nil && err == nil && len(template) <= limits.MaxTextBytes {
			t.Errorf("refused with %v, and rendered", refused)
		}
		if len(got) > 1<<20 || err != nil && got != "" || strings.ContainsRune(got, 0) {
			t.Errorf("rendered to %d bytes, %v", len(got), err)
		}
	})
}
