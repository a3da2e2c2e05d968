package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// service is this library at work while a later one migrates its database.
type service struct {
	store   *storeapi.Store
	session repo.ID // that of the appends and turns
	sealer  *audit.Sealer

	stop    atomic.Bool
	running sync.WaitGroup
	mu      sync.Mutex
	done    map[string]int64 // operations of each kind
	failed  []error
}

// appenders is how many append at once.
const appenders = 6

// startService begins the operations of the given kinds; none: of all.
func startService(t *testing.T, databaseURL string, kinds ...string) *service {
	t.Helper()
	s := &service{store: pgtest.OpenStore(t, databaseURL, storeapi.Options{MaxConns: 16}), done: map[string]int64{}}
	s.session = pgtest.NewSession(t, s.store)
	var err error
	if s.sealer, err = audit.NewSealer(s.store.AuditLog(), audit.SealerOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Actions().Create(t.Context(), repo.NewAction{Name: "local/work", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	all := map[string]func(context.Context) error{
		"append": s.append, "turn": s.turn, "session": s.aSession, "plan": s.plan, "lease": s.lease, "stream": s.stream, "trail": s.trail,
	}
	if len(kinds) == 0 {
		for kind := range all {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		clients := 1
		if kind == "append" {
			clients = appenders
		}
		s.done[kind] = 0
		for range clients {
			s.running.Go(func() { s.repeat(t.Context(), kind, all[kind]) })
		}
	}
	t.Cleanup(s.end)
	return s
}

func (s *service) repeat(ctx context.Context, kind string, operation func(context.Context) error) {
	for !s.stop.Load() {
		err := operation(ctx)
		s.mu.Lock()
		if err != nil {
			s.failed = append(s.failed, fmt.Errorf("%s: %w", kind, err))
		} else {
			s.done[kind]++
		}
		s.mu.Unlock()
		time.Sleep(time.Millisecond) // pace: others get the connections
	}
}

// work waits until three more operations of each kind have succeeded.
func (s *service) work(t *testing.T) {
	t.Helper()
	goal := map[string]int64{}
	s.mu.Lock()
	for kind, done := range s.done {
		goal[kind] = done + 3
	}
	s.mu.Unlock()
	await.For(t, "operations of each kind", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for kind := range goal {
			if s.done[kind] < goal[kind] && len(s.failed) == 0 {
				return false
			}
		}
		return true
	})
}

func (s *service) end() {
	s.stop.Store(true)
	s.running.Wait()
}

// check ends the service. It fails the test if an operation failed, or if one is not stored.
func (s *service) check(t *testing.T) {
	t.Helper()
	s.end()
	if len(s.failed) > 0 {
		t.Errorf("%d operations failed, the first: %v", len(s.failed), s.failed[0])
	}
	if stored := pgtest.CountDense(t, s.store, s.session); stored != s.done["append"]+s.done["turn"] {
		t.Errorf("%d messages are stored, after %d appends and %d turns", stored, s.done["append"], s.done["turn"])
	}
	if turns, found := s.done["turn"]; found {
		sum, err := s.store.State().Get(t.Context(), repo.Scope{SessionID: s.session}, "n")
		if err != nil || string(sum.Value) != fmt.Sprint(turns) {
			t.Errorf("the sum of %d turns is %s, %v", turns, sum.Value, err)
		}
	}
	t.Logf("%v", s.done)
}

func (s *service) append(ctx context.Context) error {
	_, err := s.store.Sessions().Append(ctx, s.session, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
	return err
}

func (s *service) turn(ctx context.Context) error {
	_, err := s.store.Sessions().AppendTurn(ctx, repo.Turn{
		SessionID: s.session,
		Messages:  []repo.NewMessage{{ID: repo.NewID(), Role: repo.RoleUser, Content: "turn"}}, Usage: &repo.NewUsage{Cost: 1},
		State: []repo.StateChange{{Key: "n", Op: repo.StateIncrement, By: 1}},
	})
	return err
}

// aSession is the life of a session.
func (s *service) aSession(ctx context.Context) error {
	session, err := s.store.Sessions().Create(ctx, repo.NewSession{Key: repo.NewID().String(), Actor: "local/service"})
	if err != nil {
		return err
	}
	if _, err := s.store.Sessions().AppendTurn(ctx, repo.Turn{
		SessionID: session.ID, Expected: new(int64), Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x"}},
	}); err != nil {
		return err
	}
	if _, err := s.store.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, Actor: "local/service"}, repo.Page{Limit: 10}); err != nil {
		return err
	}
	if err := s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().AddUsage(ctx, session.ID, repo.NewUsage{InputTokens: 1})
		return errors.Join(err, tx.Audit().Record(ctx, repo.AuditEntry{Type: events.DecisionPoint, SessionID: session.ID}))
	}); err != nil {
		return err
	}
	if err := s.store.Sessions().Export(ctx, session.ID, io.Discard); err != nil {
		return err
	}
	_, err = s.store.Sessions().Delete(ctx, session.ID)
	return err
}

func (s *service) plan(ctx context.Context) error {
	if _, err := s.store.Plans().Use(ctx, "local/work", repo.UseAction{SessionID: s.session}); err != nil {
		return err
	}
	claimed, err := s.store.Plans().Claim(ctx, repo.Claim{Owner: "service", TTL: time.Hour})
	if err != nil {
		return err
	}
	if len(claimed) != 1 {
		return fmt.Errorf("%d plans claimed", len(claimed))
	}
	_, err = s.store.Plans().Transition(ctx, claimed[0].Plan.ID, repo.TransitionComplete, repo.Cause{Fence: claimed[0].Lease.Fence})
	return err
}

func (s *service) lease(ctx context.Context) error {
	lease, err := s.store.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "work", Name: "one"}, Owner: "service", TTL: time.Hour})
	if err != nil {
		return err
	}
	if _, err := s.store.Leases().Renew(ctx, lease, time.Hour); err != nil {
		return err
	}
	return s.store.Leases().Release(ctx, lease)
}

func (s *service) stream(ctx context.Context) error {
	stream, err := s.store.Streams().Open(ctx, repo.NewStream{Key: repo.NewID().String(), Owner: "service", TTL: time.Hour})
	if err != nil {
		return err
	}
	if _, err := s.store.Streams().Append(ctx, stream, []byte("a"), []byte("b")); err != nil {
		return err
	}
	return s.store.Streams().Finish(ctx, stream)
}

// trail seals what the others have recorded, and reads it.
func (s *service) trail(ctx context.Context) error {
	if _, err := s.sealer.SealOnce(ctx); err != nil {
		return err
	}
	_, err := s.store.Audit().List(ctx, repo.AuditFilter{SessionID: s.session}, repo.Page{Limit: 10})
	return err
}
