package repotest

import (
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
