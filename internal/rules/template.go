package rules

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/repo"
)

// maxRendered bounds a rendered definition of done, in bytes.
const maxRendered = 1 << 20

// maxLoopSteps bounds the steps of loops: the parts of a loop's body times the items
// of its list. maxRendered does not bound them, because a loop may write nothing.
const maxLoopSteps = 100_000

// Render renders the definition of done with the values of the arguments. The
// definition is a template of the standard library (text/template) with the
// arguments as fields: "{{.branch}} is merged{{if .strict}}, without
// warnings{{end}}". An argument without a value has the zero value of its type.
//
// Templates that could run for long or take much memory are not allowed. The only
// functions are comparisons, and, or, not and len. There are no nested templates
// and no nested loops, and a loop is over a single list argument. The items of a
// loop times the parts of its body, summed over all loops, are at most 100,000.
// Values are never parsed as templates.
//
// It does not fill in the arguments' defaults. Errors: InvalidError of the field
// "definition_of_done" or "arguments.NAME".
func Render(d repo.ActionDefinition, values []repo.ArgumentValue) (string, error) {
	t, loops, err := templateOf(d)
	if err != nil {
		return "", err
	}
	data := make(map[string]any, len(d.Arguments))
	for _, a := range d.Arguments {
		data[a.Name] = zeros[a.Type]
		at := slices.IndexFunc(values, func(given repo.ArgumentValue) bool { return given.Name == a.Name })
		if at < 0 {
			continue
		}
		if data[a.Name], err = (*argument)(&a).read(values[at].Value); err != nil {
			return "", err
		}
	}
	steps := int64(0)
	for _, loop := range loops {
		list, _ := data[loop.list].([]any)
		steps += int64(len(list)) * int64(loop.parts) // at most 2^19 items and 2^16 parts in all
	}
	if steps > maxLoopSteps {
		return "", invalid("definition_of_done", "takes too many steps with these values: more than %d", maxLoopSteps)
	}
	out := &bounded{}
	if err := t.Execute(out, data); err != nil {
		if errors.Is(err, errRenderedTooLong) {
			return "", invalid("definition_of_done", "is rendered to more than %d bytes", maxRendered)
		}
		// The template's own message may quote values.
		return "", invalid("definition_of_done", "cannot be rendered with these values")
	}
	rendered := out.String()
	if !utf8.ValidString(rendered) || strings.IndexByte(rendered, 0) >= 0 {
		return "", invalid("definition_of_done", "is rendered to text that is not UTF-8, or that contains a NUL character")
	}
	return rendered, nil
}

// checkTemplate checks that Render accepts the definition of done, as far as that
// can be known without values. Creating and updating an action do the same. Errors:
// InvalidError of the field "definition_of_done".
func checkTemplate(d repo.ActionDefinition) error {
	_, _, err := templateOf(d)
	return err
}

// zeros are what arguments without a value are.
var zeros = map[repo.ArgumentType]any{
	repo.ArgumentString: "", repo.ArgumentInteger: int64(0), repo.ArgumentFloat: float64(0), repo.ArgumentBoolean: false,
	repo.ArgumentList: []any{},
}

var errRenderedTooLong = errors.New("rendered too long")

type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRendered {
		return 0, errRenderedTooLong
	}
	return b.Builder.Write(p)
}

// templateOf parses the definition of done and checks that Render allows it. It also
// returns the loops.
func templateOf(d repo.ActionDefinition) (*template.Template, []loop, error) {
	t, err := template.New("").Option("missingkey=error").Parse(d.DefinitionOfDone)
	if err != nil {
		return nil, nil, invalid("definition_of_done", "is not a template of the arguments")
	}
	if len(t.Templates()) > 1 {
		return nil, nil, invalid("definition_of_done", "defines templates of its own")
	}
	if t.Tree == nil || t.Root == nil { // an empty text
		return t, nil, nil
	}
	c := templateCheck{arguments: map[string]repo.ArgumentType{}}
	for _, argument := range d.Arguments {
		c.arguments[argument.Name] = argument.Type
	}
	if c.list(t.Root); c.fault != "" {
		return nil, nil, invalid("definition_of_done", "%s", c.fault)
	}
	return t, c.loops, nil
}

// templateCheck walks a template.
type templateCheck struct {
	arguments map[string]repo.ArgumentType
	inRange   bool
	parts     int // in the bodies of all loops so far
	loops     []loop
	// fault is a phrase that says what is not allowed, or empty.
	fault string
}

// loop is a loop over a list argument.
type loop struct {
	list  string
	parts int
}

// refuse notes what is not allowed, if it is the first.
func (c *templateCheck) refuse(is bool, fault string) {
	if is {
		c.fault = cmp.Or(c.fault, fault)
	}
}

func (c *templateCheck) list(list *parse.ListNode) {
	if list != nil {
		c.walk(list.Nodes)
	}
}

func (c *templateCheck) pipe(pipe *parse.PipeNode) {
	c.refuse(len(pipe.Decl) > 0, "declares variables")
	for _, command := range pipe.Cmds {
		c.walk(command.Args)
	}
}

// walk checks nodes, each of which is a part of a loop's body if it is in one.
func (c *templateCheck) walk(nodes []parse.Node) {
	for _, node := range nodes {
		if c.inRange {
			c.parts++
		}
		switch node := node.(type) {
		case *parse.TextNode, *parse.CommentNode, *parse.DotNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode:
		case *parse.ActionNode:
			c.pipe(node.Pipe)
		case *parse.PipeNode:
			c.pipe(node)
		case *parse.IfNode:
			c.pipe(node.Pipe)
			c.list(node.List)
			c.list(node.ElseList)
		case *parse.RangeNode:
			c.loop(node)
		case *parse.IdentifierNode:
			c.refuse(!templateFunctions[node.Ident], "calls a function that is not allowed")
		case *parse.FieldNode:
			c.names(node.Ident, c.inRange)
		case *parse.VariableNode: // $ is the arguments, from within a loop
			c.names(node.Ident[1:], node.Ident[0] != "$")
		default:
			c.refuse(true, "uses template features other than fields, if, range and comparisons")
		}
	}
}

// names allows the name of an argument, unless it would be that of something else.
func (c *templateCheck) names(parts []string, other bool) {
	c.refuse(other || len(parts) != 1 || c.arguments[parts[0]] == "", "names something that is not an argument")
}

// loop allows a range only over a list argument: a range over a number would take as
// many steps as the number is large.
func (c *templateCheck) loop(node *parse.RangeNode) {
	commands := node.Pipe.Cmds
	c.refuse(c.inRange, "has a nested loop")
	c.refuse(len(node.Pipe.Decl) > 0 || len(commands) != 1 || len(commands[0].Args) != 1,
		"has a loop over something other than a single argument")
	if c.fault != "" {
		return
	}
	field, ok := commands[0].Args[0].(*parse.FieldNode)
	if !ok || len(field.Ident) != 1 || c.arguments[field.Ident[0]] != repo.ArgumentList {
		c.refuse(true, "has a loop over something that is not a list argument")
		return
	}
	before := c.parts
	c.inRange = true
	c.list(node.List)
	c.inRange = false
	c.loops = append(c.loops, loop{list: field.Ident[0], parts: 1 + c.parts - before})
	c.list(node.ElseList)
}

var templateFunctions = map[string]bool{
	"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true,
	"and": true, "or": true, "not": true, "len": true,
}
