package mcpstore_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore"
	mcpstore "github.com/seed-df90f812/agentstore/adapters/mcp"
	"github.com/seed-df90f812/agentstore/repo"
)

// newEvents returns the event store of one replica.
func newEvents(store repo.Store) *mcpstore.EventStore {
	events, err := mcpstore.NewEventStore(store.Streams(), 0)
	if err != nil {
		log.Fatal(err)
	}
	return events
}

// Each replica of a service serves its MCP endpoint so.
func ExampleEventStore_Handler() {
	store, err := agentstore.Open(context.Background(), "memory://mcp", agentstore.Options{}) // or a PostgreSQL URL
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	server := mcp.NewServer(&mcp.Implementation{Name: "greeter"}, nil)
	events := newEvents(store)
	http.Handle("/mcp", events.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{EventStore: events})))
	// Output:
}

// What one replica has sent, another one can send again.
func Example() {
	ctx := context.Background()
	store, err := agentstore.Open(ctx, "memory://mcp", agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	one := newEvents(store)
	if err := one.Open(ctx, "session", "request"); err != nil {
		log.Fatal(err)
	}
	for _, event := range []string{"thinking", "still thinking", "42"} {
		if err := one.Append(ctx, "session", "request", []byte(event)); err != nil {
			log.Fatal(err)
		}
	}

	other := newEvents(store)
	for event, err := range other.After(ctx, "session", "request", 0) { // the client has event 0
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(event))
	}
	// Output:
	// still thinking
	// 42
}
