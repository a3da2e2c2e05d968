package rules

import (
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// In a store, the name of a shared scope, a stream or a lease of a view is its namespace, NUL and its
// name, which no caller's name can be. That of a view of DefaultNamespace is the name alone, as in a
// store that is no view.

// InView returns the name in a store of a view's name. view is its namespace, or empty.
func InView(view, name string) string {
	if view == "" || view == repo.DefaultNamespace || name == "" {
		return name
	}
	return view + "\x00" + name
}

// SplitView is the inverse of InView.
func SplitView(name string) (namespace, rest string) {
	if namespace, rest, found := strings.Cut(name, "\x00"); found {
		return namespace, rest
	}
	return repo.DefaultNamespace, name
}

// ScopeInView is InView for a scope: the own one of a session stays as it is.
func ScopeInView(view string, scope repo.Scope) repo.Scope {
	scope.Name = InView(view, scope.Name)
	return scope
}

// InView makes the names of shared scopes those of a view.
func (c StateChanges) InView(view string) {
	for i := range c.Scopes {
		c.Scopes[i].Scope = ScopeInView(view, c.Scopes[i].Scope)
	}
	for i := range c.Changes {
		c.Changes[i].Scope = ScopeInView(view, c.Changes[i].Scope)
	}
}

// InView makes the names of shared scopes, and of the stream, those of a view.
func (t *Turn) InView(view string) {
	t.State.InView(view)
	if t.Open != nil {
		t.Open.Key = InView(view, t.Open.Key)
	}
}

// InOtherNamespace returns the error of a view that would create a session with an id that one of
// another namespace has.
func InOtherNamespace(id repo.ID) error {
	return &repo.ExistsError{Kind: "session", ID: id, Field: "namespace"}
}

// ImportInView returns the error of a view's import of a session, or nil.
func ImportInView(view string, session repo.Session) error {
	if view == "" || view == session.Namespace {
		return nil
	}
	return &repo.ImportError{Field: "session.namespace", Reason: "is not that of the store"}
}

// CheckNamespace checks the namespace of a view.
func CheckNamespace(namespace string) error {
	if namespace == "" {
		return invalid("namespace", "is empty")
	}
	return checkNames(name{"namespace", namespace})
}
