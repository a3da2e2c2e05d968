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

// stage is a server that belongs to the test, and two ways to it.
type stage struct {
	cluster *pgtest.Cluster
	url     string // a superuser's, directly to the server
	proxy   proxy
}

// newCluster starts a server with low limits, so that tests reach them soon, and with
// fsync.
func newCluster(t *testing.T, settings ...string) *pgtest.Cluster {
	t.Helper()
	cluster := pgtest.NewCluster(t, "--wal-segsize=1")
	cluster.Start(t, append(settings, "max_connections=60", "shared_buffers=32MB", "fsync=on")...)
	return cluster
}

func newStage(t *testing.T, cluster *pgtest.Cluster) *stage {
	t.Helper()
	execute(t, cluster.URL("postgres"), "CREATE DATABASE faults")
	databaseURL := cluster.URL("faults")
	if err := schema.Up(t.Context(), databaseURL); err != nil {
		t.Fatal(err)
	}
	return &stage{cluster, databaseURL, newProxy(t, cluster.Port)}
}

// recoveryBound is the longest time from the end of a fault until each of the 32
// writers has had a message acknowledged that it sent after the fault.
const recoveryBound = 10 * time.Second

// fault is something that fails.
type fault struct {
	name string
	// times is how often it is injected in the full form, and in the short one.
	times, short int
	// proxied puts the proxy between the store and the server.
	proxied bool
	// options are the options of the store.
	options agentstore.Options
	// callTimeout bounds each call of a client. Zero means a second.
	callTimeout time.Duration
	// hold is how long the fault lasts after strike has returned.
	hold time.Duration
	// unnoticed: the fault may cause neither an error nor a new connection.
	unnoticed bool
	// strike injects the fault, under load, and returns a function that ends it.
	strike func(t *testing.T, s *scene) (heal func())
}

// scene is one injection of a fault.
type scene struct {
	*stage
	*load
	store *agentstore.Store
	round int
}

// run injects the fault repeatedly on one store, which stays open.
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
	store := pgtest.OpenStore(t, databaseURL, f.options)
	o := outcome{name: f.name, errors: map[string]int{}}
	for round := range pgtest.Choose(f.times, f.short) {
		f.once(t, s, store, databaseURL, round, &o)
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

func (f fault) once(t *testing.T, s *stage, store *agentstore.Store, databaseURL string, round int, o *outcome) {
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
	followers := startFollowers(ctx, t, databaseURL, ids)
	defer followers.stop(t) // if the test ends early
	l := startLoad(ctx, store.Sessions(), ids, f.callTimeout)
	defer l.running.Wait() // if the test ends early
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
	followers.check(t, s.url)
	followers.stop(t)

	if !f.unnoticed && l.seen("") == 0 && store.Pool().Stat().NewConnsCount() == connections {
		t.Error("no client noticed the fault")
	}
	o.add(l, inspect(t, s.url, ids, l.acknowledged, nil), recovery)
	if o.findings != (findings{}) {
		t.Errorf("after the fault: %+v", o.findings)
	}
	checkNothingLeft(t, s.url, store.Pool())
	execute(t, s.url, "TRUNCATE sessions, state_scopes CASCADE")
}
