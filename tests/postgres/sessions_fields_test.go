package postgres

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// fields collects the fields of values, by their paths, and whether they were not
// zero in any of the values.
type fields map[string]bool

func (f fields) add(path string, v reflect.Value) {
	f[path] = f[path] || !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.add(path, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		for i := range v.Len() {
			f.add(path, v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			f.add(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}

// wantFilled fails if a field is zero in all values: the test would not notice that
// it is not stored.
func wantFilled[V any](t *testing.T, values ...V) {
	t.Helper()
	f := fields{}
	for _, value := range values {
		f.add(reflect.TypeFor[V]().Name(), reflect.ValueOf(value))
	}
	for path, filled := range f {
		if !filled {
			t.Errorf("%s is zero in everything that the test stores: give it a value", path)
		}
	}
}

// wantFields compares a call's result with what another connection reads, field by
// field.
func wantFields[V any](t *testing.T, got V, err error, want V) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	a, b := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			t.Errorf("%T.%s is %v, want %v", got, a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	}
}

// twoStores are two stores on one database, each with connections of its own.
func twoStores(t *testing.T) (writer, reader repo.Store) {
	t.Helper()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenPool(t, pgtest.NewPool(t, databaseURL), agentstore.Options{})
	return pgtest.OpenStore(t, databaseURL, agentstore.Options{}), store
}

func filledAction() repo.NewAction {
	return repo.NewAction{
		Name: "host:team/review", CreatedBy: "someone",
		ActionDefinition: repo.ActionDefinition{
			Description: "d", DefinitionOfDone: "{{.a}} is done",
			StrategyActor: "1", ExecutionActor: "2", ReviewActor: "3", ApplyActor: "4", EstimationActor: "5", InvariantActor: "6",
			AutomationProfile: "p", Reusable: true, ReadOnly: true, InputsSchema: json.RawMessage(`{ "b" : 1.0, "a":2 }`),
			MaxAttempts: 3, MaxAge: time.Hour, Keep: 48 * time.Hour, Phases: []repo.Phase{repo.PhaseStrategize, repo.PhaseApply}, Tags: []string{"t", "s"}, Invariants: []string{"second", "first"},
			Arguments: []repo.Argument{
				{Name: "a", Type: repo.ArgumentString, Required: true, Description: "d", Min: new(1.0), Max: new(9.5), Pattern: "^x"},
				{Name: "b", Type: repo.ArgumentFloat, Default: json.RawMessage(" 1.50 ")},
			},
		},
	}
}

func TestEveryFieldOfActions(t *testing.T) {
	t.Parallel()
	writer, reader := twoStores(t)
	given := filledAction()
	wantFilled(t, given)
	created, err := writer.Actions().Create(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	read, err := reader.Actions().Get(t.Context(), given.Name)
	wantFields(t, read, err, created)
	wantFields(t, read.ActionDefinition, nil, given.ActionDefinition)

	// An update stores each field, too.
	definition := given.ActionDefinition
	definition.Arguments = slices.Clone(definition.Arguments)
	slices.Reverse(definition.Arguments)
	updated, err := writer.Actions().Update(t.Context(), given.Name, 1, definition)
	if err != nil {
		t.Fatal(err)
	}
	read, err = reader.Actions().Get(t.Context(), given.Name)
	wantFields(t, read, err, updated)
	wantFields(t, read.ActionDefinition, nil, definition)
	if _, err := writer.Actions().Update(t.Context(), given.Name, 2, repo.ActionDefinition{}); err != nil {
		t.Fatal(err)
	}
	if updated, err = writer.Actions().Update(t.Context(), given.Name, 3, given.ActionDefinition); err != nil {
		t.Fatal(err)
	}
	read, err = reader.Actions().Get(t.Context(), given.Name)
	wantFields(t, read, err, updated)
	wantFields(t, read.ActionDefinition, nil, given.ActionDefinition)
	archived, err := writer.Actions().Archive(t.Context(), given.Name)
	if err != nil {
		t.Fatal(err)
	}
	read, err = reader.Actions().Get(t.Context(), given.Name)
	wantFields(t, read, err, archived)
	wantFilled(t, created, archived)
}

func TestEveryFieldOfPlans(t *testing.T) {
	t.Parallel()
	writer, reader := twoStores(t)
	if _, err := writer.Actions().Create(t.Context(), filledAction()); err != nil {
		t.Fatal(err)
	}
	top := repo.UseAction{
		Key: "k", Name: "n", Namespace: "ns", SessionID: pgtest.NewSession(t, writer), Attempt: 2, Priority: 1, NotBefore: time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC), Description: "d", Existing: repo.ExistingSame,
		Projects:   []repo.ProjectLink{{Project: "z", Alias: "y", ReadOnly: true}, {Project: "a", Alias: "b"}},
		Arguments:  []repo.ArgumentValue{{Name: "b", Value: json.RawMessage(" 2.50 ")}, {Name: "a", Value: json.RawMessage(`"x\u0061"`)}},
		Invariants: []repo.PlanInvariant{{Text: "t", Source: "s"}},

		AutomationProfile: "p", AutomationProfileSource: "s", AutomationSnapshot: json.RawMessage(`{ "a":1.0 }`), Actor: "someone", Trace: "t",
	}
	var plans []repo.Plan
	check := func(plan repo.Plan, err error) repo.Plan {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		moved := plan.Moved // says something about the call, and is not stored
		plan.Moved = false
		read, err := reader.Plans().Get(t.Context(), plan.ID)
		wantFields(t, read, err, plan)
		read.Moved = moved
		plans = append(plans, read)
		return read
	}
	parent := check(writer.Plans().Use(t.Context(), "host:team/review", top))
	below := top
	below.Key, below.Name, below.ParentID = "below", "", parent.ID
	wantFilled(t, top, below)
	child := check(writer.Plans().Use(t.Context(), "host:team/review", below))
	move := func(transition repo.Transition, details string) {
		t.Helper()
		cause := repo.Cause{Actor: "someone", Reason: "why " + string(transition), Final: transition == repo.TransitionFail}
		if details != "" {
			cause.Details = json.RawMessage(details)
		}
		check(writer.Plans().Transition(t.Context(), child.ID, transition, cause))
	}
	move(repo.TransitionStart, "")
	check(writer.Plans().Progress(t.Context(), child.ID, repo.Progress{CompletedStep: new(int64(7)), CheckpointID: new("c")}))
	move(repo.TransitionFail, `{ "code" : 1.0 }`)
	move(repo.TransitionRevert, "")
	move(repo.TransitionStart, "")
	move(repo.TransitionFail, `{ "code" : 2.0 }`)
	move(repo.TransitionCancel, "") // keeps the plan's error
	wantFilled(t, plans...)

	last := plans[len(plans)-1]
	listed, err := reader.Plans().List(t.Context(), repo.PlanFilter{ParentID: parent.ID}, repo.Page{})
	if err != nil || len(listed.Items) != 1 {
		t.Fatalf("%d plans are listed, %v", len(listed.Items), err)
	}
	last.Moved = false
	wantFields(t, listed.Items[0], nil, last)
	events, err := reader.Plans().History(t.Context(), child.ID, 0, 0)
	if err != nil || int64(len(events)) != last.Version {
		t.Fatalf("%d events, %v, want %d", len(events), err, last.Version)
	}
	wantFilled(t, events...)
}

func TestEveryFieldOfSessions(t *testing.T) {
	t.Parallel()
	writer, reader := twoStores(t)
	if _, err := writer.Actions().Create(t.Context(), repo.NewAction{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	given := repo.NewSession{
		ID: repo.NewID(), Namespace: "ns", Key: "k", Owner: "o", Existing: repo.ExistingNone, Actor: "a", AutomationProfile: "p", Metadata: json.RawMessage(`{ "b":1.0, "a":2 }`), Budget: new(repo.Cost(9)),
		FencedOnly: true,
	}
	wantFilled(t, given)
	created, err := writer.Sessions().Create(t.Context(), given)
	if err != nil {
		t.Fatal(err)
	}
	read, err := reader.Sessions().Get(t.Context(), given.ID)
	wantFields(t, read, err, created)

	if _, err := writer.Sessions().Update(t.Context(), given.ID, repo.SessionUpdate{FencedOnly: new(false)}); err != nil {
		t.Fatal(err)
	}
	messages := []repo.NewMessage{user("first"), {
		ID: repo.NewID(), Role: repo.RoleTool, Content: "second", Metadata: json.RawMessage(`{ "a":1.0 }`), Payload: []byte{0, 255},
		Kind: "tool_result", CallID: "c1", Tokens: 3, Counter: "words", OccurredAt: time.Date(2026, 2, 3, 4, 5, 6, 789001000, time.UTC),
	}}
	wantFilled(t, messages...)
	stored, err := writer.Sessions().Append(t.Context(), given.ID, messages...)
	if err != nil {
		t.Fatal(err)
	}
	wantFilled(t, stored...)
	for _, message := range stored {
		read, err := reader.Sessions().Message(t.Context(), given.ID, message.ID)
		wantFields(t, read, err, message)
	}

	if _, err := writer.Sessions().AddUsage(t.Context(), given.ID, repo.NewUsage{InputTokens: 1, OutputTokens: 2, Cost: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Plans().Use(t.Context(), "a", repo.UseAction{SessionID: given.ID}); err != nil {
		t.Fatal(err)
	}
	updated, err := writer.Sessions().Update(t.Context(), given.ID, repo.SessionUpdate{
		Actor: new("b"), AutomationProfile: new("q"), Metadata: json.RawMessage(`{"c" :3}`), Budget: new(repo.Cost(99)),
		FencedOnly: new(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := writer.Sessions().Create(t.Context(), repo.NewSession{ID: given.ID, Existing: repo.ExistingAny, Namespace: given.Namespace, Key: given.Key})
	if err != nil || !again.Existed {
		t.Errorf("%+v, %v", again, err)
	}
	wantFilled(t, updated, again)
	read, err = reader.Sessions().Get(t.Context(), given.ID)
	wantFields(t, read, err, updated)
}
