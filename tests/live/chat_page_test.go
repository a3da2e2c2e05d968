package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// spy is added to the page of the example, with the number of the load: it tells the test what the page shows, and does what the
// test wants.
const spy = `<script>
async function tell() {
	try {
		const shown = [...document.querySelectorAll('p:not([hidden])')].map(p => p.textContent)
		const places = [...document.querySelectorAll('small')].map(e => e.textContent.match(/[0-9]+ of [0-9]+/)?.[0] ?? '')
		const pictures = [...document.images].filter(i => i.complete && i.naturalWidth > 0).map(i => i.getAttribute('src'))
		const rows = [...document.querySelectorAll('nav div')].map(e => e.querySelector('button').textContent + e.querySelector('a, input').textContent)
		const link = document.querySelector('output a')?.getAttribute('href') ?? ''
		const answer = await (await fetch('/shown', {method: 'POST', body: JSON.stringify({load: %d, shown, places, pictures, rows, link})})).json()
		if (answer.run) new Function(answer.run)()
	} catch {} // told again
	setTimeout(tell, 30)
}
tell()
</script>`

// chatPage is the example's page in a real browser, through a proxy.
type chatPage struct {
	*testing.T

	mu    sync.Mutex
	now   pageContent
	loads int
	run   string // what the page is to run
}

// pageContent is what a page shows: its paragraphs, and below each message "2 of 3", or nothing; the addresses of its
// pictures; the conversations at its left side, each with its star and title; and the address of a link to share.
type pageContent struct {
	Load                          int
	Shown, Places, Pictures, Rows []string
	Link                          string
}

func startChatPage(t *testing.T) *chatPage {
	t.Helper()
	return openChatPage(t, newVisitor(t, startChat(t, "")), "")
}

// openChatPage opens a window of a visitor's, in a browser of its own.
func openChatPage(t *testing.T, user *visitor, fragment string) *chatPage {
	t.Helper()
	target, err := url.Parse(user.address)
	if err != nil {
		t.Fatal(err)
	}
	p := &chatPage{T: t}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Cookie", user.cookie)
		},
		ModifyResponse: func(response *http.Response) error {
			if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
				return nil
			}
			page, err := io.ReadAll(response.Body)
			p.mu.Lock()
			p.loads++
			p.now = pageContent{}
			page = fmt.Appendf(page, spy, p.loads)
			p.mu.Unlock()
			response.Body = io.NopCloser(bytes.NewReader(page))
			response.Header.Set("Content-Length", strconv.Itoa(len(page)))
			return err
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("POST /shown", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var now pageContent
		if json.NewDecoder(r.Body).Decode(&now) == nil && now.Load == p.loads { // not what is being left
			p.now = now
			_ = json.NewEncoder(w).Encode(map[string]string{"run": p.run})
			p.run = ""
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	startChromium(t, server.URL+"/"+fragment)
	p.shows("the page is shown", func(pageContent) bool { return p.loads > 0 })
	return p
}

// do has the page run a script, once, after the one before.
func (p *chatPage) do(script string) {
	p.Helper()
	p.shows("the page has run what was before", func(pageContent) bool { return p.run == "" })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.run = script
}

func (p *chatPage) ask(text string) {
	p.do(`document.querySelector('form').text.value = ` + strconv.Quote(text) + `; document.querySelector('form').requestSubmit()`)
}

// click clicks a button below a message.
func (p *chatPage) click(message int, button string) {
	p.do(`[...document.querySelectorAll('small')[` + strconv.Itoa(message) + `].querySelectorAll('button')].find(b => b.textContent === ` + strconv.Quote(button) + `).click()`)
}

// reload loads the page again.
func (p *chatPage) reload() {
	p.Helper()
	p.mu.Lock()
	before := p.loads
	p.mu.Unlock()
	p.do("location.reload()")
	p.shows("the page is loaded again", func(pageContent) bool { return p.loads > before })
}

// shows waits until the page shows something. The lock is held.
func (p *chatPage) shows(what string, holds func(pageContent) bool) {
	p.Helper()
	await.For(p, what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return holds(p.now)
	})
}

// awaitMessages waits until the page shows these messages and no others, of which answers are whole, at these places.
func (p *chatPage) awaitMessages(places []string, beginnings ...string) {
	p.Helper()
	p.shows(strings.Join(beginnings, ", ")+" at "+strings.Join(places, ", "), func(now pageContent) bool {
		return slices.Equal(now.Places, places) && slices.EqualFunc(now.Shown, beginnings, func(shown, begins string) bool {
			return shown == begins || strings.HasPrefix(shown, begins) && strings.HasSuffix(shown, whole)
		})
	})
}

// TestChatInBrowser looks at the page: answers grow, and a page that is reloaded shows all of them.
func TestChatInBrowser(t *testing.T) {
	t.Parallel()
	p := startChatPage(t)

	// A browser that is slow may see an answer only when it is complete: then another one.
	asked := 0
	partly := func(now pageContent) bool {
		last := ""
		if len(now.Shown) == 2*asked && asked > 0 {
			last = now.Shown[len(now.Shown)-1]
		}
		return last != "" && !strings.HasSuffix(last, whole)
	}
	for found := false; !found; {
		asked++
		p.ask("question " + strconv.Itoa(asked))
		p.shows("an answer is shown, or a part of one", func(now pageContent) bool {
			found = partly(now)
			return found || len(now.Shown) == 2*asked && strings.HasSuffix(now.Shown[len(now.Shown)-1], whole)
		})
	}
	p.reload()
	var want []string
	for i := range asked {
		question := "question " + strconv.Itoa(i+1)
		want = append(want, question, "You said: “"+question+"”. ")
	}
	p.awaitMessages(make([]string, 2*asked), want...)
}

// A character that two parts share is shown, and what a restart drops does not spoil what follows.
func TestHalfCharacterInBrowser(t *testing.T) {
	t.Parallel()
	p := startChatPage(t)
	p.do(`
const send = (...parts) => parts.forEach(part => events.part({stream: 's', ...part}))
events.stream({stream: 's', key: 'session/q', state: 'open'})
send({text: 'dropped'}, {base64: btoa('\xe6')})
events.stream({stream: 's', key: 'session/q', state: 'restarted'})
send({text: 'a'}, {base64: btoa('\xe6')}, {base64: btoa('\x97\xa5')}, {text: 'b'})
answers.get('s').hidden = false`)
	p.shows("the character", func(now pageContent) bool { return slices.Equal(now.Shown, []string{"a日b"}) })
}

// TestBranchesInBrowser edits a question while it is being answered, gets other answers, and goes back and forth between them: the page
// shows one branch, which it is told by what each message follows, and says which one it is of how many.
// Guarantee: History: A page drops what edits, other answers and switches replace.
func TestBranchesInBrowser(t *testing.T) {
	t.Parallel()
	p := startChatPage(t)
	const two = "You said: “two”. "
	p.ask("zero")
	p.awaitMessages([]string{"", ""}, "zero", "You said: “zero”. ")
	p.ask("one")
	p.shows("a part of the answer is shown", func(now pageContent) bool { return len(now.Shown) == 4 && now.Shown[3] != "" })
	p.click(2, "edit")
	p.ask("two")
	p.awaitMessages([]string{"", "", "2 of 2", ""}, "zero", "You said: “zero”. ", "two", two)
	for n := 2; n <= 3; n++ {
		p.click(3, "another answer")
		place := strconv.Itoa(n) + " of " + strconv.Itoa(n)
		p.awaitMessages([]string{"", "", "2 of 2", place}, "zero", "You said: “zero”. ", "two", two)
	}
	p.click(3, "‹")
	p.awaitMessages([]string{"", "", "2 of 2", "2 of 3"}, "zero", "You said: “zero”. ", "two", two)
	p.reload()
	p.awaitMessages([]string{"", "", "2 of 2", "2 of 3"}, "zero", "You said: “zero”. ", "two", two)
	p.click(3, "›")
	p.awaitMessages([]string{"", "", "2 of 2", "3 of 3"}, "zero", "You said: “zero”. ", "two", two)
	p.click(2, "‹") // its answer has not become a message, unless the browser is slow
	p.shows("the first branch", func(now pageContent) bool {
		return len(now.Shown) >= 3 && now.Shown[2] == "one" && now.Places[2] == "1 of 2"
	})
	p.ask("three")
	p.shows("it goes on", func(now pageContent) bool {
		last := len(now.Shown) - 1
		return last >= 4 && now.Shown[2] == "one" && now.Shown[last-1] == "three" && strings.HasSuffix(now.Shown[last], whole)
	})
}
