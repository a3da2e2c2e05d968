package repotest

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// fixture is what calls are about: what one namespace of a store has, two of each, so that lists have a second page.
// It makes what a call needs when that is asked for first.
type fixture struct {
	t     *testing.T
	r     repo.Repositories // has it
	bound bool              // r is bound to one transaction

	// asker is another view, which has nothing of it, with the context of its calls. Nil: r itself is called.
	asker repo.Repositories
	ctx   context.Context //nolint:containedctx // it is that of one call

	namespace, owner, scope string

	made  map[string]any
	also  []func() any // read what read does not
	extra []any        // is further memory that the store had, such as that of functions among the arguments
}

func newFixture(t *testing.T, r repo.Repositories, namespace string) *fixture {
	t.Helper()
	_, bound := r.(unstored)
	return &fixture{
		t: t, r: r, bound: bound, namespace: namespace, owner: randomName(), scope: randomName(), made: map[string]any{},
	}
}

// once makes what a fixture has under a name when it is first asked for.
func once[V any](f *fixture, name string, makes func() V) V {
	f.t.Helper()
	if _, is := f.made[name]; !is {
		f.made[name] = makes()
	}
	return f.made[name].(V)
}

// fresh is a session with a value in each field, which does not exist.
func (f *fixture) fresh() repo.NewSession {
	session := fullSession(nil)
	session.Namespace, session.Key, session.Owner = f.namespace, randomName(), f.owner
	return session
}

func (f *fixture) newSession() repo.ID {
	id := createAs(f.t, f.r.Sessions(), f.fresh()).ID
	appendTo(f.t, f.r.Sessions(), id, fullMessage(), fullMessage())
	return id
}

// session has two messages, as another has.
func (f *fixture) session() repo.ID { return once(f, "session", f.newSession) }
func (f *fixture) another() repo.ID { return once(f, "another", f.newSession) }

// sessions is session, beside another.
func (f *fixture) sessions() repo.ID {
	f.another()
	return f.session()
}

func (f *fixture) key() repo.SessionKey {
	return once(f, "key", func() repo.SessionKey {
		return repo.SessionKey{Namespace: f.namespace, Key: get(f.t, f.r.Sessions(), f.session()).Key}
	})
}

func (f *fixture) message() repo.Message {
	return once(f, "message", func() repo.Message { return readAll(f.t, f.r.Sessions(), f.session())[0] })
}

// turn is the id of a turn of session.
func (f *fixture) turn() string {
	return once(f, "turn", func() string {
		turn := fullTurn(repo.Scope{Name: f.scope})
		addTurn(f.t, f.r, f.session(), turn)
		return turn.ID
	})
}

// held is a session with a hold, beside one of an owner.
func (f *fixture) held() repo.ID {
	return once(f, "held", func() repo.ID {
		id := f.another()
		ofOwner := repo.LegalHold{Namespace: f.namespace, Owner: "held", Reason: "r"}
		for _, hold := range []repo.LegalHold{{SessionID: id, Reason: "r"}, ofOwner} {
			must(f.t, hold, f.r.Sessions().AddHold(f.t.Context(), hold))
		}
		return id
	})
}

// document is the export of a session that was deleted.
func (f *fixture) document() []byte {
	return once(f, "document", func() []byte {
		id := f.newSession()
		document := export(f.t, f.r.Sessions(), id)
		remove(f.t, f.r.Sessions(), id)
		return document
	})
}

// ownSession is a session of the store that is asked.
func (f *fixture) ownSession() repo.ID {
	if f.asker == nil {
		return f.session()
	}
	created, err := f.asker.Sessions().Create(f.ctx, repo.NewSession{})
	return must(f.t, created, err).ID
}

// newAction is an action that does not exist.
func (f *fixture) newAction() repo.NewAction {
	return repo.NewAction{Name: f.namespace + "/" + randomName(), ActionDefinition: fullDefinition(), CreatedBy: f.owner}
}

func (f *fixture) createAction() string {
	action, err := f.r.Actions().Create(f.t.Context(), f.newAction())
	return must(f.t, action, err).Name.String()
}

func (f *fixture) action() string { return once(f, "action", f.createAction) }

// unused is an action without plans.
func (f *fixture) unused() string { return once(f, "unused", f.createAction) }

// actions are two.
func (f *fixture) actions() {
	f.action()
	f.unused()
}

// plain is an action without arguments.
func (f *fixture) plain() string {
	return once(f, "plain", func() string { return f.ownActionOf(f.t.Context(), f.r, f.namespace+"/") })
}

// ownAction is an action of the store that is asked.
func (f *fixture) ownAction() string {
	if f.asker == nil {
		return f.plain()
	}
	return f.ownActionOf(f.ctx, f.asker, "")
}

func (f *fixture) ownActionOf(ctx context.Context, r repo.Repositories, in string) string {
	reusable := repo.NewAction{Name: in + randomName(), ActionDefinition: repo.ActionDefinition{Reusable: true}}
	action, err := r.Actions().Create(ctx, reusable)
	return must(f.t, action, err).Name.String()
}

// use is a use with a value in each field.
func (f *fixture) use() repo.UseAction {
	use := fullUse()
	use.Namespace = f.namespace
	return use
}

func (f *fixture) newPlan() repo.ID { return usePlan(f.t, f.r, f.action(), f.use()).ID }

// plan is queued.
func (f *fixture) plan() repo.ID { return once(f, "plan", f.newPlan) }

// newPlanForOwner makes a plan for one claim, unless it is another view that claims.
func (f *fixture) newPlanForOwner() {
	f.action()
	if f.asker == nil {
		f.newPlan()
	}
}

// moved is a plan after a transition.
func (f *fixture) moved(transition repo.Transition) repo.ID {
	return once(f, "plan after "+string(transition), func() repo.ID { return move(f.t, f.r, f.newPlan(), transition).ID })
}

// linked is a plan of session.
func (f *fixture) linked() repo.ID {
	return once(f, "linked", func() repo.ID {
		for _, id := range []repo.ID{f.plan(), f.moved(repo.TransitionStart)} {
			must(f.t, id, f.r.Plans().Link(f.t.Context(), f.session(), id))
		}
		return f.plan()
	})
}

// limits are one of all plans and one of an action's.
func (f *fixture) limits() {
	once(f, "limits", func() bool {
		for _, action := range []string{"", f.action()} {
			limit := repo.PlanLimit{Namespace: f.namespace, Action: action, AtOnce: 10}
			must(f.t, limit, f.r.Plans().SetLimit(f.t.Context(), limit))
		}
		return true
	})
}

// readsLimit lets read read the limit of all plans.
func (f *fixture) readsLimit() {
	once(f, "limit is read", func() bool {
		f.also = append(f.also, func() any { limit, _ := limitOf(f.t, f.r, f.namespace, ""); return limit })
		return true
	})
}

func fullChanges(scope repo.Scope) []repo.StateChange {
	return []repo.StateChange{
		{Scope: scope, Key: "set", Op: repo.StateSet, Value: json.RawMessage(`{"a":1}`), IfVersion: ptr(int64(0))},
		unset(scope, "removed"),
		within(increment(scope, "incremented", 5), -1_000_000, 1_000_000),
	}
}

// own is the scope of session, and shared is a shared one, both with values.
func (f *fixture) own() repo.Scope    { return f.changed(repo.Scope{SessionID: f.session()}) }
func (f *fixture) shared() repo.Scope { return f.changed(repo.Scope{Name: f.scope}) }

func (f *fixture) changed(scope repo.Scope) repo.Scope {
	return once(f, "state of "+scope.Name, func() repo.Scope {
		change(f.t, f.r, fullChanges(scope)...)
		return scope
	})
}

// lease is one of session, beside a named one.
func (f *fixture) lease() repo.Lease {
	f.named()
	return once(f, "lease", func() repo.Lease {
		return acquire(f.t, f.r, repo.NewLease{Key: repo.SessionLease(f.session()), Owner: f.owner, TTL: time.Hour})
	})
}

func (f *fixture) named() repo.Lease {
	return once(f, "named", func() repo.Lease {
		key := repo.LeaseKey{Kind: "k", Name: randomName()}
		return acquire(f.t, f.r, repo.NewLease{Key: key, Owner: f.owner, TTL: time.Hour})
	})
}

// newStream is a stream of session that does not exist.
func (f *fixture) newStream() repo.NewStream {
	return repo.NewStream{Key: randomName(), Owner: f.owner, Session: f.session(), TTL: time.Hour}
}

// stream has three parts. It is beside another one of session.
func (f *fixture) stream() repo.Stream {
	return once(f, "stream", func() repo.Stream {
		openStream(f.t, f.r, f.newStream())
		stream := openStream(f.t, f.r, f.newStream())
		addParts(f.t, f.r, &stream, someParts(3)...)
		return stream
	})
}

func (f *fixture) newEntry() repo.AuditEntry {
	entry := auditEntry(nil)
	entry.Namespace, entry.User, entry.SessionID = f.namespace, f.owner, f.session()
	return entry
}

// entries are two of session, by owner.
func (f *fixture) entries() []repo.AuditEntry {
	return once(f, "entries", func() []repo.AuditEntry {
		entries := []repo.AuditEntry{f.newEntry(), f.newEntry()}
		entries[1].OccurredAt = entries[0].OccurredAt.Add(time.Second)
		record(f.t, f.r.Audit(), clone(entries)...)
		return entries
	})
}

// read reads all that the fixture may have by now.
func (f *fixture) read() any {
	f.t.Helper()
	var all []any
	add := func(values ...any) {
		for _, value := range values {
			if err, is := value.(error); is {
				f.t.Errorf("reading what there is: %v", err)
			}
			all = append(all, value)
		}
	}
	ctx := f.t.Context()
	sessions, err := f.r.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, Namespace: f.namespace}, repo.Page{})
	add(sessions, err)
	for _, session := range sessions.Items {
		add(collect(f.r.Sessions().Messages(ctx, session.ID, 0)))
		add(f.r.State().Read(ctx, repo.Scope{SessionID: session.ID}))
		streams, err := f.r.Streams().List(ctx, session.ID, repo.Page{})
		add(streams, err)
		for _, stream := range streams.Items {
			if stream.Next > 0 && !f.bound {
				add(readParts(f.r.Streams().Follow(ctx, stream.Key, repo.StreamPosition{}), int(stream.Next)))
			}
		}
	}
	add(f.r.State().Read(ctx, repo.Scope{Name: f.scope}))
	add(f.r.Actions().List(ctx, repo.ActionFilter{Namespace: f.namespace}, repo.Page{}))
	plans, err := f.r.Plans().List(ctx, repo.PlanFilter{Namespace: f.namespace}, repo.Page{})
	add(plans, err)
	for _, plan := range plans.Items {
		add(f.r.Plans().History(ctx, plan.ID, 0, 0))
	}
	add(f.r.Leases().List(ctx, repo.LeaseFilter{Owner: f.owner}, repo.Page{}))
	add(f.r.Audit().List(ctx, repo.AuditFilter{User: f.owner}, repo.Page{}))
	for _, read := range f.also {
		add(read())
	}
	return all
}

// bufferedReader is a document that can be overwritten after it was read.
type bufferedReader struct {
	Document []byte
	at       int
}

func (r *bufferedReader) Read(p []byte) (int, error) {
	if r.at == len(r.Document) {
		return 0, io.EOF
	}
	n := copy(p, r.Document[r.at:])
	r.at += n
	return n, nil
}

// written is a document that can be overwritten after it was written.
type written struct{ Document []byte }

func (w *written) Write(p []byte) (int, error) {
	w.Document = append(w.Document, p...)
	return len(p), nil
}
