package bugreports

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// load is the work of one process: each of its writers appends to the sessions in
// turn.
type load struct {
	DatabaseURL string
	Way         string
	Sessions    []repo.ID
	Writers     int
	PerWriter   int
}

// acknowledged is an append that returned without an error.
type acknowledged struct{ session, message repo.ID }

// way appends one message with the given id, with the library or with the naive
// implementation.
type way struct {
	append func(ctx context.Context, session, message repo.ID) error
	close  func()
}

// ways has the constructors of ways, for this process and for writer processes.
var ways = map[string]func(ctx context.Context, databaseURL string) (way, error){
	"ours":  oursWay,
	"naive": naiveWay,
}

// run runs the load and returns what was acknowledged.
func (l load) run(ctx context.Context) ([]acknowledged, error) {
	way, err := ways[l.Way](ctx, l.DatabaseURL)
	if err != nil {
		return nil, err
	}
	defer way.close()
	results := make([][]acknowledged, l.Writers)
	failures := make(chan error, l.Writers)
	var wg sync.WaitGroup
	for w := range l.Writers {
		wg.Go(func() {
			for i := range l.PerWriter {
				a := acknowledged{l.Sessions[(w+i)%len(l.Sessions)], repo.NewID()}
				if err := way.append(ctx, a.session, a.message); err != nil {
					failures <- fmt.Errorf("writer %d, append %d: %w", w, i, err)
					return
				}
				results[w] = append(results[w], a)
			}
		})
	}
	wg.Wait()
	close(failures)
	var all []acknowledged
	for _, result := range results {
		all = append(all, result...)
	}
	return all, <-failures // nil if there is none
}

// writerEnv passes the load to a writer process, which prints the acknowledged
// appends, one on each line.
const writerEnv = "AGENTSTORE_TEST_WRITER"

func writerMain() int {
	var l load
	if err := json.Unmarshal([]byte(os.Getenv(writerEnv)), &l); err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		return 2
	}
	all, err := l.run(context.Background())
	out := bufio.NewWriter(os.Stdout)
	for _, a := range all {
		fmt.Fprintln(out, a.session, a.message)
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "writer:", err)
		return 1
	}
	return 0
}

// runInProcess runs the load in another process.
func (l load) runInProcess(ctx context.Context) ([]acknowledged, error) {
	command := pgtest.Again(ctx, writerEnv, l)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("writer process: %w: %s", err, stderr.String())
	}
	var all []acknowledged
	for line := range bytes.Lines(stdout) {
		var session, message string
		if _, err := fmt.Sscan(string(line), &session, &message); err != nil {
			return nil, err
		}
		all = append(all, acknowledged{mustParse(session), mustParse(message)})
	}
	return all, nil
}

func mustParse(s string) repo.ID {
	id, err := repo.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

// runAll runs one load in this process and the others in other processes, all at
// once.
func runAll(t *testing.T, here load, processes ...load) []acknowledged {
	t.Helper()
	var mu sync.Mutex
	var all []acknowledged
	var wg sync.WaitGroup
	collect := func(run func(context.Context) ([]acknowledged, error)) {
		wg.Go(func() {
			result, err := run(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, result...)
		})
	}
	collect(here.run)
	for _, process := range processes {
		collect(process.runInProcess)
	}
	wg.Wait()
	return all
}
