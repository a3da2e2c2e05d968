package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mcpstore "github.com/seed-df90f812/agentstore/adapters/mcp"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Fake time: the tests run in bubbles of synctest.

// client is one of a replica that may not read. Its methods are those of one handler, and of what ends it.
type client struct {
	*httptest.ResponseRecorder
	reads    bool
	deadline atomic.Int64
	stuck    *atomic.Int64 // how many handlers wait for their clients
}

func (c *client) SetWriteDeadline(at time.Time) error {
	c.deadline.Store(0)
	if !at.IsZero() {
		c.deadline.Store(at.UnixNano())
	}
	return nil
}

func (c *client) Write(data []byte) (int, error) {
	if c.reads || !strings.HasPrefix(string(data[:min(5, len(data))]), "event") {
		return c.ResponseRecorder.Write(data)
	}
	c.stuck.Add(1)
	defer c.stuck.Add(-1)
	for at := c.deadline.Load(); at == 0 || at > time.Now().UnixNano(); at = c.deadline.Load() {
		time.Sleep(100 * time.Millisecond)
	}
	return 0, os.ErrDeadlineExceeded
}

// bubble runs a test with a replica that does not have session s, whose stream r has one event of 1 MiB.
func bubble(t *testing.T, run func(t *testing.T, get func(user string, reads bool) *client, stuck *atomic.Int64, shutdown func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer func() { _ = store.Close() }()
		own, err := mcpstore.NewEventStore(store.Streams(), repo.MaxStreamTTL)
		must(t, err)
		other, err := mcpstore.NewEventStore(store.Streams(), repo.MaxStreamTTL)
		must(t, err)
		for _, stream := range []string{"", "r"} {
			must(t, own.Open(t.Context(), "s", stream))
		}
		must(t, own.Append(t.Context(), "s", "r", nil))
		must(t, own.Append(t.Context(), "s", "r", make([]byte, 1<<20)))
		handler, ctx, stuck := authorized(other.Handler(http.NotFoundHandler())), context.WithoutCancel(t.Context()), &atomic.Int64{}
		run(t, func(user string, reads bool) *client {
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
			request.Header.Set("Mcp-Session-Id", "s")
			request.Header.Set("Last-Event-ID", "r_0")
			request.Header.Set("Authorization", "Bearer "+user)
			c := &client{ResponseRecorder: httptest.NewRecorder(), reads: reads, stuck: stuck}
			go handler.ServeHTTP(c, request)
			return c
		}, stuck, other.Shutdown)
		other.Shutdown()
	})
}

// Of 500 responses to one user that reads nothing, a few hold an event, and for 30 seconds. Others are served
// meanwhile.
func TestClientsThatReadNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, get func(string, bool) *client, stuck *atomic.Int64, _ func()) {
		refused := 0
		for range 500 {
			c := get("mallory", false)
			synctest.Wait()
			if c.Code == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused != 500-32 || stuck.Load() != 32 {
			t.Errorf("%d are refused, %d hold an event", refused, stuck.Load())
		}
		if c := get("alice", true); true {
			synctest.Wait()
			if c.Code != http.StatusOK || c.Body.Len() < 1<<20 {
				t.Errorf("another user: status %d, %d bytes", c.Code, c.Body.Len())
			}
		}
		time.Sleep(31 * time.Second)
		if stuck.Load() != 0 {
			t.Errorf("%d hold an event after their time", stuck.Load())
		}
		for i := range 1100 {
			get(fmt.Sprint("user", i%50), false)
		}
		synctest.Wait()
		if c := get("bob", true); true {
			synctest.Wait()
			if c.Code != http.StatusServiceUnavailable || stuck.Load() > 1000 {
				t.Errorf("beside %d responses: status %d", stuck.Load(), c.Code)
			}
		}
		time.Sleep(31 * time.Second)
	})
}

// A response without events has a comment now and then, and ends after an hour.
func TestSilentResponses(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, get func(string, bool) *client, stuck *atomic.Int64, shutdown func()) {
		c := get("alice", true)
		time.Sleep(46 * time.Second)
		if got := strings.Count(c.Body.String(), ":\n\n"); got != 3 {
			t.Errorf("%d comments", got)
		}
		time.Sleep(2 * time.Hour)
		if got := strings.Count(c.Body.String(), ":\n\n"); got < 200 || got > 240 {
			t.Errorf("%d comments in an hour", got)
		}
		late := get("bob", false)
		synctest.Wait()
		shutdown()
		time.Sleep(1500 * time.Millisecond)
		if stuck.Load() != 0 {
			t.Errorf("a shutdown waits: status %d", late.Code)
		}
	})
}
