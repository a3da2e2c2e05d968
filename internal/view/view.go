// Package view makes a store of one namespace out of a store. What belongs to another namespace is
// not found, and nothing is made outside.
//
// The store below has the names of shared scopes, streams and leases of the namespace alone
// (rules.InView), and refuses what can change between a look and a write. All else is checked here: a
// look finds the namespace of a session or a plan, once, since that never changes and no id is given
// twice.
package view

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// New returns a view of a namespace, which is checked. The store below is that of the namespace's
// names, and known is shared by all views of its database.
func New(below repo.Store, namespace string, known *Known) repo.Store {
	return &store{view{below, namespace, known, nil}, below}
}

// Below returns the repositories below those of a view, or r itself.
func Below(r repo.Repositories) repo.Repositories {
	switch v := r.(type) {
	case *store:
		return v.below
	case *view:
		return v.below
	}
	return r
}

type store struct {
	view

	whole repo.Store
}

// InTx implements repo.Store. What the transaction makes is known to the view only in it: if it is
// rolled back, somebody else may get an id that its caller has chosen.
func (s *store) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	return s.whole.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		return fn(ctx, &view{tx, s.namespace, &Known{}, s.known})
	})
}

// Close does nothing: the view ends with its store.
func (*store) Close() error { return nil }

// view is repo.Repositories.
type view struct {
	below     repo.Repositories
	namespace string
	known     *Known
	// outside is what is known outside of the transaction, if this is one.
	outside *Known
}

func (v *view) Sessions() repo.Sessions { return sessions{v, v.below.Sessions()} }
func (v *view) Actions() repo.Actions   { return actions{v, v.below.Actions()} }
func (v *view) Plans() repo.Plans       { return plans{v, v.below.Plans()} }
func (v *view) State() repo.State       { return state{v, v.below.State()} }
func (v *view) Leases() repo.Leases     { return leases{v, v.below.Leases()} }
func (v *view) Streams() repo.Streams   { return streams{v, v.below.Streams()} }
func (v *view) Audit() repo.Audit       { return audit{v, v.below.Audit()} }

// own checks the namespace of what is to be made, and sets it.
func (v *view) own(field string, namespace *string) error {
	if *namespace != "" && *namespace != v.namespace {
		return &repo.InvalidError{Field: field, Reason: "is not that of the store"}
	}
	*namespace = v.namespace
	return nil
}

// selects sets the namespace of a filter. It reports whether the filter selects anything in the view.
func (v *view) selects(namespace *string) (bool, error) {
	if *namespace == "" || *namespace == v.namespace {
		*namespace = v.namespace
		return true, nil
	}
	return false, rules.CheckNamespace(*namespace)
}

func (v *view) knows(kind string, id repo.ID) bool {
	return v.known.has(kind, id, v.namespace) || v.outside != nil && v.outside.has(kind, id, v.namespace)
}

func (v *view) learn(kind string, id repo.ID) { v.known.add(kind, id, v.namespace) }

// found returns the error of what was looked up, and notes that it is in the view.
func (v *view) found(kind string, id repo.ID, namespace string, err error) error {
	switch {
	case err != nil:
		return err
	case namespace != v.namespace:
		return &repo.NotFoundError{Kind: kind, ID: id}
	}
	v.learn(kind, id)
	return nil
}

// standIns are ids that nobody has, for those of sessions and plans that are not in the view. The store
// below is asked for them in their place: so its answer, also about other arguments, is that for what
// does not exist.
type standIns map[repo.ID]repo.ID

// of returns the id that the store below is asked for.
func (s standIns) of(id repo.ID) repo.ID {
	if other, is := s[id]; is {
		return other
	}
	return id
}

// scope is of for a scope.
func (s standIns) scope(scope repo.Scope) repo.Scope {
	scope.SessionID = s.of(scope.SessionID)
	return scope
}

// named returns an error of the store below, about what the caller has asked for.
func (s standIns) named(err error) error {
	if len(s) == 0 || err == nil {
		return public(err)
	}
	if e, is := errors.AsType[*repo.NotFoundError](err); is {
		for id, other := range s {
			if e.ID == other {
				e.ID = id
			}
		}
	}
	return public(err)
}

// sessions returns stand-ins for those of the sessions that are not in the view, and those of them that
// exist in another namespace.
func (v *view) sessions(ctx context.Context, ids ...repo.ID) (stands standIns, elsewhere []repo.ID, err error) {
	var unknown []repo.ID
	for _, id := range ids {
		if !id.IsZero() && !v.knows("session", id) && !slices.Contains(unknown, id) {
			unknown = append(unknown, id)
		}
	}
	for some := range slices.Chunk(unknown, repo.MaxPageSize) {
		read, err := v.below.Sessions().Read(ctx, repo.ReadSessions{IDs: some})
		if err != nil {
			return nil, nil, err
		}
		for i, found := range read.Sessions {
			switch {
			case found != nil && found.Session.Namespace == v.namespace:
				v.learn("session", some[i])
				continue
			case found != nil:
				elsewhere = append(elsewhere, some[i])
			}
			if stands == nil {
				stands = standIns{}
			}
			stands[some[i]] = repo.NewID()
		}
	}
	return stands, elsewhere, nil
}

// session asks the store below for a session, or for one that nobody has.
func session[V any](ctx context.Context, v *view, id repo.ID, ask func(id repo.ID) (V, error)) (answer V, err error) {
	if v.knows("session", id) {
		return ask(id)
	}
	stands, _, err := v.sessions(ctx, id)
	if err != nil {
		return answer, err
	}
	answer, err = ask(stands.of(id))
	return answer, stands.named(err)
}

// plan is like session.
func plan[V any](ctx context.Context, v *view, id repo.ID, ask func(id repo.ID) (V, error)) (answer V, err error) {
	var stands standIns
	switch has, err := v.hasPlan(ctx, id); {
	case err != nil:
		return answer, err
	case !has:
		stands = standIns{id: repo.NewID()}
	}
	answer, err = ask(stands.of(id))
	return answer, stands.named(err)
}

func (v *view) hasPlan(ctx context.Context, id repo.ID) (bool, error) {
	if v.knows("plan", id) {
		return true, nil
	}
	plan, err := v.below.Plans().Get(ctx, id)
	err = v.found("plan", id, plan.Namespace, err)
	if errors.Is(err, repo.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// qualified returns an action's name with a namespace.
func (v *view) qualified(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return v.namespace + "/" + name
}

// action returns the whole name of an action, whose namespace is that of the view unless it is given.
// Errors: InvalidError; NotFoundError for one in another namespace.
func (v *view) action(name string) (string, error) {
	parsed, err := repo.ParseActionName(v.qualified(name))
	if err == nil && parsed.Namespace != v.namespace {
		err = &repo.NotFoundError{Kind: "action", Name: parsed.String()}
	}
	return parsed.String(), err
}

// cut makes a name in the store below that of the view.
func cut(name *string) {
	if _, rest := rules.SplitView(*name); rest != *name {
		*name = rest
	}
}

func cutScopes(scopes []repo.ScopeVersion) {
	for i := range scopes {
		cut(&scopes[i].Scope.Name)
	}
}

// public returns an error of the store below with the names of the view.
func public(err error) error {
	if err == nil {
		return nil
	}
	if e, is := errors.AsType[*repo.NotFoundError](err); is {
		cut(&e.Name)
		cut(&e.Scope.Name)
	}
	if e, is := errors.AsType[*repo.VersionConflictError](err); is {
		cut(&e.Scope.Name)
	}
	if e, is := errors.AsType[*repo.RefusedError](err); is {
		cut(&e.Name)
		cut(&e.Scope.Name)
	}
	if e, is := errors.AsType[*repo.SequenceConflictError](err); is {
		cut(&e.Name)
	}
	if e, is := errors.AsType[*repo.FencedError](err); is {
		cut(&e.Key.Name)
	}
	if e, is := errors.AsType[*repo.LeaseConflictError](err); is {
		cut(&e.Key.Name)
	}
	if e, is := errors.AsType[*repo.LeaseLostError](err); is {
		cut(&e.Key.Name)
	}
	if e, is := errors.AsType[*repo.StreamFailedError](err); is {
		cut(&e.Key)
	}
	return err
}
