package view

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// state is repo.State.
type state struct {
	view  *view
	below repo.State
}

// of returns stand-ins for the sessions of scopes.
func (s state) of(ctx context.Context, scopes ...repo.Scope) (standIns, error) {
	ids := make([]repo.ID, len(scopes))
	for i, scope := range scopes {
		ids[i] = scope.SessionID
	}
	stands, _, err := s.view.sessions(ctx, ids...)
	return stands, err
}

func (s state) Get(ctx context.Context, scope repo.Scope, key string) (repo.StateValue, error) {
	stands, err := s.of(ctx, scope)
	if err != nil {
		return repo.StateValue{}, err
	}
	value, err := s.below.Get(ctx, stands.scope(scope), key)
	return value, stands.named(err)
}

func (s state) Read(ctx context.Context, scopes ...repo.Scope) ([]repo.ScopeState, error) {
	stands, err := s.of(ctx, scopes...)
	if err != nil {
		return nil, err
	}
	scopes = slices.Clone(scopes)
	for i := range scopes {
		scopes[i] = stands.scope(scopes[i])
	}
	states, err := s.below.Read(ctx, scopes...)
	return states, stands.named(err)
}

func (s state) List(ctx context.Context, scope repo.Scope, prefix string, page repo.Page) (repo.StatePage, error) {
	stands, err := s.of(ctx, scope)
	if err != nil {
		return repo.StatePage{}, err
	}
	list, err := s.below.List(ctx, stands.scope(scope), prefix, page)
	return list, stands.named(err)
}

func (s state) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	scopes := make([]repo.Scope, 0, len(changes)+len(conditions))
	for i := range changes {
		scopes = append(scopes, changes[i].Scope)
	}
	for _, condition := range conditions {
		scopes = append(scopes, condition.Scope)
	}
	stands, err := s.of(ctx, scopes...)
	if err != nil {
		return nil, err
	}
	changes, conditions = slices.Clone(changes), slices.Clone(conditions)
	for i := range changes {
		changes[i].Scope = stands.scope(changes[i].Scope)
	}
	for i := range conditions {
		conditions[i].Scope = stands.scope(conditions[i].Scope)
	}
	changed, err := s.below.Change(ctx, changes, conditions...)
	cutScopes(changed)
	return changed, stands.named(err)
}

func (s state) Erase(ctx context.Context, scopeName string) (int64, error) {
	return s.below.Erase(ctx, scopeName)
}

// leases is repo.Leases.
type leases struct {
	view  *view
	below repo.Leases
}

// key checks that the session or plan is in the view whose lease it is. So it must exist: the lease of
// an id that nobody has yet would be that of whoever gets it.
func (l leases) key(ctx context.Context, key repo.LeaseKey) error {
	id, err := repo.ParseID(key.Name)
	if err != nil || id.String() != key.Name {
		return nil //nolint:nilerr // of these kinds the store below refuses it
	}
	missing := false
	switch key.Kind {
	case repo.LeaseOfSession:
		var stands standIns
		stands, _, err = l.view.sessions(ctx, id)
		missing = len(stands) > 0
	case repo.LeaseOfPlan:
		var has bool
		has, err = l.view.hasPlan(ctx, id)
		missing = !has
	}
	if err == nil && missing {
		err = &repo.NotFoundError{Kind: key.Kind, ID: id}
	}
	return err
}

func (l leases) List(ctx context.Context, filter repo.LeaseFilter, page repo.Page) (repo.List[repo.Lease], error) {
	return l.below.List(ctx, filter, page)
}

func (l leases) Acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	if _, err := rules.NormalizeLease(lease); err != nil {
		return repo.Lease{}, err
	}
	if err := l.key(ctx, lease.Key); err != nil {
		return repo.Lease{}, err
	}
	acquired, err := l.below.Acquire(ctx, lease)
	cut(&acquired.Key.Name)
	return acquired, public(err)
}

func (l leases) Await(ctx context.Context, lease repo.Lease) error {
	if err := l.key(ctx, lease.Key); err != nil {
		return err
	}
	return public(l.below.Await(ctx, lease))
}

func (l leases) Renew(ctx context.Context, lease repo.Lease, ttl time.Duration) (repo.Lease, error) {
	if err := l.key(ctx, lease.Key); err != nil {
		return repo.Lease{}, err
	}
	renewed, err := l.below.Renew(ctx, lease, ttl)
	cut(&renewed.Key.Name)
	return renewed, public(err)
}

func (l leases) Release(ctx context.Context, lease repo.Lease) error {
	if err := l.key(ctx, lease.Key); err != nil {
		return err
	}
	return l.below.Release(ctx, lease)
}

func (l leases) ReleaseAll(ctx context.Context, owner string) (int64, error) {
	return l.below.ReleaseAll(ctx, owner)
}

// streams is repo.Streams.
type streams struct {
	view  *view
	below repo.Streams
}

// learned returns a stream with the name of the view.
func (s streams) learned(stream repo.Stream, err error) (repo.Stream, error) {
	if err != nil {
		return stream, public(err)
	}
	cut(&stream.Key)
	s.view.learn("stream", stream.ID)
	return stream, nil
}

// own returns a stream for its writer, or with an id that nobody has if it is not in the view.
func (s streams) own(ctx context.Context, stream repo.Stream) (repo.Stream, standIns, error) {
	if stream.ID.IsZero() || s.view.knows("stream", stream.ID) { // zero is refused below
		return stream, nil, nil
	}
	found, err := s.below.(interface {
		InView(ctx context.Context, id repo.ID) (bool, error)
	}).InView(ctx, stream.ID)
	switch {
	case err != nil:
		return stream, nil, err
	case found:
		s.view.learn("stream", stream.ID)
		return stream, nil, nil
	}
	stands := standIns{stream.ID: repo.NewID()}
	stream.ID = stands.of(stream.ID)
	return stream, stands, nil
}

func (s streams) Get(ctx context.Context, key string) (repo.Stream, error) {
	return s.learned(s.below.Get(ctx, key))
}

func (s streams) Follow(ctx context.Context, key string, from repo.StreamPosition) iter.Seq2[repo.StreamPart, error] {
	return func(yield func(repo.StreamPart, error) bool) {
		for part, err := range s.below.Follow(ctx, key, from) {
			if !yield(part, public(err)) {
				return
			}
		}
	}
}

func (s streams) List(ctx context.Context, sessionID repo.ID, page repo.Page) (repo.List[repo.Stream], error) {
	list, err := session(ctx, s.view, sessionID, func(in repo.ID) (repo.List[repo.Stream], error) { return s.below.List(ctx, in, page) })
	for i := range list.Items {
		list.Items[i], _ = s.learned(list.Items[i], nil)
	}
	return list, err
}

func (s streams) FollowSession(ctx context.Context, sessionID repo.ID) iter.Seq2[repo.Stream, error] {
	return func(yield func(repo.Stream, error) bool) {
		opened := ofSession(ctx, s.view, sessionID, func(in repo.ID) iter.Seq2[repo.Stream, error] { return s.below.FollowSession(ctx, in) })
		for stream, err := range opened {
			if !yield(s.learned(stream, err)) {
				return
			}
		}
	}
}

func (s streams) Open(ctx context.Context, stream repo.NewStream) (repo.Stream, error) {
	if stream.Session.IsZero() {
		return s.learned(s.below.Open(ctx, stream))
	}
	return session(ctx, s.view, stream.Session, func(in repo.ID) (repo.Stream, error) {
		stream.Session = in
		return s.learned(s.below.Open(ctx, stream))
	})
}

func (s streams) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	stream, stands, err := s.own(ctx, stream)
	if err != nil {
		return stream.Next, err
	}
	next, err := s.below.Append(ctx, stream, parts...)
	return next, stands.named(err)
}

func (s streams) Finish(ctx context.Context, stream repo.Stream) error {
	stream, stands, err := s.own(ctx, stream)
	if err == nil {
		err = s.below.Finish(ctx, stream)
	}
	return stands.named(err)
}

func (s streams) Fail(ctx context.Context, stream repo.Stream, reason string) error {
	stream, stands, err := s.own(ctx, stream)
	if err == nil {
		err = s.below.Fail(ctx, stream, reason)
	}
	return stands.named(err)
}

func (s streams) Delete(ctx context.Context, key string) error {
	return public(s.below.Delete(ctx, key))
}

// RemoveExpired removes those of all namespaces, which are gone for everybody.
func (s streams) RemoveExpired(ctx context.Context, limit int) (streams, parts int64, err error) {
	return s.below.RemoveExpired(ctx, limit)
}

// audit is repo.Audit.
type audit struct {
	view  *view
	below repo.Audit
}

func (a audit) Record(ctx context.Context, entries ...repo.AuditEntry) error {
	entries = slices.Clone(entries)
	for i := range entries {
		if err := a.view.own(fmt.Sprintf("entries[%d].namespace", i), &entries[i].Namespace); err != nil {
			return err
		}
	}
	return a.below.Record(ctx, entries...)
}

func (a audit) Entry(ctx context.Context, id repo.ID) (repo.AuditEntry, error) {
	entry, err := a.below.Entry(ctx, id)
	switch {
	case err != nil:
		return repo.AuditEntry{}, err
	case entry.Namespace != a.view.namespace:
		return repo.AuditEntry{}, &repo.NotFoundError{Kind: "audit entry", ID: id}
	}
	return entry, nil
}

func (a audit) List(ctx context.Context, filter repo.AuditFilter, page repo.Page) (list repo.List[repo.AuditEntry], err error) {
	if is, err := a.view.selects(&filter.Namespace); !is {
		return list, err
	}
	return a.below.List(ctx, filter, page)
}

func (a audit) Count(ctx context.Context, filter repo.AuditFilter, limit int) (count int64, more bool, err error) {
	if is, err := a.view.selects(&filter.Namespace); !is {
		return 0, false, err
	}
	return a.below.Count(ctx, filter, limit)
}

func (a audit) Export(ctx context.Context, filter repo.AuditFilter, w io.Writer) error {
	if is, err := a.view.selects(&filter.Namespace); !is {
		return err
	}
	return a.below.Export(ctx, filter, w)
}
