package live

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// html is the page. It notes each event in the storage of the browser, so that it goes on after
// a reload, and tells the test what it has. As docs/live.md says, it opens another EventSource
// when one has given up.
const html = `<!doctype html><title>reader</title><script>
const events = new URLSearchParams(location.search).get('events')
const log = JSON.parse(localStorage.log || '[]')
let sent = 0, errors = 0, ended = '', state = 'new'
const recreated = () => +localStorage.recreated || 0
function connect() {
	const after = localStorage.after
	const source = new EventSource(events + (after ? '?after=' + after : ''), {withCredentials: true})
	source.onopen = () => state = 'open'
	for (const name of ['begin', 'stream', 'message']) source.addEventListener(name, e => {
		if (name === 'message') log.push({id: e.lastEventId, content: JSON.parse(e.data).content})
		localStorage.log = JSON.stringify(log)
		localStorage.after = e.lastEventId
	})
	source.addEventListener('end', e => ended = JSON.parse(e.data).reason)
	source.onerror = () => {
		errors++
		if (source.readyState !== EventSource.CLOSED) return
		if (ended) state = 'stopped'
		else { localStorage.recreated = recreated() + 1; setTimeout(connect, 50) }
	}
}
async function tell() {
	const report = {at: sent, log: log.slice(sent), errors, recreated: recreated(), ended, state}
	sent = log.length
	try {
		const answer = await (await fetch('/got', {method: 'POST', body: JSON.stringify(report)})).json()
		if (answer.reload) return location.reload()
	} catch { // told again
		sent = report.at
	}
	setTimeout(tell, 20)
}
connect()
tell()
</script>`

// got is an event that the page has got.
type got struct {
	ID      string `json:"id"`
	Content string `json:"content"`
}

// report is what the page tells.
type report struct {
	At        int    `json:"at"`
	Log       []got  `json:"log"`
	Errors    int    `json:"errors"`
	Recreated int    `json:"recreated"`
	Ended     string `json:"ended"`
	State     string `json:"state"`
}

// page serves the page, and collects what it tells.
type page struct {
	*testing.T
	*httptest.Server

	mu     sync.Mutex
	log    []got
	last   report
	loads  int
	reload bool
}

// cookie lets the page read the events.
const cookie = "agentstore-test"

func newPage(t *testing.T) *page {
	t.Helper()
	p := &page{T: t}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.loads++
		p.reload = false // until then it is told so
		http.SetCookie(w, &http.Cookie{Name: cookie, Value: "may read", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		_, _ = w.Write([]byte(html))
	})
	mux.HandleFunc("POST /got", p.got)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

func (p *page) got(w http.ResponseWriter, r *http.Request) {
	var told report
	if err := json.NewDecoder(r.Body).Decode(&told); err != nil {
		return // the page is being reloaded
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if told.At > len(p.log) {
		p.Errorf("the page told of its event %d after %d", told.At, len(p.log))
	}
	for i, one := range told.Log { // a page that was reloaded tells again what it has
		switch at := told.At + i; {
		case at == len(p.log):
			p.log = append(p.log, one)
		case at < len(p.log) && p.log[at] != one:
			p.Errorf("the page's event %d was %v and is %v", at, p.log[at], one)
		}
	}
	p.last = told
	_ = json.NewEncoder(w).Encode(map[string]bool{"reload": p.reload})
}

// told returns what the page has told so far.
func (p *page) told() ([]got, report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log, p.last
}

// has waits until the page has so many events.
func (p *page) has(events int) []got {
	p.Helper()
	await.For(p, "the browser has the events", func() bool {
		log, _ := p.told()
		return len(log) >= events
	})
	log, _ := p.told()
	return log
}

// again reloads the page and waits until it was.
func (p *page) again() {
	p.Helper()
	p.mu.Lock()
	p.reload = true
	loads := p.loads
	p.mu.Unlock()
	await.For(p, "the page is loaded again", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.loads > loads
	})
}
