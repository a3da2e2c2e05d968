//go:build citus

package citus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// through lets the coordinator reach the node of a schema through a network that loses answers.
func through(t *testing.T, coordinator, name string) *pgtest.Losing {
	t.Helper()
	migrator, err := schema.Open(t.Context(), coordinator, schema.Options{Schema: name})
	if err != nil {
		t.Fatal(err)
	}
	at, err := migrator.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	network := pgtest.NewLosing(t, at)
	move := func(from, to string) {
		_, port, _ := net.SplitHostPort(from)
		host, newPort, _ := net.SplitHostPort(to)
		run(t, coordinator, fmt.Sprintf("SELECT citus_update_node(nodeid, '%s', %s) FROM pg_dist_node WHERE nodeport = %s", host, newPort, port))
	}
	move(at, network.Addr)
	t.Cleanup(func() {
		move(network.Addr, at)
		await.For(t, "all nodes know it", func() (known bool) {
			run(t, coordinator, "SELECT bool_and(metadatasynced) FROM pg_dist_node WHERE hasmetadata", &known)
			return known
		})
	})
	return network
}

// The answers of a node to its coordinator are lost, one at a time, the one to its commit among them, and the node is back, or away for
// longer than attempts are made. No error denies what was written, and nothing is written twice.
func testLostAnswers(t *testing.T, all nodes) {
	name := made(t, all.coordinator)
	network := through(t, all.coordinator, name)
	other := open(t, pgtest.WithParameter(all.coordinator, "application_name", "other"), agentstore.Options{Schema: name, MaxConns: 2})
	store := open(t, all.coordinator, agentstore.Options{Schema: name, MaxConns: 1})
	for operation, test := range writes {
		for _, away := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s away %t", operation, away), func(t *testing.T) {
				doubts := 0
				for piece, lost := int32(1), true; lost; piece++ {
					id := pgtest.NewSession(t, other)
					if test.before != nil {
						test.before(t, other, id)
					}
					network.Lose(piece, away)
					err := test.write(t.Context(), store, id)
					lost = network.Stop()
					time.Sleep(50 * time.Millisecond) // pace: the node may still be working, and write it later
					count := test.written(t, other, id)
					switch {
					case count > 1, err == nil && count == 0, err != nil && count > 0 && !errors.Is(err, repo.ErrUnknownOutcome):
						t.Errorf("the answer to piece %d lost: %v; written %d times", piece, err, count)
					case errors.Is(err, repo.ErrUnknownOutcome):
						doubts++
					}
					t.Logf("piece %d: %v; written: %v", piece, err, count)
				}
				t.Logf("%d doubts", doubts)
			})
		}
	}
}

// lossy is a write of a session, how often it was made, and what comes before it.
type lossy struct {
	write   func(ctx context.Context, store repo.Store, id repo.ID) error
	written func(t *testing.T, store repo.Store, id repo.ID) int64
	before  func(t *testing.T, store repo.Store, id repo.ID)
}

func oneMessage() repo.NewMessage {
	return repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "once"}
}

func countMessages(t *testing.T, store repo.Store, id repo.ID) int64 {
	t.Helper()
	return pgtest.CountDense(t, store, id)
}

func scopeOf(id repo.ID) repo.Scope { return repo.Scope{Name: id.String()} }

func countState(t *testing.T, store repo.Store, id repo.ID) int64 {
	t.Helper()
	value, err := store.State().Get(t.Context(), scopeOf(id), "key")
	if errors.Is(err, repo.ErrNotFound) {
		return 0
	}
	count, failure := strconv.ParseInt(string(value.Value), 10, 64)
	if err != nil || failure != nil {
		t.Fatal(err, failure)
	}
	return count
}

var writes = map[string]lossy{
	"Append": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		_, err := store.Sessions().Append(ctx, id, oneMessage())
		return err
	}, countMessages, nil},
	"InTx": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
			_, err := tx.Sessions().Append(ctx, id, oneMessage())
			return err
		})
	}, countMessages, nil},
	"Update": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		actor := "written"
		_, err := store.Sessions().Update(ctx, id, repo.SessionUpdate{Actor: &actor})
		return err
	}, func(t *testing.T, store repo.Store, id repo.ID) int64 {
		session, err := store.Sessions().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(session.Actor)) / 7
	}, nil},
	"Delete": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		_, err := store.Sessions().Delete(ctx, id)
		return err
	}, func(t *testing.T, store repo.Store, id repo.ID) int64 {
		if _, err := store.Sessions().Get(t.Context(), id); err == nil {
			return 0
		}
		return 1
	}, nil},
	"Increment": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		_, err := store.State().Change(ctx, []repo.StateChange{{Scope: scopeOf(id), Key: "key", Op: repo.StateIncrement, By: 1}})
		return err
	}, countState, nil},
	"Set": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		_, err := store.State().Change(ctx, []repo.StateChange{{Scope: scopeOf(id), Key: "key", Value: []byte("1"), IfVersion: new(int64)}})
		return err
	}, countState, nil},
	"Turn": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		_, err := store.Sessions().AppendTurn(ctx, repo.Turn{
			SessionID: id, Messages: []repo.NewMessage{oneMessage()},
			State: []repo.StateChange{{Scope: scopeOf(id), Key: "key", Op: repo.StateIncrement, By: 1}},
		})
		return err
	}, func(t *testing.T, store repo.Store, id repo.ID) int64 {
		return max(countState(t, store, id), countMessages(t, store, id))
	}, nil},
	"Acquire": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		_, err := store.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: id.String()}, Owner: "owner", TTL: time.Minute})
		return err
	}, func(t *testing.T, store repo.Store, id repo.ID) int64 {
		_, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "job", Name: id.String()}, Owner: "another", TTL: time.Minute})
		if errors.Is(err, repo.ErrConflict) {
			return 1
		}
		return 0
	}, nil},
	"Claim": {func(ctx context.Context, store repo.Store, id repo.ID) error {
		_, err := store.Plans().Claim(ctx, repo.Claim{Owner: "worker", Actions: []string{actionOf(id)}})
		return err
	}, countClaims, func(t *testing.T, store repo.Store, id repo.ID) {
		if _, err := store.Plans().Use(t.Context(), newAction(t, store, id), repo.UseAction{}); err != nil {
			t.Fatal(err)
		}
	}},
}

func actionOf(id repo.ID) string { return "local/" + strings.ToLower(id.String()) }

// newAction makes the action of an id.
func newAction(t testing.TB, store repo.Store, id repo.ID) (name string) {
	t.Helper()
	name = actionOf(id)
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	return name
}

// countClaims returns how often the plan of an action was claimed. The plan, its history and its lease agree.
func countClaims(t *testing.T, store repo.Store, id repo.ID) int64 {
	t.Helper()
	plans, err := store.Plans().List(t.Context(), repo.PlanFilter{Action: actionOf(id)}, repo.Page{})
	if err != nil || len(plans.Items) != 1 {
		t.Fatalf("%d plans: %v", len(plans.Items), err)
	}
	plan := plans.Items[0]
	history, err := store.Plans().History(t.Context(), plan.ID, 0, 100)
	if err != nil || int64(len(history)) != plan.Version {
		t.Errorf("version %d, and %d events: %v", plan.Version, len(history), err)
	}
	_, err = store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.PlanLease(plan.ID), Owner: "another", TTL: time.Minute})
	if isHeld := errors.Is(err, repo.ErrConflict); isHeld != (plan.State == repo.PlanProcessing) {
		t.Errorf("the plan is %s; its lease: %v", plan.State, err)
	}
	return plan.Version - 1
}
