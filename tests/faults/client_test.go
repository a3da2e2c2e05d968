package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// messages has the operations of histories: the part of repo.Sessions that the naive
// store has, too.
type messages interface {
	Append(ctx context.Context, sessionID repo.ID, messages ...repo.NewMessage) ([]repo.Message, error)
	AppendAt(ctx context.Context, sessionID repo.ID, expected int64, messages ...repo.NewMessage) ([]repo.Message, error)
	MessagesFrom(ctx context.Context, sessionID repo.ID, from int64, limit int) ([]repo.Message, error)
	LastMessages(ctx context.Context, sessionID repo.ID, limit int) ([]repo.Message, error)
}

// clientTask is what a process does to a session: each of its clients makes one call
// after another.
type clientTask struct {
	DatabaseURL string
	Naive       bool
	Session     repo.ID
	First       int // the number of the first client
	Clients     int
	Operations  int // of each client, but for those that are refused
}

// clientEnv passes the task to a client process, as JSON.
const clientEnv = "AGENTSTORE_TEST_FAULTS_CLIENT"

// monotonic returns the time of the monotonic clock that all processes of a machine
// share.
func monotonic() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		panic(err)
	}
	return time.Nano()
}

// open opens the store that the task names.
func (c clientTask) open(ctx context.Context) (store messages, end func(), err error) {
	if c.Naive {
		return openNaive(ctx, c.DatabaseURL)
	}
	opened, err := openPatiently(ctx, c.DatabaseURL, agentstore.Options{MaxConns: 4, ConnectTimeout: 10 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	return expecting{opened.Sessions()}, func() { _ = opened.Close() }, nil
}

// run makes the calls. record gets each operation twice, before the call (with an
// unknown outcome) and after it. All clients call it concurrently.
func (c clientTask) run(ctx context.Context, store messages, record func(operation)) {
	var wg sync.WaitGroup
	for i := range c.Clients {
		wg.Go(func() {
			client{store, c.Session, c.First + i, record}.run(ctx, c.Operations)
		})
	}
	wg.Wait()
}

type client struct {
	store   messages
	session repo.ID
	number  int
	record  func(operation)
}

func (c client) run(ctx context.Context, operations int) {
	var next int64 // according to what the client has seen
	var again *operation
	for number, made := 0, 0; made < operations && ctx.Err() == nil; number++ {
		o := c.choose(next)
		if again != nil {
			o, again = *again, nil
		}
		o.Client, o.Number, o.Outcome = c.number, number, unknown
		o.Call = monotonic()
		c.record(o)
		c.call(ctx, &o)
		o.Return = monotonic()
		c.record(o)
		if o.Outcome != refused {
			made++
		}
		switch o.Outcome {
		case done:
			next = max(next, o.First+int64(len(o.Messages)), o.From+int64(len(o.Read)))
		case conflicted:
			next = o.Next
		default:
			// Often the same message is sent again, in doubt or not.
			if len(o.Messages) > 0 && rand.N(3) > 0 {
				again = &operation{Kind: o.Kind, Messages: o.Messages, Expected: o.Expected}
			}
			time.Sleep(20*time.Millisecond + rand.N(20*time.Millisecond)) // pace: until the next call
		}
	}
}

func (c client) choose(next int64) operation {
	ids := make([]repo.ID, 1+rand.N(3))
	for i := range ids {
		ids[i] = repo.NewID()
	}
	switch rand.N(10) {
	case 0, 1, 2, 3:
		return operation{Kind: appendAny, Messages: ids}
	case 4, 5, 6: // sometimes at a sequence that does not exist yet
		return operation{Kind: appendAt, Messages: ids, Expected: next + rand.Int64N(8)/7}
	case 7, 8:
		return operation{Kind: readLast, Limit: 1 + rand.Int64N(10)}
	default:
		return operation{Kind: readFrom, From: max(0, next-rand.Int64N(5)), Limit: 1 + rand.Int64N(10)}
	}
}

// call makes the call and notes its outcome.
func (c client) call(ctx context.Context, o *operation) {
	var result []repo.Message
	var err error
	batch := make([]repo.NewMessage, len(o.Messages))
	for i, id := range o.Messages {
		batch[i] = repo.NewMessage{ID: id, Role: repo.RoleUser, Content: "history"}
	}
	switch o.Kind {
	case appendAny:
		result, err = c.store.Append(ctx, c.session, batch...)
	case appendAt:
		result, err = c.store.AppendAt(ctx, c.session, o.Expected, batch...)
	case readFrom:
		result, err = c.store.MessagesFrom(ctx, c.session, o.From, int(o.Limit))
	case readLast:
		result, err = c.store.LastMessages(ctx, c.session, int(o.Limit))
	}
	conflict, conflicting := errors.AsType[*repo.SequenceConflictError](err)
	switch {
	case err == nil && len(o.Messages) > 0:
		o.Outcome, o.First = done, result[0].Sequence
	case err == nil:
		o.Outcome = done
		for _, message := range result {
			o.Read = append(o.Read, message.ID)
		}
	case conflicting:
		o.Outcome, o.Next = conflicted, conflict.Next
	case errors.Is(err, repo.ErrUnknownOutcome):
		o.Outcome = unknown
	case isExcused(err): // by the contract nothing was written; the checker tests that
		o.Outcome = refused
	default:
		panic(fmt.Sprintf("an error that no fault excuses: %v", err))
	}
}

// runClients runs the task and prints operations, one on each line, without
// buffering.
func runClients(ctx context.Context, task clientTask) error {
	store, end, err := task.open(ctx)
	if err != nil {
		return err
	}
	defer end()
	var mu sync.Mutex
	encoder := json.NewEncoder(os.Stdout)
	task.run(ctx, store, func(o operation) {
		mu.Lock()
		defer mu.Unlock()
		if err := encoder.Encode(o); err != nil {
			panic(err)
		}
	})
	return nil
}

// process is a client process.
type process struct {
	command *exec.Cmd
	read    sync.WaitGroup
	history history
	broken  error
}

// startProcess starts a client process, and collects its operations as they arrive.
func startProcess(t *testing.T, task clientTask) *process {
	t.Helper()
	p := &process{command: pgtest.Again(t.Context(), clientEnv, task)}
	p.command.Stderr = os.Stderr
	output, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	p.read.Go(func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			var o operation
			if p.broken = json.Unmarshal(lines.Bytes(), &o); p.broken != nil {
				return // the last line of a killed process may be incomplete
			}
			p.history.record(o)
		}
	})
	return p
}

// end waits for the process. killed says that it was killed.
func (p *process) end(t *testing.T, killed bool) []operation {
	t.Helper()
	p.read.Wait()
	err := p.command.Wait()
	if !killed && (err != nil || p.broken != nil) {
		t.Errorf("client process: %v, %v", err, p.broken)
	}
	return p.history.operations()
}

// history collects operations. A client's second report of a call replaces the first;
// without a second one the outcome stays unknown.
type history struct {
	mu   sync.Mutex
	last map[[2]int]operation
}

func (h *history) record(o operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil {
		h.last = map[[2]int]operation{}
	}
	h.last[[2]int{o.Client, o.Number}] = o
}

// done returns how many operations are done.
func (h *history) done() (count int) {
	for _, o := range h.operations() {
		if o.Outcome == done {
			count++
		}
	}
	return count
}

func (h *history) operations() []operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []operation
	for _, o := range h.last {
		all = append(all, o)
	}
	return all
}

// expecting appends at a sequence, as the naive store does.
type expecting struct{ repo.Sessions }

func (s expecting) AppendAt(ctx context.Context, sessionID repo.ID, expected int64, messages ...repo.NewMessage) ([]repo.Message, error) {
	added, err := s.AppendTurn(ctx, repo.Turn{SessionID: sessionID, Expected: &expected, Messages: messages})
	return added.Messages, err
}
