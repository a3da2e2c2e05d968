package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

// received is what a client got.
type received struct {
	mu    sync.Mutex
	steps []int
}

func (r *received) add(step int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, step)
}

func (r *received) has(step int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.steps, step)
}

// connect connects the SDK's client.
func connect(ctx context.Context, replicas [2]*url.URL, got *received, to *mcp.StreamableClientTransport) (session *mcp.ClientSession, network *balancer, end func(), err error) {
	transport := &http.Transport{}
	network = &balancer{RoundTripper: transport, replicas: replicas}
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) {
			got.add(int(request.Params.Progress))
		},
	})
	to.Endpoint, to.HTTPClient = "http://replicas/", &http.Client{Transport: network}
	if session, err = client.Connect(ctx, to, nil); err != nil {
		transport.CloseIdleConnections()
		return nil, nil, nil, err
	}
	return session, network, func() {
		_ = session.Close()
		transport.CloseIdleConnections()
	}, nil
}

// call calls the tool once, with the SDK's client, whose streams are cut off all the time.
// It returns the number of times that the client resumed one.
func call(ctx context.Context, replicas [2]*url.URL, got *received) (resumed int64, err error) {
	session, network, end, err := connect(ctx, replicas, got, &mcp.StreamableClientTransport{DisableStandaloneSSE: true})
	if err != nil {
		return 0, err
	}
	defer end()
	params := &mcp.CallToolParams{Name: "count"}
	params.SetProgressToken("count")
	_, err = session.CallTool(ctx, params)
	return network.resumed.Load(), err
}

// race lets clients call the tool at once, and returns what is wrong with what they got.
func race(t *testing.T, clients, steps int, events func(replica int) mcp.EventStore) (faults []string) {
	t.Helper()
	ctx := await.Context(t)
	want := make([]int, steps)
	for i := range want {
		want[i] = i + 1
	}
	found := make(chan string, clients)
	var all sync.WaitGroup
	shared := [2]mcp.EventStore{events(0), events(1)}
	for range clients {
		got, over := &received{}, make(chan struct{})
		tool := counting{steps, got.has, over}
		var replicas [2]*url.URL
		for i := range replicas {
			replicas[i], _ = serve(t, tool, shared[i])
		}
		all.Go(func() {
			resumed, err := call(ctx, replicas, got)
			close(over)
			got.mu.Lock()
			defer got.mu.Unlock()
			switch {
			case err != nil:
				found <- fmt.Sprintf("after %d of %d events: %v", len(got.steps), steps, err)
			case !slices.Equal(got.steps, want):
				found <- fmt.Sprintf("got %v", got.steps)
			case resumed < 3:
				found <- fmt.Sprintf("was cut off %d times", resumed)
			}
		})
	}
	all.Wait()
	close(found)
	for fault := range found {
		faults = append(faults, fault)
	}
	return faults
}

// Clients that are cut off and go on at one replica and the other get each event once, in
// order.
func TestClientsResumeAtAnyReplica(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		for _, fault := range race(t, 8, 60, func(i int) mcp.EventStore { return newEvents(t, stores[i], 0) }) {
			t.Error(fault)
		}
	})
}

// What a server sends by itself reaches a client at any replica, too.
func TestSessionsOwnStream(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		ctx := await.Context(t)
		home, server := serve(t, counting{}, newEvents(t, stores[0], 0))
		other, _ := serve(t, counting{}, newEvents(t, stores[1], 0))
		got := &received{}
		client, network, end, err := connect(ctx, [2]*url.URL{home, other}, got, &mcp.StreamableClientTransport{})
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		for session := range server.Sessions() {
			if session.ID() != client.ID() {
				continue // that of the client's first attempt, with a newer protocol
			}
			for step := 1; step <= 60; step++ {
				if err := session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "own", Progress: float64(step)}); err != nil {
					t.Error(err)
				}
				if step%10 == 0 {
					await.For(t, "the client to have it", func() bool { return got.has(step) })
				}
			}
		}
		got.mu.Lock()
		defer got.mu.Unlock()
		for i, step := range got.steps {
			if step != i+1 {
				t.Fatalf("got %v", got.steps)
			}
		}
		if len(got.steps) != 60 || network.resumed.Load() < 4 {
			t.Errorf("got %d events, and was cut off %d times", len(got.steps), network.resumed.Load()-1)
		}
	})
}

// The same clients fail with the SDK's event store, which the other replica does not have.
func TestMemoryEventStoreLosesEvents(t *testing.T) {
	t.Parallel()
	const clients = 4
	faults := race(t, clients, 60, func(int) mcp.EventStore { return mcp.NewMemoryEventStore(nil) })
	if len(faults) != clients {
		t.Errorf("%d of %d clients lost events: %v", len(faults), clients, faults)
	}
	t.Log(faults)
}
