package a2atest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/limiter"

	"github.com/seed-df90f812/agentstore"
	a2astore "github.com/seed-df90f812/agentstore/adapters/a2a"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const nodeVariable = "AGENTSTORE_A2A_NODE"

// node says what a process serves. Without a database it has the framework's own stores.
type node struct {
	Name, Database string
	Parts          int
	Pause          time.Duration
}

// chunk is what the agent writes: a part's number, by whom it was written, and when.
type chunk struct {
	Number int
	Node   string
	At     time.Time
}

// agent writes numbered parts to a task, one after another, and completes it. It goes on
// after those that are there.
type agent struct{ node }

func (a agent) Execute(ctx context.Context, execution *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		written := 0
		if execution.StoredTask == nil {
			if !yield(a2a.NewSubmittedTask(execution, execution.Message), nil) {
				return
			}
		} else {
			written = len(parts(execution.StoredTask))
		}
		for ; written < a.Parts; written++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(a.Pause): // pace: subscribers come and go meanwhile
			}
			text, err := json.Marshal(chunk{written, a.Name, time.Now()})
			if err != nil {
				yield(nil, err)
				return
			}
			event := a2a.NewArtifactUpdateEvent(execution, "answer", a2a.NewTextPart(string(text)))
			event.Append = written > 0
			if !yield(event, nil) {
				return
			}
		}
		yield(a2a.NewStatusUpdateEvent(execution, a2a.TaskStateCompleted, nil), nil)
	}
}

func (a agent) Cancel(_ context.Context, execution *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(execution, a2a.TaskStateCanceled, nil), nil)
	}
}

func parts(task *a2a.Task) []*a2a.Part {
	if len(task.Artifacts) == 0 {
		return nil
	}
	return task.Artifacts[0].Parts
}

// login is a user for each request.
type login struct {
	a2asrv.PassthroughCallInterceptor
}

const user = "ann"

func (login) Before(ctx context.Context, call *a2asrv.CallContext, _ *a2asrv.Request) (context.Context, any, error) {
	call.User = a2asrv.NewAuthenticatedUser(user, nil)
	return ctx, nil, nil
}

// serve is the node's process. It prints its URL, and ends with its input.
func serve(text string) int {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		panic(err)
	}
	ctx := context.Background()
	options := []a2asrv.RequestHandlerOption{a2asrv.WithCallInterceptors(login{})}
	if n.Database != "" {
		store, err := agentstore.Open(ctx, n.Database, agentstore.Options{})
		if err != nil {
			panic(err)
		}
		// short: what a killed process had is taken over, and fenced off if the process is only slow
		cluster, err := a2astore.New(ctx, store, a2astore.Options{TTL: repo.MinLeaseTTL})
		if err != nil {
			panic(err)
		}
		options = append(options, a2asrv.WithClusterMode(cluster.Config()),
			a2asrv.WithConcurrencyConfig(limiter.ConcurrencyConfig{MaxExecutions: pgtest.Choose(16, 6)}))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := &http.Server{
		Handler:           a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(agent{n}, options...)),
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(listener) }()
	fmt.Printf("http://%s/\n", listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// process is a node that runs.
type process struct {
	name    string
	command *exec.Cmd
	client  *a2aclient.Client
	http    *http.Client
}

func start(t *testing.T, n node) *process {
	t.Helper()
	p := &process{name: n.Name, command: pgtest.Again(context.WithoutCancel(t.Context()), nodeVariable, n), http: &http.Client{Transport: &http.Transport{}}}
	p.command.Stderr = os.Stderr
	input, err := p.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = p.command.Wait()
		p.http.CloseIdleConnections()
	})
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		t.Fatal("the node does not say where it is")
	}
	endpoint := a2a.NewAgentInterface(lines.Text(), a2a.TransportProtocolJSONRPC)
	p.client, err = a2aclient.NewFromEndpoints(t.Context(), []*a2a.AgentInterface{endpoint}, a2aclient.WithJSONRPCTransport(p.http))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
