package repo

import "strings"

// ActionName is the name of an action in a namespace, perhaps of another server.
type ActionName struct {
	Server, Namespace, Name string // an empty Server is this one
}

// maxNamePart bounds each part of an action's name, in characters.
const maxNamePart = 100

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

func isNamePart(part string) bool {
	if len(part) == 0 || len(part) > maxNamePart {
		return false
	}
	for i, c := range []byte(part) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}
