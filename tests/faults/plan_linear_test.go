package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// planState is the part of a plan that matters to the lifecycle.
type planState struct {
	repo.Stage
	Version    int64
	Reversions int
}

func stateOf(p repo.Plan) planState { return planState{p.Stage, p.Version, p.ReversionCount} }

// planCall is one call on a plan: a transition, or a read if Transition is empty.
type planCall struct {
	Transition repo.Transition
	// Actor is unique to the call: the plan's history shows by it which calls of
	// unknown outcome took effect.
	Actor   string
	Outcome string
	// After is the result of a call that is done, Seen the stage that a refused one
	// reported.
	After planState
	Seen  repo.TransitionConflictError
	// Call and Return are times of the machine's monotonic clock, which all processes
	// share.
	Call, Return int64
}

// planModel is the contract of one plan for sequential calls. A call that was
// overtaken between reading and moving reports where the plan is, even if the
// transition could begin there: so a conflict counts as a read.
var planModel = porcupine.Model{
	Init: func() any {
		return planState{repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanQueued}, 1, 0}
	},
	Step: func(state, input, _ any) (bool, any) {
		s, call := state.(planState), input.(planCall)
		switch call.Outcome {
		case conflicted:
			return call.Seen.Stage == s.Stage && call.Seen.Version == s.Version, s
		case refused: // over the limit of reversions
			return call.Transition == repo.TransitionRevert && s.Reversions == limits.MaxReversions, s
		}
		if call.Transition == "" {
			return call.After == s, s
		}
		plan := repo.Plan{Stage: s.Stage, Version: s.Version, ReversionCount: s.Reversions}
		moved, _, err := rules.Moved(plan, call.Transition, repo.Cause{Reason: "x"})
		return err == nil && call.After == stateOf(moved), stateOf(moved)
	},
}

// Clients of four pools here, and of two other processes, move and read one plan
// while connections are cut and backends end. Some order must explain the results of
// all.
// Guarantee: Plans: Transitions and reads are linearizable while connections and the server are killed.
func TestPlanIsLinearizable(t *testing.T) {
	s := newSharedStage(t)
	through := s.proxy.through(t, s.url)
	store := pgtest.OpenStore(t, s.url, agentstore.Options{})
	makeAction(t, store, "a", 1)
	for range pgtest.Choose(20, 1) {
		plan, err := store.Plans().Use(t.Context(), "a", repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		calls := s.movePlan(t, plan.ID, pgtest.Choose(40, 15), true, func(ctx context.Context, n int) (planMover, func(), error) {
			// Another name makes it a separate pool.
			store, err := agentstore.Open(ctx, fmt.Sprintf("%s&application_name=client%d", through, n), agentstore.Options{})
			if err != nil {
				return nil, nil, err
			}
			return store.Plans(), func() { _ = store.Close() }, nil
		})
		if result := checkPlan(t, store, plan.ID, calls); result != porcupine.Ok {
			for _, operation := range calls {
				t.Logf("%+v", operation.Input)
			}
			t.Fatalf("the history is %s", result)
		}
	}
}

// The same clients and the same checker find a move without its condition.
func TestNaivePlanIsNotLinearizable(t *testing.T) {
	s := newSharedStage(t)
	store := pgtest.OpenStore(t, s.url, agentstore.Options{})
	makeAction(t, store, "a", 1)
	await.For(t, "a history of the naive store is not linearizable", func() bool {
		plan, err := store.Plans().Use(t.Context(), "a", repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		calls := s.movePlan(t, plan.ID, 20, false, func(context.Context, int) (planMover, func(), error) {
			return naiveMover{store}, func() {}, nil
		})
		return checkPlan(t, store, plan.ID, calls) == porcupine.Illegal
	})
}

// planMover is the part of repo.Plans that the test calls.
type planMover interface {
	Get(ctx context.Context, id repo.ID) (repo.Plan, error)
	Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error)
}

// naiveMover reads, decides, and writes its decision without a condition.
type naiveMover struct{ store *agentstore.Store }

func (n naiveMover) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	return n.store.Plans().Get(ctx, id)
}

func (n naiveMover) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	plan, err := n.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, err
	}
	moved, moves, err := rules.Moved(plan, transition, cause)
	if err != nil || !moves {
		return moved, err
	}
	_, err = n.store.Pool().Exec(ctx, `UPDATE plans SET phase = $2, state = $3, version = $4, reversion_count = $5,
		error_message = CASE $3 WHEN 'errored' THEN 'x' END, cancelled_at = NULL, cancel_reason = NULL WHERE id = $1`,
		pgtype.UUID{Bytes: id, Valid: true}, moved.Phase, moved.State, moved.Version, moved.ReversionCount)
	return moved, err
}

// movePlan makes eight clients call random operations, and with faults as many in two
// other processes.
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
	var made atomic.Int64
	var processes []func() []planCall
	if faults {
		for n := range 2 {
			task := planTask{s.proxy.through(t, s.url), id, fmt.Sprintf("process%d/", n), calls / 2}
			processes = append(processes, startClients[planCall](t, planTaskVariable, task.Name, task))
		}
		trouble.Go(func() { s.cutEvery(ctx, t, 20*time.Millisecond, func() int { return int(made.Load()) }) })
	}
	all := planClients(ctx, movers[:], id, "", calls, &made)
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

// planClients are the clients of one process. They count the calls that they have made.
func planClients(ctx context.Context, movers []planMover, id repo.ID, name string, calls int, made *atomic.Int64) []planCall {
	const clients = 8
	var mu sync.Mutex
	var all []planCall
	var working sync.WaitGroup
	for client := range clients {
		working.Go(func() {
			for i := range calls {
				call := planCall{Actor: fmt.Sprintf("%s%d/%d", name, client, i)}
				if rand.N(4) > 0 {
					// Not Cancel, which would soon end the plan.
					all := rules.Transitions()
					call.Transition = all[rand.N(len(all)-1)]
				}
				call.Call = time.Now().UnixNano()
				call.do(ctx, movers[(client+i)%len(movers)], id)
				call.Return = time.Now().UnixNano()
				made.Add(1)
				mu.Lock()
				all = append(all, call)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return all
}

// planTask is the task of a client process.
type planTask struct {
	DatabaseURL string
	Plan        repo.ID
	Name        string
	Calls       int
}

const planTaskVariable = "AGENTSTORE_FAULTS_PLAN_CLIENTS"

// runPlanClients is the main function of such a process.
func runPlanClients(ctx context.Context, task planTask) error {
	store, err := agentstore.Open(ctx, task.DatabaseURL, agentstore.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	ready()
	return json.NewEncoder(os.Stdout).Encode(planClients(ctx, []planMover{store.Plans()}, task.Plan, task.Name, task.Calls, new(atomic.Int64)))
}

func (c *planCall) do(ctx context.Context, plans planMover, id repo.ID) {
	var plan repo.Plan
	var err error
	if c.Transition == "" {
		plan, err = plans.Get(ctx, id)
	} else {
		plan, err = plans.Transition(ctx, id, c.Transition, repo.Cause{Actor: c.Actor, Reason: "x"})
	}
	conflict, isConflict := errors.AsType[*repo.TransitionConflictError](err)
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

// progress pauses for one to four times a length, and then until a call has been made since: on a slow machine
// no call would get anywhere between two faults.
func progress(ctx context.Context, t *testing.T, pause time.Duration, calls func() int) {
	before := calls()
	time.Sleep(pause + rand.N(3*pause)) // pace: faults come at any moment
	await.For(t, "a call between two faults", func() bool { return ctx.Err() != nil || calls() > before })
}

// cutEvery ends backends and cuts connections, in turn, whenever there was progress.
func (s *stage) cutEvery(ctx context.Context, t *testing.T, pause time.Duration, calls func() int) {
	for turn := 0; ctx.Err() == nil; turn++ {
		progress(ctx, t, pause, calls)
		if turn%2 == 0 {
			terminate(t, s.url)
			continue
		}
		s.proxy.Stop()
		time.Sleep(rand.N(20 * time.Millisecond)) // pace: a cut of any length
		if err := s.proxy.Start(); err != nil {
			t.Error(err)
			return
		}
	}
}

// checkPlan reports whether the calls could have happened one after the other. The
// plan's history, which has each version's actor, shows whether calls with an unknown
// outcome took effect.
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
				continue // it had no effect
			}
			operation.Return = math.MaxInt64
			call.Outcome, call.After = done, planState{event.To, event.Version, reversions[event.Version]}
			operation.Input = call
		}
		known = append(known, operation)
	}
	t.Logf("%d calls: %d done, %d conflicted, %d past the limit, %d unknown; version %d",
		len(calls), counts[done], counts[conflicted], counts[refused], counts[unknown], len(events))
	if !narrow(known, versionOf, func(o *porcupine.Operation) (begun, returned *int64) { return &o.Call, &o.Return }) {
		return porcupine.Illegal
	}
	return porcupine.CheckOperationsTimeout(planModel, known, time.Until(await.End(t)))
}

// versionOf returns the plan's version when a call took effect, or 0 if the call does not show it.
func versionOf(o *porcupine.Operation) int64 {
	switch c := o.Input.(planCall); c.Outcome {
	case done:
		return c.After.Version
	case conflicted:
		return c.Seen.Version
	}
	return 0
}

// narrow excludes from each call times at which it cannot have taken effect. A plan's
// version only grows, so a call took effect after the beginning of all that found an
// older version, and before the end of all that found a newer one. The checker would
// find that by trying, but not in a day if faults leave many calls open for long. seen returns
// the version, or 0 if the call does not show it. It reports whether each call has some time left.
func narrow[C any](calls []C, seen func(*C) int64, times func(*C) (begun, returned *int64)) bool {
	byVersion := map[int64][]*C{}
	for i := range calls {
		if version := seen(&calls[i]); version > 0 {
			byVersion[version] = append(byVersion[version], &calls[i])
		}
	}
	versions := slices.Sorted(maps.Keys(byVersion))
	latest, earliest := int64(math.MinInt64), int64(math.MaxInt64)
	for _, version := range versions {
		before := latest
		for _, c := range byVersion[version] {
			begun, _ := times(c)
			*begun = max(*begun, before)
			latest = max(latest, *begun)
		}
	}
	for _, version := range slices.Backward(versions) {
		after := earliest
		for _, c := range byVersion[version] {
			_, returned := times(c)
			*returned = min(*returned, after)
			earliest = min(earliest, *returned)
		}
	}
	return !slices.ContainsFunc(calls, func(c C) bool {
		begun, returned := times(&c)
		return *begun > *returned
	})
}
