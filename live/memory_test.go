package live_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

// firstEvent is a ResponseWriter whose client goes after the first event.
type firstEvent struct {
	header http.Header
	leave  func()
	name   string
}

func (w *firstEvent) Header() http.Header { return w.header }
func (w *firstEvent) WriteHeader(int)     {}
func (w *firstEvent) Flush()              {}

func (w *firstEvent) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("event: begin")) || bytes.Contains(b, []byte("event: stream")) {
		return len(b), nil
	}
	if _, name, ok := bytes.Cut(b, []byte("event: ")); ok {
		w.name = string(name[:bytes.IndexByte(name, '\n')])
	}
	if bytes.Contains(b, []byte("data: ")) {
		w.leave()
	}
	return len(b), nil
}

// allocated returns how much memory responses take, all together, and the name of their event.
func (w *world) allocated(responses int) (total uint64, name string) {
	w.Helper()
	var before, after runtime.MemStats
	names := make([]string, responses)
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for i := range responses {
		all.Go(func() {
			ctx, cancel := context.WithCancel(w.Context())
			client := &firstEvent{header: http.Header{}, leave: cancel}
			w.handler.ServeHTTP(client, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			names[i] = client.name
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	for _, one := range names {
		if one != names[0] {
			w.Errorf("events %q and %q", one, names[0])
		}
	}
	return after.TotalAlloc - before.TotalAlloc, names[0]
}

// What is too large is not made. What is not takes no more than twice the limit. It is not parallel: it counts
// what the process allocates.
func TestMemory(t *testing.T) { //nolint:paralleltest // see above
	const mib = 1 << 20
	w := newWorld(t, 0, nil)
	w.write(strings.Repeat("<", repo.MaxContentBytes))
	total, name := w.allocated(1000)
	if t.Logf("1,000 responses of 16 MiB: %d MB", total/1e6); total > 300e6 || name != live.OmittedEvent {
		t.Errorf("1,000 responses of an event %q took %d bytes", name, total)
	}
	// The naive way: made first, and then thrown away.
	w.serve(w.store, func(o *live.Options) {
		o.Message = func(_ context.Context, m repo.Message) (live.Event, error) {
			data, err := json.Marshal(m.Content)
			return live.Event{Data: data}, err
		}
	})
	if total, name := w.allocated(1); total < 2*repo.MaxContentBytes || name != live.OmittedEvent {
		t.Errorf("the naive way: an event %q, and only %d bytes", name, total)
	}

	w = newWorld(t, 0, nil)
	w.write(strings.Repeat("<", mib-1000))
	if total, name := w.allocated(3); total > 3*(2*mib+64<<10) || name != "" {
		t.Errorf("an event %q took %d bytes for 3", name, total)
	}
	w = newWorld(t, 0, nil)
	stream := w.openStream("answer")
	w.add(&stream, strings.Repeat("<", mib-1000))
	if total, name := w.allocated(3); total > 3*(3*mib+64<<10) || name != "part" { // one of them is the store's copy
		t.Errorf("a part's event %q took %d bytes for 3", name, total)
	}
}
