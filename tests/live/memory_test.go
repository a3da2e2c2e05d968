package live

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// untilOmitted is the client of a feed that goes after the event for what is too large.
type untilOmitted struct {
	http.ResponseWriter

	leave func()
}

func (untilOmitted) Flush() {}

func (w untilOmitted) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("event: "+live.OmittedEvent)) {
		w.leave()
	}
	return len(b), nil
}

// A reader of the largest message, with the largest payload, takes two and a half times its size, also if its event is omitted. It is
// not parallel: it counts what the process allocates.
func TestReaderOfALargeMessage(t *testing.T) { //nolint:paralleltest // see above
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{})
	id := pgtest.NewSession(t, store)
	const size = repo.MaxContentBytes + repo.MaxPayloadBytes
	large := repo.NewMessage{Role: repo.RoleUser, Content: strings.Repeat("<", repo.MaxContentBytes), Payload: []byte(`"` + strings.Repeat("x", repo.MaxPayloadBytes-2) + `"`)}
	if _, err := store.Sessions().Append(t.Context(), id, large); err != nil {
		t.Fatal(err)
	}
	handler, err := live.New(store, live.Options{Authorize: func(*http.Request) (live.Target, error) { return live.Target{Session: id}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var before, after runtime.MemStats
		ctx, cancel := context.WithCancel(await.Context(t))
		runtime.ReadMemStats(&before)
		handler.ServeHTTP(untilOmitted{httptest.NewRecorder(), cancel}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		runtime.ReadMemStats(&after)
		cancel()
		if took := after.TotalAlloc - before.TotalAlloc; took < size || took > 3*size {
			t.Errorf("a message of %d bytes took %d", size, took)
		}
	}
}
