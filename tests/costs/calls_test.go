package costs

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
)

// call is a call whose cost is counted.
type call struct {
	name string
	// make prepares one more call, and returns it.
	make func(w *world) func(ctx context.Context) error
}

// world has what the calls are about.
type world struct {
	t       *testing.T
	store   *agentstore.Store
	session repo.ID // with 40 messages, and 3 keys of state
	action  string
	calls   int
}

func newWorld(t *testing.T, store *agentstore.Store) *world {
	w := &world{t: t, store: store, action: "work"}
	w.session = w.newSession()
	turn := repo.Turn{SessionID: w.session}
	for i := range 40 {
		turn.Messages = append(turn.Messages, message(fmt.Sprint(i)))
	}
	for i := range 3 {
		turn.State = append(turn.State, repo.StateChange{Key: fmt.Sprint("key", i), Value: json.RawMessage(`"value"`)})
	}
	must(w.t, second(store.Sessions().AppendTurn(t.Context(), turn)))
	must(w.t, second(store.Actions().Create(t.Context(), repo.NewAction{Name: w.action, ActionDefinition: repo.ActionDefinition{Reusable: true}})))
	for range 200 { // so that lists and claims have something to choose from
		w.newSession()
		w.plan()
	}
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[V any](_ V, err error) error { return err }

func message(text string) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: "a message of some words: " + text}
}

func (w *world) newSession() repo.ID {
	session, err := w.store.Sessions().Create(w.t.Context(), repo.NewSession{Owner: "owner"})
	must(w.t, err)
	return session.ID
}

func (w *world) plan() repo.Plan {
	plan, err := w.store.Plans().Use(w.t.Context(), w.action, repo.UseAction{})
	must(w.t, err)
	return plan
}

func (w *world) claimed() repo.ClaimedPlan {
	claimed, err := w.store.Plans().Claim(w.t.Context(), repo.Claim{Owner: "worker"})
	must(w.t, err)
	return claimed[0]
}

func (w *world) next(kind string) string {
	w.calls++
	return fmt.Sprint(kind, w.calls)
}

func (w *world) lease() repo.Lease {
	lease, err := w.store.Leases().Acquire(w.t.Context(), w.newLease())
	must(w.t, err)
	return lease
}

func (w *world) newLease() repo.NewLease {
	return repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: w.next("job")}, Owner: "worker"}
}

func (w *world) stream() repo.Stream {
	stream, err := w.store.Streams().Open(w.t.Context(), repo.NewStream{Key: w.next("answer"), Owner: "writer", Session: w.session})
	must(w.t, err)
	return stream
}

// turn returns a turn of one message for the session.
func (w *world) turn() repo.Turn {
	return repo.Turn{SessionID: w.session, Messages: []repo.NewMessage{message("turn")}}
}

func (w *world) appends(turn repo.Turn) func(context.Context) error {
	return func(ctx context.Context) error { return second(w.store.Sessions().AppendTurn(ctx, turn)) }
}

// does is a call that needs nothing but its world.
func does(do func(ctx context.Context, w *world) error) func(*world) func(context.Context) error {
	return func(w *world) func(context.Context) error {
		return func(ctx context.Context) error { return do(ctx, w) }
	}
}

var calls = []call{
	{"Sessions.Create", does(func(ctx context.Context, w *world) error {
		return second(w.store.Sessions().Create(ctx, repo.NewSession{Owner: "owner"}))
	})},
	{"Sessions.Get", does(func(ctx context.Context, w *world) error { return second(w.store.Sessions().Get(ctx, w.session)) })},
	{"Sessions.List: 20", does(func(ctx context.Context, w *world) error {
		return second(w.store.Sessions().List(ctx, repo.SessionFilter{Owner: "owner"}, repo.Page{Limit: 20}))
	})},
	{"Sessions.List by activity: 20", does(func(ctx context.Context, w *world) error {
		return second(w.store.Sessions().List(ctx, repo.SessionFilter{Owner: "owner", ByActivity: true}, repo.Page{Limit: 20}))
	})},
	{"Sessions.Read: the last 20 messages and 3 keys", does(func(ctx context.Context, w *world) error {
		return second(w.store.Sessions().Read(ctx, repo.ReadSessions{IDs: []repo.ID{w.session}, Last: 20, State: true}))
	})},
	{"Sessions.LastMessages: 20", does(func(ctx context.Context, w *world) error {
		return second(w.store.Sessions().LastMessages(ctx, w.session, 20))
	})},
	{"Sessions.Append: 1 message", does(func(ctx context.Context, w *world) error {
		return second(w.store.Sessions().Append(ctx, w.session, message("append")))
	})},
	{"Sessions.Append: 10 messages", does(func(ctx context.Context, w *world) error {
		var ten []repo.NewMessage
		for range 10 {
			ten = append(ten, message("append"))
		}
		return second(w.store.Sessions().Append(ctx, w.session, ten...))
	})},
	{"Sessions.AppendTurn: 1 message", func(w *world) func(context.Context) error { return w.appends(w.turn()) }},
	{"… with its id, and a key of the session's state", func(w *world) func(context.Context) error {
		turn := w.turn()
		turn.ID, turn.State = w.next("turn"), []repo.StateChange{{Key: "key1", Value: json.RawMessage(`"new"`)}}
		return w.appends(turn)
	}},
	{"… with usage, and a key of a shared state", func(w *world) func(context.Context) error {
		turn := w.turn()
		turn.Usage = &repo.NewUsage{InputTokens: 100, OutputTokens: 10, Cost: 1000}
		turn.State = []repo.StateChange{{Scope: repo.Scope{Name: "shared"}, Key: "count", Op: repo.StateIncrement, By: 1}}
		return w.appends(turn)
	}},
	{"… with a plan and a stream", func(w *world) func(context.Context) error {
		turn := w.turn()
		turn.ID, turn.Action = w.next("turn"), w.action
		turn.Open = &repo.NewStream{Key: w.next("answer"), Owner: "writer"}
		return w.appends(turn)
	}},
	{"Sessions.Fork", does(func(ctx context.Context, w *world) error {
		return second(w.store.Sessions().Fork(ctx, w.session, 20, repo.NewSession{}))
	})},
	{"Sessions.Delete: no message", func(w *world) func(context.Context) error {
		id := w.newSession()
		return func(ctx context.Context) error { return second(w.store.Sessions().Delete(ctx, id)) }
	}},
	{"State.Get", does(func(ctx context.Context, w *world) error {
		return second(w.store.State().Get(ctx, repo.Scope{SessionID: w.session}, "key1"))
	})},
	{"State.Change: 1 key", does(func(ctx context.Context, w *world) error {
		return second(w.store.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{SessionID: w.session}, Key: "key2", Value: json.RawMessage(`1`)}}))
	})},
	{"Streams.Open", func(w *world) func(context.Context) error {
		key := w.next("answer")
		return func(ctx context.Context) error {
			return second(w.store.Streams().Open(ctx, repo.NewStream{Key: key, Owner: "writer", Session: w.session}))
		}
	}},
	{"Streams.Append: 1 part", func(w *world) func(context.Context) error {
		stream := w.stream()
		return func(ctx context.Context) error {
			return second(w.store.Streams().Append(ctx, stream, []byte("a part")))
		}
	}},
	{"Streams.Finish", func(w *world) func(context.Context) error {
		stream := w.stream()
		return func(ctx context.Context) error { return w.store.Streams().Finish(ctx, stream) }
	}},
	{"Leases.Acquire", func(w *world) func(context.Context) error {
		lease := w.newLease()
		return func(ctx context.Context) error { return second(w.store.Leases().Acquire(ctx, lease)) }
	}},
	{"Leases.Renew", func(w *world) func(context.Context) error {
		lease := w.lease()
		return func(ctx context.Context) error { return second(w.store.Leases().Renew(ctx, lease, 0)) }
	}},
	{"Leases.Release", func(w *world) func(context.Context) error {
		lease := w.lease()
		return func(ctx context.Context) error { return w.store.Leases().Release(ctx, lease) }
	}},
	{"Plans.Use", does(func(ctx context.Context, w *world) error {
		return second(w.store.Plans().Use(ctx, w.action, repo.UseAction{}))
	})},
	{"Plans.Claim: 1 of 200", func(w *world) func(context.Context) error {
		w.plan()
		return func(ctx context.Context) error {
			return second(w.store.Plans().Claim(ctx, repo.Claim{Owner: "worker"}))
		}
	}},
	{"Plans.Transition: complete", func(w *world) func(context.Context) error {
		claimed := w.claimed()
		return func(ctx context.Context) error {
			return second(w.store.Plans().Transition(ctx, claimed.Plan.ID, repo.TransitionComplete, repo.Cause{Actor: "worker", Fence: claimed.Lease.Fence}))
		}
	}},
	{"Audit.Record: 1 entry", does(func(ctx context.Context, w *world) error {
		return w.store.Audit().Record(ctx, repo.AuditEntry{Type: audit.EventAuthFailure, Actor: "worker"})
	})},
}
