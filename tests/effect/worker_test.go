package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
)

const workerVariable = "AGENTSTORE_TEST_EFFECT_WORKER"

// point is where a worker is killed.
type point int

const (
	beforeReserve point = iota
	afterReserve
	beforeSend
	afterSend
	afterAct
	beforeRead
	beforeStore
	afterStore
	points
)

func (p point) String() string {
	return []string{"before reserve", "after reserve", "before send", "after send", "after the remote acted", "before the answer is read", "before store", "after store"}[p]
}

// workerTask is a batch of effects, each of which gets to its point and no further.
type workerTask struct {
	URL, Remote string
	Session     repo.ID
	Naive       bool
	Points      []point // by effect
}

func callOf(i int, p point) string { return fmt.Sprintf("%d-%d", i, p) }

// at writes that an effect is at its point, where it stays until the process is killed.
func at(call string) {
	fmt.Println(call)
	select {}
}

// runWorker makes all effects of a batch at once.
func runWorker(task workerTask) error {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, task.URL, agentstore.Options{})
	if err != nil {
		return err
	}
	failed := make(chan error, len(task.Points))
	for i, p := range task.Points {
		go func() {
			call := callOf(i, p)
			if p == beforeReserve {
				at(call)
			}
			_, err := make1(ctx, &held{Store: store, call: call, point: p, naive: task.Naive}, task, call, p)
			if err == nil && p == afterStore {
				at(call)
			}
			failed <- fmt.Errorf("%s: it has got past %v: %w", call, p, err)
		}()
	}
	return <-failed
}

// make1 makes an effect, in the way of package effect or in the naive one.
func make1(ctx context.Context, store repo.Store, task workerTask, call string, p point) (json.RawMessage, error) {
	do := func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
		if p == beforeSend {
			at(call)
		}
		return pay(ctx, task.Remote, call, e.IdempotencyKey, map[point]string{afterSend: "before", afterAct: "after"}[p], func() {
			if p == beforeRead {
				at(call)
			}
		})
	}
	key := effect.Key{Session: task.Session, Call: call}
	if task.Naive {
		return naive(ctx, store, key, do)
	}
	outcome, err := effect.Once(ctx, store, key, json.RawMessage(`{"amount":12}`), effect.Policy{}, do)
	return outcome.Result, err
}

// naive looks, calls, and stores.
func naive(ctx context.Context, store repo.Store, key effect.Key, do effect.Do) (json.RawMessage, error) {
	scope, name := repo.Scope{SessionID: key.Session}, "naive/"+key.Call
	value, err := store.State().Get(ctx, scope, name)
	if err == nil || !errors.Is(err, repo.ErrNotFound) {
		return value.Value, err
	}
	result, err := do(ctx, effect.Effect{Key: key, IdempotencyKey: repo.NewID().String()})
	if err == nil {
		_, err = store.State().Change(ctx, []repo.StateChange{{Scope: scope, Key: name, Value: result}})
	}
	return result, err
}

// held is a store that stops after the first change, or before the second one. The naive way makes the second one only.
type held struct {
	repo.Store

	call    string
	point   point
	naive   bool
	changes atomic.Int64
}

func (h *held) State() repo.State { return heldState{h.Store.State(), h} }

type heldState struct {
	repo.State

	h *held
}

func (s heldState) Get(ctx context.Context, scope repo.Scope, key string) (repo.StateValue, error) {
	value, err := s.State.Get(ctx, scope, key)
	if s.h.naive && s.h.point == afterReserve {
		at(s.h.call)
	}
	return value, err
}

func (s heldState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	second := s.h.naive || s.h.changes.Add(1) > 1
	if second && s.h.point == beforeStore {
		at(s.h.call)
	}
	made, err := s.State.Change(ctx, changes, conditions...)
	if !second && s.h.point == afterReserve {
		at(s.h.call)
	}
	return made, err
}
