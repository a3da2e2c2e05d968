package soak

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// sample has the values that must not grow.
type sample struct {
	heap       uint64
	goroutines int
	conns      int32
}

func take(store *agentstore.Store) sample {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sample{heap: m.HeapAlloc, goroutines: runtime.NumGoroutine(), conns: store.Pool().Stat().TotalConns()}
}

const mebibyte = 1 << 20

func TestSoak(t *testing.T) {
	total := pgtest.Choose(10*time.Minute, 3*time.Second)
	store, err := agentstore.Open(t.Context(), pgtest.NewDatabase(t), agentstore.Options{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	l := newLoad(t, store)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, run := range l.workers() {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := run(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					l.errors.Add(1)
					return
				}
			}
		})
	}
	// A sample is taken when work of each kind was done several times since the one before.
	sampled := func(when string, lasts time.Duration) sample {
		goals := map[*atomic.Int64]int64{}
		for _, count := range []*atomic.Int64{&l.appends, &l.plans, &l.entries, &l.reads} {
			goals[count] = count.Load() + 10
		}
		time.Sleep(lasts) // pace: as long as was asked for
		await.For(t, "work of each kind", func() bool {
			for count, goal := range goals {
				if count.Load() < goal && l.errors.Load() == 0 {
					return false
				}
			}
			return true
		})
		return l.report(t, when, take(store))
	}
	first := sampled("start", total/10)
	middle := sampled("middle", total*4/10)
	last := sampled("end", total/2)
	stop()
	all.Wait()
	if left, err := l.writer.Close(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("the audit writer returned %d entries, %v", len(left), err)
	}
	if err := l.writer.Stats().Check(); err != nil {
		t.Error(err)
	}
	pgtest.CheckReturned(t, store.Pool())
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	for _, s := range []sample{middle, last} {
		if s.heap > 2*first.heap+64*mebibyte || s.goroutines > first.goroutines+20 || s.conns > 8 {
			t.Errorf("grown: %+v, first %+v", s, first)
		}
	}
}

// load is the mixed load, and counts what it did.
type load struct {
	store    *agentstore.Store
	writer   *audit.Writer
	sealer   *audit.Sealer
	sessions []repo.ID

	appends, reads, plans, entries, errors atomic.Int64
}

func newLoad(t *testing.T, store *agentstore.Store) *load {
	t.Helper()
	l := &load{store: store, sessions: make([]repo.ID, 50)}
	for i := range l.sessions {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{Actor: "soak"})
		if err != nil {
			t.Fatal(err)
		}
		l.sessions[i] = session.ID
	}
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "soak", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.writer, err = audit.NewWriter(store.AuditLog(), audit.Options{}); err != nil {
		t.Fatal(err)
	}
	if l.sealer, err = audit.NewSealer(store.AuditLog(), audit.SealerOptions{}); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *load) report(t *testing.T, when string, s sample) sample {
	t.Helper()
	t.Logf("%-6s  heap %5.1f MiB  goroutines %3d  connections %d  |  appends %d  reads %d  plans %d  entries %d  errors %d",
		when, float64(s.heap)/mebibyte, s.goroutines, s.conns,
		l.appends.Load(), l.reads.Load(), l.plans.Load(), l.entries.Load(), l.errors.Load())
	return s
}

// workers returns the functions that run repeatedly, each in its goroutine. They
// pause a little, so that the amount of work depends on the time rather than on the
// machine.
func (l *load) workers() []func(context.Context) error {
	var workers []func(context.Context) error
	for i := range 8 {
		n := i
		workers = append(workers, func(ctx context.Context) error {
			n++
			return l.append(ctx, l.sessions[n%len(l.sessions)])
		})
	}
	for i := range 3 {
		n := i
		workers = append(workers, func(ctx context.Context) error {
			n++
			return l.read(ctx, l.sessions[n*7%len(l.sessions)])
		})
	}
	return append(workers, l.plan, l.record, l.record, l.seal)
}

func rest(d time.Duration) { time.Sleep(d) } // pace: others work

func (l *load) append(ctx context.Context, id repo.ID) error {
	defer rest(5 * time.Millisecond)
	_, err := l.store.Sessions().Append(ctx, id,
		repo.NewMessage{Role: repo.RoleUser, Content: "hello"}, repo.NewMessage{Role: repo.RoleAssistant, Content: "hi"})
	l.appends.Add(1)
	return err
}

func (l *load) read(ctx context.Context, id repo.ID) error {
	defer rest(5 * time.Millisecond)
	l.reads.Add(1)
	if _, err := l.store.Sessions().LastMessages(ctx, id, 50); err != nil {
		return err
	}
	if _, err := l.store.Sessions().List(ctx, repo.SessionFilter{AnyOwner: true, Actor: "soak"}, repo.Page{Limit: 20}); err != nil {
		return err
	}
	_, err := l.store.Audit().List(ctx, repo.AuditFilter{Type: events.ToolInvoked}, repo.Page{Limit: 20})
	return err
}

func (l *load) plan(ctx context.Context) error {
	defer rest(10 * time.Millisecond)
	plan, err := l.store.Plans().Use(ctx, "soak", repo.UseAction{})
	if err != nil {
		return err
	}
	for _, transition := range []repo.Transition{
		repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute, repo.TransitionStart, repo.TransitionComplete,
		repo.TransitionApply, repo.TransitionStart, repo.TransitionComplete,
	} {
		if _, err := l.store.Plans().Transition(ctx, plan.ID, transition, repo.Cause{}); err != nil {
			return err
		}
	}
	l.plans.Add(1)
	_, err = l.store.Plans().List(ctx, repo.PlanFilter{State: repo.PlanApplied}, repo.Page{Limit: 20})
	return err
}

func (l *load) record(ctx context.Context) error {
	defer rest(time.Millisecond)
	l.entries.Add(1)
	return l.writer.Record(ctx, repo.AuditEntry{Type: events.ToolInvoked, Actor: "soak"})
}

func (l *load) seal(ctx context.Context) error {
	defer rest(200 * time.Millisecond)
	_, err := l.sealer.SealOnce(ctx)
	return err
}
