package a2atest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// nodes are three processes behind what a load balancer would do.
type nodes struct {
	t    *testing.T
	node node

	// killed has the numbers of nodes to start again.
	killed chan int

	mu      sync.Mutex
	running []*process // nil: is being started
	started int
	ended   int
	tasks   int
	kills   int
	report  report
}

// report is what subscribers saw.
type report struct {
	// lost are tasks that are known nowhere any more. broken are events that were
	// missing, or came again.
	lost, broken []string
	latencies    []time.Duration
}

const processes = 3

func (n *nodes) startOne() *process {
	n.started++
	described := n.node
	described.Name = fmt.Sprint("node ", n.started)
	return start(n.t, described)
}

func (n *nodes) any() *process {
	for {
		n.mu.Lock()
		p := n.running[rand.N(len(n.running))]
		n.mu.Unlock()
		if p != nil {
			return p
		}
		time.Sleep(time.Millisecond) // pace: one is started
	}
}

// due reports whether a node that has just written this is to be killed: one in each third
// of the tasks, while it executes one of them.
func (n *nodes) due(c chunk) bool {
	return n.kills < processes && n.ended >= (2*n.kills+1)*n.tasks/(2*processes) && c.Number < n.node.Parts/2
}

// wrote notes an event that a subscriber has received that was connected then.
func (n *nodes) wrote(c chunk, connected time.Time) {
	latency := time.Since(c.At)
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.At.After(connected) { // what was written while he connected measures that
		n.report.latencies = append(n.report.latencies, latency)
	}
	i := slices.IndexFunc(n.running, func(p *process) bool { return p != nil && p.name == c.Node })
	if i < 0 || !n.due(c) {
		return
	}
	n.kills++
	if err := n.running[i].command.Process.Kill(); err != nil {
		n.t.Error(err)
	}
	n.running[i] = nil
	n.killed <- i
}

// runTasks sends tasks to nodes, some at a time, and subscribes to each until it has ended.
func runTasks(t *testing.T, described node, tasks, atOnce int) (*nodes, report) {
	t.Helper()
	n := &nodes{t: t, node: described, tasks: tasks, killed: make(chan int, processes)}
	for range processes {
		n.running = append(n.running, n.startOne())
	}
	ctx := await.Context(t)
	next := make(chan int)
	var subscribers sync.WaitGroup
	for range atOnce {
		subscribers.Go(func() {
			for task := range next {
				s := &subscriber{nodes: n, message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(fmt.Sprint("task ", task)))}
				s.run(ctx)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for task := range tasks {
			next <- task
		}
		close(next)
		subscribers.Wait()
	}()
	for done := false; !done; {
		select {
		case i := <-n.killed:
			p := n.startOne()
			n.mu.Lock()
			n.running[i] = p
			n.mu.Unlock()
		case <-ended:
			done = true
		}
	}
	if ctx.Err() != nil && t.Context().Err() == nil {
		t.Error("the tasks did not end in time")
	}
	return n, n.report
}

// subscriber is the client of one task, which loses its connection again and again.
type subscriber struct {
	nodes   *nodes
	message *a2a.Message
	task    a2a.TaskID
	seen    int
	ended   bool
	// connected is when the first event of the connection came, which is the task.
	connected time.Time
}

func (s *subscriber) run(ctx context.Context) {
	for !s.ended && ctx.Err() == nil {
		p := s.nodes.any()
		if err := s.connect(ctx, p); errors.Is(err, a2a.ErrTaskNotFound) {
			s.note(func(r *report) { r.lost = append(r.lost, fmt.Sprintf("task %s is not known to %s", s.task, p.name)) })
			break
		} else if err != nil {
			time.Sleep(5 * time.Millisecond) // pace: the node is gone
		}
	}
	s.nodes.mu.Lock()
	s.nodes.ended++
	s.nodes.mu.Unlock()
}

// connect reads events until the connection ends: after some of them, or with the node.
func (s *subscriber) connect(ctx context.Context, p *process) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stay := 1 + rand.N(s.nodes.node.Parts)
	for event, err := range s.events(ctx, p) {
		if err != nil {
			return err
		}
		s.handle(event)
		if stay--; s.ended || stay == 0 {
			return nil
		}
	}
	return nil
}

// events sends the message, and again until the task is known.
func (s *subscriber) events(ctx context.Context, p *process) iter.Seq2[a2a.Event, error] {
	if s.task == "" {
		return p.client.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: s.message})
	}
	return p.client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: s.task})
}

func (s *subscriber) handle(event a2a.Event) {
	s.task = event.TaskInfo().TaskID
	state := a2a.TaskStateWorking
	switch e := event.(type) {
	case *a2a.Task: // what there is already
		state = e.Status.State
		s.connected = time.Now()
		written := parts(e)
		s.expect(len(written) >= s.seen, "after %d parts the task has %d", s.seen, len(written))
		for i, part := range written {
			c := s.decode(part)
			s.expect(c.Number == i, "part %d of the task is %d", i, c.Number)
		}
		s.seen = len(written)
	case *a2a.TaskArtifactUpdateEvent:
		for _, part := range e.Artifact.Parts {
			c := s.decode(part)
			s.expect(c.Number == s.seen, "event %d after %d", c.Number, s.seen-1)
			s.seen = c.Number + 1
			s.nodes.wrote(c, s.connected)
		}
	case *a2a.TaskStatusUpdateEvent:
		state = e.Status.State
	}
	if s.ended = state.Terminal(); s.ended {
		s.expect(state == a2a.TaskStateCompleted && s.seen == s.nodes.node.Parts, "ended as %s with %d parts", state, s.seen)
	}
}

func (s *subscriber) decode(part *a2a.Part) (c chunk) {
	if err := json.Unmarshal([]byte(part.Text()), &c); err != nil {
		s.expect(false, "a part is %v", err)
	}
	return c
}

func (s *subscriber) expect(holds bool, format string, args ...any) {
	if !holds {
		s.note(func(r *report) { r.broken = append(r.broken, string(s.task)+": "+fmt.Sprintf(format, args...)) })
	}
}

func (s *subscriber) note(add func(*report)) {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	add(&s.nodes.report)
}
