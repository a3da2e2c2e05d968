package observed_test

import (
	"context"
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/observed"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest"
)

// deaf is an observer that does nothing.
type deaf struct{ observe.Observer }

func (deaf) Begin(ctx context.Context, _ observe.Operation) context.Context  { return ctx }
func (deaf) End(context.Context, observe.Operation, observe.Result)          {}
func (deaf) Write(context.Context, observe.Write)                            {}
func (deaf) BeginGroup(ctx context.Context, _ observe.Group) context.Context { return ctx }
func (deaf) EndGroup(ctx context.Context, _ observe.Group, _ observe.Result) {}

// store is an observed store with what the suite needs beside the contract.
type store struct {
	repo.Store
	below *memory.Store
}

func (s store) AuditLog() auditlog.Store { return s.below.AuditLog() }

// A store that is observed does what it did before.
func TestConformance(t *testing.T) {
	open := func(t *testing.T) repo.Store {
		below := memory.New()
		t.Cleanup(func() { _ = below.Close() })
		return store{observed.Store(below, deaf{}), below}
	}
	if os.Getenv("AGENTSTORE_TEST_FULL") != "" {
		repotest.Run(t, open) // in real time, as a foreign store
		return
	}
	repotest.RunRepositories(t, repotest.InTx(open), repotest.Bubbles())
}

// Without an observer there is nothing in between.
func TestNil(t *testing.T) {
	t.Parallel()
	below := memory.New()
	defer func() { _ = below.Close() }()
	if s := observed.Store(below, nil); s != repo.Store(below) {
		t.Errorf("it is a %T", s)
	}
	if err := below.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		if r := observed.Tx(tx, nil); r != tx {
			t.Errorf("it is a %T", r)
		}
		if r := observed.Below(observed.Tx(tx, deaf{})); r != tx {
			t.Errorf("below is a %T", r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// An observer costs an operation at most two allocations.
func TestAllocations(t *testing.T) {
	below := memory.New()
	defer func() { _ = below.Close() }()
	session, err := below.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	allocations := func(s repo.Store, operation func(repo.Store) error) float64 {
		return testing.AllocsPerRun(200, func() {
			if err := operation(s); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, operation := range map[string]func(repo.Store) error{
		"get": func(s repo.Store) error {
			_, err := s.Sessions().Get(t.Context(), session.ID)
			return err
		},
		"messages_from": func(s repo.Store) error {
			_, err := s.Sessions().MessagesFrom(t.Context(), session.ID, 0, 1)
			return err
		},
		"read": func(s repo.Store) error {
			_, err := s.State().Read(t.Context(), repo.Scope{SessionID: session.ID})
			return err
		},
	} {
		without, with := allocations(below, operation), allocations(observed.Store(below, deaf{}), operation)
		if with > without+2 {
			t.Errorf("%s: %v allocations, and %v without an observer", name, with, without)
		}
	}
}

// BenchmarkSessions compares what an operation of no cost costs with an observer and without one.
func BenchmarkSessions(b *testing.B) {
	for name, to := range map[string]observe.Observer{"nil": nil, "set": deaf{}} {
		s := observed.Store(free{}, to)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = s.Sessions().Get(b.Context(), repo.ID{})
			}
		})
	}
}

// free is a store whose sessions do nothing.
type free struct{ repo.Store }

type freeSessions struct{ repo.Sessions }

func (free) Sessions() repo.Sessions { return freeSessions{} }

func (freeSessions) Get(context.Context, repo.ID) (s repo.Session, err error) { return s, nil }
