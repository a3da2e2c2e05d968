package mcpstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	mcpstore "github.com/seed-df90f812/agentstore/adapters/mcp"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// outage is a database that cannot be written to while it is down.
type outage struct {
	repo.Streams
	down atomic.Bool
}

func (o *outage) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	if o.down.Load() {
		return stream.Next, repo.ErrUnavailable
	}
	return o.Streams.Append(ctx, stream, parts...)
}

func (o *outage) Fail(ctx context.Context, stream repo.Stream, reason string) error {
	if o.down.Load() {
		return repo.ErrUnavailable
	}
	return o.Streams.Fail(ctx, stream, reason)
}

func begin(t *testing.T) (store *memory.Store, streams *outage, own *mcpstore.EventStore) {
	t.Helper()
	store = memory.New()
	t.Cleanup(func() { _ = store.Close() })
	streams = &outage{Streams: store.Streams()}
	own, err := mcpstore.NewEventStore(streams, 0)
	if err == nil {
		err = own.Open(t.Context(), "s", "r")
	}
	if err == nil {
		err = own.Append(t.Context(), "s", "r", []byte("stored"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return store, streams, own
}

func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// If the last event of a request is lost, the other replicas say so when the database is back,
// although nothing more is appended.
func TestLastEventThatIsLostIsMissedElsewhere(t *testing.T) {
	store, streams, own := begin(t)
	streams.down.Store(true)
	for range 3 { // one is being stored, one waits, and the last one is lost
		_ = own.Append(shortly(t), "s", "r", make([]byte, repo.MaxPartBytes/2))
	}
	streams.down.Store(false)
	other, err := mcpstore.NewEventStore(store.Streams(), 0)
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		events, err = 0, nil
		for _, e := range other.After(t.Context(), "s", "r", -1) {
			if events, err = events+1, e; err != nil {
				break
			}
		}
		if errors.Is(err, mcp.ErrEventsPurged) {
			return
		}
	}
	t.Errorf("another replica has %d of 4 events, and the error %v", events, err)
}

// Append ends with its context, also while an After waits for the database.
func TestAppendEndsWithItsContextBesideAfter(t *testing.T) {
	_, streams, own := begin(t)
	streams.down.Store(true)
	_ = own.Append(shortly(t), "s", "r", []byte("waits"))
	after, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, err := range own.After(after, "s", "r", -1) {
			if err == nil {
				t.Error("an event that is not stored")
			}
		}
	}()
	time.Sleep(100 * time.Millisecond)
	begun := time.Now()
	_ = own.Append(shortly(t), "s", "r", []byte("waits too"))
	if took := time.Since(begun); took > time.Second {
		t.Errorf("an Append with 20 ms ended after %v", took.Round(100*time.Millisecond))
	}
	cancel()
	<-done
}
