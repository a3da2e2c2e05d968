package repotest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// Whole is a store in which a person is erased, with its views.
type Whole interface {
	removal.Keeper
	In(namespace string) repo.Store
}

// tenant is what a person with a name has in a namespace, as it is read.
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

// ErasedBesideForks tests that an erasure fails before it removes anything, while a hold keeps another person's fork that has the
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
		must(t, hold, sessions.AddHold(t.Context(), hold))
		if refused, is := wantError[*repo.RefusedError](t, erase(whole, name), repo.ErrConflict); is {
			wantSame(t, "kind", refused.Kind, "hold")
		}
		_, err := whole.Removal().Forget(t.Context(), removal.Person{Sessions: []repo.ID{theirs}}) // as if it was held since
		_, _ = wantError[*repo.RefusedError](t, err, repo.ErrConflict)
		for _, id := range []repo.ID{theirs, first, second.ID} {
			wantSame(t, "content", readAll(t, sessions, id)[0].Content, name)
		}
		must(t, hold, sessions.RemoveHold(t.Context(), hold))
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
	wantForgottenEntries(t, whole, theirs, name)
}

// wantForgottenEntries wants entries about a session without the name, one of which says what was deleted.
func wantForgottenEntries(t *testing.T, whole Whole, theirs repo.ID, name string) {
	t.Helper()
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

// ErasedForks tests that an erasure counts what forks of others still have, and no more; that this is erased also if it has come
// with the import of one of the person's forks; and that no slot of a lease keeps the name.
// Guarantee: Deletion: What a person's imported fork had of others is erased in others' forks.
func ErasedForks(t *testing.T, whole Whole, erase func(name string) (messages, texts int64, err error)) {
	t.Helper()
	ctx, name, namespace, sessions := t.Context(), randomName(), randomName(), whole.Sessions()
	owned := func(owner string) repo.NewSession { return repo.NewSession{Namespace: namespace, Owner: owner} }
	fork := func(of repo.ID, at int64, owner string, own ...repo.NewMessage) repo.ID {
		t.Helper()
		made, err := sessions.Fork(ctx, of, at, owned(owner))
		must(t, made, err)
		if len(own) > 0 {
			appendTo(t, sessions, made.ID, own...)
		}
		return made.ID
	}
	theirs, anns := createAs(t, sessions, owned(name)).ID, createAs(t, sessions, owned("ann")).ID
	appendTo(t, sessions, theirs, user(name), user(name), user(name))
	appendTo(t, sessions, anns, user(name), user(name))
	fork(theirs, 1, name, user(name))
	imported := fork(anns, 1, name, user(name))
	restore(t, sessions, imported)
	bobs := []repo.ID{fork(theirs, 0, "bob"), fork(imported, 0, "bob")}
	hold := repo.LegalHold{SessionID: bobs[1], Reason: "x"}
	must(t, hold, sessions.AddHold(ctx, hold))
	_, _, err := erase(name)
	_, _ = wantError[*repo.RefusedError](t, err, repo.ErrConflict)
	must(t, hold, sessions.RemoveHold(ctx, hold))
	carl := randomName()
	fork(imported, 0, carl)
	_, _, err = erase(carl)
	must(t, carl, err)
	wantSame(t, "what the fork's import had brought", readAll(t, sessions, bobs[1])[0].Content, name)
	// What a hold keeps of others' stays, and so does a plan of the person's that waits for a decision.
	acted := createAs(t, sessions, repo.NewSession{Namespace: namespace, Owner: "ann", Actor: name})
	hold = repo.LegalHold{SessionID: acted.ID, Reason: "x"}
	must(t, hold, sessions.AddHold(ctx, hold))
	plan := usePlan(t, whole, plain(t, whole), repo.UseAction{Namespace: namespace, Actor: name, Description: name})
	move(t, whole, plan.ID, repo.TransitionStart)
	move(t, whole, plan.ID, repo.TransitionComplete)
	lease, err := whole.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "user", Name: name}, Owner: "worker", Slots: 2})
	must(t, lease, err)
	must(t, lease, whole.Leases().Release(ctx, lease))
	messages, texts, err := erase(name)
	must(t, name, err)
	wantSame(t, "messages and texts", [2]int64{messages, texts}, [2]int64{4, 2})
	for _, id := range bobs {
		wantSame(t, "content", readAll(t, sessions, id)[0].Content, "erased")
	}
	wantSame(t, "the actor of a session that is held", get(t, sessions, acted.ID).Actor, name)
	wantSame(t, "the plan that waits", getPlan(t, whole, plan.ID).Description, name)
	must(t, hold, sessions.RemoveHold(ctx, hold))
	move(t, whole, plan.ID, repo.TransitionExecute)
	_, err = whole.Plans().Transition(ctx, plan.ID, repo.TransitionCancel, repo.Cause{Reason: "x"})
	must(t, plan, err)
	_, _, err = erase(name)
	must(t, name, err)
	wantSame(t, "the actor", get(t, sessions, acted.ID).Actor, "")
	wantSame(t, "the plan", getPlan(t, whole, plan.ID).Description, "")
	wantSame(t, "what another person had", readAll(t, sessions, anns)[1].Content, name)
	wantNoName(t, whole, name)
}

// restore deletes a session, and imports it again.
func restore(t *testing.T, sessions repo.Sessions, id repo.ID) {
	t.Helper()
	ctx := t.Context()
	var document bytes.Buffer
	must(t, id, sessions.Export(ctx, id, &document))
	_, err := sessions.Delete(ctx, id)
	must(t, id, err)
	_, err = sessions.Import(ctx, &document, true)
	must(t, id, err)
}

// wantNoName wants that nothing in the store has the name.
func wantNoName(t *testing.T, whole Whole, name string) {
	t.Helper()
	for after := (removal.Name{}); ; {
		names, err := whole.Removal().Names(t.Context(), after)
		if must(t, names, err); len(names) == 0 {
			break
		}
		for _, after = range names {
			if strings.Contains(after.Name, name) {
				t.Errorf("the name %q is left", after.Name)
			}
		}
	}
}

// DeletionsAreTold tests that the audit trail names each session and plan that is deleted, by whatever, so that its followers can
// keep an index or files in step. all deletes sessions and ended plans of a namespace for their age.
// Guarantee: Deletion: The audit trail names each session and plan that erasure, retention or a call has deleted.
func DeletionsAreTold(t *testing.T, whole Whole, erase func(name string) error, all func(namespace string) error) {
	t.Helper()
	name, namespace, action := randomName(), randomName(), plain(t, whole)
	gone := map[repo.ID]bool{}
	make := func(owner string) repo.ID {
		t.Helper()
		id := createAs(t, whole.Sessions(), repo.NewSession{Namespace: namespace, Owner: owner}).ID
		appendTo(t, whole.Sessions(), id, user("x"))
		gone[id] = true
		return id
	}
	plan := func(use repo.UseAction) repo.ID {
		t.Helper()
		use.Namespace = namespace
		made := usePlan(t, whole, action, use)
		gone[made.ID] = true
		return made.ID
	}
	top := plan(repo.UseAction{SessionID: make(name)})
	plan(repo.UseAction{ParentID: top})
	must(t, name, erase(name))
	remove(t, whole.Sessions(), make("bob"))
	ended := plan(repo.UseAction{})
	plan(repo.UseAction{ParentID: ended})
	_, err := whole.Plans().Transition(t.Context(), ended, repo.TransitionCancel, repo.Cause{Reason: "x"})
	must(t, ended, err)
	make("ann")
	await.For(t, "all is removed", func() bool { // an age has to pass
		must(t, namespace, all(namespace))
		sessions, err := whole.Sessions().List(t.Context(), repo.SessionFilter{Namespace: namespace, AnyOwner: true}, repo.Page{})
		must(t, sessions, err)
		plans, err := whole.Plans().List(t.Context(), repo.PlanFilter{Namespace: namespace}, repo.Page{})
		return len(sessions.Items)+len(must(t, plans, err).Items) == 0
	})
	told := map[repo.ID]bool{}
	entries, err := whole.Audit().List(t.Context(), repo.AuditFilter{Type: "entity_deleted", Namespace: namespace}, repo.Page{})
	for _, e := range must(t, entries, err).Items {
		told[e.SessionID], told[e.PlanID] = true, true
	}
	delete(told, repo.ID{})
	wantSame(t, "what the trail names", told, gone)
}
