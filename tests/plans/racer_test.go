package plans

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// race is the task of one process: each of its goroutines makes the transition of
// each plan, in the same order.
type race struct {
	DatabaseURL string
	Way         string
	Transition  repo.Transition
	Plans       []repo.ID
	Goroutines  int
	Process     int
}

// outcome is the result of one call: the plan at the stage and version, or a conflict
// that names them.
type outcome struct {
	Plan     repo.ID
	Actor    string
	Conflict bool
	Stage    repo.Stage
	Version  int64
}

// way makes one transition. An error other than a conflict ends the race.
type way func(ctx context.Context, id repo.ID, transition repo.Transition, actor string) (outcome, error)

var ways = map[string]func(ctx context.Context, databaseURL string) (way, func(), error){
	"ours": ours, "naive": naive,
}

func ours(ctx context.Context, databaseURL string) (way, func(), error) {
	store, err := agentstore.Open(ctx, databaseURL, agentstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, id repo.ID, transition repo.Transition, actor string) (outcome, error) {
		got, err := store.Plans().Transition(ctx, id, transition, repo.Cause{Actor: actor, Reason: "race"})
		if conflict, ok := errors.AsType[*repo.TransitionConflictError](err); ok {
			return outcome{id, actor, true, conflict.Stage, conflict.Version}, nil
		}
		return outcome{id, actor, false, got.Stage, got.Version}, err
	}, func() { _ = store.Close() }, nil
}

// naive reads the plan, decides, and writes its decision without a condition.
func naive(ctx context.Context, databaseURL string) (way, func(), error) {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, id repo.ID, transition repo.Transition, actor string) (outcome, error) {
		var stage repo.Stage
		var version int64
		key := pgtype.UUID{Bytes: id, Valid: true}
		if err := pool.QueryRow(ctx, "SELECT phase, state, version FROM plans WHERE id = $1", key).
			Scan(&stage.Phase, &stage.State, &version); err != nil {
			return outcome{}, err
		}
		to, allowed := rules.To(transition, stage)
		if !allowed {
			return outcome{id, actor, true, stage, version}, nil
		}
		_, err := pool.Exec(ctx, "UPDATE plans SET phase = $2, state = $3, version = $4 WHERE id = $1", key, string(to.Phase), string(to.State), version+1)
		return outcome{id, actor, false, to, version + 1}, err
	}, pool.Close, nil
}

// run waits for start, and returns all outcomes.
func (r race) run(ctx context.Context, ready func(), start func()) ([]outcome, error) {
	move, closing, err := ways[r.Way](ctx, r.DatabaseURL)
	if err != nil {
		return nil, err
	}
	defer closing()
	ready()
	start()
	results := make([][]outcome, r.Goroutines)
	failures := make(chan error, r.Goroutines)
	var wg sync.WaitGroup
	for g := range r.Goroutines {
		wg.Go(func() {
			for _, id := range r.Plans {
				got, err := move(ctx, id, r.Transition, fmt.Sprintf("%d/%d", r.Process, g))
				if err != nil {
					failures <- err
					return
				}
				results[g] = append(results[g], got)
			}
		})
	}
	wg.Wait()
	close(failures)
	var all []outcome
	for _, result := range results {
		all = append(all, result...)
	}
	return all, <-failures // nil if there is none
}

// racerEnv passes the race to a racer process. The process prints a line when it is
// ready, waits for one, and prints its outcomes as JSON.
const racerEnv = "AGENTSTORE_TEST_RACER"

func racerMain() int {
	var r race
	err := json.Unmarshal([]byte(os.Getenv(racerEnv)), &r)
	var all []outcome
	if err == nil {
		all, err = r.run(context.Background(), func() { fmt.Println("ready") }, func() {
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		})
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(all)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "racer:", err)
		return 1
	}
	return 0
}

// runInProcess runs the race in another process.
func (r race) runInProcess(ctx context.Context, ready, start func()) (_ []outcome, err error) {
	said := false
	defer func() {
		if !said { // otherwise the others would wait
			ready()
		}
	}()
	command := pgtest.Again(ctx, racerEnv, r)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if ended := command.Wait(); ended != nil && err == nil {
			err = fmt.Errorf("racer process: %w: %s", ended, stderr.String())
		}
	}()
	lines := bufio.NewReader(stdout)
	if _, err := lines.ReadString('\n'); err != nil {
		return nil, nil // Wait says more
	}
	said = true
	ready()
	start()
	if _, err := io.WriteString(stdin, "go\n"); err != nil {
		return nil, err
	}
	var all []outcome
	if err := json.NewDecoder(lines).Decode(&all); err != nil {
		return nil, nil // Wait says more
	}
	return all, nil
}

// runAll runs the race in 64 goroutines of this process and 4 processes of 16. All
// begin together.
func runAll(t *testing.T, r race) []outcome {
	t.Helper()
	var ready, running sync.WaitGroup
	var mu sync.Mutex
	var all []outcome
	start := make(chan struct{})
	for process := range 5 {
		r := r
		r.Process, r.Goroutines = process, 16
		run := r.runInProcess
		if process == 0 {
			r.Goroutines = 64
			run = r.run
		}
		var once sync.Once
		ready.Add(1)
		running.Go(func() {
			done := func() { once.Do(ready.Done) }
			defer done()
			outcomes, err := run(t.Context(), done, func() { <-start })
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, outcomes...)
		})
	}
	ready.Wait()
	close(start)
	running.Wait()
	if want := (64 + 4*16) * len(r.Plans); len(all) != want {
		t.Fatalf("%d answers, want %d", len(all), want)
	}
	return all
}
