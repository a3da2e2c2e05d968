package repotest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func bufferTests() []test {
	return []test{
		onPlans("Sessions", testBuffers[repo.Sessions](sessionBuffers)),
		onPlans("Actions", testBuffers[repo.Actions](actionBuffers)),
		onPlans("Plans", testBuffers[repo.Plans](planBuffers)),
		onPlans("State", testBuffers[repo.State](stateBuffers)),
		onPlans("Leases", testBuffers[repo.Leases](leaseBuffers)),
		onPlans("Audit", testBuffers[repo.Audit](auditBuffers)),
	}
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

// firstTwo has sessions that are followed up to the second message. Where that is not
// possible, in a transaction, they are streamed.
type firstTwo struct{ repo.Sessions }

// Follow is Sessions.Follow.
func (s firstTwo) Follow(ctx context.Context, id repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		for message, err := range s.Sessions.Follow(ctx, id, from) {
			if errors.Is(err, repo.ErrInvalid) {
				s.Messages(ctx, id, from)(yield)
				return
			}
			if !yield(message, err) || message.Sequence == from+1 {
				return
			}
		}
	}
}

// stocked creates a session with a value in every field, and two messages like
// fullMessage.
func stocked(t *testing.T, r repo.Repositories) (repo.ID, []repo.Message) {
	t.Helper()
	given := fullSession(r)
	createAs(t, r.Sessions(), given)
	return given.ID, appendTo(t, r.Sessions(), given.ID, fullMessage(), fullMessage())
}

// whole reads a session with all its messages.
func whole(t *testing.T, r repo.Repositories, id repo.ID) func() any {
	return func() any { return []any{get(t, r.Sessions(), id), readAll(t, r.Sessions(), id)} }
}

// wholeTurn reads a session with all that a turn may have added to it.
func wholeTurn(t *testing.T, r repo.Repositories, id repo.ID, scope repo.Scope) func() any {
	return func() any {
		states, err := r.State().Read(t.Context(), scope, repo.Scope{SessionID: id})
		return []any{whole(t, r, id)(), must(t, states, err)}
	}
}

var sessionBuffers = bufferCases{
	"Get": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id}}
	},
	"Read": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		common := shared()
		change(t, r, set(common, "a", `"x"`))
		change(t, r, set(repo.Scope{SessionID: id}, "a", `"x"`))
		return buffered{on: r.Sessions(), args: []any{repo.ReadSessions{
			IDs: []repo.ID{id, repo.NewID(), id}, Last: 2, State: true, Scopes: []string{common.Name},
		}}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		created := createAs(t, r.Sessions(), fullSession(r))
		return buffered{on: r.Sessions(), args: []any{repo.SessionFilter{AnyOwner: true, Namespace: created.Namespace}, repo.Page{}}}
	},
	"Namespaces": func(t *testing.T, r repo.Repositories) buffered {
		create(t, r.Sessions())
		return buffered{on: r.Sessions(), args: []any{repo.Page{}}}
	},
	"Create": func(t *testing.T, r repo.Repositories) buffered {
		given := fullSession(r)
		return buffered{on: r.Sessions(), args: []any{given}, read: whole(t, r, given.ID)}
	},
	"Fork": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		given := fullSession(r)
		return buffered{on: r.Sessions(), args: []any{id, int64(1), given}, read: whole(t, r, given.ID)}
	},
	"Branches": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, int64(1)}}
	},
	"Update": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		update := repo.SessionUpdate{
			Actor: ptr("new/actor"), AutomationProfile: ptr("new"), Metadata: json.RawMessage(`{"new":1}`), Budget: ptr(repo.Cost(9)),
			FencedOnly: ptr(true),
		}
		return buffered{on: r.Sessions(), args: []any{id, update}, read: whole(t, r, id)}
	},
	"Update/patch": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		update := repo.SessionUpdate{MetadataPatch: json.RawMessage(`{"new":{"a":1}}`), IfVersion: ptr(int64(1))}
		return buffered{on: r.Sessions(), args: []any{id, update}, read: whole(t, r, id)}
	},
	"List/by activity": func(t *testing.T, r repo.Repositories) buffered {
		created := createAs(t, r.Sessions(), fullSession(r))
		return buffered{on: r.Sessions(), args: []any{byActivity(created.Namespace), repo.Page{}}}
	},
	"Find": func(t *testing.T, r repo.Repositories) buffered {
		created := createAs(t, r.Sessions(), repo.NewSession{Namespace: randomName(), Key: randomName()})
		return buffered{on: r.Sessions(), args: []any{repo.SessionKey{Namespace: created.Namespace, Key: created.Key}}}
	},
	"AddUsage": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, repo.NewUsage{ID: repo.NewID(), Cost: 1}}, read: whole(t, r, id)}
	},
	"Delete": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		other, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, []repo.DeleteIf{{Version: 1}}}, read: whole(t, r, other)}
	},
	"RemoveDeleted": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Sessions(), args: []any{0}}
	},
	"Hold": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{repo.LegalHold{SessionID: id, Reason: "x"}}, read: whole(t, r, id)}
	},
	"Release": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{repo.LegalHold{SessionID: id}}, read: whole(t, r, id)}
	},
	"Holds": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		err := r.Sessions().Hold(t.Context(), repo.LegalHold{SessionID: id, Reason: "x"})
		must(t, id, err)
		return buffered{on: r.Sessions(), args: []any{repo.Page{Limit: 3}}}
	},
	"Message": func(t *testing.T, r repo.Repositories) buffered {
		id, messages := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, messages[0].ID}}
	},
	"MessagesFrom": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, int64(0), 0}}
	},
	"MessagesBefore": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, int64(9), 0}}
	},
	"LastMessages": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, 0}}
	},
	"MessagesOfCall": func(t *testing.T, r repo.Repositories) buffered {
		id, messages := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, messages[0].CallID}}
	},
	"Turn": func(t *testing.T, r repo.Repositories) buffered {
		id, turn := create(t, r.Sessions()), fullTurn(shared())
		addTurn(t, r, id, turn)
		return buffered{on: r.Sessions(), args: []any{id, turn.ID}}
	},
	"Messages": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Sessions(), args: []any{id, int64(0)}}
	},
	"Follow": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: firstTwo{r.Sessions()}, args: []any{id, int64(0)}}
	},
	"Append": func(t *testing.T, r repo.Repositories) buffered {
		id := create(t, r.Sessions())
		return buffered{on: r.Sessions(), args: []any{id, []repo.NewMessage{fullMessage(), user("x")}}, read: whole(t, r, id)}
	},
	"AppendTurn": func(t *testing.T, r repo.Repositories) buffered {
		id, scope := create(t, r.Sessions()), shared()
		turn := fullTurn(scope)
		turn.Expected, turn.IfScopes, turn.Create = ptr(int64(0)), []repo.ScopeVersion{{Scope: scope}}, &repo.NewSession{Metadata: json.RawMessage(`{"new":1}`)}
		turn.State[0].IfVersion = ptr(int64(0))
		return buffered{on: r.Sessions(), args: []any{inSession(id, turn)}, read: wholeTurn(t, r, id, scope)}
	},
	"AppendTurns": func(t *testing.T, r repo.Repositories) buffered {
		id, scope := repo.NewID(), shared()
		turn := fullTurn(scope)
		turn.Create = &repo.NewSession{Metadata: json.RawMessage(`{"new":1}`)}
		turns := []repo.Turn{inSession(id, turn), inSession(create(t, r.Sessions()), fullTurn(scope))}
		return buffered{on: r.Sessions(), args: []any{turns}, read: wholeTurn(t, r, id, scope)}
	},
	"Export": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		var document bytes.Buffer
		return buffered{
			on: r.Sessions(), args: []any{id, io.Writer(&document)}, read: whole(t, r, id),
			extra: func() []any { return []any{document.Bytes()} },
		}
	},
	"Import": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		document := &bufferedReader{Document: export(t, r.Sessions(), id)}
		remove(t, r.Sessions(), id)
		return buffered{on: r.Sessions(), args: []any{io.Reader(document), true}, read: whole(t, r, id)}
	},
}

// readAction reads an action.
func readAction(t *testing.T, r repo.Repositories, name string) func() any {
	return func() any {
		stored, err := r.Actions().Get(t.Context(), name)
		return must(t, stored, err)
	}
}

var actionBuffers = bufferCases{
	"Create": func(t *testing.T, r repo.Repositories) buffered {
		given := repo.NewAction{Name: actionName(r), ActionDefinition: fullDefinition(), CreatedBy: "tester"}
		return buffered{on: r.Actions(), args: []any{given}, read: readAction(t, r, given.Name)}
	},
	"Get": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Actions(), args: []any{createAction(t, r, fullDefinition())}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		name, err := repo.ParseActionName(createAction(t, r, fullDefinition()))
		must(t, name, err)
		return buffered{on: r.Actions(), args: []any{repo.ActionFilter{Namespace: name.Namespace}, repo.Page{}}}
	},
	"Update": func(t *testing.T, r repo.Repositories) buffered {
		name := plain(t, r)
		return buffered{on: r.Actions(), args: []any{name, int64(0), fullDefinition()}, read: readAction(t, r, name)}
	},
	"Archive": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Actions(), args: []any{createAction(t, r, fullDefinition())}}
	},
	"Delete": func(t *testing.T, r repo.Repositories) buffered {
		other := createAction(t, r, fullDefinition())
		return buffered{on: r.Actions(), args: []any{plain(t, r)}, read: readAction(t, r, other)}
	},
}

// readPlan reads a plan with its history, and the action that it used.
func readPlan(t *testing.T, r repo.Repositories, id repo.ID) func() any {
	return func() any {
		plan := getPlan(t, r, id)
		action, err := r.Actions().Get(t.Context(), plan.Action.String())
		return []any{plan, history(t, r, id), must(t, action, err)}
	}
}

func fullPlan(t *testing.T, r repo.Repositories) repo.Plan {
	t.Helper()
	return usePlan(t, r, createAction(t, r, fullDefinition()), fullUse())
}

var planBuffers = bufferCases{
	"Get": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{fullPlan(t, r).ID}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{repo.PlanFilter{Namespace: fullPlan(t, r).Namespace}, repo.Page{}}}
	},
	"History": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{fullPlan(t, r).ID, int64(0), 0}}
	},
	"Use": func(t *testing.T, r repo.Repositories) buffered {
		use := fullUse()
		filter := repo.PlanFilter{Namespace: use.Namespace}
		return buffered{on: r.Plans(), args: []any{createAction(t, r, fullDefinition()), use}, read: func() any {
			return readPlan(t, r, walkPlans(t, r, filter, 1)[0].ID)()
		}}
	},
	"Transition": func(t *testing.T, r repo.Repositories) buffered {
		id := fullPlan(t, r).ID
		move(t, r, id, repo.TransitionStart)
		cause := causeOf(repo.TransitionFail)
		return buffered{on: r.Plans(), args: []any{id, repo.TransitionFail, cause}, read: readPlan(t, r, id)}
	},
	"Claim": func(t *testing.T, r repo.Repositories) buffered {
		plan := fullPlan(t, r)
		claim := repo.Claim{
			Owner: randomName(), Namespaces: []string{plan.Namespace}, Actions: []string{plan.Action.String()},
			Phases: []repo.Phase{repo.PhaseStrategize},
		}
		return buffered{on: r.Plans(), args: []any{claim}, read: readPlan(t, r, plan.ID)}
	},
	"SetLimit": func(t *testing.T, r repo.Repositories) buffered {
		limit := repo.PlanLimit{Namespace: randomName(), AtOnce: 3}
		return buffered{on: r.Plans(), args: []any{limit}, read: func() any { got, _ := limitOf(t, r, limit.Namespace, ""); return got }}
	},
	"Limits": func(_ *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{repo.Page{Limit: 3}}}
	},
	"Counts": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{fullPlan(t, r).Namespace, repo.Page{}}}
	},
	"Delete": func(t *testing.T, r repo.Repositories) buffered {
		id := fullPlan(t, r).ID
		move(t, r, id, repo.TransitionCancel)
		return buffered{on: r.Plans(), args: []any{id, []repo.DeleteIf{{Version: getPlan(t, r, id).Version}}}, read: func() any { return id }}
	},
	"Sweep": func(_ *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Plans(), args: []any{1}}
	},
	"Progress": func(t *testing.T, r repo.Repositories) buffered {
		id := fullPlan(t, r).ID
		move(t, r, id, repo.TransitionStart)
		progress := repo.Progress{CompletedStep: ptr(int64(3)), CheckpointID: ptr("checkpoint")}
		return buffered{on: r.Plans(), args: []any{id, progress}, read: readPlan(t, r, id)}
	},
	"Link": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		return buffered{on: r.Plans(), args: []any{id, fullPlan(t, r).ID}, read: whole(t, r, id)}
	},
	"Unlink": func(t *testing.T, r repo.Repositories) buffered {
		id, _ := stocked(t, r)
		kept, plan := fullPlan(t, r).ID, fullPlan(t, r).ID
		for _, linked := range []repo.ID{kept, plan} {
			if err := r.Plans().Link(t.Context(), id, linked); err != nil {
				t.Fatal(err)
			}
		}
		return buffered{on: r.Plans(), args: []any{id, plan}, read: whole(t, r, id)}
	},
}

// fullState makes a change of each kind, and returns its scope.
func fullState(t *testing.T, r repo.Repositories) repo.Scope {
	t.Helper()
	scope := own(t, r)
	change(t, r, fullChanges(scope)...)
	return scope
}

func fullChanges(scope repo.Scope) []repo.StateChange {
	return []repo.StateChange{
		{Scope: scope, Key: "set", Op: repo.StateSet, Value: json.RawMessage(`{"a":1}`), IfVersion: ptr(int64(0))},
		unset(scope, "removed"),
		increment(scope, "incremented", 5),
	}
}

func readScope(t *testing.T, r repo.Repositories, scope repo.Scope) func() any {
	return func() any {
		states, err := r.State().Read(t.Context(), scope)
		return must(t, states, err)
	}
}

var stateBuffers = bufferCases{
	"Get": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.State(), args: []any{fullState(t, r), "set"}}
	},
	"Read": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.State(), args: []any{[]repo.Scope{fullState(t, r)}}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.State(), args: []any{fullState(t, r), "", repo.Page{}}}
	},
	"Change": func(t *testing.T, r repo.Repositories) buffered {
		scope := own(t, r)
		return buffered{
			on: r.State(), args: []any{fullChanges(scope), []repo.ScopeVersion{{Scope: scope}}}, read: readScope(t, r, scope),
		}
	},
	"Erase": func(t *testing.T, r repo.Repositories) buffered {
		erased, kept := shared(), fullState(t, r)
		change(t, r, fullChanges(erased)...)
		return buffered{on: r.State(), args: []any{erased.Name}, read: readScope(t, r, kept)}
	},
}

// lostLeases are leases whose Await ends well when the lease has ended, or cannot be awaited in a transaction.
type lostLeases struct{ repo.Leases }

// Await is Leases.Await.
func (l lostLeases) Await(ctx context.Context, lease repo.Lease) error {
	if err := l.Leases.Await(ctx, lease); !errors.Is(err, repo.ErrConflict) && !errors.Is(err, repo.ErrInvalid) {
		return err
	}
	return nil
}

var leaseBuffers = bufferCases{
	"Acquire": func(t *testing.T, r repo.Repositories) buffered {
		lease := newLease()
		return buffered{on: r.Leases(), args: []any{lease}, read: readLeases(t, r, repo.LeaseFilter{Owner: lease.Owner})}
	},
	"Renew": func(t *testing.T, r repo.Repositories) buffered {
		lease := acquire(t, r, newLease())
		return buffered{on: r.Leases(), args: []any{lease, time.Hour}, read: readLeases(t, r, repo.LeaseFilter{Owner: lease.Owner})}
	},
	"Release": func(t *testing.T, r repo.Repositories) buffered {
		released, kept := acquire(t, r, newLease()), acquire(t, r, newLease())
		return buffered{on: r.Leases(), args: []any{released}, read: readLeases(t, r, repo.LeaseFilter{Owner: kept.Owner})}
	},
	"Await": func(t *testing.T, r repo.Repositories) buffered {
		released := acquire(t, r, newLease())
		release(t, r, released)
		return buffered{on: lostLeases{r.Leases()}, args: []any{released}}
	},
	"ReleaseAll": func(t *testing.T, r repo.Repositories) buffered {
		released, kept := acquire(t, r, newLease()), acquire(t, r, newLease())
		return buffered{on: r.Leases(), args: []any{released.Owner}, read: readLeases(t, r, repo.LeaseFilter{Owner: kept.Owner})}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		lease := acquire(t, r, newLease())
		return buffered{on: r.Leases(), args: []any{repo.LeaseFilter{Owner: lease.Owner, Held: true}, repo.Page{}}}
	},
}

// streamBuffers are not among those of a transaction, in which nothing can be followed.
var streamBuffers = bufferCases{
	"Open": func(t *testing.T, r repo.Repositories) buffered {
		stream := newStream()
		return buffered{on: r.Streams(), args: []any{stream}, read: func() any { return getStream(t, r, stream.Key) }}
	},
	"Get": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Streams(), args: []any{openStream(t, r, newStream()).Key}}
	},
	"Append": func(t *testing.T, r repo.Repositories) buffered {
		stream := openStream(t, r, newStream())
		return buffered{on: r.Streams(), args: []any{stream, someParts(3)}, read: readStream(t, r, stream.Key, 3)}
	},
	"Finish": func(t *testing.T, r repo.Repositories) buffered {
		stream := openStream(t, r, newStream())
		return buffered{on: r.Streams(), args: []any{stream}, read: readStream(t, r, stream.Key, 1)}
	},
	"Fail": func(t *testing.T, r repo.Repositories) buffered {
		stream := openStream(t, r, newStream())
		return buffered{on: r.Streams(), args: []any{stream, "why"}, read: func() any { return getStream(t, r, stream.Key) }}
	},
	"RemoveExpired": func(_ *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Streams(), args: []any{1}, moving: true}
	},
	"Follow": func(t *testing.T, r repo.Repositories) buffered {
		stream := openStream(t, r, newStream())
		addParts(t, r, &stream, someParts(3)...)
		endStream(t, r, stream, repo.StreamFinished)
		return buffered{on: r.Streams(), args: []any{stream.Key, repo.StreamPosition{}}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		stream := newStream()
		stream.Session = create(t, r.Sessions())
		openStream(t, r, stream)
		return buffered{on: r.Streams(), args: []any{stream.Session, repo.Page{}}}
	},
	"FollowSession": func(t *testing.T, r repo.Repositories) buffered {
		stream := newStream()
		stream.Session = create(t, r.Sessions())
		openStream(t, r, stream)
		return buffered{on: r.Streams(), args: []any{stream.Session}}
	},
	"Delete": func(t *testing.T, r repo.Repositories) buffered {
		kept := openStream(t, r, newStream())
		return buffered{
			on: r.Streams(), args: []any{openStream(t, r, newStream()).Key}, read: func() any { return getStream(t, r, kept.Key) },
		}
	},
}

// readStream reads a stream with its first parts.
func readStream(t *testing.T, r repo.Repositories, key string, count int) func() any {
	return func() any {
		parts, err := readParts(r.Streams().Follow(t.Context(), key, repo.StreamPosition{}), count)
		return []any{getStream(t, r, key), must(t, parts, err)}
	}
}

func readLeases(t *testing.T, r repo.Repositories, filter repo.LeaseFilter) func() any {
	return func() any { return listLeases(t, r, filter, 0) }
}

func readEntries(t *testing.T, r repo.Repositories, entries ...repo.AuditEntry) func() any {
	return func() any {
		var stored []repo.AuditEntry
		for _, e := range entries {
			entry, err := r.Audit().Entry(t.Context(), e.ID)
			stored = append(stored, must(t, entry, err))
		}
		return stored
	}
}

// recorded records two entries of one plan.
func recorded(t *testing.T, r repo.Repositories) []repo.AuditEntry {
	t.Helper()
	entries := []repo.AuditEntry{auditEntry(r), auditEntry(r)}
	entries[1].PlanID, entries[1].OccurredAt = entries[0].PlanID, entries[1].OccurredAt.Add(time.Second)
	record(t, r.Audit(), clone(entries)...)
	return entries
}

var auditBuffers = bufferCases{
	"Record": func(t *testing.T, r repo.Repositories) buffered {
		entries := []repo.AuditEntry{auditEntry(r), auditEntry(r)}
		return buffered{on: r.Audit(), args: []any{entries}, read: readEntries(t, r, clone(entries)...)}
	},
	"Entry": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Audit(), args: []any{recorded(t, r)[0].ID}}
	},
	"List": func(t *testing.T, r repo.Repositories) buffered {
		filter := repo.AuditFilter{PlanID: recorded(t, r)[0].PlanID, OldestFirst: true}
		return buffered{on: r.Audit(), args: []any{filter, repo.Page{}}}
	},
	"Count": func(t *testing.T, r repo.Repositories) buffered {
		return buffered{on: r.Audit(), args: []any{repo.AuditFilter{PlanID: recorded(t, r)[0].PlanID}, 0}}
	},
	"Export": func(t *testing.T, r repo.Repositories) buffered {
		entries := recorded(t, r)
		var lines bytes.Buffer
		return buffered{
			on: r.Audit(), args: []any{repo.AuditFilter{PlanID: entries[0].PlanID}, io.Writer(&lines)}, read: readEntries(t, r, entries...),
			extra: func() []any { return []any{lines.Bytes()} },
		}
	},
}
