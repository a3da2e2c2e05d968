package rules

import (
	"cmp"
	"errors"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// A view is a store of one namespace, which these functions get as view. It is empty for the whole store.

// MadeInView checks the namespace of what is to be made, and sets it.
func MadeInView(view, field string, namespace *string) error {
	if view == "" {
		return nil
	}
	given := *namespace
	*namespace = view
	return invalidIf(given != "" && given != view, field, "is not the store's")
}

// SelectsInView sets the namespace of a filter. It reports whether the filter selects anything in the view.
func SelectsInView(view string, namespace *string) (bool, error) {
	if view != "" && *namespace != "" && *namespace != view {
		return false, CheckNamespace(*namespace)
	}
	*namespace = cmp.Or(*namespace, view)
	return true, nil
}

// IsInView reports whether what is in a namespace is in the view.
func IsInView(view, namespace string) bool { return view == "" || view == namespace }

// actionInView returns the name of an action with its namespace, which is the view's unless it is given.
func actionInView(view, name string) string {
	if view == "" || name == "" || strings.Contains(name, "/") {
		return name
	}
	return view + "/" + name
}

// ParseAction parses the name of an action. Errors: InvalidError; NotFoundError for one in another namespace.
func ParseAction(view, name string) (repo.ActionName, error) {
	parsed, err := repo.ParseActionName(actionInView(view, name))
	if err == nil && !IsInView(view, parsed.Namespace) {
		err = &repo.NotFoundError{Kind: "action", Name: parsed.String()}
	}
	return parsed, err
}

// In a store, the name of a shared scope, a stream or a lease of a view is its namespace, NUL and its
// name, which no caller's name can be. In a view of DefaultNamespace it is the name alone, as in a
// store that is no view.

// InView returns the name in a store of a view's name. view is its namespace, or empty.
func InView(view, name string) string {
	if view == "" || view == repo.DefaultNamespace || name == "" {
		return name
	}
	return view + "\x00" + name
}

// OutOfView is the name in its view of a name in a store.
func OutOfView(name string) string {
	_, rest := SplitView(name)
	return rest
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

// InView makes the names of shared scopes names of a view.
func (c StateChanges) InView(view string) {
	for i := range c.Scopes {
		c.Scopes[i].Scope = ScopeInView(view, c.Scopes[i].Scope)
	}
	for i := range c.Changes {
		c.Changes[i].Scope = ScopeInView(view, c.Changes[i].Scope)
	}
}

// inView makes the names of shared scopes, and of the stream, names of a view.
func (t *Turn) inView(view string) {
	t.State.InView(view)
	if t.Open != nil {
		t.Open.Key = InView(view, t.Open.Key)
	}
}

// TurnOutOfView gives what a turn has changed the names in its view.
func TurnOutOfView(turn *repo.AppendedTurn) {
	ScopesOutOfView(turn.Scopes)
	if turn.Stream != nil {
		turn.Stream.Key = OutOfView(turn.Stream.Key)
	}
}

// ScopesOutOfView gives scopes their names in their view.
func ScopesOutOfView(scopes []repo.ScopeVersion) {
	for i := range scopes {
		scopes[i].Scope.Name = OutOfView(scopes[i].Scope.Name)
	}
}

// ErrorOutOfView returns an error with the names in its view.
func ErrorOutOfView(err error) error {
	if err == nil {
		return nil
	}
	if e, is := errors.AsType[*repo.NotFoundError](err); is {
		e.Name = OutOfView(e.Name)
	}
	if e, is := errors.AsType[*repo.VersionConflictError](err); is {
		e.Scope.Name = OutOfView(e.Scope.Name)
	}
	if e, is := errors.AsType[*repo.LimitExceededError](err); is {
		e.Scope.Name = OutOfView(e.Scope.Name)
	}
	if e, is := errors.AsType[*repo.RefusedError](err); is {
		e.Name, e.Scope.Name = OutOfView(e.Name), OutOfView(e.Scope.Name)
	}
	if e, is := errors.AsType[*repo.LeaseConflictError](err); is {
		e.Key.Name = OutOfView(e.Key.Name)
	}
	if e, is := errors.AsType[*repo.LeaseLostError](err); is {
		e.Key.Name = OutOfView(e.Key.Name)
	}
	return err
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
	return &repo.ImportError{Field: "session.namespace", Reason: "is not the store's"}
}

// CheckNamespace checks the namespace of a view.
func CheckNamespace(namespace string) error {
	return cmp.Or(invalidIf(namespace == "", "namespace", "is empty"), checkNames(name{"namespace", namespace}))
}
