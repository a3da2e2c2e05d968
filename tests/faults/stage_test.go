package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
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
	cluster := pgtest.NewCluster(t, segments)
	cluster.Start(t, append(settings, lowLimits()...)...)
	return cluster
}

const segments = "--wal-segsize=1"

func lowLimits() []string { return []string{"max_connections=60", "shared_buffers=32MB", "fsync=on"} }

var stages int

// shared is the server of the tests that need no other settings.
var shared *pgtest.Cluster

// newSharedStage returns a stage with a database of its own, on the shared server.
func newSharedStage(t *testing.T) *stage {
	t.Helper()
	if shared == nil {
		shared = pgtest.KeepCluster(t, segments)
	}
	shared.LogAtEnd(t)
	if !shared.Running() {
		shared.Start(t, lowLimits()...)
	}
	if err := schema.Up(t.Context(), shared.URL("template1")); err != nil { // which databases are copied from
		t.Fatal(err)
	}
	return newStage(t, shared)
}

func newStage(t *testing.T, cluster *pgtest.Cluster) *stage {
	t.Helper()
	stages++
	name := fmt.Sprint("faults", stages)
	execute(t, cluster.URL("postgres"), "CREATE DATABASE "+name)
	databaseURL := cluster.URL(name)
	if err := schema.Up(t.Context(), databaseURL); err != nil { // nothing is to be done in a copy
		t.Fatal(err)
	}
	return &stage{cluster, databaseURL, newProxy(t, cluster.Port)}
}

// fault is something that fails.
type fault struct {
	name string
	// times is how often it is injected in the full form, and in the short one.
	times, short int
	// proxied puts the proxy between the store and the server.
	proxied bool
	// options are the options of the store.
	options agentstore.Options
	// lasts: after strike has returned, the fault lasts until a client has noticed it.
	lasts bool
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
	f.options.MaxConns = 16
	f.options.ConnectTimeout = 10 * time.Second
	store, err := openPatiently(await.Context(t), databaseURL, f.options) // its statement_timeout is short, too
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
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
		if err := insist(ctx, func(ctx context.Context) error {
			session, err := store.Sessions().Create(ctx, repo.NewSession{})
			ids[i] = session.ID
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	connections := store.Pool().Stat().NewConnsCount()
	followers := startFollowers(ctx, t, databaseURL, ids)
	defer followers.stop(t) // if the test ends early
	l := startLoad(ctx, store.Sessions(), ids)
	defer l.running.Wait() // if the test ends early
	defer cancel()
	noticed := func() bool { return l.seen("") > 0 || store.Pool().Stat().NewConnsCount() != connections }
	l.awaitAll(t, now())
	time.Sleep(rand.N(30 * time.Millisecond)) // pace: it strikes at any moment

	heal := f.strike(t, &scene{s, l, store, round})
	if f.lasts {
		await.For(t, "a client notices the fault", noticed)
	}
	if heal != nil {
		heal()
	}
	recovery := l.awaitAll(t, now())
	l.stop(t)
	followers.check(t, s.url)
	followers.stop(t)

	if !f.unnoticed && !noticed() {
		t.Error("no client noticed the fault")
	}
	o.add(l, inspect(t, s.url, ids, l.acknowledged, nil), recovery)
	if o.findings != (findings{}) {
		t.Errorf("after the fault: %+v", o.findings)
	}
	checkNothingLeft(t, s.url, store.Pool())
	execute(t, s.url, "TRUNCATE sessions, state_scopes CASCADE")
}
