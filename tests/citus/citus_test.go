//go:build citus

package citus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// made is a schema on a node.
func made(t testing.TB, databaseURL string) string {
	t.Helper()
	name := "on_citus_" + strings.ToLower(repo.NewID().String())
	t.Cleanup(func() { run(t, databaseURL, "DROP SCHEMA IF EXISTS "+name+" CASCADE") })
	migrator, err := schema.Open(t.Context(), databaseURL, schema.Options{Schema: name})
	if err != nil {
		t.Fatal(err)
	}
	if node, err := migrator.Node(t.Context()); err != nil || node != "" {
		t.Fatalf("the node of no schema is %q, %v", node, err)
	}
	if _, err := migrator.Distribute(t.Context()); !errors.Is(err, schema.ErrBehind) {
		t.Fatalf("a schema that was not migrated: %v", err)
	}
	if _, err := migrator.Run(t.Context(), schema.TargetLatest()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		node, err := migrator.Distribute(t.Context())
		if err != nil || !strings.Contains(node, ":") {
			t.Fatalf("distributed to %q: %v", node, err)
		}
	}
	if _, err := migrator.Run(t.Context(), schema.TargetDownSteps(1)); !errors.Is(err, schema.ErrSetting) {
		t.Fatalf("a migration of a schema that is on a node: %v", err)
	}
	return name
}

// spread is one over several schemas on nodes.
func spread(t *testing.T, databaseURL string) (names []string, over *agentstore.Spread) {
	t.Helper()
	var stores []*agentstore.Store
	for range shards {
		name := made(t, databaseURL)
		names, stores = append(names, name), append(stores, open(t, databaseURL, agentstore.Options{Schema: name, MaxConns: 4}))
	}
	over, err := agentstore.NewSpread(t.Context(), stores...)
	if err != nil {
		t.Fatal(err)
	}
	return names, over
}

// TestCitus runs the suite and what is about nodes, one after the other, on one cluster.
func TestCitus(t *testing.T) {
	all := start(t)
	t.Run("Conformance", func(t *testing.T) {
		name := made(t, all.coordinator)
		repotest.Run(t, opener(all.coordinator, agentstore.Options{Schema: name, MaxConns: 16}), repotest.Races(1))
	})
	t.Run("InTx", func(t *testing.T) {
		name := made(t, all.coordinator)
		repotest.RunRepositories(t, repotest.InTx(opener(all.coordinator, agentstore.Options{Schema: name, MaxConns: 16})),
			pgtest.Parts("Append", "Turns", "Use", "Claims", "Streams")...)
	})
	t.Run("Bind", func(t *testing.T) {
		name := made(t, all.coordinator)
		pool := pgtest.NewPool(t, pgtest.WithParameter(all.coordinator, "search_path", name))
		repotest.RunRepositories(t, func(t *testing.T) repo.Repositories {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
			return postgres.Bind(tx)
		}, pgtest.Parts("Sessions", "Append", "History", "Messages", "State", "Leases", "Plans")...)
	})
	t.Run("Roles", func(t *testing.T) { testRoles(t, all) })
	t.Run("Undistribute", func(t *testing.T) { testUndistribute(t, all) })
	t.Run("LostAnswers", func(t *testing.T) { testLostAnswers(t, all) })
	t.Run("Rebalance", func(t *testing.T) { testRebalance(t, all) })
	t.Run("NodeKilled", func(t *testing.T) { testNodeKilled(t, all) })
}

// A schema is taken back, migrated, and distributed again, and so is one that has something.
func testUndistribute(t *testing.T, all nodes) {
	name := made(t, all.coordinator)
	migrator, err := schema.Open(t.Context(), all.coordinator, schema.Options{Schema: name})
	if err != nil {
		t.Fatal(err)
	}
	again := func(targets ...schema.Target) {
		run(t, all.coordinator, fmt.Sprintf("SELECT citus_schema_undistribute('%s')", name))
		for _, target := range targets {
			if _, err := migrator.Run(t.Context(), target); err != nil {
				t.Fatal(err)
			}
		}
		if node, err := migrator.Distribute(t.Context()); err != nil || node == "" {
			t.Fatalf("distributed again to %q: %v", node, err)
		}
	}
	again(schema.TargetDownSteps(1), schema.TargetLatest())
	before := open(t, all.coordinator, agentstore.Options{Schema: name, MaxConns: 2})
	session := pgtest.NewSession(t, before)
	repotest.Person(t, before, "somebody", "1")
	tables.Seal(t, before)
	if err := before.Close(); err != nil { // no process may have it open meanwhile: its sweeps lock rows
		t.Fatal(err)
	}
	again()
	store := open(t, pgtest.WithParameter(all.coordinator, "application_name", "again"), agentstore.Options{Schema: name, MaxConns: 2})
	if _, err := store.Sessions().Append(t.Context(), session, oneMessage()); err != nil {
		t.Error(err)
	}
	tables.Seal(t, store)
	if report, err := audit.Verify(t.Context(), store.AuditLog(), audit.VerifyOptions{}); err != nil || !report.Intact() {
		t.Errorf("%+v, %v", report, err)
	}
}

func opener(databaseURL string, options agentstore.Options) func(t *testing.T) repo.Store {
	return func(t *testing.T) repo.Store {
		t.Helper()
		return open(t, databaseURL, options)
	}
}

func open(t testing.TB, databaseURL string, options agentstore.Options) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

const shards, writers = 4, 32

// load appends to a session of each writer until it is stopped. It counts what was acknowledged and failed in each namespace.
type load struct {
	views                              []repo.Store
	sessions                           []repo.ID
	acknowledged, unavailable, unknown []atomic.Int64
	ends                               sync.WaitGroup
	stop                               context.CancelFunc
}

func begin(t *testing.T, over *agentstore.Spread) *load {
	t.Helper()
	l := &load{
		views: make([]repo.Store, writers), sessions: make([]repo.ID, writers),
		acknowledged: make([]atomic.Int64, writers), unavailable: make([]atomic.Int64, writers), unknown: make([]atomic.Int64, writers),
	}
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	for i := range writers {
		namespace := fmt.Sprint("tenant ", i)
		err := over.Place(ctx, namespace, i%shards)
		if err == nil {
			l.views[i], err = over.In(ctx, namespace)
		}
		if err != nil {
			t.Fatal(err)
		}
		session, err := l.views[i].Sessions().Create(ctx, repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		l.sessions[i] = session.ID
		l.ends.Go(func() {
			for ctx.Err() == nil {
				_, err := l.views[i].Sessions().Append(ctx, session.ID, repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "hello"})
				switch {
				case err == nil:
					l.acknowledged[i].Add(1)
				case ctx.Err() != nil:
				case errors.Is(err, repo.ErrUnknownOutcome):
					l.unknown[i].Add(1)
					time.Sleep(20 * time.Millisecond) // pace: until the next attempt
				case errors.Is(err, repo.ErrUnavailable):
					l.unavailable[i].Add(1)
					time.Sleep(20 * time.Millisecond) // pace: until the next attempt
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	return l
}

// end stops the writers, and checks that nothing was lost, that no sequence is missing, and that no error denied what was written. The
// last append of each has no answer.
func (l *load) end(t *testing.T) (total int64) {
	t.Helper()
	l.stop()
	l.ends.Wait()
	for i := range l.sessions {
		count := pgtest.CountDense(t, l.views[i], l.sessions[i])
		if acknowledged := l.acknowledged[i].Load(); count < acknowledged || count > acknowledged+1+l.unknown[i].Load() {
			t.Errorf("%d messages of which %d were acknowledged, and %d unknown", count, acknowledged, l.unknown[i].Load())
		}
		total += l.acknowledged[i].Load()
	}
	return total
}

func (l *load) acknowledgedOf(i int) int64 { return l.acknowledged[i].Load() }
func (l *load) outcomesOf(i int) int64 {
	return l.acknowledged[i].Load() + l.unavailable[i].Load() + l.unknown[i].Load()
}

// twoMore waits until each writer has two more of something: what was under way before has ended then.
func twoMore(t *testing.T, what string, of func(writer int) int64) {
	t.Helper()
	before := make([]int64, writers)
	for i := range before {
		before[i] = of(i)
	}
	await.For(t, what, func() bool {
		for i := range before {
			if of(i) < before[i]+2 {
				return false
			}
		}
		return true
	})
}

// wantDown writes to a session whose node is down. Nothing was sent, so no outcome is unknown.
func (l *load) wantDown(t *testing.T) {
	t.Helper()
	for i := range l.unavailable {
		if l.unavailable[i].Load() == 0 {
			continue
		}
		for operation, test := range writes {
			if err := test.write(t.Context(), l.views[i], l.sessions[i]); !errors.Is(err, repo.ErrUnavailable) {
				t.Errorf("%s while the node is down: %v", operation, err)
			}
		}
		return
	}
}

func (l *load) doubts() (total int64) {
	for i := range l.unknown {
		total += l.unknown[i].Load()
	}
	return total
}

// All shards are on one node, and get spread over two while 32 writers append, a follower follows, and a lease is held.
func testRebalance(t *testing.T, all nodes) {
	var port int
	run(t, all.coordinator, "SELECT nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY nodeid DESC LIMIT 1", &port)
	var host string
	run(t, all.coordinator, fmt.Sprintf("SELECT nodename FROM pg_dist_node WHERE nodeport = %d AND groupid > 0", port), &host)
	only := func(should bool) {
		run(t, all.coordinator, fmt.Sprintf("SELECT citus_set_node_property('%s', %d, 'shouldhaveshards', %t)", host, port, should))
	}
	only(false)
	names, over := spread(t, all.coordinator)
	before := places(t, all.coordinator, names)
	only(true)
	l := begin(t, over)
	var followed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for message, err := range l.views[0].Sessions().Follow(ctx, l.sessions[0], 0) {
			if err != nil || message.Sequence != followed.Load() {
				if ctx.Err() == nil {
					t.Errorf("the follower got %d, want %d: %v", message.Sequence, followed.Load(), err)
				}
				break
			}
			followed.Add(1)
		}
	}()
	lease, err := l.views[1].Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: "held"}, Owner: "holder", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	renewed, renewing := 0, make(chan struct{})
	go func() {
		defer close(renewing)
		for ctx.Err() == nil {
			if _, err := l.views[1].Leases().Renew(ctx, lease, time.Hour); err == nil {
				renewed++
			} else if ctx.Err() == nil {
				t.Errorf("the lease: %v", err)
				return
			}
			time.Sleep(100 * time.Millisecond) // pace: until the next renewal
		}
	}()
	migrator, err := schema.Open(t.Context(), all.coordinator, schema.Options{Schema: names[0]})
	if err == nil {
		err = migrator.Rebalance(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	after := places(t, all.coordinator, names)
	total := l.end(t)
	await.For(t, "the follower has all that was acknowledged", func() bool { return followed.Load() >= l.acknowledged[0].Load() })
	stop()
	<-renewing
	if len(before) != 1 || len(after) != 2 {
		t.Errorf("the shards were on %v, and are on %v", before, after)
	}
	failed := int64(0)
	for i := range l.unavailable {
		failed += l.unavailable[i].Load() + l.unknown[i].Load()
	}
	t.Logf("%d appends were acknowledged beside the move, %d failed; the lease was renewed %d times", total, failed, renewed)
}

// places returns how many shards are on each node.
func places(t *testing.T, databaseURL string, names []string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, one := range names {
		migrator, err := schema.Open(t.Context(), databaseURL, schema.Options{Schema: one})
		if err != nil {
			t.Fatal(err)
		}
		node, err := migrator.Node(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found[node]++
	}
	return found
}

// A node that dies is unavailable for its namespaces alone. When it is back all go on, and nothing is lost.
func testNodeKilled(t *testing.T, all nodes) {
	if len(all.clusters) == 0 {
		t.Logf("the nodes are not the test's own to kill")
		return
	}
	names, over := spread(t, all.coordinator)
	if on := places(t, all.coordinator, names); len(on) != 2 {
		t.Fatalf("the shards are on %v", on)
	}
	l := begin(t, over)
	sum := func() (counts []int64) {
		for i := range l.acknowledged {
			counts = append(counts, l.acknowledged[i].Load())
		}
		return counts
	}
	twoMore(t, "appends to all nodes", l.acknowledgedOf)
	first := sum()
	all.clusters[0].Stop(t, syscall.SIGKILL)
	twoMore(t, "outcomes while a node is down", l.outcomesOf)
	down, doubts := sum(), l.doubts()
	twoMore(t, "more outcomes while a node is down", l.outcomesOf)
	still, more := sum(), l.doubts()-doubts
	l.wantDown(t)
	all.clusters[0].Start(t)
	twoMore(t, "appends to all nodes again", l.acknowledgedOf)
	var beforeOthers, duringOthers, affected int64
	for i := range first {
		if l.unavailable[i].Load() > 0 {
			affected++
			continue
		}
		beforeOthers, duringOthers = beforeOthers+first[i], duringOthers+still[i]-down[i]
	}
	total := l.end(t)
	if affected == 0 || affected == writers || duringOthers == 0 || more > 0 {
		t.Errorf("%d appends were in doubt while the node was down; %d of %d namespaces were unavailable, the others made %d appends meanwhile", more, affected, writers, duringOthers)
	}
	t.Logf("%d appends, %d in doubt; %d of %d namespaces were unavailable; the others made %d appends before, and %d meanwhile", total, l.doubts(), affected, writers, beforeOthers, duringOthers)
}
