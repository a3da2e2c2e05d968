package repotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
)

// RunApart asks one view of a store by every method of the contract for what is in another one, by ids,
// keys, names and cursors, in and outside of a transaction: it is not found, and stays as it is. The other
// view itself is asked the same, and finds it. A method without a question fails the test.
// Guarantee: Views: No method of a view finds or changes what belongs to another namespace, by id, key, name or cursor.
func RunApart(t *testing.T, open func(t *testing.T) (one, other repo.Store, otherNamespace string)) {
	t.Helper()
	for _, method := range slices.Sorted(maps.Keys(questions)) {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			one, other, namespace := open(t)
			wantApart(t, one, newBelongings(t, other, namespace), method)
			if follows[method] {
				wantSomething(t, other, newBelongings(t, other, namespace), method)
				return
			}
			of := newBelongings(t, other, namespace)
			err := one.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				wantApart(t, inside{ctx, tx}, of, method)
				return errOver
			})
			if !errors.Is(err, errOver) {
				t.Errorf("InTx: %v", err)
			}
			wantSomething(t, other, of, method)
		})
	}
	for _, test := range apartTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			one, other, namespace := open(t)
			test.run(t, one, other, namespace)
		})
	}
	t.Run("Methods", func(t *testing.T) {
		for _, method := range methods() {
			if questions[method] == nil && !unasked[method] {
				t.Errorf("%s has no question: a view may not check it", method)
			}
		}
	})
}

// unasked are methods that are asked by others, or name nothing.
var unasked = map[string]bool{
	"Store.InTx": true, "Store.Close": true,
	"Streams.RemoveExpired":  true, // what has expired is gone for everybody
	"Plans.Sweep":            true, // and so has what it ends
	"Sessions.RemoveDeleted": true,
}

// follows are methods that wait, which a transaction does not allow.
var follows = map[string]bool{"Sessions.Follow": true, "Streams.Follow": true, "Streams.FollowSession": true, "Leases.Await": true}

// methods returns those of all interfaces of the contract.
func methods() (names []string) {
	store := reflect.TypeFor[repo.Store]()
	for method := range store.Methods() {
		if method.Type.NumIn() > 0 || method.Type.Out(0).Kind() != reflect.Interface || method.Name == "Close" {
			names = append(names, "Store."+method.Name)
			continue
		}
		for own := range method.Type.Out(0).Methods() {
			names = append(names, method.Name+"."+own.Name)
		}
	}
	return names
}

// inside has the repositories of a transaction, and its context.
type inside struct {
	ctx context.Context //nolint:containedctx // it is the transaction's
	repo.Repositories
}

// belongings are what a view has.
type belongings struct {
	ctx                                                                                     context.Context //nolint:containedctx // it is the test's
	namespace, owner, action, scope, stream                                                 string
	session, held, message, plan                                                            repo.ID
	key                                                                                     repo.SessionKey
	lease, named                                                                            repo.Lease
	opened                                                                                  repo.Stream
	entry                                                                                   repo.AuditEntry
	document                                                                                []byte
	sessions, sessionsByActivity, actions, plans, limits, holds, leases, audits, keysOfName string // cursors
}

func newBelongings(t *testing.T, other repo.Store, namespace string) belongings {
	t.Helper()
	ctx := t.Context()
	b := belongings{ctx: ctx, namespace: namespace, owner: randomName(), scope: randomName(), stream: randomName(), action: namespace + "/" + randomName()}
	b.key = repo.SessionKey{Namespace: namespace, Key: randomName()}
	session := createAs(t, other.Sessions(), repo.NewSession{Key: b.key.Key, Owner: b.owner})
	b.session = session.ID
	b.held = createAs(t, other.Sessions(), repo.NewSession{Owner: b.owner}).ID
	for _, hold := range []repo.LegalHold{{SessionID: b.held, Reason: "r"}, {Namespace: namespace, Owner: "held", Reason: "r"}} {
		if err := other.Sessions().Hold(ctx, hold); err != nil {
			t.Fatal(err)
		}
	}
	turn, err := other.Sessions().AppendTurn(ctx, repo.Turn{SessionID: b.session, ID: "turn", Messages: []repo.NewMessage{
		{Role: repo.RoleUser, Content: "secret", CallID: "call"}, user("secret"),
	}, State: []repo.StateChange{
		{Key: "k", Value: []byte(`"secret"`)},
		{Scope: repo.Scope{Name: b.scope}, Key: "k", Value: []byte(`"secret"`)},
		{Scope: repo.Scope{Name: b.scope}, Key: "l", Value: []byte(`1`)},
	}})
	b.message = must(t, turn, err).Messages[0].ID
	for _, name := range []string{b.action, namespace + "/" + randomName()} {
		action, err := other.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true}})
		must(t, action, err)
	}
	b.plan = usePlan(t, other, b.action, repo.UseAction{SessionID: b.session}).ID
	usePlan(t, other, b.action, repo.UseAction{SessionID: b.session})
	for _, action := range []string{"", b.action} {
		if err := other.Plans().SetLimit(ctx, repo.PlanLimit{Action: action, AtOnce: 10}); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := other.Leases().Acquire(ctx, repo.NewLease{Key: repo.SessionLease(b.session), Owner: b.owner})
	b.lease = must(t, lease, err)
	lease, err = other.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: randomName()}, Owner: b.owner})
	b.named = must(t, lease, err)
	stream, err := other.Streams().Open(ctx, repo.NewStream{Key: b.stream, Owner: b.owner, Session: b.session})
	b.opened = must(t, stream, err)
	b.opened.Next, err = other.Streams().Append(ctx, b.opened, []byte("secret"))
	must(t, stream, err)
	b.entry = repo.AuditEntry{ID: repo.NewID(), Type: events.ToolInvoked, Namespace: namespace, User: b.owner, SessionID: b.session, Details: []byte(`{"secret":1}`)}
	record(t, other.Audit(), b.entry, repo.AuditEntry{Type: events.ToolInvoked, User: b.owner})
	var document bytes.Buffer
	if err := other.Sessions().Export(ctx, b.session, &document); err != nil {
		t.Fatal(err)
	}
	b.document = document.Bytes()
	first := repo.Page{Limit: 1}
	b.sessions = cursorOf(t)(next(other.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true}, first)))
	b.sessionsByActivity = cursorOf(t)(next(other.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, ByActivity: true}, first)))
	b.holds = cursorOf(t)(next(other.Sessions().Holds(ctx, first)))
	b.actions = cursorOf(t)(next(other.Actions().List(ctx, repo.ActionFilter{}, first)))
	b.plans = cursorOf(t)(next(other.Plans().List(ctx, repo.PlanFilter{}, first)))
	b.limits = cursorOf(t)(next(other.Plans().Limits(ctx, first)))
	b.leases = cursorOf(t)(next(other.Leases().List(ctx, repo.LeaseFilter{}, first)))
	b.audits = cursorOf(t)(next(other.Audit().List(ctx, repo.AuditFilter{User: b.owner}, first)))
	page, err := other.State().List(ctx, repo.Scope{Name: b.scope}, "", first)
	b.keysOfName = cursorOf(t)(page.Next, err)
	return b
}

func next[V any](list repo.List[V], err error) (string, error) { return list.Next, err }

func cursorOf(t *testing.T) func(string, error) string {
	return func(cursor string, err error) string {
		t.Helper()
		if err != nil || cursor == "" {
			t.Fatalf("the cursor is %q: %v", cursor, err)
		}
		return cursor
	}
}

// contextOf returns the context of a transaction, or another one.
func (b belongings) contextOf(r repo.Repositories) context.Context {
	if tx, is := r.(inside); is {
		return tx.ctx
	}
	return b.ctx
}

func wantApart(t *testing.T, one repo.Repositories, of belongings, method string) {
	t.Helper()
	for i, question := range questions[method] {
		found, err := question(one, of, of.contextOf(one))
		refused := errors.Is(err, repo.ErrNotFound) || errors.Is(err, repo.ErrInvalid) || errors.Is(err, repo.ErrConflict) || errors.Is(err, repo.ErrImport)
		if err == nil && !isNothing(found) || err != nil && !refused {
			t.Errorf("question %d found %v: %v", i, found, err)
		}
		if err != nil && bytes.Contains([]byte(err.Error()), []byte("secret")) {
			t.Errorf("question %d gave the error %v", i, err)
		}
	}
}

func wantSomething(t *testing.T, other repo.Repositories, of belongings, method string) {
	t.Helper()
	for i, question := range questions[method] {
		if found, err := question(other, of, of.ctx); err != nil || isNothing(found) {
			t.Errorf("question %d of the view itself found %v: %v", i, found, err)
		}
	}
}

func isNothing(found any) bool {
	v := reflect.ValueOf(found)
	return !v.IsValid() || v.IsZero() || (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
}

// question asks for what is in another view. It returns what it has found, or done.
type question func(r repo.Repositories, b belongings, ctx context.Context) (any, error)

func asked[V any](value V, err error) (any, error) { return value, err }

func did(err error) (any, error) { return err == nil, err }

func items[V any](list repo.List[V], err error) (any, error) { return list.Items, err }

// first returns the first of what is yielded.
func first[V any](all iter.Seq2[V, error]) (any, error) {
	for value, err := range all {
		return value, err
	}
	return nil, nil
}

// soon is first, for what may wait for ever.
func soon[V any](ctx context.Context, follow func(context.Context) iter.Seq2[V, error]) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	found, err := first(follow(ctx))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return found, err
}

var questions = map[string][]question{
	"Sessions.Create": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Create(ctx, repo.NewSession{ID: b.session, Existing: repo.ExistingAny}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Create(ctx, repo.NewSession{Namespace: b.namespace, Key: b.key.Key, Existing: repo.ExistingAny}))
	}},
	"Sessions.Get": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Get(ctx, b.session))
	}},
	"Sessions.Find": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Find(ctx, b.key))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Find(ctx, repo.SessionKey{Key: b.key.Key}))
	}},
	"Sessions.Read": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		read, err := r.Sessions().Read(ctx, repo.ReadSessions{IDs: []repo.ID{b.session}, Last: 10, State: true})
		if err != nil || read.Sessions[0] == nil {
			return nil, err
		}
		return read.Sessions[0].Messages, nil
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		read, err := r.Sessions().Read(ctx, repo.ReadSessions{Scopes: []string{b.scope}})
		if err != nil {
			return nil, err
		}
		return read.Scopes[0].Values, nil
	}},
	"Sessions.List": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Sessions().List(ctx, repo.SessionFilter{Namespace: b.namespace, Owner: b.owner}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true}, repo.Page{After: b.sessions}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, ByActivity: true}, repo.Page{After: b.sessionsByActivity}))
	}},
	"Sessions.Namespaces": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Sessions().Namespaces(ctx, repo.Page{}))
	}},
	"Sessions.Update": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Update(ctx, b.session, repo.SessionUpdate{Actor: ptr("intruder")}))
	}},
	"Sessions.AddUsage": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().AddUsage(ctx, b.session, repo.NewUsage{InputTokens: 1}))
	}},
	"Sessions.Fork": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Fork(ctx, b.session, 0, repo.NewSession{}))
	}},
	"Sessions.Delete": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Delete(ctx, b.session))
	}},
	"Sessions.Hold": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Sessions().Hold(ctx, repo.LegalHold{SessionID: b.session, Reason: "intruder"}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Sessions().Hold(ctx, repo.LegalHold{Namespace: b.namespace, Owner: b.owner, Reason: "intruder"}))
	}},
	"Sessions.Holds": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Sessions().Holds(ctx, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Sessions().Holds(ctx, repo.Page{After: b.holds}))
	}},
	"Sessions.Release": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Sessions().Release(ctx, repo.LegalHold{SessionID: b.held}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Sessions().Release(ctx, repo.LegalHold{Namespace: b.namespace, Owner: "held"}))
	}},
	"Sessions.Message": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Message(ctx, b.session, b.message))
	}},
	"Sessions.MessagesFrom": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().MessagesFrom(ctx, b.session, 0, 10))
	}},
	"Sessions.MessagesBefore": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().MessagesBefore(ctx, b.session, 10, 10))
	}},
	"Sessions.LastMessages": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().LastMessages(ctx, b.session, 10))
	}},
	"Sessions.MessagesOfCall": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().MessagesOfCall(ctx, b.session, "call"))
	}},
	"Sessions.Turn": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Turn(ctx, b.session, "turn"))
	}},
	"Sessions.Branches": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Branches(ctx, b.session, 0))
	}},
	"Sessions.Messages": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return first(r.Sessions().Messages(ctx, b.session, 0))
	}},
	"Sessions.Follow": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return first(r.Sessions().Follow(ctx, b.session, 0))
	}},
	"Sessions.Append": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().Append(ctx, b.session, user("intruder")))
	}},
	"Sessions.AppendTurn": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().AppendTurn(ctx, repo.Turn{SessionID: b.session, Messages: users(1), State: []repo.StateChange{{Key: "k", Value: []byte("1")}}}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().AppendTurn(ctx, repo.Turn{SessionID: b.session, Messages: users(1), Create: &repo.NewSession{}}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().AppendTurn(ctx, repo.Turn{Action: b.action, SessionID: b.session}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().AppendTurn(ctx, repo.Turn{SessionID: b.session, Open: &repo.NewStream{Key: b.stream, Owner: "intruder"}}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		own, err := r.Sessions().Create(ctx, repo.NewSession{})
		if err != nil {
			return nil, err
		}
		return asked(r.Sessions().AppendTurn(ctx, repo.Turn{SessionID: own.ID, Action: b.action}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		key := repo.NewSession{Namespace: b.namespace, Key: b.key.Key}
		return asked(r.Sessions().AppendTurn(ctx, repo.Turn{Messages: users(1), Create: &key}))
	}},
	"Sessions.AppendTurns": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().AppendTurns(ctx, repo.Turn{SessionID: b.session, Messages: users(1)}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Sessions().AppendTurns(ctx, repo.Turn{SessionID: b.session, Messages: users(1), Create: &repo.NewSession{}}))
	}},
	"Sessions.Export": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		var w bytes.Buffer
		err := r.Sessions().Export(ctx, b.session, &w)
		return w.Bytes(), err
	}},
	"Sessions.Import": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		if r.Sessions().Export(ctx, b.session, &bytes.Buffer{}) == nil { // the view itself
			if _, err := r.Sessions().Delete(ctx, b.session); err != nil {
				return nil, err
			}
		}
		return asked(r.Sessions().Import(ctx, bytes.NewReader(b.document), true))
	}},

	"Actions.Create": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Actions().Create(ctx, repo.NewAction{Name: b.action, ActionDefinition: repo.ActionDefinition{Reusable: true}}))
	}},
	"Actions.Get": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Actions().Get(ctx, b.action))
	}},
	"Actions.List": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Actions().List(ctx, repo.ActionFilter{}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Actions().List(ctx, repo.ActionFilter{Namespace: b.namespace}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Actions().List(ctx, repo.ActionFilter{}, repo.Page{After: b.actions}))
	}},
	"Actions.Update": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Actions().Update(ctx, b.action, 0, repo.ActionDefinition{}))
	}},
	"Actions.Archive": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Actions().Archive(ctx, b.action))
	}},
	"Actions.Delete": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		err := r.Actions().Delete(ctx, b.action)
		if _, used := errors.AsType[*repo.RefusedError](err); used {
			return "it is in use", nil
		}
		return did(err)
	}},

	"Plans.Get": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Plans().Get(ctx, b.plan))
	}},
	"Plans.List": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Plans().List(ctx, repo.PlanFilter{}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Plans().List(ctx, repo.PlanFilter{Namespace: b.namespace}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Plans().List(ctx, repo.PlanFilter{SessionID: b.session}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Plans().List(ctx, repo.PlanFilter{}, repo.Page{After: b.plans}))
	}},
	"Plans.History": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Plans().History(ctx, b.plan, 1, 10))
	}},
	"Plans.Use": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Plans().Use(ctx, b.action, repo.UseAction{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return withOwnAction(ctx, r, repo.UseAction{SessionID: b.session})
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return withOwnAction(ctx, r, repo.UseAction{ParentID: b.plan})
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return withOwnAction(ctx, r, repo.UseAction{Namespace: b.namespace})
	}},
	"Plans.Transition": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Plans().Transition(ctx, b.plan, repo.TransitionStart, repo.Cause{}))
	}},
	"Plans.Claim": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Plans().Claim(ctx, repo.Claim{Owner: "intruder"}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Plans().Claim(ctx, repo.Claim{Owner: "intruder", AllNamespaces: true}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		usePlanOf(ctx, r, b)
		return asked(r.Plans().Claim(ctx, repo.Claim{Owner: "intruder", Namespaces: []string{b.namespace}, Actions: []string{b.action}}))
	}},
	"Plans.Counts": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Plans().Counts(ctx, b.namespace, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Plans().Counts(ctx, "", repo.Page{}))
	}},
	"Plans.SetLimit": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Plans().SetLimit(ctx, repo.PlanLimit{Namespace: b.namespace, AtOnce: 0}))
	}},
	"Plans.Limits": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Plans().Limits(ctx, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Plans().Limits(ctx, repo.Page{After: b.limits}))
	}},
	"Plans.Delete": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		err := r.Plans().Delete(ctx, b.plan)
		if _, busy := errors.AsType[*repo.RefusedError](err); busy {
			return "it is queued", nil
		}
		return did(err)
	}},
	"Plans.Progress": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		plan, err := r.Plans().Progress(ctx, b.plan, repo.Progress{CompletedStep: ptr(int64(1))})
		if _, queued := errors.AsType[*repo.TransitionConflictError](err); queued {
			return "it is queued", nil
		}
		return plan, err
	}},
	"Plans.Link": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Plans().Link(ctx, b.session, b.plan))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		own, err := r.Sessions().Create(ctx, repo.NewSession{})
		if err != nil {
			return nil, err
		}
		return did(r.Plans().Link(ctx, own.ID, b.plan))
	}},
	"Plans.Unlink": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Plans().Unlink(ctx, b.session, b.plan))
	}},

	"State.Get": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.State().Get(ctx, repo.Scope{SessionID: b.session}, "k"))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.State().Get(ctx, repo.Scope{Name: b.scope}, "k"))
	}},
	"State.Read": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return valuesOf(r.State().Read(ctx, repo.Scope{SessionID: b.session}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return valuesOf(r.State().Read(ctx, repo.Scope{Name: b.scope}))
	}},
	"State.List": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.State().List(ctx, repo.Scope{SessionID: b.session}, "", repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		page, err := r.State().List(ctx, repo.Scope{Name: b.scope}, "", repo.Page{})
		return page.Values, err
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		page, err := r.State().List(ctx, repo.Scope{Name: b.scope}, "", repo.Page{After: b.keysOfName})
		return page.Values, err
	}},
	"State.Change": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{SessionID: b.session}, Key: "k", Value: []byte("1")}}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) { // a condition on what is there
		return asked(r.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{Name: b.scope}, Key: "l", Op: repo.StateIncrement, By: 1, IfVersion: versionOf(ctx, r, b)}}))
	}},
	"State.Erase": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.State().Erase(ctx, b.scope))
	}},

	"Leases.List": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Leases().List(ctx, repo.LeaseFilter{}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Leases().List(ctx, repo.LeaseFilter{Kind: repo.LeaseOfSession}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Leases().List(ctx, repo.LeaseFilter{Kind: b.named.Key.Kind, Name: b.named.Key.Name}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Leases().List(ctx, repo.LeaseFilter{Owner: b.owner}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Leases().List(ctx, repo.LeaseFilter{}, repo.Page{After: b.leases}))
	}},
	"Leases.Acquire": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Leases().Acquire(ctx, repo.NewLease{Key: b.lease.Key, Owner: b.owner}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Leases().Acquire(ctx, repo.NewLease{Key: repo.PlanLease(b.plan), Owner: b.owner}))
	}},
	"Leases.Renew": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Leases().Renew(ctx, b.lease, time.Hour))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Leases().Renew(ctx, b.named, time.Hour))
	}},
	"Leases.Await": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return waited(ctx, r, b.lease)
	}},
	"Leases.Release": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Leases().Release(ctx, b.lease))
	}},
	"Leases.ReleaseAll": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Leases().ReleaseAll(ctx, b.owner))
	}},

	"Streams.Get": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Streams().Get(ctx, b.stream))
	}},
	"Streams.Follow": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return first(r.Streams().Follow(ctx, b.stream, repo.StreamPosition{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return first(r.Streams().Follow(ctx, b.stream, repo.StreamPosition{StreamID: b.opened.ID}))
	}},
	"Streams.List": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Streams().List(ctx, b.session, repo.Page{}))
	}},
	"Streams.FollowSession": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return soon(ctx, func(ctx context.Context) iter.Seq2[repo.Stream, error] {
			return r.Streams().FollowSession(ctx, b.session)
		})
	}},
	"Streams.Open": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Streams().Open(ctx, repo.NewStream{Key: randomName(), Owner: "intruder", Session: b.session}))
	}},
	"Streams.Append": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		next, err := r.Streams().Append(ctx, b.opened, []byte("intruder"))
		return next, err
	}},
	"Streams.Finish": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Streams().Finish(ctx, b.opened))
	}},
	"Streams.Fail": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Streams().Fail(ctx, b.opened, "intruder"))
	}},
	"Streams.Delete": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Streams().Delete(ctx, b.stream))
	}},

	"Audit.Record": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return did(r.Audit().Record(ctx, b.entry))
	}},
	"Audit.Entry": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return asked(r.Audit().Entry(ctx, b.entry.ID))
	}},
	"Audit.List": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Audit().List(ctx, repo.AuditFilter{SessionID: b.session}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Audit().List(ctx, repo.AuditFilter{Namespace: b.namespace}, repo.Page{}))
	}, func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		return items(r.Audit().List(ctx, repo.AuditFilter{User: b.owner}, repo.Page{After: b.audits}))
	}},
	"Audit.Count": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		count, _, err := r.Audit().Count(ctx, repo.AuditFilter{SessionID: b.session}, 0)
		return count, err
	}},
	"Audit.Export": {func(r repo.Repositories, b belongings, ctx context.Context) (any, error) {
		var w bytes.Buffer
		err := r.Audit().Export(ctx, repo.AuditFilter{SessionID: b.session}, &w)
		return w.Bytes(), err
	}},
}

// usePlanOf adds a plan to those of the view itself.
func usePlanOf(ctx context.Context, r repo.Repositories, b belongings) {
	_, _ = r.Plans().Use(ctx, b.action, repo.UseAction{})
}

// waited waits for the end of a lease. Waiting for it is having found it.
func waited(ctx context.Context, r repo.Repositories, lease repo.Lease) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	err := r.Leases().Await(ctx, lease)
	if errors.Is(err, context.DeadlineExceeded) {
		return "it is held", nil
	}
	return nil, err
}

func valuesOf(states []repo.ScopeState, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return states[0].Values, nil
}

// versionOf returns the version of a key that the view sees, or one that it has not.
func versionOf(ctx context.Context, r repo.Repositories, b belongings) *int64 {
	value, err := r.State().Get(ctx, repo.Scope{Name: b.scope}, "l")
	if err != nil {
		return ptr(int64(1))
	}
	return &value.Version
}

// withOwnAction uses an action of the view's own.
func withOwnAction(ctx context.Context, r repo.Repositories, use repo.UseAction) (any, error) {
	action, err := r.Actions().Create(ctx, repo.NewAction{Name: randomName(), ActionDefinition: repo.ActionDefinition{Reusable: true}})
	if err != nil {
		return nil, fmt.Errorf("Actions.Create: %w", err)
	}
	return asked(r.Plans().Use(ctx, action.Name.String(), use))
}
