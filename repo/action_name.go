package repo

import (
	"regexp"
	"strings"
)

// ActionName is the name of an action in a namespace, perhaps of another server.
type ActionName struct {
	Server, Namespace, Name string // an empty Server is this one
}

// ParseActionName reads "[[server:]namespace/]name", each part of 1 to 100 ASCII letters, digits, '.', '_' and '-',
// the first a letter or digit. A bare name is in DefaultNamespace. Errors: InvalidError of "action".
func ParseActionName(text string) (ActionName, error) {
	name := ActionName{Namespace: DefaultNamespace, Name: text}
	if before, after, found := strings.Cut(text, "/"); found {
		name.Namespace, name.Name = before, after
		if server, namespace, found := strings.Cut(before, ":"); found {
			name.Server, name.Namespace = server, namespace
			if !isNamePart(server) {
				return ActionName{}, invalid("action", "has a server that "+namePartRule)
			}
		}
	}
	switch {
	case !isNamePart(name.Namespace):
		return ActionName{}, invalid("action", "has a namespace that "+namePartRule)
	case !isNamePart(name.Name):
		return ActionName{}, invalid("action", "has a name that "+namePartRule)
	}
	return name, nil
}

// String returns the full form, which ParseActionName accepts.
func (n ActionName) String() string {
	if n.Server == "" {
		return n.Namespace + "/" + n.Name
	}
	return n.Server + ":" + n.Namespace + "/" + n.Name
}

const namePartRule = "is not 1 to 100 letters, digits, '.', '_' or '-' that begin with a letter or digit"

// namePart matches each part of an action's name, whatever its length: a bound within the expression would be compiled
// as so many copies.
var namePart = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func isNamePart(text string) bool { return len(text) <= 100 && namePart.MatchString(text) }
