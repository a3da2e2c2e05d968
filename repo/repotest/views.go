package repotest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// RunViews runs the suite on views of stores that open returns, which in makes of one. Each subtest has
// a view of its own. Whatever it makes under a name (the key of a session, an action, a shared scope, a
// lease, a stream) is made in another view first, under the same name, with other contents: so equal
// keys are everywhere. Left out are the audit trail's log, which is that of the whole store, and what a
// view refuses (leftOfViews).
func RunViews[Store auditlog.Keeper](t *testing.T, open func(t *testing.T) Store, in func(store Store, namespace string) repo.Store, options ...Option) {
	t.Helper()
	groups := slices.Concat(repositoryGroups(), storeGroups(), raceGroups())
	for i, g := range groups {
		groups[i].tests = slices.DeleteFunc(slices.Clone(g.tests), func(test test) bool {
			return leftOfViews[g.name] != "" || leftOfViews[g.name+"/"+test.name] != ""
		})
	}
	run(t, groups, func(t *testing.T) repo.Store {
		whole, space := open(t), randomName()
		return viewed{in(whole, space), in(whole, randomName()), whole, space}
	}, options)
}

// leftOfViews are the groups and tests that are left out: they are about what a view does not have.
var leftOfViews = map[string]string{
	"AuditSink":                "the whole store",
	"Actions/List":             "several namespaces",
	"Actions/Names":            "several namespaces",
	"Activity/Cursors":         "several namespaces",
	"Activity/Order":           "several namespaces",
	"Audit/Conflicts":          "several namespaces",
	"Audit/ZeroValue":          "several namespaces",
	"ClaimRaces/Cancel":        "several namespaces",
	"Claims/Claim":             "several namespaces",
	"Claims/Fair":              "several namespaces",
	"Claims/Filters":           "several namespaces",
	"Claims/AllNamespaces":     "several namespaces",
	"Claims/OwnActions":        "several namespaces",
	"Concurrency/CreateOneID":  "several namespaces",
	"FenceRaces/Creations":     "leases of sessions or plans that do not exist",
	"FenceRaces/InTx":          "leases of sessions or plans that do not exist",
	"Fences/MadeLater":         "leases of sessions or plans that do not exist",
	"Fences/OtherTokens":       "leases of sessions or plans that do not exist",
	"Keys/ByKeyMissing":        "several namespaces",
	"Keys/Find":                "several namespaces",
	"Keys/Owners":              "several namespaces",
	"Keys/WhateverIsThere":     "several namespaces",
	"Keys/WithAnID":            "several namespaces",
	"LeaseRaces/Await":         "several namespaces",
	"Leases/Keys":              "leases of sessions or plans that do not exist",
	"Leases/ReleaseAll":        "leases of sessions or plans that do not exist",
	"List/Cursors":             "several namespaces",
	"List/DefaultNamespace":    "several namespaces",
	"List/Filters":             "several namespaces",
	"List/Namespaces":          "several namespaces",
	"PlanRaces/NotReusable":    "several namespaces",
	"PlanRaces/Use":            "several namespaces",
	"PlanEnds/ListByAction":    "several namespaces",
	"Plans/Filters":            "several namespaces",
	"Read/Sessions":            "several namespaces",
	"Sessions/CreateAgain":     "several namespaces",
	"Sessions/CreateConflicts": "several namespaces",
	"Sessions/CreateZeroValue": "several namespaces",
	"State/ImportedVersion":    "several namespaces",
	"Use/Again":                "several namespaces",
	"Use/Arguments":            "several namespaces",
	"Use/Child":                "several namespaces",
	"Use/Conflicts":            "several namespaces",
	"Use/Copies":               "several namespaces",
	"Use/EveryField":           "several namespaces",
	"Use/Keys":                 "several namespaces",
	"Use/LeavesAction":         "several namespaces",
	"Values/Texts":             "several namespaces",
	"Work/Claimed":             "several namespaces",
}

// viewed is a view, beside another one that has the same names.
type viewed struct {
	repo.Store

	other repo.Store
	whole auditlog.Keeper
	space string
}

func (v viewed) Space() string            { return v.space }
func (v viewed) Close() error             { return v.whole.Close() }
func (v viewed) AuditLog() auditlog.Store { return v.whole.AuditLog() }

func (v viewed) Audit() repo.Audit       { return viewedAudit{v.Store.Audit(), v} }
func (v viewed) Sessions() repo.Sessions { return viewedSessions{v.Store.Sessions(), v} }
func (v viewed) Actions() repo.Actions   { return viewedActions{v.Store.Actions(), v} }
func (v viewed) State() repo.State       { return viewedState{v.Store.State(), v} }
func (v viewed) Leases() repo.Leases     { return viewedLeases{v.Store.Leases(), v} }
func (v viewed) Streams() repo.Streams   { return viewedStreams{v.Store.Streams(), v} }

type viewedAudit struct {
	repo.Audit

	viewed viewed
}

func (a viewedAudit) Space() string { return a.viewed.space }

type viewedSessions struct {
	repo.Sessions

	viewed viewed
}

func (s viewedSessions) Space() string { return s.viewed.space }

func (s viewedSessions) Create(ctx context.Context, session repo.NewSession) (repo.Session, error) {
	s.twice(ctx, session)
	return s.Sessions.Create(ctx, session)
}

func (s viewedSessions) AppendTurn(ctx context.Context, turn repo.Turn) (repo.AppendedTurn, error) {
	if turn.Create != nil {
		s.twice(ctx, *turn.Create)
	}
	s.viewed.change(ctx, turn.State)
	return s.Sessions.AppendTurn(ctx, turn)
}

func (s viewedSessions) twice(ctx context.Context, session repo.NewSession) {
	if session.Key != "" {
		_, _ = s.viewed.other.Sessions().Create(ctx, repo.NewSession{Key: session.Key, Owner: "other"})
	}
}

type viewedActions struct {
	repo.Actions

	viewed viewed
}

func (a viewedActions) Create(ctx context.Context, action repo.NewAction) (repo.Action, error) {
	_, name, _ := strings.Cut(action.Name, "/")
	_, _ = a.viewed.other.Actions().Create(ctx, repo.NewAction{Name: name, CreatedBy: "other"})
	return a.Actions.Create(ctx, action)
}

type viewedState struct {
	repo.State

	viewed viewed
}

func (s viewedState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	s.viewed.change(ctx, changes)
	return s.State.Change(ctx, changes, conditions...)
}

// change gives the shared scopes of changes other values in the other view.
func (v viewed) change(ctx context.Context, changes []repo.StateChange) {
	for _, c := range changes {
		if c.Scope.Name != "" && len(changes) < 10 {
			_, _ = v.other.State().Change(ctx, []repo.StateChange{{Scope: c.Scope, Key: c.Key, Value: []byte(`"other"`)}})
		}
	}
}

type viewedLeases struct {
	repo.Leases

	viewed viewed
}

func (l viewedLeases) Acquire(ctx context.Context, lease repo.NewLease) (repo.Lease, error) {
	_, _ = l.viewed.other.Leases().Acquire(ctx, repo.NewLease{Key: lease.Key, Owner: lease.Owner + " of the other"})
	return l.Leases.Acquire(ctx, lease)
}

type viewedStreams struct {
	repo.Streams

	viewed viewed
}

func (s viewedStreams) Open(ctx context.Context, stream repo.NewStream) (repo.Stream, error) {
	if opened, err := s.viewed.other.Streams().Open(ctx, repo.NewStream{Key: stream.Key, Owner: "other"}); err == nil {
		_, _ = s.viewed.other.Streams().Append(ctx, opened, []byte("other"))
	}
	return s.Streams.Open(ctx, stream)
}
