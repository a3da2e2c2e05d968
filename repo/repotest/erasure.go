package repotest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// Whole is a store of which somebody is erased, with its views.
type Whole interface {
	removal.Keeper
	In(namespace string) repo.Store
}

// tenant is what somebody with a name has in a namespace, as it is read.
type tenant struct {
	namespace string
	store     repo.Store
	plan      repo.ID
	action    string
}

func newTenant(t *testing.T, whole Whole, name string) tenant {
	t.Helper()
	namespace := randomName()
	in := tenant{namespace: namespace, store: whole.In(namespace), action: namespace + "/" + randomName()}
	text, ctx := json.RawMessage(`{"by":"`+name+`"}`), t.Context()
	action, err := in.store.Actions().Create(ctx, repo.NewAction{Name: in.action, CreatedBy: name, ActionDefinition: repo.ActionDefinition{Reusable: true}})
	must(t, action, err)
	plan := usePlan(t, in.store, in.action, repo.UseAction{Name: name, Actor: name, AutomationSnapshot: text})
	in.plan = plan.ID
	_, err = in.store.Plans().Transition(ctx, plan.ID, repo.TransitionCancel, repo.Cause{Actor: name, Reason: name})
	must(t, plan, err)
	must(t, plan, in.store.Audit().Record(ctx, repo.AuditEntry{
		ID: repo.NewID(), OccurredAt: time.Now(), Type: "tool_invoked", Actor: name, User: name, Project: name, Details: text,
	}))
	openStream(t, in.store, repo.NewStream{Key: "k", Owner: name, TTL: time.Hour})
	createAs(t, in.store.Sessions(), repo.NewSession{Owner: "somebody", Actor: name})
	return in
}

// read returns all texts that are stored of a tenant.
func (in tenant) read(t *testing.T) string {
	t.Helper()
	action, err := in.store.Actions().Get(t.Context(), in.action)
	all := []any{must(t, action, err), getPlan(t, in.store, in.plan), history(t, in.store, in.plan)}
	entries, err := in.store.Audit().List(t.Context(), repo.AuditFilter{}, repo.Page{})
	all = append(all, must(t, entries, err).Items)
	sessions, err := in.store.Sessions().List(t.Context(), repo.SessionFilter{AnyOwner: true}, repo.Page{})
	all = append(all, must(t, sessions, err).Items)
	stream, err := in.store.Streams().Get(t.Context(), "k")
	if err == nil {
		all = append(all, stream)
	}
	text, err := json.Marshal(all)
	return string(must(t, text, err))
}

// ErasedInNamespaces tests that an erasure in a namespace finds the names there, and nowhere else: people of several namespaces have
// the same ones.
// Guarantee: Deletion: An erasure in some namespaces changes no plan or entry elsewhere.
func ErasedInNamespaces(t *testing.T, whole Whole, erase func(name string, namespaces ...string) error) {
	t.Helper()
	name := randomName()
	var all []tenant
	var before []string
	for range 3 {
		in := newTenant(t, whole, name)
		all, before = append(all, in), append(before, in.read(t))
	}
	check := func(erased ...int) {
		t.Helper()
		for i, in := range all {
			switch now := in.read(t); {
			case !slices.Contains(erased, i):
				wantSame(t, "what is stored elsewhere", now, before[i])
			case strings.Contains(now, name):
				t.Errorf("the name is left: %s", now)
			}
		}
	}
	must(t, name, erase(name, all[0].namespace))
	check(0)
	must(t, name, erase(name))
	check(0, 1, 2)
}

// ErasedBesideForks tests that an erasure fails before it removes anything, while a hold keeps a fork of somebody else's that has the
// person's messages; and that a fork, a plan and an entry which others make while the person is erased do not keep them.
// Guarantee: Deletion: An erasure leaves forks that a legal hold keeps, and then removes nothing.
// Guarantee: Deletion: What others make of a session while its owner is erased is erased, too.
func ErasedBesideForks(t *testing.T, whole Whole, erase func(store removal.Keeper, name string) error) {
	t.Helper()
	name, namespace, sessions := randomName(), randomName(), whole.Sessions()
	text := json.RawMessage(`{"by":"` + name + `"}`)
	theirs := createAs(t, sessions, repo.NewSession{Namespace: namespace, Owner: name}).ID
	appendTo(t, sessions, theirs, user(name), user(name))
	fork := func(of repo.ID) repo.ID {
		t.Helper()
		made, err := sessions.Fork(t.Context(), of, 1, repo.NewSession{Namespace: namespace, Owner: "bob"})
		return must(t, made, err).ID
	}
	first := fork(theirs)
	appendTo(t, sessions, first, user("mine"))
	second, err := sessions.Fork(t.Context(), first, 2, repo.NewSession{Namespace: namespace, Owner: "ann"})
	must(t, second, err)
	for _, hold := range []repo.LegalHold{{SessionID: first}, {SessionID: second.ID}, {Namespace: namespace, Owner: "bob"}, {Namespace: namespace, Owner: "ann"}} {
		hold.Reason = "x"
		must(t, hold, sessions.Hold(t.Context(), hold))
		if refused, is := wantError[*repo.RefusedError](t, erase(whole, name), repo.ErrConflict); is {
			wantSame(t, "kind", refused.Kind, "hold")
		}
		_, err := whole.Removal().Forget(t.Context(), removal.Person{Sessions: []repo.ID{theirs}}) // as if it was held since
		_, _ = wantError[*repo.RefusedError](t, err, repo.ErrConflict)
		for _, id := range []repo.ID{theirs, first, second.ID} {
			wantSame(t, "content", readAll(t, sessions, id)[0].Content, name)
		}
		must(t, hold, sessions.Release(t.Context(), hold))
	}
	action := plain(t, whole)
	var late []repo.ID
	var plan repo.Plan
	meanwhile := func() {
		late = append(late, fork(theirs))
		plan = usePlan(t, whole, action, repo.UseAction{SessionID: theirs, AutomationSnapshot: text})
		usePlan(t, whole, action, repo.UseAction{ParentID: plan.ID, AutomationSnapshot: text})
		entry := repo.AuditEntry{ID: repo.NewID(), OccurredAt: time.Now(), Type: "tool_invoked", SessionID: theirs, User: name, Details: text}
		must(t, entry, whole.Audit().Record(t.Context(), entry))
	}
	must(t, name, erase(&beside{Whole: whole, meanwhile: meanwhile}, name))
	if len(late) == 0 {
		t.Fatal("nothing was made meanwhile")
	}
	for _, id := range append(late, first, second.ID) {
		for _, m := range readAll(t, sessions, id)[:2] {
			wantSame(t, "content", m.Content, "erased")
		}
	}
	_, err = whole.Plans().Get(t.Context(), plan.ID)
	wantNotFound(t, err, "plan", plan.ID)
	entries, err := whole.Audit().List(t.Context(), repo.AuditFilter{SessionID: theirs}, repo.Page{})
	deletions := 0
	for _, e := range must(t, entries, err).Items {
		if strings.Contains(string(e.Details), name) || e.User == name {
			t.Errorf("the entry %+v is left", e)
		}
		if strings.Contains(string(e.Details), `"entity":"session"`) {
			deletions++
		}
	}
	wantSame(t, "deletions that say what they have deleted", deletions, 1)
}

// beside is a store in which others do something behind the first look at a person's sessions.
type beside struct {
	Whole

	meanwhile func()
}

func (m *beside) Removal() removal.Store { return besideRemoval{m.Whole.Removal(), m} }

type besideRemoval struct {
	removal.Store

	of *beside
}

func (m besideRemoval) Forget(ctx context.Context, person removal.Person) (removal.Forgotten, error) {
	forgotten, err := m.Store.Forget(ctx, person)
	if meanwhile := m.of.meanwhile; meanwhile != nil && err == nil && len(person.Sessions) > 0 {
		m.of.meanwhile = nil
		meanwhile()
	}
	return forgotten, err
}
