package repotest

import (
	"encoding/json"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

var sessionCalls = []call{
	{name: "Sessions.Create", args: func(f *fixture) args { return args{f.fresh()} }},
	{name: "Sessions.Create/by id", only: views, args: func(f *fixture) args {
		return args{repo.NewSession{ID: f.session(), Existing: repo.ExistingAny}}
	}},
	{name: "Sessions.Create/by key", only: views, args: func(f *fixture) args {
		return args{repo.NewSession{Namespace: f.namespace, Key: f.key().Key, Existing: repo.ExistingAny}}
	}},
	{name: "Sessions.Get", reads: true, args: func(f *fixture) args { return args{f.session()} }},
	{name: "Sessions.Find", trips: none, inTx: 1, reads: true, args: func(f *fixture) args { return args{f.key()} }},
	{name: "Sessions.Find/in the view", only: views, args: func(f *fixture) args {
		return args{repo.SessionKey{Key: f.key().Key}}
	}},
	{name: "Sessions.Read", reads: true, args: func(f *fixture) args {
		ids := []repo.ID{f.own().SessionID, repo.NewID(), f.session()}
		return args{repo.ReadSessions{IDs: ids, Last: 2, State: true, Scopes: []string{f.shared().Name}}}
	}},
	{name: "Sessions.List", reads: true, args: func(f *fixture) args {
		f.sessions()
		return args{repo.SessionFilter{AnyOwner: true, Namespace: f.namespace}, repo.Page{}}
	}},
	{name: "Sessions.List/by activity", reads: true, args: func(f *fixture) args {
		f.sessions()
		return args{byActivity(f.namespace), repo.Page{}}
	}},
	{name: "Sessions.List/by owner", reads: true, args: func(f *fixture) args {
		f.sessions()
		return args{repo.SessionFilter{Namespace: f.namespace, Owner: f.owner}, repo.Page{}}
	}},
	{name: "Sessions.List/in the view", only: views, args: func(f *fixture) args {
		f.sessions()
		return args{repo.SessionFilter{AnyOwner: true}, repo.Page{}}
	}},
	{name: "Sessions.List/by activity, in the view", only: views, args: func(f *fixture) args {
		f.sessions()
		return args{byActivity(""), repo.Page{}}
	}},
	{name: "Sessions.Namespaces", single: true, reads: true, moving: true, args: func(f *fixture) args {
		f.session()
		return args{repo.Page{}}
	}},
	{name: "Sessions.Update", trips: 4, args: func(f *fixture) args {
		return args{f.session(), repo.SessionUpdate{
			Actor: ptr("new/actor"), AutomationProfile: ptr("new"), Metadata: json.RawMessage(`{"new":1}`),
			Budget: ptr(repo.Cost(9)), FencedOnly: ptr(true),
		}}
	}},
	{name: "Sessions.Update/patch", trips: 4, args: func(f *fixture) args {
		patch := json.RawMessage(`{"new":{"a":1}}`)
		return args{f.another(), repo.SessionUpdate{MetadataPatch: patch, IfVersion: ptr(int64(1))}}
	}},
	{name: "Sessions.AddUsage", trips: 2, args: func(f *fixture) args {
		return args{f.session(), repo.NewUsage{ID: repo.NewID(), Cost: 1}}
	}},
	{name: "Sessions.Fork", trips: 5, args: func(f *fixture) args { return args{f.session(), 1, f.fresh()} }},
	{name: "Sessions.Fork/in the view", only: views, args: func(f *fixture) args {
		return args{f.session(), 0, repo.NewSession{}}
	}},
	{name: "Sessions.Redact", trips: 7, args: func(f *fixture) args {
		return args{f.session(), []int64{f.message().Sequence}, repo.Cause{Actor: "x", Reason: secret}}
	}},
	{name: "Sessions.Delete", trips: 4, args: func(f *fixture) args {
		return args{f.sessions(), []repo.DeleteIf{{Version: 1}}}
	}},
	{name: "Sessions.RemoveDeleted", reads: true, moving: true, everywhere: true, args: func(*fixture) args {
		return args{0}
	}},
	{name: "Sessions.AddHold", trips: 3, args: func(f *fixture) args {
		return args{repo.LegalHold{SessionID: f.session(), Reason: "x"}}
	}},
	{name: "Sessions.AddHold/of an owner", trips: 3, args: func(f *fixture) args {
		return args{repo.LegalHold{Namespace: f.namespace, Owner: f.owner, Reason: "x"}}
	}},
	{name: "Sessions.RemoveHold", args: func(f *fixture) args { return args{repo.LegalHold{SessionID: f.held()}} }},
	{name: "Sessions.RemoveHold/of an owner", args: func(f *fixture) args {
		f.held()
		return args{repo.LegalHold{Namespace: f.namespace, Owner: "held"}}
	}},
	{name: "Sessions.Holds", reads: true, moving: true, args: func(f *fixture) args {
		f.held()
		return args{repo.Page{}}
	}},
	{name: "Sessions.Message", reads: true, args: func(f *fixture) args { return args{f.session(), f.message().ID} }},
	{name: "Sessions.MessagesFrom", reads: true, args: func(f *fixture) args { return args{f.session(), 0, 0} }},
	{name: "Sessions.MessagesBefore", reads: true, args: func(f *fixture) args { return args{f.session(), 9, 0} }},
	{name: "Sessions.LastMessages", reads: true, args: func(f *fixture) args { return args{f.session(), 0} }},
	{name: "Sessions.MessagesOfCall", reads: true, args: func(f *fixture) args {
		return args{f.session(), f.message().CallID}
	}},
	{name: "Sessions.Turn", trips: 2, reads: true, args: func(f *fixture) args { return args{f.session(), f.turn()} }},
	{name: "Sessions.Branches", reads: true, args: func(f *fixture) args { return args{f.session(), 1} }},
	{name: "Sessions.Messages", reads: true, args: func(f *fixture) args { return args{f.session(), 0} }},
	{name: "Sessions.Follow", reads: true, waits: 2, args: func(f *fixture) args { return args{f.session(), 0} }},
	{name: "Sessions.Append", trips: 2, args: func(f *fixture) args {
		return args{f.session(), []repo.NewMessage{fullMessage(), user(secret)}}
	}},
	{name: "Sessions.Append/one", args: func(f *fixture) args {
		return args{f.session(), []repo.NewMessage{user(secret)}}
	}},
	{name: "Sessions.Append/one with an id", args: func(f *fixture) args {
		return args{f.session(), []repo.NewMessage{fullMessage()}}
	}},
	{name: "Sessions.AppendTurn", trips: 7, inTx: 6, args: func(f *fixture) args {
		scope := repo.Scope{Name: f.scope}
		turn := fullTurn(scope)
		turn.Expected, turn.IfScopes = ptr(int64(0)), []repo.ScopeVersion{{Scope: scope}}
		turn.Create = &repo.NewSession{Namespace: f.namespace, Owner: f.owner, Metadata: json.RawMessage(`{"new":1}`)}
		turn.State[0].IfVersion = ptr(int64(0))
		return args{inSession(repo.NewID(), turn)}
	}},
	{name: "Sessions.AppendTurn/at", args: func(f *fixture) args {
		return args{repo.Turn{SessionID: f.session(), Expected: ptr(int64(2)), Messages: []repo.NewMessage{user(secret)}}}
	}},
	{name: "Sessions.AppendTurn/of state", only: views, args: func(f *fixture) args {
		state := []repo.StateChange{{Key: "k", Value: []byte("1")}}
		return args{repo.Turn{SessionID: f.session(), Messages: users(1), State: state}}
	}},
	{name: "Sessions.AppendTurn/creating", only: views, args: func(f *fixture) args {
		return args{repo.Turn{SessionID: f.session(), Messages: users(1), Create: &repo.NewSession{}}}
	}},
	{name: "Sessions.AppendTurn/using", only: views, args: func(f *fixture) args {
		return args{repo.Turn{SessionID: f.session(), Action: f.plain()}}
	}},
	{name: "Sessions.AppendTurn/opening", only: views, args: func(f *fixture) args {
		stream := repo.NewStream{Key: f.stream().Key, Owner: "intruder"}
		return args{repo.Turn{SessionID: f.session(), Open: &stream}}
	}},
	{name: "Sessions.AppendTurn/using in one's own session", only: views, args: func(f *fixture) args {
		return args{repo.Turn{SessionID: f.ownSession(), Action: f.plain()}}
	}},
	{name: "Sessions.AppendTurn/by key", only: views, args: func(f *fixture) args {
		key := repo.NewSession{Namespace: f.namespace, Key: f.key().Key}
		return args{repo.Turn{Messages: users(1), Create: &key}}
	}},
	{name: "Sessions.Export", trips: 2, args: func(f *fixture) args { return args{f.session(), &written{}} }},
	{name: "Sessions.Import", trips: 5, args: func(f *fixture) args {
		return args{&bufferedReader{Document: f.document()}, true}
	}},
	{name: "Sessions.Import/of what is there", only: views, args: func(f *fixture) args {
		document := once(f, "export", func() []byte { return export(f.t, f.r.Sessions(), f.another()) })
		if f.asker == nil {
			remove(f.t, f.r.Sessions(), f.another())
		}
		return args{&bufferedReader{Document: document}, true}
	}},
	// Whether it may is decided before it reads.
	{name: "Sessions.Import/of no document", only: refusals, args: func(*fixture) args {
		return args{&bufferedReader{}, true}
	}},
}

var stateCalls = []call{
	{name: "State.Get", reads: true, args: func(f *fixture) args { return args{f.own(), "set"} }},
	{name: "State.Get/shared", reads: true, args: func(f *fixture) args { return args{f.shared(), "set"} }},
	{name: "State.Read", reads: true, args: func(f *fixture) args { return args{[]repo.Scope{f.own()}} }},
	{name: "State.Read/shared", reads: true, args: func(f *fixture) args { return args{[]repo.Scope{f.shared()}} }},
	{name: "State.List", reads: true, args: func(f *fixture) args { return args{f.own(), "", repo.Page{}} }},
	{name: "State.List/shared", reads: true, args: func(f *fixture) args { return args{f.shared(), "", repo.Page{}} }},
	{name: "State.Change", trips: 3, inTx: 2, args: func(f *fixture) args {
		scope := repo.Scope{SessionID: f.session()}
		return args{fullChanges(scope), []repo.ScopeVersion{{Scope: scope}}}
	}},
	// On a condition that holds of what is there.
	{name: "State.Change/shared", trips: 2, args: func(f *fixture) args {
		version := once(f, "version", func() int64 {
			value, err := f.r.State().Get(f.t.Context(), f.shared(), "incremented")
			return must(f.t, value, err).Version
		})
		return args{[]repo.StateChange{ifVersion(increment(f.shared(), "incremented", 1), version)}}
	}},
	{name: "State.Erase", args: func(f *fixture) args { return args{f.shared().Name} }},
}

var leaseCalls = []call{
	{name: "Leases.List", reads: true, args: func(f *fixture) args {
		f.lease()
		return args{repo.LeaseFilter{Owner: f.owner, Held: true}, repo.Page{}}
	}},
	{name: "Leases.List/all", only: views, args: func(f *fixture) args {
		f.lease()
		return args{repo.LeaseFilter{}, repo.Page{}}
	}},
	{name: "Leases.List/of sessions", single: true, only: views, args: func(f *fixture) args {
		f.lease()
		return args{repo.LeaseFilter{Kind: repo.LeaseOfSession}, repo.Page{}}
	}},
	{name: "Leases.List/by key", single: true, reads: true, args: func(f *fixture) args {
		key := f.named().Key
		return args{repo.LeaseFilter{Kind: key.Kind, Name: key.Name}, repo.Page{}}
	}},
	{name: "Leases.Acquire", args: func(f *fixture) args {
		return args{repo.NewLease{Key: repo.PlanLease(f.plan()), Owner: f.owner, TTL: time.Hour}}
	}},
	{name: "Leases.Acquire/again", args: func(f *fixture) args {
		return args{repo.NewLease{Key: f.lease().Key, Owner: f.owner}}
	}},
	{name: "Leases.Renew", args: func(f *fixture) args { return args{f.lease(), time.Hour} }},
	{name: "Leases.Renew/named", args: func(f *fixture) args { return args{f.named(), time.Hour} }},
	// A view that has the lease finds that it has ended. Another one would wait for its end.
	{name: "Leases.Await", reads: true, waits: 1, fails: repo.ErrConflict, args: func(f *fixture) args {
		lease := f.lease()
		if f.asker == nil {
			release(f.t, f.r, lease)
		}
		return args{lease}
	}},
	{name: "Leases.Release", args: func(f *fixture) args { return args{f.lease()} }},
	{name: "Leases.ReleaseAll", args: func(f *fixture) args { return args{f.lease().Owner} }},
}

var streamCalls = []call{
	{name: "Streams.Get", reads: true, args: func(f *fixture) args { return args{f.stream().Key} }},
	{name: "Streams.Follow", reads: true, waits: 3, args: func(f *fixture) args {
		return args{f.stream().Key, repo.StreamPosition{}}
	}},
	{name: "Streams.Follow/by id", reads: true, waits: 3, args: func(f *fixture) args {
		return args{f.stream().Key, repo.StreamPosition{StreamID: f.stream().ID}}
	}},
	{name: "Streams.List", reads: true, args: func(f *fixture) args {
		f.stream()
		return args{f.session(), repo.Page{}}
	}},
	{name: "Streams.FollowSession", reads: true, waits: 2, endless: true, args: func(f *fixture) args {
		f.stream()
		return args{f.session()}
	}},
	{name: "Streams.Open", args: func(f *fixture) args { return args{f.newStream()} }},
	{name: "Streams.Append", trips: 2, args: func(f *fixture) args { return args{f.stream(), someParts(3)} }},
	{name: "Streams.Finish", settled: true, args: func(f *fixture) args { return args{f.stream()} }},
	{name: "Streams.Fail", settled: true, args: func(f *fixture) args { return args{f.stream(), "why"} }},
	{name: "Streams.Delete", args: func(f *fixture) args { return args{f.stream().Key} }},
	{name: "Streams.RemoveExpired", reads: true, moving: true, everywhere: true, args: func(*fixture) args {
		return args{1}
	}},
}

var auditCalls = []call{
	{name: "Audit.Record", args: func(f *fixture) args { return args{[]repo.AuditEntry{f.newEntry(), f.newEntry()}} }},
	{name: "Audit.Record/again", args: func(f *fixture) args { return args{f.entries()[:1]} }},
	{name: "Audit.Entry", reads: true, args: func(f *fixture) args { return args{f.entries()[0].ID} }},
	{name: "Audit.List", reads: true, args: func(f *fixture) args {
		return args{repo.AuditFilter{SessionID: f.entries()[0].SessionID, User: f.owner, OldestFirst: true}, repo.Page{}}
	}},
	{name: "Audit.List/by namespace", reads: true, args: func(f *fixture) args {
		f.entries()
		return args{repo.AuditFilter{Namespace: f.namespace}, repo.Page{}}
	}},
	{name: "Audit.List/by user", reads: true, args: func(f *fixture) args {
		f.entries()
		return args{repo.AuditFilter{User: f.owner}, repo.Page{}}
	}},
	{name: "Audit.Count", reads: true, args: func(f *fixture) args {
		return args{repo.AuditFilter{SessionID: f.entries()[0].SessionID}, 0}
	}},
	{name: "Audit.Export", args: func(f *fixture) args {
		return args{repo.AuditFilter{SessionID: f.entries()[0].SessionID}, &written{}}
	}},
}
