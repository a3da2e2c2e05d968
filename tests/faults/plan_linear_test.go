package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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
	transition repo.Transition
	// actor is the call's own: the plan's history tells by it which calls of
	// unknown outcome were made.
	actor   string
	outcome string
	// after is what a call that is done returned; seen what a refused one said
	// of where the plan is.
	after planState
	seen  repo.TransitionConflict
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
		switch call.outcome {
		case conflicted:
			return call.seen.Stage == s.Stage && call.seen.Version == s.Version, s
		case refused: // past the limit
			return call.transition == repo.TransitionRevert && s.Reversions == repo.MaxReversions, s
		}
		if call.transition == "" {
			return call.after == s, s
		}
		plan := repo.Plan{Stage: s.Stage, Version: s.Version, ReversionCount: s.Reversions}
		moved, _, err := plan.Moved(call.transition, repo.Cause{Reason: "x"})
		return err == nil && call.after == stateOf(moved), stateOf(moved)
	},
}

// Clients of four pools move one plan, and read it, while connections are cut and
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
	for range choose(20, 3) {
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

// movePlan has eight clients make calls of their own choice.
func (s *stage) movePlan(t *testing.T, id repo.ID, calls int, faults bool, open func(context.Context, int) (planMover, func(), error)) []porcupine.Operation {
	t.Helper()
	const clients, pools = 8, 4
	var movers [pools]planMover
	for n := range movers {
		mover, end, err := open(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		movers[n] = mover
	}
	var mu sync.Mutex
	var all []porcupine.Operation
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var trouble, working sync.WaitGroup
	if faults {
		trouble.Go(func() { s.planTrouble(ctx, t) })
	}
	begin := time.Now()
	for client := range clients {
		working.Go(func() {
			for i := range calls {
				call := planCall{actor: fmt.Sprintf("%d/%d", client, i)}
				if rand.N(4) > 0 {
					// No cancelling: the plan would soon be at its end.
					all := repo.Transitions()
					call.transition = all[rand.N(len(all)-1)]
				}
				called := time.Since(begin)
				call.do(ctx, movers[(client+i)%pools], id)
				mu.Lock()
				all = append(all, porcupine.Operation{ClientId: client, Input: call, Call: int64(called), Return: int64(time.Since(begin))})
				mu.Unlock()
			}
		})
	}
	working.Wait()
	cancel()
	trouble.Wait()
	return all
}

func (c *planCall) do(ctx context.Context, plans planMover, id repo.ID) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var plan repo.Plan
	var err error
	if c.transition == "" {
		plan, err = plans.Get(ctx, id)
	} else {
		plan, err = plans.Transition(ctx, id, c.transition, repo.Cause{Actor: c.actor, Reason: "x"})
	}
	conflict, isConflict := errors.AsType[*repo.TransitionConflict](err)
	switch {
	case err == nil:
		c.outcome, c.after = done, stateOf(plan)
	case isConflict:
		c.outcome, c.seen = conflicted, *conflict
	case errors.Is(err, repo.ErrLimit):
		c.outcome = refused
	default:
		c.outcome = unknown
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
		counts[call.outcome]++
		if call.outcome == unknown {
			event, found := made[call.actor]
			if !found {
				continue // it was never made
			}
			operation.Return = math.MaxInt64
			call.outcome, call.after = done, planState{event.To, event.Version, reversions[event.Version]}
			operation.Input = call
		}
		known = append(known, operation)
	}
	t.Logf("%d calls: %d done, %d conflicted, %d past the limit, %d unknown; version %d",
		len(calls), counts[done], counts[conflicted], counts[refused], counts[unknown], len(events))
	return porcupine.CheckOperationsTimeout(planModel, known, time.Minute)
}
