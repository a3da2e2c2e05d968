package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

var script = regexp.MustCompile("(?s)```js\n(.*?)```")

// TestDocumentedScript runs the script of docs/live.md in a real browser: a page gets what there is,
// also after a refusal, which stops its EventSource; stops at the end; and does not ask for ever where
// there is nothing.
func TestDocumentedScript(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/live.md")
	if err != nil {
		t.Fatal(err)
	}
	found := script.FindSubmatch(document)
	if found == nil {
		t.Fatal("docs/live.md has no script")
	}
	page := fmt.Sprintf(`<!doctype html><script>
const address = new URLSearchParams(location.search).get('events')
const soon = window.setTimeout
window.setTimeout = (f, ms) => soon(f, ms / 100)
let told = Promise.resolve()
function show(name, data) { told = told.then(() => fetch('/shown', {method: 'POST', body: JSON.stringify({name, data})})) }
%s</script>`, found[1])

	store := memory.New()
	t.Cleanup(func() { _ = store.Close() })
	id := pgtest.NewSession(t, store)
	handler, err := live.New(store, live.Options{Authorize: func(*http.Request) (live.Target, error) { return live.Target{Session: id}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var shown []string
	asked := map[string]int{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) })
	mux.HandleFunc("GET /{kind}/events", func(w http.ResponseWriter, r *http.Request) {
		kind := r.PathValue("kind")
		mu.Lock()
		asked[kind]++
		refuse := kind == "missing" || asked[kind] <= 2
		mu.Unlock()
		if refuse {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /shown", func(_ http.ResponseWriter, r *http.Request) {
		var event struct {
			Name string
			Data struct{ Content, Text, State, Reason string }
		}
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, strings.TrimSpace(event.Name+" "+event.Data.Content+event.Data.Text+event.Data.State+event.Data.Reason))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	awaitShown := func(want string) {
		t.Helper()
		await.For(t, "the page shows "+want, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(shown, want)
		})
	}
	startChromium(t, server.URL+"/?events=/there/events")
	awaitShown("begin")
	stream, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "answer", Owner: "test", Session: id})
	if err != nil {
		t.Fatal(err)
	}
	awaitShown("stream open")
	if _, err := store.Streams().Append(t.Context(), stream, []byte("Hel")); err != nil {
		t.Fatal(err)
	}
	awaitShown("part Hel")
	if _, err := store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleAssistant, Content: "Hello"}); err != nil {
		t.Fatal(err)
	}
	awaitShown("message Hello")
	if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	awaitShown("end deleted")

	startChromium(t, server.URL+"/?events=/missing/events")
	const attempts = 10
	await.For(t, "the page gives up", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return asked["missing"] >= attempts
	})
	mu.Lock()
	defer mu.Unlock()
	if asked["missing"] != attempts || asked["there"] != 3 {
		t.Errorf("asked %v times", asked)
	}
}
