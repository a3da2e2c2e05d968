package rules

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// maxRendered bounds a rendered definition of done, in bytes.
const maxRendered = 1 << 20

// zeros are what arguments without a value are.
var zeros = map[repo.ArgumentType]string{
	repo.ArgumentString: "", repo.ArgumentInteger: "0", repo.ArgumentFloat: "0", repo.ArgumentBoolean: "false",
	repo.ArgumentList: "[]",
}

// Render replaces each {{.name}} in the definition of done by the value of that argument, which is checked: a string as
// it is, and anything else as JSON without white space. An argument without a value has the zero value of its type.
// Values are never rendered themselves. Errors: InvalidError of the field "definition_of_done".
func Render(d repo.ActionDefinition, values []repo.ArgumentValue) (string, error) {
	texts := make(map[string]string, len(d.Arguments))
	for _, a := range d.Arguments {
		texts["."+a.Name] = zeros[a.Type]
	}
	for _, value := range values {
		text, is := decode[string](value.Value)
		if !is {
			var compact bytes.Buffer
			_ = json.Compact(&compact, value.Value) // which is valid
			text = compact.String()
		}
		texts["."+value.Name] = text
	}
	var out strings.Builder
	for rest := d.DefinitionOfDone; ; {
		before, after, found := strings.Cut(rest, "{{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, behind, closed := strings.Cut(after, "}}")
		text, known := texts[name]
		if !known || !closed {
			return "", invalid("definition_of_done", "has a {{ that does not begin the {{.name}} of an argument")
		}
		if out.Len()+len(text)+len(behind) > maxRendered {
			return "", invalid("definition_of_done", "is rendered to more than %d bytes", maxRendered)
		}
		out.WriteString(text)
		rest = behind
	}
}
