package faults

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// stage is a server of the test's own, and two ways to it.
type stage struct {
	cluster *pgtest.Killable
	url     string // a superuser's, straight to the server
	proxy   proxy
}

// newCluster makes a server that is small, so that its limits are soon met. Only
// one that this process started can be killed: a machine without PostgreSQL's
// binaries can run most other tests on a container, but not these.
func newCluster(t *testing.T, settings ...string) *pgtest.Killable {
	t.Helper()
	if !pgtest.HasBinaries() {
		t.Fatal("faults need PostgreSQL's server binaries on this machine, also where the other tests run on a container (Debian: apt-get install postgresql)")
	}
	return pgtest.NewKillable(t, pgtest.KillableOptions{
		Settings: append([]string{"max_connections=60", "shared_buffers=32MB"}, settings...),
		InitDB:   []string{"--wal-segsize=1"},
	})
}

func newStage(t *testing.T, cluster *pgtest.Killable) *stage {
	t.Helper()
	execute(t, cluster.URL, "CREATE DATABASE faults")
	databaseURL := pgtest.WithDatabase(cluster.URL, "faults")
	if err := schema.Up(t.Context(), databaseURL); err != nil {
		t.Fatal(err)
	}
	return &stage{cluster, databaseURL, newProxy(t, cluster.Port)}
}

// recoveryBound is the longest time from the end of a fault until each of the 32
// writers has had a message acknowledged that it sent after that.
const recoveryBound = 10 * time.Second

// fault is something that breaks, and how often it is made to.
type fault struct {
	name string
	// times is how often in the full form, and in the short one.
	times, short int
	// proxied puts the proxy between the store and the server.
	proxied bool
	// options are the store's.
	options agentstore.Options
	// callTimeout bounds each call of a client. Zero: a second.
	callTimeout time.Duration
	// hold is how long the fault lasts, after strike returned.
	hold time.Duration
	// unnoticed: neither an error nor a new connection need come of it.
	unnoticed bool
	// strike makes the fault, under load, and returns what ends it.
	strike func(t *testing.T, s *scene) (heal func())
}

// scene is one time that a fault is made.
type scene struct {
	*stage
	*load
	store *agentstore.Store
	round int
}

// run makes the fault again and again on one store, which is never told of it.
func (f fault) run(t *testing.T, s *stage) outcome {
	t.Helper()
	before := len(goroutines())
	databaseURL := s.url
	if f.proxied {
		databaseURL = s.proxy.through(t, s.url)
	}
	if f.callTimeout == 0 {
		f.callTimeout = time.Second
	}
	f.options.MaxConns = 16
	f.options.ConnectTimeout = 2 * time.Second
	store, err := agentstore.Open(t.Context(), databaseURL, f.options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	o := outcome{name: f.name, errors: map[string]int{}}
	for round := range choose(f.times, f.short) {
		f.once(t, s, store, round, &o)
		if t.Failed() {
			t.Logf("in round %d", round)
			return o
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	checkGoroutines(t, before)
	return o
}

func (f fault) once(t *testing.T, s *stage, store *agentstore.Store, round int, o *outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ids := make([]repo.ID, sessionsPerRound)
	for i := range ids {
		session, err := store.Sessions().Create(ctx, repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = session.ID
	}
	connections := store.Pool().Stat().NewConnsCount()
	l := startLoad(ctx, store.Sessions(), ids, f.callTimeout)
	defer l.running.Wait() // when the test is ended in the middle
	defer cancel()
	l.awaitAll(t, now(), recoveryBound)
	time.Sleep(rand.N(30 * time.Millisecond))

	heal := f.strike(t, &scene{s, l, store, round})
	time.Sleep(f.hold)
	if heal != nil {
		heal()
	}
	recovery := l.awaitAll(t, now(), recoveryBound)
	l.stop(t)

	if !f.unnoticed && l.seen("") == 0 && store.Pool().Stat().NewConnsCount() == connections {
		t.Error("nobody noticed: the fault did not strike")
	}
	o.add(l, inspect(t, s.url, ids, l.acknowledged, nil), recovery)
	if o.findings != (findings{}) {
		t.Errorf("after the fault: %+v", o.findings)
	}
	checkNothingLeft(t, s.url, store.Pool())
	execute(t, s.url, "TRUNCATE sessions, session_counters, session_usages, messages, session_plans")
}
