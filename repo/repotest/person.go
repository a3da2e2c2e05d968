package repotest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// Person stores what a person may have in every call that takes texts: their own sessions and plans, and what they do in others'.
// Each text is their name, or contains it. number tells apart those of one store. It returns one of the sessions.
func Person(t testing.TB, store interface {
	repo.Store
	AuditLog() auditlog.Store
}, name, number string,
) repo.ID {
	t.Helper()
	p := &person{t, t.Context(), name, json.RawMessage(`{"by":"` + name + `"}`)}
	session := p.sessions(store)
	p.plans(store, session, number)
	p.audit(store, session)
	return session
}

type person struct {
	testing.TB
	ctx  context.Context //nolint:containedctx // of one call
	name string
	text json.RawMessage
}

func (p *person) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *person) sessions(store repo.Store) repo.ID {
	p.Helper()
	name, sessions := p.name, store.Sessions()
	session, err := sessions.Create(p.ctx, repo.NewSession{Key: name, Owner: name, Actor: name, AutomationProfile: name, Metadata: p.text})
	p.ok(err)
	_, err = sessions.Update(p.ctx, session.ID, repo.SessionUpdate{MetadataPatch: json.RawMessage(`{"again":"` + name + `"}`)})
	p.ok(err)
	_, err = sessions.Create(p.ctx, repo.NewSession{Actor: name}) // another person's
	p.ok(err)
	message := repo.NewMessage{Role: repo.RoleUser, Kind: name, CallID: name, Content: name, Metadata: p.text, Payload: []byte(name), Tokens: 1, Counter: name}
	messages := make([]repo.NewMessage, 1000)
	for i := range messages {
		messages[i] = message
	}
	for _, id := range []string{name, name + "2"} {
		_, err = sessions.AppendTurn(p.ctx, repo.Turn{
			SessionID: session.ID, ID: id, Messages: messages, Usage: &repo.NewUsage{InputTokens: 1},
			State: []repo.StateChange{{Key: name, Value: p.text}, {Scope: repo.Scope{Name: name}, Key: name, Value: p.text}},
		})
		p.ok(err)
	}
	_, err = sessions.Append(p.ctx, session.ID, message, repo.NewMessage{Role: repo.RoleSystem, Kind: "summary", Content: name})
	p.ok(err)
	own, err := sessions.Fork(p.ctx, session.ID, 1500, repo.NewSession{Owner: name})
	p.ok(err)
	_, err = sessions.Append(p.ctx, own.ID, message)
	p.ok(err)
	for _, at := range []int64{10, 1200} { // another person's keep messages
		fork, err := sessions.Fork(p.ctx, session.ID, at, repo.NewSession{Owner: "forks"})
		p.ok(err)
		_, err = sessions.Append(p.ctx, fork.ID, repo.NewMessage{Role: repo.RoleUser, Content: "mine"})
		p.ok(err)
	}
	_, err = sessions.Fork(p.ctx, own.ID, 1501, repo.NewSession{Owner: "forks"})
	p.ok(err)
	for _, about := range []repo.ID{session.ID, {}} {
		stream, err := store.Streams().Open(p.ctx, repo.NewStream{Key: name + about.String(), Owner: name, Session: about})
		p.ok(err)
		_, err = store.Streams().Append(p.ctx, stream, []byte(name))
		p.ok(err)
		p.ok(store.Streams().Fail(p.ctx, stream, name))
	}
	for _, key := range []repo.LeaseKey{{Kind: "any", Name: "of " + session.ID.String()}, {Kind: "user", Name: name}} {
		_, err = store.Leases().Acquire(p.ctx, repo.NewLease{Key: key, Owner: name})
		p.ok(err)
	}
	return session.ID
}

// plans makes plans of the person's, and plans of others in which they do everything.
func (p *person) plans(store repo.Store, session repo.ID, number string) {
	p.Helper()
	name, plans := p.name, store.Plans()
	action := "local/person-" + number
	_, err := store.Actions().Create(p.ctx, repo.NewAction{Name: action, CreatedBy: name, ActionDefinition: repo.ActionDefinition{
		Reusable: true, Arguments: []repo.Argument{{Name: "x", Type: repo.ArgumentString}}, DefinitionOfDone: "{{.x}}",
		StrategyActor: name, ExecutionActor: name, ReviewActor: name, ApplyActor: name, EstimationActor: name, InvariantActor: name,
	}})
	p.ok(err)
	use := repo.UseAction{
		Key: name, Name: name, Description: name, Projects: []repo.ProjectLink{{Project: name, Alias: name}},
		Arguments: []repo.ArgumentValue{{Name: "x", Value: json.RawMessage(`"` + name + `"`)}}, Invariants: []repo.PlanInvariant{{Text: name, Source: name}},
		AutomationProfile: name, AutomationProfileSource: name, AutomationSnapshot: p.text, Actor: name, Trace: name,
	}
	by := repo.Cause{Actor: name, Reason: name}
	failed := func(use repo.UseAction) repo.Plan {
		plan, err := plans.Use(p.ctx, action, use)
		p.ok(err)
		by := by
		if use.Actor == name { // what fails with their arguments says so, under any worker
			by.Actor = "others"
		}
		_, err = plans.Transition(p.ctx, plan.ID, repo.TransitionStart, by)
		p.ok(err)
		_, err = plans.Progress(p.ctx, plan.ID, repo.Progress{CheckpointID: &name})
		p.ok(err)
		plan, err = plans.Transition(p.ctx, plan.ID, repo.TransitionFail, repo.Cause{Actor: by.Actor, Reason: name, Details: p.text, Final: true})
		p.ok(err)
		return plan
	}
	failed(use)                                      // theirs, of no session
	child := failed(repo.UseAction{Actor: "others"}) // another person's, with a cancelled one below
	_, err = plans.Transition(p.ctx, child.ID, repo.TransitionCancel, by)
	p.ok(err)
	use.SessionID = session
	failed(use)
	use.Key, use.SessionID = "", session
	waits, err := plans.Use(p.ctx, action, use) // it has work
	p.ok(err)
	use.ParentID, use.SessionID, use.Name = waits.ID, repo.ID{}, ""
	_, err = plans.Use(p.ctx, action, use)
	p.ok(err)
	p.claims(store, number)
}

// claims has the person claim what others have made: one claim ends, and one goes on.
func (p *person) claims(store repo.Store, number string) {
	p.Helper()
	name, plans := p.name, store.Plans()
	claimed := "local/claimed-" + number
	_, err := store.Actions().Create(p.ctx, repo.NewAction{Name: claimed, ActionDefinition: repo.ActionDefinition{Reusable: true}})
	p.ok(err)
	claim := func(owner string) repo.Plan {
		found, err := plans.Claim(p.ctx, repo.Claim{Owner: owner, Actions: []string{claimed}, TTL: time.Hour})
		p.ok(err)
		if len(found) == 0 {
			return repo.Plan{}
		}
		return found[0].Plan
	}
	_, err = plans.Use(p.ctx, claimed, repo.UseAction{})
	p.ok(err)
	ended := claim(name)
	p.ok(store.Leases().Release(p.ctx, repo.Lease{Key: repo.PlanLease(ended.ID), Owner: name, Fence: p.fence(store, ended.ID)}))
	claim("others")
	_, err = plans.Use(p.ctx, claimed, repo.UseAction{})
	p.ok(err)
	claim(name)
}

// fence returns the fence of a plan's lease.
func (p *person) fence(store repo.Store, id repo.ID) int64 {
	p.Helper()
	leases, err := store.Leases().List(p.ctx, repo.LeaseFilter{Owner: p.name, Kind: repo.LeaseOfPlan, Name: id.String()}, repo.Page{})
	p.ok(err)
	if len(leases.Items) != 1 {
		p.Fatalf("%d leases of the plan", len(leases.Items))
	}
	return leases.Items[0].Fence
}

func (p *person) audit(store interface {
	repo.Store
	AuditLog() auditlog.Store
}, session repo.ID,
) {
	p.Helper()
	p.ok(store.Audit().Record(p.ctx,
		repo.AuditEntry{Type: "tool_invoked", Actor: p.name, User: p.name, Project: p.name, Details: p.text},
		repo.AuditEntry{Type: "tool_invoked", User: p.name, Details: p.text},
		repo.AuditEntry{Type: "tool_invoked", SessionID: session, User: "also " + p.name, Details: p.text},
	))
	sink, err := store.AuditLog().Sink(p.ctx)
	p.ok(err)
	p.ok(sink.Quarantine(p.ctx, auditlog.Poison{ID: repo.NewID(), Document: []byte(`{"actor":"` + p.name + `"}`), Reason: "refused"}))
	p.ok(sink.Close())
}
