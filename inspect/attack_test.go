package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
)

// formOf returns what the form of a confirmation sends.
func (c *client) formOf(path string) url.Values {
	c.t.Helper()
	form := url.Values{"reason": {"because"}}
	for _, input := range regexp.MustCompile(`type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(c.get(path, http.StatusOK), -1) {
		form.Set(input[1], input[2])
	}
	return form
}

// post sends a form.
func (c *client) post(path string, form url.Values) (int, string) {
	c.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := c.do(r)
	return w.Code, w.Body.String()
}

// TestForeign: no page, form, feed or action of a tenant tells of what is another's, or changes it, by whatever id it is asked.
// Guarantee: Inspector: A tenant's viewer finds nothing of another tenant's, and changes none of it.
func TestForeign(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	session, plan := filled(t, store)
	views := store.(interface{ In(string) repo.Store })
	lease := must[repo.Lease](t)(store.Leases().Acquire(ctx, repo.NewLease{Key: repo.PlanLease(plan), Owner: secret + " worker"}))
	if err := store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked, Namespace: "shop", SessionID: session, PlanID: plan, User: "customer"}); err != nil {
		t.Fatal(err)
	}
	entry := must[repo.List[repo.AuditEntry]](t)(store.Audit().List(ctx, repo.AuditFilter{SessionID: session}, repo.Page{Limit: 1})).Items[0].ID
	other := views.In("other")
	mine := must[repo.Session](t)(other.Sessions().Create(ctx, repo.NewSession{})).ID
	must[repo.Action](t)(other.Actions().Create(ctx, repo.NewAction{Name: "own", ActionDefinition: repo.ActionDefinition{Reusable: true}}))
	own := must[repo.Plan](t)(other.Plans().Use(ctx, "own", repo.UseAction{})).ID
	below := must[repo.Plan](t)(store.Plans().Use(ctx, "refund", repo.UseAction{Namespace: "shop", ParentID: own})).ID // by a caller with the whole store
	c := newClient(t, store, inspect.Access{Viewer: "eve", Namespace: "other", Contents: true, Actions: true})

	foreign := regexp.MustCompile(regexp.QuoteMeta(secret) + "|web/1|customer|refund|shop")
	missing := map[string]bool{}
	paths := everyPage(session, plan)
	for _, path := range []string{
		"/sessions/" + session.String(), "/sessions/" + session.String() + "?branches=1", "/sessions/" + session.String() + "/messages/0",
		"/sessions/" + session.String() + "/state", "/plans/" + plan.String(), "/plans/" + below.String(), "/audit/" + entry.String(),
		"/streams?session=" + session.String(), "/stream?key=answer", "/namespaces", "/health", "/sessions/" + session.String() + "/events",
		"/act?do=cancel&plan=" + plan.String(), "/act?do=hold&session=" + session.String(),
	} {
		missing[path] = true
		paths = append(paths, path)
	}
	paths = append(paths, "/plans/"+own.String(), "/leases?kind=plan&name="+plan.String(), "/leases?kind=plan", "/audit?plan="+plan.String(), "/audit?user=customer")
	for _, path := range paths {
		separator := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
		for _, asked := range []string{path, path + separator + "format=json", path + separator + "namespace=shop", path + separator + "format=json&namespace=shop"} {
			w := c.do(httptest.NewRequest(http.MethodGet, asked, nil))
			body := w.Body.String()
			for _, echoed := range []string{"/search?q=web/1&namespace=shop", "/sessions?namespace=shop&owner=customer", "/search?q=customer&namespace=shop", "/audit?user=customer"} {
				if path == echoed { // what was asked for is in the form
					body = regexp.MustCompile("web/1|customer").ReplaceAllString(body, "")
				}
			}
			if found := foreign.FindString(body); found != "" || strings.Contains(body, below.String()) && !strings.Contains(path, below.String()) {
				t.Errorf("%s has %q: %s", asked, found, body)
			}
			if missing[path] && w.Code != http.StatusNotFound {
				t.Errorf("%s: status %d", asked, w.Code)
			}
		}
	}

	// A feed of one's own, from a place in another's.
	stream := must[repo.Stream](t)(store.Streams().Get(ctx, "answer"))
	for _, after := range []string{session.String() + ".3", mine.String() + "~" + stream.ID.String(), mine.String() + "~" + stream.ID.String() + ".0"} {
		until := "end"
		if strings.Contains(after, "~") { // as for one that does not exist: what is asked for is in the answer
			until = `"state":"gone"`
		}
		if body := c.feed(mine.String()+"/events?after="+after, until); foreign.MatchString(body) || strings.Contains(body, "parts") {
			t.Errorf("after %s: %s", after, body)
		}
	}

	token := c.formOf("/act?do=cancel&plan=" + own.String()).Get("token")
	for _, asked := range []url.Values{
		{"do": {"cancel"}, "plan": {plan.String()}},
		{"do": {"retry"}, "plan": {plan.String()}},
		{"do": {"hold"}, "session": {session.String()}},
		{"do": {"hold"}, "plan": {own.String()}, "session": {session.String()}},
		{"do": {"cancel"}, "session": {mine.String()}, "plan": {plan.String()}},
		{"do": {"release"}, "kind": {"plan"}, "name": {plan.String()}, "fence": {fmt.Sprint(lease.Fence)}},
		{"do": {"release"}, "plan": {own.String()}, "kind": {"plan"}, "name": {plan.String()}, "fence": {fmt.Sprint(lease.Fence)}},
		{"do": {"cancel"}, "plan": {own.String()}, "session": {session.String()}, "version": {"99"}},
		{"do": {"hold"}},
		{"do": {"cancel"}},
		{"do": {"retry"}},
		{"do": {"release"}},
		{"do": {"hold"}, "plan": {own.String()}},
		{"do": {"hold"}, "namespace": {"shop"}},
	} {
		asked.Set("token", token)
		asked.Set("reason", "because")
		for _, path := range []string{"/act", "/act?namespace=shop"} {
			if code, body := c.post(path, asked); code < 400 || code >= 500 || foreign.MatchString(body) {
				t.Errorf("%s %v: status %d: %s", path, asked, code, body)
			}
		}
	}
	if got := must[repo.Plan](t)(store.Plans().Get(ctx, plan)); got.State != repo.PlanQueued {
		t.Errorf("the plan is %s", got.State)
	}
	if holds := must[repo.List[repo.LegalHold]](t)(store.Sessions().Holds(ctx, repo.Page{})).Items; len(holds) > 0 {
		t.Errorf("there are holds: %+v", holds)
	}
	if held := must[repo.List[repo.Lease]](t)(store.Leases().List(ctx, repo.LeaseFilter{Kind: repo.LeaseOfPlan, Held: true}, repo.Page{})).Items; len(held) != 1 {
		t.Errorf("%d leases are held", len(held))
	}
	acted := must[repo.List[repo.AuditEntry]](t)(store.Audit().List(ctx, repo.AuditFilter{User: "eve"}, repo.Page{})).Items
	for _, e := range acted {
		if e.Type == inspect.EventActed || e.SessionID == session || e.PlanID == plan {
			t.Errorf("the trail has %+v", e)
		}
	}
}

// leaver is a reader that leaves a feed when it has got something.
type leaver struct {
	*httptest.ResponseRecorder
	until string
	leave func()
}

func (l leaver) Write(text []byte) (int, error) {
	defer func() {
		if strings.Contains(l.Body.String(), l.until) {
			l.leave()
		}
	}()
	return l.ResponseRecorder.Write(text)
}

// feed returns what the feed of a session says until it says something, or ends.
func (c *client) feed(path, until string) string {
	c.t.Helper()
	ctx, leave := context.WithCancel(await.Context(c.t))
	defer leave()
	w := leaver{httptest.NewRecorder(), until, leave}
	c.pages.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/sessions/"+path, nil))
	if !strings.Contains(w.Body.String(), until) {
		c.t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// TestReplay: a form that is sent again does nothing again, an action records nothing that it was not about, and a token is of no
// use where all actions are refused.
func TestReplay(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	session, plan := filled(t, store)
	c := newClient(t, store, operator)
	retry := func() url.Values {
		p := must[repo.Plan](t)(store.Plans().Get(ctx, plan))
		return c.formOf(fmt.Sprintf("/act?do=cancel&plan=%s&version=%d&session=%s&kind=project&name=x", plan, p.Version, session))
	}
	form := retry()
	locked := newClient(t, store, operator, func(o *inspect.Options) { o.ReadOnly = true })
	locked.cookies = c.cookies
	for name, change := range map[string]func(url.Values){
		"read only": func(url.Values) {}, "in the address": func(f url.Values) { f.Del("token") },
	} {
		sent := maps.Clone(form)
		change(sent)
		who, path := locked, "/act"
		if name == "in the address" {
			who, path = c, "/act?token="+form.Get("token")
		}
		if code, _ := who.post(path, sent); code != http.StatusForbidden {
			t.Errorf("%s: status %d", name, code)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/act?"+form.Encode(), nil)
	if w := c.do(r); w.Code != http.StatusOK || must[repo.Plan](t)(store.Plans().Get(ctx, plan)).State != repo.PlanQueued {
		t.Errorf("a link has done something: status %d", w.Code)
	}
	for i, want := range []int{http.StatusSeeOther, http.StatusConflict, http.StatusConflict} {
		if code, _ := c.post("/act", form); code != want {
			t.Errorf("%d: status %d, want %d", i, code, want)
		}
	}
	acted := must[repo.List[repo.AuditEntry]](t)(store.Audit().List(ctx, repo.AuditFilter{Type: inspect.EventActed}, repo.Page{})).Items
	if len(acted) != 1 || acted[0].PlanID != plan || !acted[0].SessionID.IsZero() || strings.Contains(string(acted[0].Details), "lease") {
		t.Errorf("the trail has %+v", acted)
	}
}

// TestBlind: a viewer that may not read contents gets none in the feed, in an entry of the trail, or in an error, in
// whatever form.
func TestBlind(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	session, plan := filled(t, store)
	stream := must[repo.Stream](t)(store.Streams().Get(ctx, "answer"))
	cause := repo.Cause{Reason: secret + " failed", Details: []byte(`{"d":"` + secret + `"}`), Final: true}
	must[repo.Plan](t)(store.Plans().Transition(ctx, plan, repo.TransitionStart, repo.Cause{}))
	must[repo.Plan](t)(store.Plans().Transition(ctx, plan, repo.TransitionFail, cause))
	if err := errors.Join(store.Streams().Fail(ctx, stream, secret+" broke"), store.Audit().Record(ctx, repo.AuditEntry{
		Type: events.ToolInvoked, Namespace: "shop", SessionID: session, Details: []byte(`{"d":"` + secret + `"}`),
	})); err != nil {
		t.Fatal(err)
	}
	blind := operator
	blind.Contents = false
	c := newClient(t, store, blind)
	paths := everyPage(session, plan)
	for _, e := range must[repo.List[repo.AuditEntry]](t)(store.Audit().List(ctx, repo.AuditFilter{SessionID: session}, repo.Page{})).Items {
		paths = append(paths, "/audit/"+e.ID.String())
	}
	for _, path := range paths {
		separator := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
		for _, path := range []string{path, path + separator + "format=json", path + separator + "format=json&format=html", path + separator + "format=JSON"} {
			if body := c.get(path, http.StatusOK); strings.Contains(body, secret) {
				t.Errorf("%s has contents", path)
			}
		}
	}
	if body := c.feed(session.String()+"/events", "not shown to you"); strings.Contains(body, secret) {
		t.Errorf("the feed is %s", body)
	}
}

// TestOddPrefix: a prefix that a browser would read as something else is refused.
func TestOddPrefix(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for prefix, valid := range map[string]bool{
		"": true, "/": true, "/a/b-c_d.e~1": true, "/a/": true,
		"/\\evil.example": false, "//evil.example": false, "/a b": false, "/a;b": false, "/a\r\nb": false, "/a%2fb": false, "/ä": false, "/a\"b": false, "/../a": false,
		"/sessions": false, "/act": false, "/assets": false, "/sessions/of": true, "/session": true, "/a/./b": false, "a": false, "/a?b": false, "/{x}": false, "javascript:alert(1)": false, "/a\x00": false,
	} {
		options := inspect.Options{Prefix: prefix, Authorize: func(*http.Request) (inspect.Access, error) { return operator, nil }}
		if _, err := inspect.Handler(store, options); (err == nil) != valid || err != nil && !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for _, path := range []string{"//evil.example/", "/%2e%2e/", "/%2f%2fevil.example", "/a/..%2f..%2fhealth", `/\evil.example`, "/a//evil.example"} {
		for _, prefix := range []string{"", "/a"} {
			c := newClient(t, store, operator, func(o *inspect.Options) { o.Prefix = prefix })
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.URL = must[*url.URL](t)(url.ParseRequestURI(path))
			if w := c.do(r); w.Code != http.StatusNotFound {
				t.Errorf("%q below %q: status %d to %q", path, prefix, w.Code, w.Header().Get("Location"))
			}
		}
	}
}

// TestOddRequests: what is not there is not found, the reason is said to be in a log only if there is one, and behind a proxy that
// ends TLS the cookie is for TLS, too.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	session, _ := filled(t, store)
	c := newClient(t, store, operator)
	for _, name := range []string{"%ff", "%00", "..", "none.css", "."} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL = must[*url.URL](t)(url.ParseRequestURI("/assets/" + name))
		if w := c.do(r); w.Code != http.StatusNotFound {
			t.Errorf("the asset %s: status %d", name, w.Code)
		}
	}
	c.get("/assets/style.css", http.StatusOK)
	for logger, want := range map[*slog.Logger]bool{nil: false, slog.New(slog.NewTextHandler(io.Discard, nil)): true} {
		failing := newClient(t, store, operator, func(o *inspect.Options) {
			o.Logger, o.Health = logger, func(context.Context) (map[string]any, error) { return nil, errors.New("x") }
		})
		if shown := failing.get("/health", http.StatusInternalServerError); strings.Contains(shown, "The log has the reason") != want {
			t.Errorf("with the logger %v: %s", logger, shown)
		}
	}
	for proxy, secure := range map[string]bool{"": false, "http": false, "https": true} {
		r := httptest.NewRequest(http.MethodGet, "/act?do=hold&session="+session.String(), nil)
		r.Header.Set("X-Forwarded-Proto", proxy)
		cookies := newClient(t, store, operator).do(r).Result().Cookies()
		if len(cookies) != 1 || cookies[0].Secure != secure {
			t.Errorf("behind a proxy for %q: %v", proxy, cookies)
		}
	}
}

// TestCutSecret: a secret does not escape the redaction because only a part of the text around it is shown.
func TestCutSecret(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	id := must[repo.Session](t)(store.Sessions().Create(ctx, repo.NewSession{})).ID
	const key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789abcdefgh"
	c := newClient(t, store, operator)
	for cut := 1; cut < len(key); cut += 7 {
		text := strings.Repeat(" ", 4096-cut) + key
		must[[]repo.Message](t)(store.Sessions().Append(ctx, id, repo.NewMessage{Role: repo.RoleUser, Content: text}))
		if body := c.get("/sessions", http.StatusOK); strings.Contains(body, "sk-") {
			t.Errorf("of a key that is cut after %d bytes the list shows %s", cut, regexp.MustCompile("sk-[^<]*").FindString(body))
		}
	}
	stream := must[repo.Stream](t)(store.Streams().Open(ctx, repo.NewStream{Key: "k", Owner: "w"}))
	for _, size := range []int{64 << 10, 68 << 10} { // what is shown, and what is read
		for cut := 2; cut < len(key); cut += 6 {
			stream.Next = must[int64](t)(store.Streams().Append(ctx, stream, []byte("api_key="+key), []byte(strings.Repeat("x ", (size-cut)/2))))
			if body := c.get("/stream?key=k", http.StatusOK); strings.Contains(body, key[len(key)-cut:]+"x") {
				t.Errorf("the end of a key that is cut is shown: %.100s", body[strings.Index(body, "<pre"):])
			}
		}
	}
}

// TestHostileNames: the names of plans, leases, projects and actors break out of no page either.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	var pages [2][]string
	const bad = "\"'><script>alert(1)</script>{{.}}\u202e\x1b[2J\u200b"
	for i, name := range []string{bad, strings.Repeat("x", len(bad))} {
		store := newStore(t)
		ctx := t.Context()
		must[repo.Action](t)(store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true}}))
		plan := must[repo.Plan](t)(store.Plans().Use(ctx, "a", repo.UseAction{
			Namespace: name, Name: name, Description: name, Actor: name, Trace: name, Projects: []repo.ProjectLink{{Project: name}},
		}))
		must[repo.Plan](t)(store.Plans().Transition(ctx, plan.ID, repo.TransitionStart, repo.Cause{Actor: name}))
		must[repo.Plan](t)(store.Plans().Transition(ctx, plan.ID, repo.TransitionFail, repo.Cause{Actor: name, Reason: name, Final: true}))
		must[repo.Plan](t)(store.Plans().Use(ctx, "a", repo.UseAction{ParentID: plan.ID}))
		key := repo.LeaseKey{Kind: name, Name: name}
		must[repo.Lease](t)(store.Leases().Acquire(ctx, repo.NewLease{Key: key, Owner: name}))
		must[repo.Lease](t)(store.Leases().Acquire(ctx, repo.NewLease{Key: repo.PlanLease(plan.ID), Owner: name}))
		if err := store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked, Namespace: name, Actor: name, User: name, Project: name, PlanID: plan.ID}); err != nil {
			t.Fatal(err)
		}
		entry := must[repo.List[repo.AuditEntry]](t)(store.Audit().List(ctx, repo.AuditFilter{PlanID: plan.ID}, repo.Page{Limit: 1})).Items[0].ID
		access := operator
		access.Viewer = name
		c := newClient(t, store, access, func(o *inspect.Options) { o.Redact = func(s string) string { return s } })
		q := url.QueryEscape(name)
		for _, path := range []string{
			"/plans?namespace=" + q, "/plans/" + plan.ID.String(), "/plans/" + plan.ID.String() + "?namespace=" + q, "/leases", "/audit", "/audit/" + entry.String(), "/health",
			"/search?q=" + q, "/act?do=release&fence=1&kind=" + q + "&name=" + q, "/act?do=retry&version=3&plan=" + plan.ID.String(),
		} {
			page := c.get(path, http.StatusOK)
			pages[i] = append(pages[i], skeleton(page))
			document := c.get(path+map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]+"format=json", http.StatusOK)
			// The value of an input is what was asked for, as it was.
			seen := regexp.MustCompile(`<input[^>]*>`).ReplaceAllString(page, "")
			if strings.ContainsAny(seen, "\x1b\u202e\u200b") || strings.ContainsAny(document, "<>\x1b\u202e\u200b") {
				t.Errorf("%s has what could be obeyed", path)
			}
		}
	}
	for i := range pages[0] {
		if pages[0][i] != pages[1][i] {
			t.Errorf("the page is\n%s\nwant\n%s", pages[0][i], pages[1][i])
		}
	}
}
