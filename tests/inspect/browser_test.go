package inspect

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/browser"
	"github.com/seed-df90f812/agentstore/tests/command"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/usage"
)

// viewer is a browser of a test.
type viewer struct {
	t    *testing.T
	ctx  context.Context
	page *browser.Page
}

func newViewer(t *testing.T) viewer {
	t.Helper()
	ctx := await.Context(t)
	page, err := browser.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := page.Close(); err != nil {
			t.Error(err)
		}
	})
	return viewer{t, ctx, page}
}

func (v viewer) open(address string) {
	v.t.Helper()
	if err := v.page.Open(v.ctx, address); err != nil {
		v.t.Fatalf("%s: %v", address, err)
	}
}

func (v viewer) eval(expression string, into any) {
	v.t.Helper()
	if err := v.page.Eval(v.ctx, expression, into); err != nil {
		v.t.Fatalf("%s: %v", expression, err)
	}
}

// click activates what a selector finds, which leads to another page.
func (v viewer) click(selector string) {
	v.t.Helper()
	if err := v.page.Loads(v.ctx, func() error {
		return v.page.Eval(v.ctx, fmt.Sprintf("document.querySelector(%q).click()", selector), nil)
	}); err != nil {
		v.t.Fatalf("%s: %v", selector, err)
	}
}

func (v viewer) text(selector string) (text string) {
	v.t.Helper()
	v.eval(fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector), &text)
	return text
}

// shows waits until what a selector finds has a text.
func (v viewer) shows(selector, text string) {
	v.t.Helper()
	await.For(v.t, selector+" shows "+text, func() bool { return strings.Contains(v.text(selector), text) })
}

// accessible is what a page lacks for use by ear or by keyboard.
const accessible = `[
	...[...document.querySelectorAll('input:not([type=hidden])')].filter(i => !i.labels.length).map(i => 'no label: ' + i.name),
	...[...document.querySelectorAll('a')].filter(a => !(a.innerText.trim() || a.getAttribute('aria-label') || a.querySelector('img') || a.className == 'skip')).map(a => 'no name: ' + a.href),
	...['header', 'nav[aria-label]', 'main', 'footer', '[role=search]', 'h1', 'html[lang]', 'title'].filter(s => !document.querySelector(s)),
	...[...document.querySelectorAll('th')].filter(h => h.scope != 'col').map(() => 'a heading without a scope'),
	...[...document.querySelectorAll('img:not([alt])')].map(() => 'no alt'),
	...(document.querySelectorAll('h1').length == 1 ? [] : ['h1 is not one']),
	...(document.documentElement.scrollWidth > innerWidth ? ['wider than the window: ' + document.documentElement.scrollWidth] : []),
]`

// TestInBrowser opens what agentstore inspect prints, finds a session, follows it while another process writes, and pages through
// many messages; with hostile contents, on a phone, and without scripts.
// Guarantee: Inspector: A conversation grows in the browser as other processes write it, whatever its messages contain.
func TestInBrowser(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	address, process := startCommand(t, databaseURL, "--contents", "--viewer", "ada")
	base, _, _ := strings.Cut(address, "/?")
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: "shop", Key: "web/1", Owner: "<b>customer</b>"})
	if err != nil {
		t.Fatal(err)
	}
	appendAll := func(messages ...repo.NewMessage) {
		t.Helper()
		if _, err := store.Sessions().Append(t.Context(), session.ID, messages...); err != nil {
			t.Fatal(err)
		}
	}
	const attack = `<script>window.pwned = 1</script><img src=x onerror="window.pwned = 2"><a href="javascript:alert(1)">x</a>`
	appendAll(repo.NewMessage{Role: repo.RoleUser, Content: "before " + attack},
		repo.NewMessage{Role: repo.RoleAssistant, Kind: "tool_call", CallID: "call 1", Content: "{}"})

	for _, other := range []string{base + "/", base + "/sessions?token=wrong", base + "/assets/style.css"} {
		if status := visit(t, other); status != http.StatusUnauthorized {
			t.Errorf("%s without the token: status %d", other, status)
		}
	}
	v := newViewer(t)
	v.open(address)
	var now string
	if v.eval("location.href", &now); strings.Contains(now, "token") {
		t.Errorf("the token stays in the address")
	}
	v.click(`nav a[href$="/namespaces"]`)
	v.click(`a[href*="namespace=shop"]`)
	v.eval(`document.querySelector('#q').value = 'web/1'`, nil)
	v.click("form.search button")
	v.click(".results a")
	v.shows("h1", "web/1")

	// Live: what another process writes.
	v.shows("#live", "Live")
	appendAll(repo.NewMessage{Role: repo.RoleTool, CallID: "call 1", Content: "the result"},
		repo.NewMessage{Role: repo.RoleAssistant, Content: "after " + attack + "\u202e"})
	v.shows("#m3 .content", "after "+attack+`\u202e`)
	var inCall bool
	if v.eval(`!!document.querySelector('#m1 .results #m2')`, &inCall); !inCall {
		t.Error("the result is not in its call")
	}
	stream, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "answer", Owner: "test", Session: session.ID})
	if err == nil {
		stream.Next, err = store.Streams().Append(t.Context(), stream, []byte("a"), []byte("b"))
	}
	if err != nil {
		t.Fatal(err)
	}
	v.shows("#live", "2 parts")
	if err := store.Streams().Finish(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	after := int64(1)
	if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: session.ID, After: &after, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "edited"}}}); err != nil {
		t.Fatal(err)
	}
	v.shows("#m4", "edited")
	if v.text("#m3") != "" {
		t.Error("what was rewound is still shown")
	}
	var pwned bool
	if v.eval("'pwned' in window", &pwned); pwned {
		t.Error("a message's script has run")
	}

	// Many messages, page by page.
	count := pgtest.Choose(100_000, 800)
	for from := 5; from < count; from += 1_000 {
		batch := make([]repo.NewMessage, min(1_000, count-from))
		for i := range batch {
			batch[i] = repo.NewMessage{Role: repo.RoleUser, Content: fmt.Sprint("number ", from+i)}
		}
		appendAll(batch...)
	}
	v.shows("#messages", fmt.Sprint("number ", count-1))
	var articles int
	if v.eval("document.querySelectorAll('#messages > article').length", &articles); articles > 500 {
		t.Errorf("the page has grown to %d messages", articles)
	}
	v.open(base + "/sessions/" + session.ID.String()) // which is not busy with what came
	var seen []int
	v.eval(`(async () => {
		const seen = []
		for (let at = location.pathname + '?from=0&branches=1'; at;) {
			const page = new DOMParser().parseFromString(await (await fetch(at)).text(), 'text/html')
			seen.push(...[...page.querySelectorAll('article')].map(a => +a.dataset.sequence))
			at = page.querySelector('a[rel=next]')?.getAttribute('href')
		}
		return seen
	})()`, &seen)
	missing := map[int]bool{}
	for i := range count {
		missing[i] = true
	}
	for _, n := range seen {
		delete(missing, n)
	}
	if len(seen) != count || len(missing) > 0 {
		t.Errorf("%d messages of %d, without %d", len(seen), count, len(missing))
	}

	// Each page can be used by ear and keyboard, and fits a phone.
	if err := v.page.Look(v.ctx, 390, 800, true); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/sessions?namespace=shop", "/sessions/" + session.ID.String(), "/sessions/" + session.ID.String() + "/state", "/plans", "/leases", "/streams", "/audit", "/usage", "/usage?from=2026-03-01&to=2026-03-31", "/namespaces", "/health", "/nothing",
	} {
		v.open(base + path)
		var lacks []string
		if v.eval(accessible, &lacks); len(lacks) > 0 && path != "/nothing" {
			t.Errorf("%s: %q", path, lacks)
		}
	}
	if said := v.page.Said(); len(said) > 0 {
		t.Errorf("the browser complained: %q", said)
	}

	// Without scripts all is there but what comes later.
	if err := v.page.Scripts(v.ctx, false); err != nil {
		t.Fatal(err)
	}
	v.open(base + "/sessions/" + session.ID.String() + "?from=0&branches=1")
	v.shows("#m3", "after")
	v.click("a[rel=next]")
	v.shows("#m50", "number 50")

	if err := process.Process.Signal(interrupt); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("the command ended: %v", err)
	}
	views, _, err := store.Audit().Count(t.Context(), repo.AuditFilter{Type: inspect.EventViewed, User: "ada", SessionID: session.ID}, 0)
	if err != nil || views < 3 {
		t.Errorf("%d views are recorded, %v", views, err)
	}
}

// startCommand starts agentstore inspect, and returns the address that it prints.
func startCommand(t *testing.T, databaseURL string, arguments ...string) (string, *exec.Cmd) {
	t.Helper()
	process := command.New(t.Context(), t, databaseURL, append([]string{"inspect", "--listen", "127.0.0.1:0"}, arguments...)...)
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err, process.Wait())
	}
	return strings.TrimSpace(line), process
}

// visit opens an address under localhost, which browsers know, and not every resolver.
func visit(t *testing.T, address string) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Host = "127.0.0.1:" + request.URL.Port()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err == nil {
		err = response.Body.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// TestCommandEnds: a connection without a request, as browsers open ahead of one, keeps no command from ending in order. (net/http waits
// five seconds for its request.)
func TestCommandEnds(t *testing.T) {
	t.Parallel()
	address, process := startCommand(t, pgtest.NewDatabase(t))
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	unused, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.1:"+parsed.Port())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unused.Close() }()
	visit(t, address) // after which the server has the connection, too
	if err := process.Process.Signal(interrupt); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("the command ended: %v", err)
	}
}

// TestCommandListens: other machines are kept out unless that is said.
func TestCommandListens(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{"0.0.0.0:0": "--remote", ":8080": "--remote", "8080": "not an address"} {
		code, _, errs := command.Run(t.Context(), t, "postgres://nobody@127.0.0.1:1/none", "inspect", "--listen", listen)
		if code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, %q", listen, code, errs)
		}
	}
}

// TestTenantInBrowser: a viewer of one namespace finds nothing of another by its id, on no page.
// Guarantee: Inspector: A viewer of one namespace finds nothing of another, by whatever id, key or address.
func TestTenantInBrowser(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	if _, has := any(store).(interface{ In(string) repo.Store }); !has {
		t.Skip("the store has no views")
	}
	const theirs = "theirs only"
	ids := map[string]repo.ID{}
	plans := map[string]repo.ID{}
	for _, namespace := range []string{"ours", "theirs"} {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: namespace, Key: "key of " + namespace, Owner: "owner of " + namespace})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: namespace + " only"}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: namespace + "/act", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
			t.Fatal(err)
		}
		plan, err := store.Plans().Use(t.Context(), namespace+"/act", repo.UseAction{SessionID: session.ID, Namespace: namespace, Name: "plan of " + namespace})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.SessionLease(session.ID), Owner: "holder of " + namespace}); err != nil {
			t.Fatal(err)
		}
		turn := repo.Turn{SessionID: session.ID, ID: "turn"}
		use := usage.Use{Day: usage.DayOf(time.Now(), nil), Model: "model of " + namespace, Usage: repo.Usage{Cost: 5}}
		if err := usage.Count(&turn, use); err != nil {
			t.Fatal(err)
		}
		if _, err := store.In(namespace).Sessions().AppendTurn(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		ids[namespace], plans[namespace] = session.ID, plan.ID
	}
	entries, err := store.Audit().List(t.Context(), repo.AuditFilter{SessionID: ids["theirs"]}, repo.Page{Limit: 1})
	if err != nil || len(entries.Items) == 0 {
		t.Fatal(err)
	}
	pages, err := inspect.Handler(store, inspect.Options{Timeout: time.Hour, Authorize: func(*http.Request) (inspect.Access, error) {
		return inspect.Access{Viewer: "ada", Namespace: "ours", Contents: true, Actions: true}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(pages)
	t.Cleanup(func() { _ = pages.Shutdown(t.Context()); server.Close() })
	v := newViewer(t)
	v.open(server.URL + "/sessions/" + ids["ours"].String())
	v.shows("#m0", "ours only")
	v.shows("#live", "Live")
	v.open(server.URL + "/usage")
	v.shows("section.days", "model of ours")
	id, plan := ids["theirs"].String(), plans["theirs"].String()
	for _, path := range []string{
		"/", "/sessions?namespace=theirs", "/sessions?owner=" + url.QueryEscape("owner of theirs"), "/sessions/" + id, "/sessions/" + id + "?namespace=theirs", "/sessions/" + id + "/messages/0",
		"/sessions/" + id + "/state", "/sessions/" + id + "/events", "/plans?namespace=theirs", "/plans?session=" + id, "/plans?action=theirs/act", "/plans/" + plan,
		"/leases", "/streams?session=" + id, "/audit", "/audit?session=" + id, "/audit/" + entries.Items[0].ID.String(), "/search?q=" + id, "/search?q=" + plan,
		"/search?q=" + url.QueryEscape("key of theirs"), "/search?q=" + url.QueryEscape("owner of theirs"), "/act?do=cancel&plan=" + plan, "/act?do=hold&session=" + id, "/namespaces", "/health",
		"/usage", "/usage?namespace=theirs",
	} {
		v.open(server.URL + path)
		var page string
		// But for what repeats the request: the links to the pages of the session, and the filter.
		v.eval("document.querySelectorAll('nav.tabs, form').forEach(e => e.remove()), document.documentElement.outerHTML", &page)
		if strings.Contains(page, theirs) || strings.Contains(page, "of theirs") || strings.Contains(page, "/sessions/"+id) || strings.Contains(page, "/plans/"+plan) {
			t.Errorf("%s shows what is theirs: %s", path, page)
		}
	}
}
