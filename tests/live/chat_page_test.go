package live

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// spy is added to the page of the example: it tells the test what the page shows.
const spy = `<script>
async function tell() {
	try {
		const shown = [...document.querySelectorAll('main p')].map(p => p.textContent)
		const answer = await (await fetch('/shown', {method: 'POST', body: JSON.stringify(shown)})).json()
		if (answer.reload) return location.reload()
	} catch {} // told again
	setTimeout(tell, 30)
}
tell()
</script>`

// TestChatPage looks at the example's page in a real browser, through a proxy: answers
// grow, and a page that is reloaded shows all of them.
func TestChatPage(t *testing.T) {
	t.Parallel()
	address := startChat(t, "")
	other := newVisitor(t, address)
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var shown []string
	loads, reload := 0, false
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(response *http.Response) error {
			if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
				return nil
			}
			page, err := io.ReadAll(response.Body)
			page = append(page, spy...)
			response.Body = io.NopCloser(bytes.NewReader(page))
			response.Header.Set("Content-Length", strconv.Itoa(len(page)))
			mu.Lock()
			loads++
			reload = false // until then it is told so
			mu.Unlock()
			return err
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("POST /shown", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var now []string
		if json.NewDecoder(r.Body).Decode(&now) == nil {
			shown = now
			_ = json.NewEncoder(w).Encode(map[string]bool{"reload": reload})
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	startChromium(t, server.URL)
	pgtest.Await(t, patience, "the page is shown", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return loads > 0
	})

	// A browser that is slow may see an answer only when it is complete: then another one.
	const whole = "a lot in it."
	asked := 0
	partly := func() bool {
		mu.Lock()
		defer mu.Unlock()
		last := ""
		if len(shown) == 2*asked && asked > 0 {
			last = shown[len(shown)-1]
		}
		if asked == 0 || strings.HasSuffix(last, whole) {
			asked++
			other.do(http.MethodPost, "/messages", "", url.Values{"text": {"question " + strconv.Itoa(asked)}})
		}
		return last != "" && !strings.HasSuffix(last, whole)
	}
	pgtest.Await(t, patience, "a part of an answer is shown", partly)
	mu.Lock()
	before := loads
	reload = true
	mu.Unlock()
	pgtest.Await(t, patience, "the page is loaded again, and shows everything", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return loads > before && len(shown) == 2*asked && strings.HasSuffix(shown[len(shown)-1], whole)
	})
	mu.Lock()
	defer mu.Unlock()
	for i, text := range shown {
		question := "question " + strconv.Itoa(i/2+1)
		if i%2 == 0 && text != question || i%2 == 1 && !strings.HasPrefix(text, "You said: “"+question+"”. ") {
			t.Errorf("the page shows %q", shown)
		}
	}
}
