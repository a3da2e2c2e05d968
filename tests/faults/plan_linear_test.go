package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// planState is a plan as the lifecycle sees it.
type planState struct {
	repo.Stage
	Version    int64
	Reversions int
}

func stateOf(p repo.Plan) planState { return planState{p.Stage, p.Version, p.ReversionCount} }

// planCall is one call on a plan: a transition, or a read where there is none.
type planCall struct {
	Transition repo.Transition
	// Actor is the call's own: the plan's history tells by it which calls of
	// unknown outcome were made.
	Actor   string
	Outcome string
	// After is what a call that is done returned; Seen what a refused one said
	// of where the plan is.
	After planState
	Seen  repo.TransitionConflict
	// Call and Return are of the machine's clock, for all processes.
	Call, Return int64
}

// planModel is the contract of one plan, for one who calls one operation at a
// time. Who is overtaken between reading and moving is told where the plan is,
// although it may be somewhere that the transition begins: a conflict is a read.
var planModel = porcupine.Model{
	Init: func() any {
		return planState{repo.Stage{Phase: repo.PhaseStrategize, State: repo.StateQueued}, 1, 0}
	},
	Step: func(state, input, _ any) (bool, any) {
		s, call := state.(planState), input.(planCall)
		switch call.Outcome {
		case conflicted:
			return call.Seen.Stage == s.Stage && call.Seen.Version == s.Version, s
		case refused: // past the limit
			return call.Transition == repo.TransitionRevert && s.Reversions == repo.MaxReversions, s
		}
		if call.Transition == "" {
			return call.After == s, s
		}
		plan := repo.Plan{Stage: s.Stage, Version: s.Version, ReversionCount: s.Reversions}
		moved, _, err := plan.Moved(call.Transition, repo.Cause{Reason: "x"})
		return err == nil && call.After == stateOf(moved), stateOf(moved)
	},
}

// Clients of four pools here, and of two other processes, move one plan, and read it, while connections are cut and
// backends end. What each saw must be explained by some order.
func TestPlanIsLinearizable(t *testing.T) {
	s := newStage(t, newCluster(t))
	through := s.proxy.through(t, s.url)
	store, err := agentstore.Open(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	for range choose(20, 2) {
		plan, err := store.Plans().Use(t.Context(), "a", repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		calls := s.movePlan(t, plan.ID, 40, true, func(ctx context.Context, n int) (planMover, func(), error) {
			// Another name makes it another pool.
			store, err := agentstore.Open(ctx, fmt.Sprintf("%s&application_name=client%d", through, n))
			if err != nil {
				return nil, nil, err
			}
			return store.Plans(), func() { _ = store.Close() }, nil
		})
		if result := checkPlan(t, store, plan.ID, calls); result != porcupine.Ok {
			t.Fatalf("the history is %s: %+v", result, calls)
		}
	}
}

// The same clients and the same checker find the move that is made without the
// condition.
func TestNaivePlanIsNotLinearizable(t *testing.T) {
	s := newStage(t, newCluster(t))
	store, err := agentstore.Open(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		plan, err := store.Plans().Use(t.Context(), "a", repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		calls := s.movePlan(t, plan.ID, 20, false, func(context.Context, int) (planMover, func(), error) {
			return naiveMover{store}, func() {}, nil
		})
		if checkPlan(t, store, plan.ID, calls) == porcupine.Illegal {
			return
		}
	}
	t.Fatal("20 histories of the naive store are linearizable: the checker does not catch it")
}

// planMover is the part of repo.Plans that is tried.
type planMover interface {
	Get(ctx context.Context, id repo.ID) (repo.Plan, error)
	Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error)
}

// naiveMover reads, decides and writes what it decided.
type naiveMover struct{ store *agentstore.Store }

func (n naiveMover) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	return n.store.Plans().Get(ctx, id)
}

func (n naiveMover) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	plan, err := n.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, err
	}
	moved, moves, err := plan.Moved(transition, cause)
	if err != nil || !moves {
		return moved, err
	}
	_, err = n.store.Pool().Exec(ctx, `UPDATE plans SET phase = $2, state = $3, version = $4, reversion_count = $5,
		error_message = CASE $3 WHEN 'errored' THEN 'x' END, cancelled_at = NULL, cancel_reason = NULL WHERE id = $1`,
		pgtype.UUID{Bytes: id, Valid: true}, moved.Phase, moved.State, moved.Version, moved.ReversionCount)
	return moved, err
}

// movePlan has eight clients make calls of their own choice, and with faults as
// many in two other processes.
func (s *stage) movePlan(t *testing.T, id repo.ID, calls int, faults bool, open func(context.Context, int) (planMover, func(), error)) []porcupine.Operation {
	t.Helper()
	const pools = 4
	var movers [pools]planMover
	for n := range movers {
		mover, end, err := open(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		movers[n] = mover
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var trouble sync.WaitGroup
	var processes []func() []planCall
	if faults {
		for n := range 2 {
			processes = append(processes, startPlanClients(t, planTask{s.proxy.through(t, s.url), id, fmt.Sprintf("process%d/", n), calls / 2}))
		}
		trouble.Go(func() { s.planTrouble(ctx, t) })
	}
	all := planClients(ctx, movers[:], id, "", calls)
	for _, end := range processes {
		all = append(all, end()...)
	}
	cancel()
	trouble.Wait()
	operations := make([]porcupine.Operation, len(all))
	for i, call := range all {
		operations[i] = porcupine.Operation{ClientId: i % 64, Input: call, Call: call.Call, Return: call.Return}
	}
	return operations
}

// planClients are the clients of one process.
func planClients(ctx context.Context, movers []planMover, id repo.ID, name string, calls int) []planCall {
	const clients = 8
	var mu sync.Mutex
	var all []planCall
	var working sync.WaitGroup
	for client := range clients {
		working.Go(func() {
			for i := range calls {
				call := planCall{Actor: fmt.Sprintf("%s%d/%d", name, client, i)}
				if rand.N(4) > 0 {
					// No cancelling: the plan would soon be at its end.
					all := repo.Transitions()
					call.Transition = all[rand.N(len(all)-1)]
				}
				call.Call = time.Now().UnixNano()
				call.do(ctx, movers[(client+i)%len(movers)], id)
				call.Return = time.Now().UnixNano()
				mu.Lock()
				all = append(all, call)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return all
}

// planTask is what a process of clients is told.
type planTask struct {
	DatabaseURL string
	Plan        repo.ID
	Name        string
	Calls       int
}

const planTaskVariable = "AGENTSTORE_FAULTS_PLAN_CLIENTS"

// startPlanClients starts this binary again, as clients. The function it returns
// waits for them, and returns their calls.
func startPlanClients(t *testing.T, task planTask) func() []planCall {
	t.Helper()
	raw, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), planTaskVariable+"="+string(raw))
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return func() []planCall {
		if err := command.Wait(); err != nil {
			t.Fatalf("the process %s: %v", task.Name, err)
		}
		var calls []planCall
		if err := json.Unmarshal(output.Bytes(), &calls); err != nil {
			t.Fatal(err)
		}
		return calls
	}
}

// runPlanClients is such a process.
func runPlanClients(text string) error {
	var task planTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	ctx := context.Background()
	var store *agentstore.Store
	for attempt := 0; ; attempt++ { // the network may be cut just now
		var err error
		if store, err = agentstore.Open(ctx, task.DatabaseURL); err == nil {
			break
		}
		if attempt == 100 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	defer func() { _ = store.Close() }()
	return json.NewEncoder(os.Stdout).Encode(planClients(ctx, []planMover{store.Plans()}, task.Plan, task.Name, task.Calls))
}

func (c *planCall) do(ctx context.Context, plans planMover, id repo.ID) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var plan repo.Plan
	var err error
	if c.Transition == "" {
		plan, err = plans.Get(ctx, id)
	} else {
		plan, err = plans.Transition(ctx, id, c.Transition, repo.Cause{Actor: c.Actor, Reason: "x"})
	}
	conflict, isConflict := errors.AsType[*repo.TransitionConflict](err)
	switch {
	case err == nil:
		c.Outcome, c.After = done, stateOf(plan)
	case isConflict:
		c.Outcome, c.Seen = conflicted, *conflict
	case errors.Is(err, repo.ErrLimit):
		c.Outcome = refused
	default:
		c.Outcome = unknown
	}
}

func (s *stage) planTrouble(ctx context.Context, t *testing.T) {
	for turn := 0; ctx.Err() == nil; turn++ {
		time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond))
		if turn%2 == 0 {
			terminate(t, s.url)
			continue
		}
		s.proxy.Stop()
		time.Sleep(rand.N(20 * time.Millisecond))
		if err := s.proxy.Start(); err != nil {
			t.Error(err)
			return
		}
	}
}

// checkPlan reports whether the calls could have come one after the other. What
// became of those with an unknown outcome the plan's history tells: each version
// has the actor who made it.
func checkPlan(t *testing.T, store *agentstore.Store, id repo.ID, calls []porcupine.Operation) porcupine.CheckResult {
	t.Helper()
	awaitEnd(t, store.Pool().Config().ConnString())
	events, err := store.Plans().History(t.Context(), id, 0, repo.MaxPageSize)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]repo.PlanEvent{}
	reversions := map[int64]int{}
	for i, event := range events {
		made[event.Actor] = event
		reversions[event.Version] = 0
		if i > 0 {
			reversions[event.Version] = reversions[event.Version-1]
		}
		if event.Transition == repo.TransitionRevert {
			reversions[event.Version]++
		}
	}
	var known []porcupine.Operation
	counts := map[string]int{}
	for _, operation := range calls {
		call := operation.Input.(planCall)
		counts[call.Outcome]++
		if call.Outcome == unknown {
			event, found := made[call.Actor]
			if !found {
				continue // it was never made
			}
			operation.Return = math.MaxInt64
			call.Outcome, call.After = done, planState{event.To, event.Version, reversions[event.Version]}
			operation.Input = call
		}
		known = append(known, operation)
	}
	t.Logf("%d calls: %d done, %d conflicted, %d past the limit, %d unknown; version %d",
		len(calls), counts[done], counts[conflicted], counts[refused], counts[unknown], len(events))
	return porcupine.CheckOperationsTimeout(planModel, known, time.Minute)
}
