package access

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/eventqueue"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"github.com/a2aproject/a2a-go/v2/a2asrv/workqueue"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"google.golang.org/adk/v2/session"

	"github.com/seed-df90f812/agentstore"
	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/adapters/adk"
	mcpstore "github.com/seed-df90f812/agentstore/adapters/mcp"
	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/directory"
	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/share"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/usage"
	"github.com/seed-df90f812/agentstore/window"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// secret is in all that is Jane's, in namespace a.
const secret = "s3cret of jane's"

// world is a store with what is Jane's.
type world struct {
	*testing.T

	store  *agentstore.Store
	id     repo.ID // of her session
	stream repo.Stream
	key    []byte
	// reserved is her reservation, and token opens a link of hers.
	reserved budget.Reservation
	blobs    files.Blobs
	file     files.File
	token    string
}

// question is what is asked for, by which user.
type question struct {
	namespace, user, name string
	session               repo.ID
	stream                repo.Stream
}

// entry is what a function does when it is asked: with an error, unless quiet names the kinds of questions that are none, since it does
// nothing, or something of the caller's own.
type entry struct {
	ask   func(ctx context.Context, w *world, q question) (any, error)
	quiet string // of "foreign", "stranger", "empty"
	// nobody: it knows no user. The holder of the store, or the framework's server, asks.
	nobody bool
	// nothing says why it is not asked.
	nothing string
}

const (
	pure  = "names nothing: it reads no store"
	owner = "is for the owner of the store, or of the whole trail"
)

var table = map[string]entry{
	"agentstore.Open": {nothing: owner}, "agentstore.OpenPool": {nothing: owner}, "agentstore.WithTx": {nothing: owner},
	"agentstore.NewSpread": {nothing: owner}, "agentstore.Spread.Place": {nothing: owner},
	"agentstore.Spread.In": {nothing: "gives the view of a namespace, as Store.In does, which is asked"},
	"agentstore.Store.In": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return w.store.In(q.namespace).Sessions().LastMessages(ctx, q.session, 10)
	}},

	"repo.HoldLease": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		held, err := repo.HoldLease(ctx, w.in(q), repo.NewLease{Key: repo.SessionLease(q.session), Owner: q.user})
		if err == nil {
			err = held.Release(ctx)
		}
		return nil, err
	}},
	"repo.Work": {nobody: true, quiet: "foreign", ask: func(ctx context.Context, w *world, q question) (any, error) {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		if q.namespace != "" { // what is their own ends it
			if err := newPlan(ctx, w.in(q), q.namespace, ""); err != nil {
				return nil, err
			}
		}
		var done []repo.ClaimedPlan
		err := repo.Work(ctx, w.in(q), repo.Claim{Owner: q.user, Limit: 2}, func(_ context.Context, claimed repo.ClaimedPlan) error {
			done = append(done, claimed)
			stop(io.EOF)
			return nil
		})
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return done, err
	}},
	"repo.Snooze": {nothing: pure}, "repo.Final": {nothing: pure}, "repo.ReasonOf": {nothing: pure}, "repo.JoinKey": {nothing: pure},
	"repo.Bucket": {nothing: pure}, "repo.ParseID": {nothing: pure}, "repo.ID.Compare": {nothing: pure}, "repo.ID.UnmarshalText": {nothing: pure}, "repo.ParseActionName": {nothing: pure},
	"repo.SessionLease": {nothing: pure},
	"repo.PlanLease":    {nothing: pure}, "repo.ScopeState.Value": {nothing: pure},

	"adapter.SplitKey": {nothing: pure}, "adapter.EncodeJSON": {nothing: pure}, "adapter.ValuesIn": {nothing: pure},
	"adapter.ByKey": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return adapter.ByKey(ctx, w.in(q).Sessions(), q.key(), func(id repo.ID) ([]repo.Message, error) { return w.in(q).Sessions().LastMessages(ctx, id, 10) })
	}},
	"adapter.ReadByKey": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		read, _, err := adapter.ReadByKey(ctx, w.in(q).Sessions(), q.key(), 10)
		return read, err
	}},
	"adapter.EachSession": {quiet: "foreign stranger", ask: func(ctx context.Context, w *world, q question) (any, error) {
		var all []repo.SessionSnapshot
		for session, err := range adapter.EachSession(ctx, w.in(q).Sessions(), repo.SessionFilter{Owner: q.user}, repo.ReadSessions{Last: 10}) {
			if all = append(all, session); err != nil {
				return all, err
			}
		}
		return all, nil
	}},
	"adapter.FollowMessages": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		f := adapter.FollowMessages(ctx, w.in(q).Sessions(), q.session, 0)
		defer f.Close()
		return f.Next(ctx)
	}},
	"adapter.FollowParts": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		f := adapter.FollowParts(ctx, w.in(q).Streams(), q.stream.Key, repo.StreamPosition{})
		defer f.Close()
		return f.Next(ctx)
	}},
	"adapter.Values.Get": {nobody: true, ask: inValues(func(ctx context.Context, v adapter.Values[string]) (any, error) {
		return v.Get(ctx, "k")
	})},
	"adapter.Values.Set": {nobody: true, ask: inValues(func(ctx context.Context, v adapter.Values[string]) (any, error) {
		return nil, v.Set(ctx, "k", "x")
	})},
	"adapter.Values.Remove": {nobody: true, ask: inValues(func(ctx context.Context, v adapter.Values[string]) (any, error) {
		return nil, v.Remove(ctx, "k")
	})},

	"observe.ResultOf": {nothing: pure}, "otelagentstore.New": {nothing: pure}, "otelagentstore.Link": {nothing: pure},
	"otelagentstore.Observer.Begin": {nothing: pure}, "otelagentstore.Observer.End": {nothing: pure}, "otelagentstore.Observer.Write": {nothing: pure},
	"otelagentstore.Observer.BeginGroup": {nothing: pure}, "otelagentstore.Observer.EndGroup": {nothing: pure},
	"otelagentstore.Observer.Work": {nothing: pure}, "otelagentstore.Observer.Watch": {nothing: owner}, "otelagentstore.Observer.Sample": {nothing: owner},

	"live.MessageEvent": {nothing: pure}, "live.PartEvent": {nothing: pure}, "live.New": {nothing: owner},
	"live.NewPartWriter":    {ask: written, nobody: true},
	"live.PartWriter.Write": {ask: written, nobody: true},
	"live.PartWriter.Fail": {quiet: "foreign", nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return nil, live.NewPartWriter(ctx, w.in(q).Streams(), q.stream).Fail(ctx, "x")
	}},
	"live.Handler.ServeHTTP": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		h, err := live.New(w.in(q), live.Options{Authorize: func(*http.Request) (live.Target, error) { return live.Target{Session: q.session, Reader: q.user}, nil }})
		return served(ctx, h, "/", err)
	}},
	"inspect.Handler": {nothing: owner},
	"inspect.Inspector.ServeHTTP": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		h, err := inspect.Handler(w.store, inspect.Options{Authorize: func(*http.Request) (inspect.Access, error) {
			return inspect.Access{Viewer: q.user, Namespace: q.namespace, Contents: true}, nil
		}})
		return served(ctx, h, "/sessions/"+q.session.String(), err)
	}},
	"retention.DeleteWithPlans": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return retention.DeleteWithPlans(ctx, w.in(q), q.session, repo.Cause{Actor: q.user, Reason: "x"})
	}},
	"retention.Run": {nobody: true, quiet: "foreign empty", ask: func(ctx context.Context, w *world, q question) (any, error) {
		return retention.Run(ctx, w.store, retention.Policy{Sessions: map[string]time.Duration{q.namespace: time.Millisecond}, Actor: "x"})
	}},
	"erase.Subject": {quiet: "foreign stranger", ask: func(ctx context.Context, w *world, q question) (any, error) {
		return erase.Subject(ctx, w.store, erase.Request{Owner: q.user, Namespaces: []string{q.namespace}, Key: w.key})
	}},
	"erase.Check": {quiet: "foreign stranger", ask: func(ctx context.Context, w *world, q question) (any, error) {
		return nil, erase.Check(ctx, w.store, erase.Request{Owner: q.user, Namespaces: []string{q.namespace}, Key: w.key})
	}},
	"erase.Replay": {quiet: "foreign stranger", ask: func(ctx context.Context, w *world, q question) (any, error) {
		receipt, err := erase.Subject(ctx, w.store, erase.Request{Owner: cmp.Or(q.user, "x"), Namespaces: []string{"b"}, Key: w.key})
		if receipt.Namespaces = []string{q.namespace}; q.user == "" {
			receipt.Names = nil
		}
		if err == nil {
			_, err = erase.Replay(ctx, w.store, erase.Request{Key: w.key}, receipt)
		}
		return nil, err
	}},
	"effect.Failed": {nothing: pure}, "effect.NotSent": {nothing: pure}, "effect.Happened": {nothing: pure},
	"effect.GivenUp": {nothing: pure}, "effect.Answer.OfAttempt": {nothing: pure},
	"effect.Once": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return effect.Once(ctx, w.in(q), effect.Key{Session: q.session, Call: "paid"}, nil, effect.Policy{}, func(context.Context, effect.Effect) (json.RawMessage, error) {
			return json.RawMessage(`"made for a stranger"`), nil
		})
	}},
	"effect.Resolve": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return effect.Resolve(ctx, w.in(q), effect.Key{Session: q.session, Call: "unknown"}, effect.DidNotHappen())
	}},
	"effect.List": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return effect.List(ctx, w.in(q), q.session, repo.Page{})
	}},
	"effect.Crossed": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return effect.Crossed(ctx, w.in(q), q.session, -1)
	}},
	"effect.Fork": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		fork, crossed, err := effect.Fork(ctx, w.in(q), q.session, 0, repo.NewSession{})
		return []any{fork, crossed}, err
	}},

	"approval.New": {nothing: "gives the requests of a namespace, whose methods are asked"}, "approval.ScopeOf": {nothing: pure}, "approval.Approvals.InTurn": {nothing: pure},
	"approval.Approvals.Ask": {nobody: true, ask: inApprovals(func(ctx context.Context, a *approval.Approvals, view repo.Store, q question, ref approval.Ref) (any, error) {
		return nil, view.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
			_, err := a.Ask(ctx, tx, approval.NewRequest{Ref: ref, Act: approval.Act{Kind: "k"}, By: "x", Deciders: []string{q.user}, Until: time.Now().Add(time.Hour)})
			return err
		})
	})},
	"approval.Approvals.Decide": {ask: inApprovals(func(ctx context.Context, a *approval.Approvals, _ repo.Store, q question, ref approval.Ref) (any, error) {
		return a.Decide(ctx, q.user, approval.Answer{Ref: ref, Verdict: approval.Approve})
	})},
	"approval.Approvals.Use": {nobody: true, ask: inApprovals(func(ctx context.Context, a *approval.Approvals, view repo.Store, _ question, ref approval.Ref) (any, error) {
		return nil, view.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
			return a.Use(ctx, tx, ref, approval.Act{Kind: "k"})
		})
	})},
	"approval.Approvals.Permit": {nobody: true, ask: inApprovals(func(ctx context.Context, a *approval.Approvals, view repo.Store, _ question, ref approval.Ref) (any, error) {
		return nil, view.InTx(ctx, a.Permit(ref, approval.Act{Kind: "k"}))
	})},
	"approval.Approvals.Get": {nobody: true, ask: inApprovals(func(ctx context.Context, a *approval.Approvals, _ repo.Store, _ question, ref approval.Ref) (any, error) {
		return a.Get(ctx, ref)
	})},
	"approval.Approvals.List": {quiet: "foreign stranger", ask: inApprovals(func(ctx context.Context, a *approval.Approvals, _ repo.Store, q question, _ approval.Ref) (any, error) {
		return a.List(ctx, q.user, repo.Page{})
	})},
	"approval.Approvals.Count": {quiet: "foreign stranger", ask: inApprovals(func(ctx context.Context, a *approval.Approvals, _ repo.Store, q question, _ approval.Ref) (any, error) {
		count, _, err := a.Count(ctx, q.user, 0)
		if count > 0 {
			return secret, err
		}
		return count, err
	})},
	"approval.Approvals.Expire": {nobody: true, quiet: "foreign empty", ask: inApprovals(func(ctx context.Context, a *approval.Approvals, _ repo.Store, _ question, _ approval.Ref) (any, error) {
		return a.Expire(ctx, 0)
	})},
	"usage.Count": {nothing: pure}, "usage.DayOf": {nothing: pure}, "usage.Scopes": {nothing: pure},
	"usage.Report": {nobody: true, quiet: "foreign empty", ask: func(ctx context.Context, w *world, q question) (any, error) {
		return usage.Report(ctx, w.in(q).State(), usage.Query{From: "2026-03-01", To: "2026-03-31", By: []usage.Dimension{usage.ByModel}})
	}},
	"usage.Fold": {nobody: true, quiet: "foreign empty", ask: func(ctx context.Context, w *world, q question) (any, error) {
		return nil, usage.Fold(ctx, w.in(q).State(), "2026-03-01", "2026-03-31")
	}},
	"usage.Forget": {nobody: true, quiet: "foreign empty", ask: func(ctx context.Context, w *world, q question) (any, error) {
		return usage.Forget(ctx, w.in(q).State(), "2026-03-01", "2026-03-31")
	}},
	"clock.New":     {nothing: pure},
	"directory.New": {nothing: pure},
	// The changes are of the asker's own scopes, for a session that its turn creates.
	"directory.Directory.Changes": {quiet: "foreign", ask: inDirectory(func(ctx context.Context, d *directory.Directory, q question) (any, error) {
		return d.Changes(ctx, q.session, directory.Edit{Starred: new(true)})
	})},
	"directory.Directory.Set": {ask: inDirectory(func(ctx context.Context, d *directory.Directory, q question) (any, error) {
		return d.Set(ctx, q.session, directory.Edit{Starred: new(true)})
	})},
	"directory.Directory.MarkRead": {ask: inDirectory(func(ctx context.Context, d *directory.Directory, q question) (any, error) {
		return d.MarkRead(ctx, q.session, 1)
	})},
	"directory.Directory.AppendTurn": {ask: inDirectory(func(ctx context.Context, d *directory.Directory, q question) (any, error) {
		return d.AppendTurn(ctx, repo.Turn{SessionID: q.session, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x"}}}, directory.Edit{})
	})},
	"directory.Directory.List": {quiet: "foreign stranger", ask: inDirectory(func(ctx context.Context, d *directory.Directory, q question) (any, error) {
		return d.List(ctx, directory.Selection{StarredFirst: true}, repo.Page{})
	})},
	"directory.Directory.Sweep": {quiet: "foreign stranger", ask: inDirectory(func(ctx context.Context, d *directory.Directory, q question) (any, error) {
		_, _, err := d.Sweep(ctx, repo.Page{})
		return nil, err
	})},
	"share.New": {nothing: pure}, "share.IsLink": {nothing: pure},
	"share.Links.Create": {nobody: true, ask: inLinks(func(ctx context.Context, l *share.Links, q question, _ string) (any, error) {
		_, token, err := l.Create(ctx, q.session, 0, time.Hour)
		return token, err
	})},
	"share.Links.Open": {nobody: true, ask: inLinks(func(ctx context.Context, l *share.Links, _ question, token string) (any, error) {
		return l.Open(ctx, token, share.Show{All: true})
	})},
	"share.Links.List": {quiet: "foreign stranger", ask: inLinks(func(ctx context.Context, l *share.Links, q question, _ string) (any, error) {
		return l.List(ctx, q.user, repo.Page{})
	})},
	"share.Links.Revoke": {ask: inLinks(func(ctx context.Context, l *share.Links, q question, _ string) (any, error) {
		return nil, l.Revoke(ctx, q.user, q.session)
	})},
	"share.Links.Sweep": {quiet: "foreign stranger", ask: inLinks(func(ctx context.Context, l *share.Links, q question, _ string) (any, error) {
		_, _, err := l.Sweep(ctx, q.user, repo.Page{})
		return nil, err
	})},
	"budget.New": {nothing: owner}, "budget.ScopeName": {nothing: pure}, "budget.Prices.Amount": {nothing: pure}, "budget.Reservation.Wrote": {nothing: pure},
	"budget.Keeper.Reserve": {nobody: true, quiet: "foreign", ask: inBudget(func(ctx context.Context, k *budget.Keeper, q question, r budget.Request, _ budget.Reservation) (any, error) {
		return k.Reserve(ctx, r)
	})},
	"budget.Keeper.ReserveTurn": {nobody: true, ask: inBudget(func(ctx context.Context, k *budget.Keeper, q question, r budget.Request, _ budget.Reservation) (any, error) {
		turn, _, err := k.ReserveTurn(ctx, repo.Turn{SessionID: q.session, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x"}}}, r)
		return turn, err
	})},
	"budget.Keeper.Propose": {nobody: true, quiet: "foreign", ask: inBudget(func(ctx context.Context, k *budget.Keeper, _ question, r budget.Request, _ budget.Reservation) (any, error) {
		proposed, _, err := k.Propose(ctx, r)
		return proposed, err
	})},
	"budget.Keeper.Find": {nobody: true, ask: inBudget(func(ctx context.Context, k *budget.Keeper, q question, _ budget.Request, hers budget.Reservation) (any, error) {
		return k.Find(ctx, q.name, hers.ID)
	})},
	"budget.Keeper.Used": {nobody: true, quiet: "foreign", ask: inBudget(func(ctx context.Context, k *budget.Keeper, _ question, r budget.Request, _ budget.Reservation) (any, error) {
		used, err := k.Used(ctx, r.Limits[0])
		if used != 0 {
			return secret, err
		}
		return nil, err
	})},
	"budget.Keeper.Settle": {nobody: true, ask: inBudget(func(ctx context.Context, k *budget.Keeper, _ question, _ budget.Request, hers budget.Reservation) (any, error) {
		return k.Settle(ctx, hers, budget.Use{})
	})},
	"budget.Keeper.Release": {nobody: true, ask: inBudget(func(ctx context.Context, k *budget.Keeper, _ question, _ budget.Request, hers budget.Reservation) (any, error) {
		return nil, k.Release(ctx, hers)
	})},
	"budget.Keeper.SettleTurn": {nobody: true, ask: inBudget(func(ctx context.Context, k *budget.Keeper, q question, _ budget.Request, hers budget.Reservation) (any, error) {
		turn, _, err := k.SettleTurn(ctx, repo.Turn{SessionID: q.session, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x"}}}, hers, budget.Use{})
		return turn, err
	})},
	"budget.Keeper.Sweep": {nobody: true, quiet: "foreign empty", ask: inBudget(func(ctx context.Context, k *budget.Keeper, q question, _ budget.Request, _ budget.Reservation) (any, error) {
		return k.Sweep(ctx, q.name)
	})},
	"files.New": {nothing: "gives the files of a namespace, whose methods are asked"}, "files.NewFolder": {nothing: pure}, "files.OfSession": {nothing: pure},
	"files.OfUser": {nothing: pure}, "files.ScopeOf": {nothing: pure}, "files.Payload": {nothing: pure}, "files.References": {nothing: pure}, "files.Estimate": {nothing: pure},
	"files.Reader.Read": {nothing: "reads what Open has found"}, "files.Reader.Seek": {nothing: "reads what Open has found"},
	"files.Files.Save": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, q question, owner files.Owner, _ files.File) (any, error) {
		return f.Save(ctx, owner, files.NewFile{Name: "f"}, strings.NewReader("x"))
	})},
	"files.Files.Open": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, _ question, owner files.Owner, hers files.File) (any, error) {
		return f.Open(ctx, owner, hers.Name, hers.Version)
	})},
	"files.Files.OpenID": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, q question, _ files.Owner, hers files.File) (any, error) {
		return f.OpenID(ctx, files.OfUser(q.user), hers.ID)
	})},
	"files.Files.List": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, _ question, owner files.Owner, _ files.File) (any, error) {
		return f.List(ctx, owner, repo.Page{})
	})},
	"files.Files.Versions": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, _ question, owner files.Owner, hers files.File) (any, error) {
		return f.Versions(ctx, owner, hers.Name, repo.Page{})
	})},
	"files.Files.Delete": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, _ question, owner files.Owner, hers files.File) (any, error) {
		return f.Delete(ctx, owner, hers.Name)
	})},
	"files.Files.Fork": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, q question, _ files.Owner, _ files.File) (any, error) {
		return f.Fork(ctx, q.session, 0, repo.NewSession{})
	})},
	"files.Files.Export": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, q question, _ files.Owner, _ files.File) (any, error) {
		var archive strings.Builder
		err := f.Export(ctx, q.session, &archive)
		return archive.String(), err
	})},
	"files.Files.Import": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, q question, _ files.Owner, _ files.File) (any, error) {
		return nil, f.Import(ctx, q.session, strings.NewReader(""))
	})},
	"files.Files.Sweep": {nobody: true, quiet: "foreign empty", ask: inFiles(func(ctx context.Context, f *files.Files, _ question, _ files.Owner, _ files.File) (any, error) {
		return f.Sweep(ctx, 0)
	})},
	"files.Files.Handler": {nobody: true, ask: inFiles(func(ctx context.Context, f *files.Files, _ question, owner files.Owner, hers files.File) (any, error) {
		recorded := httptest.NewRecorder()
		f.Handler(func(*http.Request) (files.Owner, string, error) { return owner, hers.ID, nil }).
			ServeHTTP(recorded, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		if recorded.Code != http.StatusOK {
			return recorded.Body.String(), errors.New(recorded.Body.String())
		}
		return recorded.Body.String(), nil
	})},
	"window.Estimate": {nothing: pure},
	"window.Read": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return window.Read(ctx, w.in(q).Sessions(), q.session, window.Options{Tokens: 100_000})
	}},
	"window.AppendTurn": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return window.AppendTurn(ctx, w.in(q).Sessions(), repo.Turn{SessionID: q.session, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x"}}})
	}},
	"window.Compact": {nobody: true, ask: func(ctx context.Context, w *world, q question) (any, error) {
		return window.Compact(ctx, w.in(q), q.session, window.Options{Tokens: 1}, func(context.Context, []repo.Message) (string, error) { return "x", nil })
	}},
	"audit.Origin": {nothing: pure}, "audit.ParseCheckpoint": {nothing: pure}, "audit.RegisterEventType": {nothing: pure}, "audit.LeafHash": {nothing: pure},
	"audit.CheckProof": {nothing: pure}, "audit.NewRedactor": {nothing: pure}, "audit.Redactor.Entry": {nothing: pure}, "audit.Redactor.Text": {nothing: pure},
	"audit.Redactor.JSON": {nothing: pure}, "audit.Prove": {nothing: owner}, "audit.NewSealer": {nothing: owner}, "audit.OpenSpool": {nothing: owner},
	"audit.Verify": {nothing: owner}, "audit.NewWriter": {nothing: owner}, "audit.Writer.Record": {nothing: pure}, "audit.Writer.RecordWait": {nothing: pure},

	"a2astore.New": {nothing: owner}, "a2astore.message.Return": {nothing: pure},
	"a2astore.tasks.Create": {quiet: "foreign", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return c.Tasks.Create(ctx, &a2a.Task{ID: id})
	})},
	"a2astore.tasks.Update": {ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return c.Tasks.Update(ctx, &taskstore.UpdateRequest{Task: &a2a.Task{ID: id}})
	})},
	"a2astore.tasks.Get": {ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return c.Tasks.Get(ctx, id)
	})},
	"a2astore.tasks.List": {quiet: "foreign stranger", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, _ a2a.TaskID) (any, error) {
		return c.Tasks.List(ctx, &a2a.ListTasksRequest{})
	})},
	"a2astore.events.CreateReader": {quiet: "foreign", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		_, err := c.Events.CreateReader(ctx, id)
		return nil, err
	})},
	"a2astore.events.CreateWriter": {quiet: "foreign", ask: inCluster(answered)}, "a2astore.writer.Write": {quiet: "foreign", ask: inCluster(answered)},
	"a2astore.events.Destroy": {quiet: "foreign stranger empty", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return nil, c.Events.Destroy(ctx, id)
	})},
	"a2astore.configs.Save": {quiet: "foreign", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return c.Push.Save(ctx, id, &a2a.PushConfig{ID: "push", URL: "https://example.org/"})
	})},
	"a2astore.configs.Get": {ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return c.Push.Get(ctx, id, "push")
	})},
	"a2astore.configs.List": {quiet: "foreign", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return c.Push.List(ctx, id)
	})},
	"a2astore.configs.Delete": {quiet: "foreign", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return nil, c.Push.Delete(ctx, id, "push")
	})},
	"a2astore.configs.DeleteAll": {quiet: "foreign", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return nil, c.Push.DeleteAll(ctx, id)
	})},
	"a2astore.leases.Acquire": {quiet: "foreign empty", nobody: true, ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		lease, err := c.Leases.Acquire(ctx, &workqueue.Payload{Type: workqueue.PayloadTypeCancel, TaskID: id})
		if err == nil {
			lease.Release(ctx)
		}
		return nil, err
	})},
	"a2astore.work.Write": {quiet: "foreign", ask: inCluster(func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
		return c.Work.Write(ctx, &workqueue.Payload{Type: workqueue.PayloadTypeCancel, TaskID: id, CancelRequest: &a2a.CancelTaskRequest{ID: id}})
	})},

	"mcpstore.NewEventStore": {nothing: owner},
	"mcpstore.EventStore.Open": {quiet: "foreign empty", nobody: true, ask: inEvents(func(ctx context.Context, e *mcpstore.EventStore, name string) (any, error) {
		return nil, e.Open(ctx, name, name)
	})},
	"mcpstore.EventStore.Append": {quiet: "empty", nobody: true, ask: inEvents(func(ctx context.Context, e *mcpstore.EventStore, name string) (any, error) {
		return nil, e.Append(ctx, name, name, []byte("x"))
	})},
	"mcpstore.EventStore.After": {nobody: true, ask: inEvents(func(ctx context.Context, e *mcpstore.EventStore, name string) (all any, err error) {
		for data, err := range e.After(ctx, name, name, -1) {
			return string(data), err
		}
		return nil, nil
	})},
	"mcpstore.EventStore.SessionClosed": {
		quiet: "foreign empty", nobody: true,
		ask: inEvents(func(ctx context.Context, e *mcpstore.EventStore, name string) (any, error) {
			return nil, e.SessionClosed(ctx, name)
		}),
	},
	"mcpstore.EventStore.Handler": {ask: func(ctx context.Context, w *world, q question) (any, error) {
		e, err := mcpstore.NewEventStore(w.in(q).Streams(), 0)
		if err != nil {
			return nil, err
		}
		return served(ctx, as(q.user, func(rw http.ResponseWriter, r *http.Request) {
			r.Header.Set("Mcp-Session-Id", q.name)
			r.Header.Set("Last-Event-ID", q.name+"_0")
			e.Handler(http.NotFoundHandler()).ServeHTTP(rw, r)
		}), "/", nil)
	}},

	"adk.NewSessionService": {nothing: owner}, "adk.SessionKey": {nothing: pure}, "adk.AppScope": {nothing: pure}, "adk.UserScope": {nothing: pure},
	"adk.Event": {nothing: pure}, "adk.Calls": {nothing: pure}, "adk.unread.Get": {nothing: pure},
	"adk.service.Create": {quiet: "foreign stranger", ask: inService(func(ctx context.Context, s session.Service, q question) (any, error) {
		_, err := s.Create(ctx, &session.CreateRequest{AppName: q.namespace, UserID: q.user, SessionID: cmp.Or(q.name, "x")})
		return nil, err
	})},
	"adk.service.Get": {ask: inService(func(ctx context.Context, s session.Service, q question) (any, error) {
		return s.Get(ctx, &session.GetRequest{AppName: q.namespace, UserID: q.user, SessionID: q.name})
	})},
	// As ADK has it, no user means all of an application: it has to be named.
	"adk.service.List": {quiet: "foreign stranger empty", ask: inService(func(ctx context.Context, s session.Service, q question) (any, error) {
		listed, err := s.List(ctx, &session.ListRequest{AppName: q.namespace, UserID: q.user})
		return len(listed.Sessions), errors.Join(err, map[bool]error{true: errors.New(secret)}[len(listed.Sessions) > 0])
	})},
	"adk.service.Delete": {quiet: "foreign stranger empty", ask: inService(func(ctx context.Context, s session.Service, q question) (any, error) {
		return nil, s.Delete(ctx, &session.DeleteRequest{AppName: q.namespace, UserID: q.user, SessionID: q.name})
	})},
	"adk.service.AppendEvent": {ask: inService(func(ctx context.Context, s session.Service, q question) (any, error) {
		return nil, s.AppendEvent(ctx, named{q: q}, &session.Event{ID: "x", Author: "user"})
	})},
}

// key is that of Jane's session.
func (q question) key() repo.SessionKey {
	if q.name == "" {
		return repo.SessionKey{}
	}
	return repo.SessionKey{Namespace: q.namespace, Key: "k"}
}

func inValues(ask func(ctx context.Context, v adapter.Values[string]) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		return ask(ctx, adapter.ValuesIn[string](w.in(q).State(), repo.Scope{SessionID: q.session}))
	}
}

// newPlan queues a plan with a text.
func newPlan(ctx context.Context, view repo.Store, namespace, text string) error {
	action := namespace + "/x"
	_, err := view.Actions().Create(ctx, repo.NewAction{Name: action, ActionDefinition: repo.ActionDefinition{Reusable: true}})
	if err == nil {
		_, err = view.Plans().Use(ctx, action, repo.UseAction{Description: text})
	}
	return err
}

// in returns what the asking tenant has.
func (w *world) in(q question) repo.Store {
	if q.namespace == "" {
		return w.store
	}
	return w.store.In(q.namespace)
}

func written(ctx context.Context, w *world, q question) (any, error) {
	writer := live.NewPartWriter(ctx, w.in(q).Streams(), q.stream)
	err := writer.Write(ctx, []byte("x"))
	return nil, cmp.Or(err, writer.Flush(ctx), writer.Gone())
}

func answered(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error) {
	writer, err := c.Events.CreateWriter(ctx, id)
	if err == nil {
		err = writer.Write(ctx, &eventqueue.Message{Event: a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("x"))})
	}
	return nil, err
}

// inBudget asks with the keeper of a namespace, a request under the name that is asked for, and Jane's reservation.
func inBudget(ask func(context.Context, *budget.Keeper, question, budget.Request, budget.Reservation) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		k, err := budget.New(w.in(q), budget.Options{})
		if err != nil {
			return nil, err
		}
		hers := w.reserved
		if q.namespace == "" {
			hers = budget.Reservation{}
		}
		return ask(ctx, k, q, budgetRequest(q.name), hers)
	}
}

// inFiles asks with the files of a namespace, the session that is asked for as the owner, and Jane's file.
func inFiles(ask func(context.Context, *files.Files, question, files.Owner, files.File) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		f, err := files.New(w.store, q.namespace, w.blobs, files.Options{})
		if err != nil {
			return nil, err
		}
		hers := w.file
		if q.namespace == "" {
			hers = files.File{}
		}
		return ask(ctx, f, q, files.OfSession(q.session), hers)
	}
}

func inDirectory(ask func(context.Context, *directory.Directory, question) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		d, err := directory.New(w.in(q), q.user)
		if err != nil {
			return nil, err
		}
		return ask(ctx, d, q)
	}
}

// inLinks asks with the token of her link, and without one if the question is empty.
func inLinks(ask func(context.Context, *share.Links, question, string) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		links, err := share.New(w.in(q))
		if err != nil {
			return nil, err
		}
		token := w.token
		if q.namespace == "" {
			token = ""
		}
		return ask(ctx, links, q, token)
	}
}

func budgetRequest(name string) budget.Request {
	limit := budget.Limit{Name: name, Unit: budget.Tokens, Period: budget.Ever, Max: 10}
	return budget.Request{ID: "r", Limits: []budget.Limit{limit}, Most: budget.Amount{Tokens: 5}, Life: time.Hour}
}

func inCluster(ask func(ctx context.Context, c *a2astore.Cluster, id a2a.TaskID) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		c, err := a2astore.New(ctx, w.store, a2astore.Options{Name: cmp.Or(q.namespace, "a")})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		ctx, call := a2asrv.NewCallContext(ctx, nil)
		call.User = a2asrv.NewAuthenticatedUser(q.user, nil)
		return ask(ctx, c, a2a.TaskID(q.name))
	}
}

func inApprovals(ask func(ctx context.Context, a *approval.Approvals, view repo.Store, q question, ref approval.Ref) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		a, err := approval.New(w.store, q.namespace, approval.Options{})
		if err != nil {
			return nil, err
		}
		return ask(ctx, a, w.in(q), q, approval.Ref{SessionID: q.session, ID: "ask"})
	}
}

func inEvents(ask func(ctx context.Context, e *mcpstore.EventStore, name string) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		e, err := mcpstore.NewEventStore(w.in(q).Streams(), 0)
		if err != nil {
			return nil, err
		}
		return ask(ctx, e, q.name)
	}
}

func inService(ask func(ctx context.Context, s session.Service, q question) (any, error)) func(context.Context, *world, question) (any, error) {
	return func(ctx context.Context, w *world, q question) (any, error) {
		return ask(ctx, adk.NewSessionService(w.store), q)
	}
}

// named is a session of ADK's that says whose it is.
type named struct {
	session.Session

	q question
}

func (n named) ID() string      { return n.q.name }
func (n named) AppName() string { return n.q.namespace }
func (n named) UserID() string  { return n.q.user }

// as serves as a user.
func as(user string, next http.HandlerFunc) http.Handler {
	if user == "" {
		return next
	}
	return auth.RequireBearerToken(func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)(next)
}

func served(ctx context.Context, h http.Handler, path string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	r, w := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer x")
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		err = fmt.Errorf("status %d", w.Code)
	}
	body, _ := io.ReadAll(w.Result().Body)
	return string(body), err
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// newWorld makes what is Jane's: a session with a stream, a task, a session of MCP and one of ADK.
func newWorld(t *testing.T, databaseURL string) *world {
	t.Helper()
	ctx := t.Context()
	w := &world{T: t, store: pgtest.OpenStore(t, databaseURL, agentstore.Options{}), key: []byte("the key of the test's receipts")}
	a := w.store.In("a")
	w.id = must[repo.Session](t)(a.Sessions().Create(ctx, repo.NewSession{Key: "k", Owner: "jane", Metadata: []byte(`{"m":"` + secret + `"}`)})).ID
	must[[]repo.Message](t)(a.Sessions().Append(ctx, w.id, repo.NewMessage{Role: repo.RoleUser, Content: secret}))
	must[[]repo.ScopeVersion](t)(a.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{SessionID: w.id}, Key: "k", Value: []byte(`"` + secret + `"`)}}))
	turn := repo.Turn{SessionID: w.id, ID: "counted"}
	if err := errors.Join(usage.Count(&turn, usage.Use{Day: "2026-03-31", Model: secret}), newPlan(ctx, a, "a", secret)); err != nil {
		t.Fatal(err)
	}
	hers := must[*approval.Approvals](t)(approval.New(w.store, "a", approval.Options{}))
	if err := a.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		_, err := hers.Ask(ctx, tx, approval.NewRequest{
			Ref: approval.Ref{SessionID: w.id, ID: "ask"}, Act: approval.Act{Kind: "k"}, Text: secret, By: "x", Deciders: []string{"jane"}, Until: time.Now().Add(time.Hour),
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	must[repo.AppendedTurn](t)(a.Sessions().AppendTurn(ctx, turn))
	for call, failed := range map[string]error{"paid": nil, "unknown": errors.New(secret), "refused": effect.Failed(errors.New(secret))} {
		_, err := effect.Once(ctx, a, effect.Key{Session: w.id, Call: call}, nil, effect.Policy{}, func(context.Context, effect.Effect) (json.RawMessage, error) {
			return json.RawMessage(`"` + secret + `"`), failed
		})
		if (err != nil) != (failed != nil) {
			t.Fatal(err)
		}
	}
	w.stream = must[repo.Stream](t)(a.Streams().Open(ctx, repo.NewStream{Key: "s", Owner: "jane", Session: w.id}))
	must[int64](t)(a.Streams().Append(ctx, w.stream, []byte(secret)))
	w.reserved = must[budget.Reservation](t)(must[*budget.Keeper](t)(budget.New(a, budget.Options{})).Reserve(ctx, budgetRequest("task")))
	w.blobs = files.NewMemory()
	f := must[*files.Files](t)(files.New(w.store, "a", w.blobs, files.Options{}))
	w.file = must[files.File](t)(f.Save(ctx, files.OfSession(w.id), files.NewFile{Name: "f"}, strings.NewReader(secret)))
	must[directory.Entry](t)(must[*directory.Directory](t)(directory.New(a, "jane")).Set(ctx, w.id, directory.Edit{Title: new(secret), Starred: new(true), AddTags: []string{secret}}))
	_, token, err := must[*share.Links](t)(share.New(a)).Create(ctx, w.id, 0, time.Hour)
	if w.token = token; err != nil {
		t.Fatal(err)
	}
	jane := question{namespace: "a", user: "jane", name: "k"}
	must[any](t)(inCluster(func(ctx context.Context, c *a2astore.Cluster, _ a2a.TaskID) (any, error) {
		task := &a2a.Task{ID: "task", Metadata: map[string]any{"m": secret}}
		_, err := c.Tasks.Create(ctx, task)
		if err == nil {
			_, err = c.Push.Save(ctx, "task", &a2a.PushConfig{ID: "push", URL: "https://example.org/", Token: secret})
		}
		return nil, err
	})(ctx, w, jane))
	e := must[*mcpstore.EventStore](t)(mcpstore.NewEventStore(a.Streams(), 0))
	as("jane", func(_ http.ResponseWriter, r *http.Request) {
		err := errors.Join(e.Open(r.Context(), "task", ""), e.Open(r.Context(), "task", "task"), e.Append(ctx, "task", "task", nil), e.Append(ctx, "task", "task", []byte(secret)))
		if err != nil {
			t.Error(err)
		}
	}).ServeHTTP(httptest.NewRecorder(), func() *http.Request {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
		r.Header.Set("Authorization", "Bearer x")
		return r
	}())
	must[*session.CreateResponse](t)(adk.NewSessionService(w.store).Create(ctx, &session.CreateRequest{
		AppName: "a", UserID: "jane", SessionID: "task", State: map[string]any{"k": secret, "user:k": secret},
	}))
	return w
}

// hers is all that is Jane's.
func (w *world) hers() string {
	w.Helper()
	ctx, all := context.WithoutCancel(w.Context()), &strings.Builder{}
	for _, namespace := range []string{"a", "adk/a"} {
		page := must[repo.List[repo.Session]](w.T)(w.store.Sessions().List(ctx, repo.SessionFilter{Namespace: namespace, Owner: "jane"}, repo.Page{}))
		for _, s := range page.Items {
			fmt.Fprintf(all, "%+v\n", s)
			fmt.Fprintf(all, "%+v\n", must[[]repo.Message](w.T)(w.store.Sessions().MessagesFrom(ctx, s.ID, 0, 100)))
			fmt.Fprintf(all, "%+v\n", must[[]repo.ScopeState](w.T)(w.store.State().Read(ctx, repo.Scope{SessionID: s.ID})))
			fmt.Fprintf(all, "%+v\n", must[repo.List[repo.Stream]](w.T)(w.store.Streams().List(ctx, s.ID, repo.Page{})))
		}
	}
	fmt.Fprintf(all, "%+v\n", must[repo.List[repo.Plan]](w.T)(w.store.Plans().List(ctx, repo.PlanFilter{Namespace: "a"}, repo.Page{})))
	fmt.Fprintf(all, "%+v\n", must[repo.List[repo.Lease]](w.T)(w.store.In("a").Leases().List(ctx, repo.LeaseFilter{}, repo.Page{})))
	for _, key := range []string{"s", repo.JoinKey("mcp", "task", ""), repo.JoinKey("mcp", "task", "task")} {
		fmt.Fprintf(all, "%+v\n", must[repo.Stream](w.T)(w.store.In("a").Streams().Get(ctx, key)))
	}
	fmt.Fprintf(all, "%+v\n", must[[]repo.ScopeState](w.T)(w.store.State().Read(ctx, adk.UserScope("a", "jane"))))
	for _, name := range must[[]string](w.T)(usage.Scopes("2026-03-31", "2026-03-31")) {
		fmt.Fprintf(all, "%+v\n", must[repo.StatePage](w.T)(w.store.In("a").State().List(ctx, repo.Scope{Name: name}, "", repo.Page{})))
	}
	fmt.Fprintf(all, "%+v\n", must[[]repo.ScopeState](w.T)(w.store.In("a").State().Read(ctx, repo.Scope{Name: budget.ScopeName("task")})))
	for _, name := range must[[]string](w.T)(must[*directory.Directory](w.T)(directory.New(w.store.In("a"), "jane")).Scopes(ctx)) {
		fmt.Fprintf(all, "%+v\n", must[repo.StatePage](w.T)(w.store.In("a").State().List(ctx, repo.Scope{Name: name}, "", repo.Page{})))
	}
	return all.String()
}

// No function tells another tenant or another user what is Jane's, or changes it; and an empty name selects none, never
// all.
func TestAccess(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{
		"postgres": func(t *testing.T) string { return pgtest.NewDatabase(t) }, "memory": func(*testing.T) string { return "memory://access" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, database(t))
			for i, function := range slices.Sorted(maps.Keys(table)) {
				e := table[function]
				for kind, q := range map[string]question{
					"foreign":  {namespace: fmt.Sprint("b", i), user: "jane", name: "task", session: w.id, stream: w.stream},
					"stranger": {namespace: "a", user: "eve", name: "task", session: w.id, stream: w.stream},
					"empty":    {},
				} {
					if e.ask == nil || e.nobody && kind == "stranger" {
						continue
					}
					before := w.hers()
					ctx, cancel := context.WithCancel(t.Context())
					result, err := e.ask(ctx, w, q)
					cancel()
					if text := fmt.Sprintf("%+v %v", result, err); strings.Contains(text, secret) {
						t.Errorf("%s tells the %s: %.300s", function, kind, text)
					}
					if (err == nil) != strings.Contains(e.quiet, kind) {
						t.Errorf("%s, asked as %s: %v", function, kind, err)
					}
					if after := w.hers(); after != before {
						t.Errorf("%s, asked as %s, has changed\n%s\nto\n%s", function, kind, before, after)
					}
				}
			}
		})
	}
}

// The table has each function.
func TestTableIsWhole(t *testing.T) {
	t.Parallel()
	known := maps.Clone(table)
	for folder, all := range map[string]bool{
		"": false, "repo": false, "repo/adapter": false, "observe": false, "otelagentstore": false, "live": false, "inspect": false, "retention": false,
		"erase": false, "window": false, "budget": false, "files": false, "clock": false, "directory": false, "share": false, "usage": false, "approval": false, "effect": false, "audit": false, "adapters/a2a": true, "adapters/mcp": true, "adapters/adk": true,
	} {
		names, err := functions("../../../"+folder, all)
		if err != nil || len(names) == 0 {
			t.Fatal(folder, err)
		}
		for _, name := range names {
			if e, is := known[name]; !is || (e.ask == nil) == (e.nothing == "") {
				t.Errorf("%s has no entry, or one that neither asks it nor says why not", name)
			}
			delete(known, name)
		}
	}
	for name := range known {
		t.Errorf("there is no %s", name)
	}
}
