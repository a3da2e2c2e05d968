package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/inspect"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/usage"
)

// secret is the beginning of everything that is contents in these tests.
const secret = "s3cret-content"

// operator sees and may do everything.
var operator = inspect.Access{Viewer: "ada", AllNamespaces: true, Contents: true, Actions: true}

func newStore(t testing.TB) repo.Store {
	t.Helper()
	store := memory.New()
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// client asks an inspector, with the cookies that it was given.
type client struct {
	t       testing.TB
	pages   http.Handler
	cookies map[string]string
}

func newClient(t testing.TB, store repo.Store, access inspect.Access, change ...func(*inspect.Options)) *client {
	t.Helper()
	options := inspect.Options{Timeout: time.Hour, Authorize: func(*http.Request) (inspect.Access, error) { return access, nil }}
	for _, change := range change {
		change(&options)
	}
	return &client{t, must[*inspect.Inspector](t)(inspect.Handler(store, options)), map[string]string{}}
}

func (c *client) do(r *http.Request) *httptest.ResponseRecorder {
	c.t.Helper()
	for name, value := range c.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	c.pages.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		c.cookies[cookie.Name] = cookie.Value
		if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
			c.t.Errorf("the cookie %s may be read by scripts, or is sent by other pages", cookie.Name)
		}
	}
	return w
}

func (c *client) get(path string, status int) string {
	c.t.Helper()
	w := c.do(httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != status {
		c.t.Errorf("GET %s: status %d, want %d: %s", path, w.Code, status, w.Body)
	}
	return w.Body.String()
}

// filled makes one of everything, with contents that begin with secret.
func filled(t testing.TB, store repo.Store) (session, plan repo.ID) {
	t.Helper()
	ctx := t.Context()
	made := must[repo.Session](t)(store.Sessions().Create(ctx, repo.NewSession{
		Namespace: "shop", Key: "web/1", Owner: "customer", Metadata: []byte(`{"m":"` + secret + `"}`),
	}))
	must[[]repo.Message](t)(store.Sessions().Append(ctx, made.ID,
		repo.NewMessage{Role: repo.RoleUser, Content: secret + " question"},
		repo.NewMessage{Role: repo.RoleAssistant, Kind: "tool_call", CallID: "c1", Content: secret + " call"},
		repo.NewMessage{Role: repo.RoleTool, CallID: "c1", Content: secret + " result", Payload: []byte(secret)},
		repo.NewMessage{Role: repo.RoleAssistant, Content: secret + strings.Repeat(" long", 1000), Metadata: []byte(`{"m":"` + secret + `"}`)},
		repo.NewMessage{Role: repo.RoleSystem, Kind: repo.KindSummary, Content: secret + " summary"}))
	must[[]repo.ScopeVersion](t)(store.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{SessionID: made.ID}, Key: "mood", Value: []byte(`"` + secret + `"`)}}))
	stream := must[repo.Stream](t)(store.Streams().Open(ctx, repo.NewStream{Key: "answer", Owner: "w", Session: made.ID}))
	must[int64](t)(store.Streams().Append(ctx, stream, []byte(secret), []byte(" part")))
	must[repo.Action](t)(store.Actions().Create(ctx, repo.NewAction{Name: "refund", ActionDefinition: repo.ActionDefinition{
		Reusable: true, Description: secret, DefinitionOfDone: secret + " {{.why}}", Arguments: []repo.Argument{{Name: "why", Type: repo.ArgumentString}},
	}}))
	use := repo.UseAction{Namespace: "shop", SessionID: made.ID, Arguments: []repo.ArgumentValue{{Name: "why", Value: []byte(`"` + secret + `"`)}}}
	used := must[repo.Plan](t)(store.Plans().Use(ctx, "refund", use))
	ask(t, store, approval.Ref{SessionID: made.ID, ID: "ask"}, "ada")
	counted(t, in(store, "shop"), spent(usage.DayOf(time.Now(), nil), "refund/model", "customer", 5))
	return made.ID, used.ID
}

// ask asks a decider in the namespace shop.
func ask(t testing.TB, store repo.Store, ref approval.Ref, decider string) {
	t.Helper()
	approvals := must[*approval.Approvals](t)(approval.New(store, "shop", approval.Options{}))
	changes := must[[]repo.StateChange](t)(approvals.InTurn(approval.NewRequest{
		Ref: ref, Act: approval.Act{Kind: "pay", Subject: secret}, Text: secret + " text", By: "agent", Deciders: []string{decider}, Until: time.Now().Add(time.Hour),
	}))
	must[repo.AppendedTurn](t)(store.(interface{ In(string) repo.Store }).In("shop").Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: ref.SessionID, ID: ref.ID, State: changes}))
}

// A viewer sees what waits for them, and decides that alone.
func TestApprovals(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	session, _ := filled(t, store)
	ask(t, store, approval.Ref{SessionID: session, ID: "bobs"}, "bob")
	ask(t, store, approval.Ref{SessionID: session, ID: "again"}, "ada")
	c := newClient(t, store, operator)
	if page := c.get("/approvals?namespace=shop", http.StatusOK); !strings.Contains(page, "ask") || strings.Contains(page, "bobs") || strings.Contains(page, secret) {
		t.Errorf("%s", page)
	}
	if page := c.get("/approvals?namespace=shop&for=bob", http.StatusOK); !strings.Contains(page, "bobs") {
		t.Errorf("%s", page)
	}
	if page := c.get("/approvals", http.StatusOK); strings.Contains(page, "again") {
		t.Errorf("another namespace: %s", page)
	}
	of := func(id string) string { return "session=" + session.String() + "&approval=" + id }
	if page := c.get("/approval?"+of("ask"), http.StatusOK); !strings.Contains(page, "do=approve") || !strings.Contains(page, secret+" text") {
		t.Errorf("%s", page)
	}
	blind := operator
	blind.Contents, blind.Actions = false, false
	if page := newClient(t, store, blind).get("/approval?"+of("ask"), http.StatusOK); strings.Contains(page, "do=") || strings.Contains(page, secret) {
		t.Errorf("%s", page)
	}
	newClient(t, store, blind).get("/act?do=approve&"+of("ask"), http.StatusForbidden)
	for id, want := range map[string]int{"bobs": http.StatusConflict, "ask": http.StatusSeeOther, "none": http.StatusNotFound} {
		if status, page := c.post("/act", c.formOf("/act?do=approve&"+of(id))); status != want {
			t.Errorf("%s: %d %s", id, status, page)
		}
	}
	form := c.formOf("/act?do=deny&" + of("again"))
	form.Set("token", strings.Repeat("A", 26))
	if status, _ := c.post("/act", form); status != http.StatusForbidden {
		t.Errorf("without the form's token: %d", status)
	}
	if status, page := c.post("/act", c.formOf("/act?do=deny&"+of("ask"))); status != http.StatusConflict || !strings.Contains(page, "approved") {
		t.Errorf("%d %s", status, page)
	}
	if status, page := c.post("/act", c.formOf("/act?do=deny&sum=another&"+of("again"))); status != http.StatusConflict || !strings.Contains(page, "another") {
		t.Errorf("%d: %s", status, page)
	}
	anybody := func(context.Context, approval.Request, string) (bool, error) { return true, nil }
	in := newClient(t, store, operator, func(o *inspect.Options) { o.Approvals.MayDecide = anybody })
	if status, _ := in.post("/act", in.formOf("/act?do=deny&"+of("bobs"))); status != http.StatusSeeOther {
		t.Errorf("whom the service lets decide: %d", status)
	}
	tenant := newClient(t, store, inspect.Access{Viewer: "ada", Namespace: "other", Contents: true, Actions: true})
	tenant.get("/approval?"+of("ask"), http.StatusNotFound)
	tenant.get("/act?do=deny&"+of("again"), http.StatusNotFound)
	if page := tenant.get("/approvals?namespace=shop", http.StatusOK); strings.Contains(page, "again") {
		t.Errorf("another tenant: %s", page)
	}
	approvals := must[*approval.Approvals](t)(approval.New(store, "shop", approval.Options{}))
	for id, want := range map[string]approval.Status{"ask": approval.Approved, "again": approval.Open, "bobs": approval.Denied} {
		if r := must[approval.Request](t)(approvals.Get(t.Context(), approval.Ref{SessionID: session, ID: id})); r.Status != want || want == approval.Approved && r.Votes[0].Reason != "because" {
			t.Errorf("%+v", r)
		}
	}
}

// everyPage are the pages about what filled makes.
func everyPage(session, plan repo.ID) []string {
	return []string{
		"/", "/sessions?namespace=shop", "/sessions?namespace=shop&owner=customer", "/sessions/" + session.String(), "/sessions/" + session.String() + "?branches=1",
		"/sessions/" + session.String() + "/messages/0", "/sessions/" + session.String() + "/state", "/plans?namespace=shop", "/plans?state=queued&namespace=shop",
		"/plans?session=" + session.String(), "/plans/" + plan.String(), "/leases", "/streams", "/streams?session=" + session.String(), "/stream?key=answer",
		"/approvals", "/approvals?namespace=shop", "/approval?approval=ask&session=" + session.String(),
		"/audit", "/audit?session=" + session.String(), "/search?q=" + session.String(), "/search?q=" + plan.String(), "/search?q=web/1&namespace=shop",
		"/search?q=customer&namespace=shop", "/usage", "/usage?namespace=shop", "/usage?from=2026-03-01&to=2026-03-31", "/namespaces", "/health",
	}
}

// TestDenyByDefault: without Authorize there is no handler, and what it does not allow is refused.
// Guarantee: Inspector: A page is shown only if Authorize admits the viewer.
func TestDenyByDefault(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	session, plan := filled(t, store)
	for name, options := range map[string]inspect.Options{
		"Authorize": {},
		"Prefix":    {Prefix: "inspect", Authorize: func(*http.Request) (inspect.Access, error) { return operator, nil }},
		"AtOnce":    {AtOnce: -1, Authorize: func(*http.Request) (inspect.Access, error) { return operator, nil }},
	} {
		if _, err := inspect.Handler(store, options); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := inspect.Handler(nil, inspect.Options{}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("without a store: %v", err)
	}
	for name, access := range map[string]inspect.Access{
		"zero":                      {},
		"neither one nor all":       {Viewer: "ada", Contents: true},
		"nobody":                    {AllNamespaces: true, Contents: true},
		"one and all":               {Viewer: "ada", AllNamespaces: true, Namespace: "shop"},
		"a name that is not stored": {Viewer: strings.Repeat("a", repo.MaxNameBytes+1), AllNamespaces: true},
	} {
		c := newClient(t, store, access)
		for _, path := range append(everyPage(session, plan), "/act?do=cancel&plan="+plan.String(), "/sessions/"+session.String()+"/events", "/assets/style.css") {
			if body := c.get(path, http.StatusForbidden); strings.Contains(body, secret) {
				t.Errorf("%s: %s has contents", name, path)
			}
		}
	}
	refused := newClient(t, store, operator, func(o *inspect.Options) {
		o.Authorize = func(*http.Request) (inspect.Access, error) {
			return operator, &live.StatusError{Status: http.StatusUnauthorized, Header: http.Header{"WWW-Authenticate": {"Basic"}}}
		}
	})
	w := refused.do(httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "Basic" {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
}

// TestEveryPage: each page is there, as HTML and as JSON, and has its headers.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	session, plan := filled(t, store)
	c := newClient(t, store, operator, func(o *inspect.Options) {
		o.Health = func(context.Context) (map[string]any, error) {
			return map[string]any{"Process": struct {
				Streams int
				Since   time.Duration
				Tables  []struct{ Name string }
			}{3, time.Second, []struct{ Name string }{{"messages"}}}}, nil
		}
	})
	for _, path := range everyPage(session, plan) {
		w := c.do(httptest.NewRequest(http.MethodGet, path, nil))
		body := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(body, "<h1>") || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("%s: status %d: %s", path, w.Code, body)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", path, w.Header())
		}
		if regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style| on[a-z]+=| style=|https?://`).MatchString(body) {
			t.Errorf("%s has something inline, or from elsewhere", path)
		}
		separator := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
		var document map[string]any
		if err := json.Unmarshal([]byte(c.get(path+separator+"format=json", http.StatusOK)), &document); err != nil || document["title"] == "" {
			t.Errorf("%s as JSON: %v", path, err)
		}
	}
	if body := c.get("/health", http.StatusOK); !strings.Contains(body, "messages") || !strings.Contains(body, "1s") {
		t.Error("the page Health does not have what Options.Health returns")
	}
	for _, missing := range []string{
		"/nothing", "/sessions/" + repo.NewID().String(), "/plans/" + repo.NewID().String(), "/audit/" + repo.NewID().String(), "/sessions/" + session.String() + "/messages/99",
		"/stream?key=none", "/assets/page.html", "//", "/sessions/../health",
	} {
		c.get(missing, http.StatusNotFound)
	}
	for _, invalid := range []string{"/sessions/x", "/plans?session=x", "/sessions/" + session.String() + "?from=x", "/sessions/" + session.String() + "?from=-1", "/sessions?after=x", "/plans?state=x", "/usage?from=x"} {
		c.get(invalid, http.StatusBadRequest)
	}
}

// TestContents: a viewer that may not read contents gets none, on no page; one that may leaves an entry in the trail,
// each time.
// Guarantee: Inspector: Contents are shown only to viewers who may read them, and each view is in the audit trail.
func TestContents(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	session, plan := filled(t, store)
	views := func() int64 {
		count, _, err := store.Audit().Count(t.Context(), repo.AuditFilter{Type: inspect.EventViewed, User: "ada"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	blind := operator
	blind.Contents = false
	for name, access := range map[string]inspect.Access{"without": blind, "with": operator} {
		c := newClient(t, store, access)
		for _, path := range everyPage(session, plan) {
			separator := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
			for _, path := range []string{path, path + separator + "format=json"} {
				before := views()
				has := strings.Contains(c.get(path, http.StatusOK), secret)
				if has && !access.Contents {
					t.Errorf("%s, %s has contents", name, path)
				}
				if recorded := views() - before; has && recorded != 1 || recorded > 1 || !access.Contents && recorded > 0 {
					t.Errorf("%s, %s has contents: %v, and %d entries", name, path, has, recorded)
				}
			}
		}
	}
	list, err := store.Audit().List(t.Context(), repo.AuditFilter{Type: inspect.EventViewed, SessionID: session, OldestFirst: true}, repo.Page{Limit: 1})
	if err != nil || len(list.Items) != 1 || list.Items[0].Namespace != "shop" || strings.Contains(string(list.Items[0].Details), "?") {
		t.Errorf("the entries are %+v, %v", list.Items, err)
	}
}

// unrecorded is a store whose trail accepts nothing.
type unrecorded struct{ repo.Store }

type deafAudit struct{ repo.Audit }

func (u unrecorded) Audit() repo.Audit { return deafAudit{u.Store.Audit()} }

func (deafAudit) Record(context.Context, ...repo.AuditEntry) error { return repo.ErrUnavailable }

// TestUnrecorded: what cannot be recorded is not shown.
func TestUnrecorded(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	session, plan := filled(t, store)
	c := newClient(t, unrecorded{store}, operator)
	for _, path := range []string{"/sessions?namespace=shop", "/sessions/" + session.String(), "/plans/" + plan.String(), "/stream?key=answer", "/sessions/" + session.String() + "/events"} {
		if body := c.get(path, http.StatusServiceUnavailable); strings.Contains(body, secret) {
			t.Errorf("%s shows what was not recorded", path)
		}
	}
}

// TestRedaction: secrets are removed unless Redact says otherwise.
func TestRedaction(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	id := must[repo.Session](t)(store.Sessions().Create(t.Context(), repo.NewSession{})).ID
	const key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789abcdefgh"
	must[[]repo.Message](t)(store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleUser, Content: "my key is api_key=" + key}))
	if strings.Contains(newClient(t, store, operator).get("/sessions/"+id.String(), http.StatusOK), key) {
		t.Error("a secret is shown")
	}
	c := newClient(t, store, operator, func(o *inspect.Options) { o.Redact = strings.ToUpper })
	if !strings.Contains(c.get("/sessions/"+id.String()+"?format=json", http.StatusOK), "MY KEY IS") {
		t.Error("Redact has not its way")
	}
}

// TestTenant: a viewer of one namespace needs a store with views, and gets none of the others' otherwise.
func TestTenant(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	session, _ := filled(t, store)
	for namespace, status := range map[string]int{"shop": http.StatusOK, "other": http.StatusNotFound} {
		c := newClient(t, store, inspect.Access{Viewer: "ada", Namespace: namespace, Contents: true})
		if has := strings.Contains(c.get("/sessions/"+session.String()+"?namespace=shop", status), secret); has != (namespace == "shop") {
			t.Errorf("%s has contents: %v", namespace, has)
		}
	}
	c := newClient(t, struct{ repo.Store }{store}, inspect.Access{Viewer: "ada", Namespace: "other", Contents: true})
	if body := c.get("/sessions/"+session.String(), http.StatusNotImplemented); strings.Contains(body, secret) {
		t.Error("a store without views shows everything")
	}
}

// TestActions: nothing is done by default, by another page, or without the form; what is done is recorded with it.
// Guarantee: Inspector: An action needs leave, its form and the viewer's confirmation, and is recorded with what it does.
func TestActions(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	session, plan := filled(t, store)
	lease := must[repo.Lease](t)(store.Leases().Acquire(ctx, repo.NewLease{Key: repo.LeaseKey{Kind: "project", Name: "a/b"}, Owner: "w"}))
	idle := operator
	idle.Actions = false
	cancel := "/act?do=cancel&plan=" + plan.String()
	newClient(t, store, idle).get(cancel, http.StatusForbidden)
	newClient(t, store, operator, func(o *inspect.Options) { o.ReadOnly = true }).get(cancel, http.StatusForbidden)

	c := newClient(t, store, operator)
	post := func(path string, reason string, change func(url.Values, *http.Request)) int {
		t.Helper()
		body := c.get(path, http.StatusOK)
		form := url.Values{}
		for _, input := range regexp.MustCompile(`type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			form.Set(input[1], input[2])
		}
		form.Set("reason", reason)
		r := httptest.NewRequest(http.MethodPost, "/act", nil)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if change != nil {
			change(form, r)
		}
		text := form.Encode()
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		return c.do(r).Code
	}
	for name, change := range map[string]func(url.Values, *http.Request){
		"no token":      func(f url.Values, _ *http.Request) { f.Del("token") },
		"wrong token":   func(f url.Values, _ *http.Request) { f.Set("token", strings.Repeat("A", 26)) },
		"another site":  func(_ url.Values, r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another host":  func(_ url.Values, r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"no such thing": func(f url.Values, _ *http.Request) { f.Set("do", "delete") },
	} {
		if code := post(cancel, "because", change); code != http.StatusForbidden {
			t.Errorf("%s: status %d", name, code)
		}
	}
	if got := must[repo.Plan](t)(store.Plans().Get(ctx, plan)); got.State != repo.PlanQueued {
		t.Fatalf("the plan is %s", got.State)
	}
	if code := post(cancel, "", nil); code != http.StatusBadRequest {
		t.Errorf("without a reason: status %d", code)
	}
	if code := post(cancel+"&version=7", "because", nil); code != http.StatusConflict {
		t.Errorf("at another version: status %d", code)
	}
	for _, path := range []string{
		cancel + "&version=1", "/act?do=hold&session=" + session.String(), fmt.Sprintf("/act?do=release&kind=project&name=a/b&fence=%d", lease.Fence),
	} {
		if code := post(path, "because", nil); code != http.StatusSeeOther {
			t.Errorf("%s: status %d", path, code)
		}
	}
	if got := must[repo.Plan](t)(store.Plans().Get(ctx, plan)); got.State != repo.PlanCancelled || got.CancelReason != "because" {
		t.Errorf("the plan is %s", got.State)
	}
	if holds, err := store.Sessions().Holds(ctx, repo.Page{}); err != nil || len(holds.Items) != 1 || holds.Items[0].SessionID != session {
		t.Errorf("holds: %v, %v", holds, err)
	}
	if leases, err := store.Leases().List(ctx, repo.LeaseFilter{Kind: "project"}, repo.Page{}); err != nil || len(leases.Items) > 0 {
		t.Errorf("leases: %v, %v", leases, err)
	}
	errored := must[repo.Plan](t)(store.Plans().Use(ctx, "refund", repo.UseAction{Namespace: "shop"}))
	errored = must[repo.Plan](t)(store.Plans().Transition(ctx, errored.ID, repo.TransitionStart, repo.Cause{}))
	errored = must[repo.Plan](t)(store.Plans().Transition(ctx, errored.ID, repo.TransitionFail, repo.Cause{Reason: "it broke", Final: true}))
	if !strings.Contains(c.get("/plans/"+errored.ID.String(), http.StatusOK), "do=retry") {
		t.Error("an errored plan cannot be retried")
	}
	if code := post("/act?do=retry&plan="+errored.ID.String(), "", nil); code != http.StatusSeeOther {
		t.Errorf("retry: status %d", code)
	}
	if got := must[repo.Plan](t)(store.Plans().Get(ctx, errored.ID)); got.State != repo.PlanQueued {
		t.Errorf("the plan is %s", got.State)
	}
	if acted, err := store.Audit().List(ctx, repo.AuditFilter{Type: inspect.EventActed, User: "ada"}, repo.Page{}); err != nil || len(acted.Items) != 4 {
		t.Errorf("%d entries, %v", len(acted.Items), err)
	}
}

// slow is a store whose lists of leases wait for the end of the context.
type slow struct {
	repo.Store

	now, most *atomic.Int64
	three     chan struct{} // closed when three have been at it
	once      *sync.Once
}

type slowLeases struct {
	repo.Leases

	slow slow
}

func (s slow) Leases() repo.Leases { return slowLeases{s.Store.Leases(), s} }

func (s slowLeases) List(ctx context.Context, _ repo.LeaseFilter, _ repo.Page) (repo.List[repo.Lease], error) {
	now := s.slow.now.Add(1)
	defer s.slow.now.Add(-1)
	for most := s.slow.most.Load(); now > most && !s.slow.most.CompareAndSwap(most, now); most = s.slow.most.Load() {
	}
	if now == 3 {
		s.slow.once.Do(func() { close(s.slow.three) })
	}
	select {
	case <-ctx.Done():
	case <-s.slow.three:
	}
	return repo.List[repo.Lease]{}, repo.ErrUnavailable
}

// TestBounds: no more pages than AtOnce are made at once, and each ends after Timeout. With as many as come, more are.
// Guarantee: Inspector: However many look at once, it uses no more connections than it may.
func TestBounds(t *testing.T) {
	t.Parallel()
	for atOnce, want := range map[int]bool{2: true, 100: false} {
		s := slow{newStore(t), new(atomic.Int64), new(atomic.Int64), make(chan struct{}), new(sync.Once)}
		c := newClient(t, s, operator, func(o *inspect.Options) {
			if o.AtOnce = atOnce; want {
				o.Timeout = 300 * time.Millisecond // short: nothing else ends a page
			}
		})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				w := httptest.NewRecorder()
				c.pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/leases", nil))
				if w.Code != http.StatusServiceUnavailable {
					t.Errorf("status %d", w.Code)
				}
			})
		}
		all.Wait()
		if most := s.most.Load(); (most <= 2) != want {
			t.Errorf("of at most %d, %d pages were made at once", atOnce, most)
		}
	}
}

// TestFollowers: the viewers of one tenant leave places to follow conversations to others.
func TestFollowers(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ids := map[string]string{}
	for _, namespace := range []string{"one", "two", "viewer root"} {
		ids[namespace] = must[repo.Session](t)(store.Sessions().Create(t.Context(), repo.NewSession{Namespace: namespace})).ID.String()
	}
	pages, err := inspect.Handler(store, inspect.Options{Live: 8, Authorize: func(r *http.Request) (inspect.Access, error) {
		user, namespace, _ := strings.Cut(r.Header.Get("User"), "@")
		if user == "root" {
			return inspect.Access{Viewer: user, AllNamespaces: true}, nil
		}
		return inspect.Access{Viewer: user, Namespace: namespace}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(pages)
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = pages.Shutdown(t.Context()) })
	follow := func(user, namespace string) int {
		t.Helper()
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/sessions/"+ids[namespace]+"/events", nil))
		r.Header.Set("User", user+"@"+namespace)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response.StatusCode
	}
	followed := map[string]int{}
	for i := range 12 {
		user := fmt.Sprint("viewer ", i%2)
		if follow(user, "one") == http.StatusOK {
			followed[user]++
		}
	}
	if followed["viewer 0"]+followed["viewer 1"] != 2 {
		t.Errorf("two viewers of a tenant follow %v of 8", followed)
	}
	if status := follow("somebody", "two"); status != http.StatusOK {
		t.Errorf("another tenant's viewer: status %d", status)
	}
	follow("somebody", "viewer root")
	follow("somebody", "viewer root")
	if status := follow("root", "one"); status != http.StatusOK {
		t.Errorf("a viewer of all, besides a tenant of that name: status %d", status)
	}
}

// TestLargeMessageComes: a message that is too large for an event, when it is escaped, comes with its beginning.
func TestLargeMessageComes(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	c := newClient(t, store, operator)
	session := must[repo.Session](t)(store.Sessions().Create(t.Context(), repo.NewSession{})).ID
	large := strings.Repeat("&", 200<<10)
	must[[]repo.Message](t)(store.Sessions().Append(t.Context(), session, repo.NewMessage{Role: repo.RoleUser, Content: large, Payload: []byte(large)}))
	if body := c.feed(session.String()+"/events", `"sequence":0`); strings.Contains(body, live.OmittedEvent) || !strings.Contains(body, "more of it") {
		t.Errorf("%d bytes: %.300s", len(body), body)
	}
}

// TestPrefix: the pages are below a prefix, whether the router strips it or not, and link to one another there.
func TestPrefix(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	filled(t, store)
	c := newClient(t, store, operator, func(o *inspect.Options) { o.Prefix = "/admin/agents/" })
	mux := http.NewServeMux()
	mux.Handle("/admin/agents/", c.pages)
	pages := c.pages
	for _, c.pages = range []http.Handler{mux, http.StripPrefix("/admin/agents", pages)} {
		body := c.get("/admin/agents/sessions?namespace=shop", http.StatusOK)
		for _, address := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if !strings.HasPrefix(address[1], "/admin/agents/") && address[1] != "#main" {
				t.Errorf("the address %q is elsewhere", address[1])
			}
		}
		c.get("/admin/agents/assets/script.js", http.StatusOK)
	}
	if w := httptest.NewRecorder(); true {
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/admin/agents", nil))
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/agents/" {
			t.Errorf("status %d to %q", w.Code, w.Header().Get("Location"))
		}
	}
}

// TestConversation: calls are folded with their results, branches are said, and pages by sequence leave nothing out.
func TestConversation(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	id := must[repo.Session](t)(store.Sessions().Create(ctx, repo.NewSession{})).ID
	for i := range 180 {
		must[[]repo.Message](t)(store.Sessions().Append(ctx, id, repo.NewMessage{Role: repo.RoleUser, Content: fmt.Sprint("number ", i)}))
	}
	after := int64(99)
	must[repo.AppendedTurn](t)(store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, After: &after, Messages: []repo.NewMessage{
		{Role: repo.RoleAssistant, Kind: "tool_call", CallID: "c", Content: "call"}, {Role: repo.RoleTool, CallID: "c", Content: "result"},
	}}))
	type document struct {
		Messages struct {
			Items []struct {
				Sequence int64
				Content  string
				Follows  *int64
				Results  []struct{ Content string }
			}
			Earlier, Next string
		}
	}
	c := newClient(t, store, operator)
	read := func(path string) (d document) {
		t.Helper()
		if err := json.Unmarshal([]byte(c.get(path, http.StatusOK)), &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for branches, want := range map[string]int{"": 101, "&branches=1": 181} { // the result is in the call
		var seen []int64
		for at := "/sessions/" + id.String() + "?from=0" + branches; at != ""; {
			d := read(at + "&format=json")
			for _, m := range d.Messages.Items {
				seen = append(seen, m.Sequence)
			}
			at = d.Messages.Next
		}
		if len(seen) != want || seen[len(seen)-1] != 180 {
			t.Errorf("forwards%s: %d messages, %v", branches, len(seen), seen)
		}
		back := 0
		d := read("/sessions/" + id.String() + "?format=json" + branches)
		for {
			back += len(d.Messages.Items)
			if d.Messages.Earlier == "" {
				break
			}
			d = read(d.Messages.Earlier + "&format=json")
		}
		if back != want {
			t.Errorf("backwards%s: %d messages", branches, back)
		}
	}
	last := read("/sessions/" + id.String() + "?format=json").Messages.Items
	if m := last[len(last)-1]; len(m.Results) != 1 || m.Results[0].Content != "result" || m.Follows == nil || *m.Follows != 99 {
		t.Errorf("the last message is %+v", m)
	}
}

// TestWhy: the page of a plan says what it waits for.
func TestWhy(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	_, plan := filled(t, store)
	c := newClient(t, store, operator)
	says := func(id repo.ID, want string) {
		t.Helper()
		if body := c.get("/plans/"+id.String(), http.StatusOK); !strings.Contains(body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	says(plan, "waits for a worker")
	later := must[repo.Plan](t)(store.Plans().Use(ctx, "refund", repo.UseAction{Namespace: "shop", NotBefore: time.Now().Add(time.Hour)}))
	says(later.ID, "waits until it is due")
	lease := must[repo.Lease](t)(store.Leases().Acquire(ctx, repo.NewLease{Key: repo.PlanLease(plan), Owner: "somebody"}))
	says(plan, "somebody holds its lease")
	if err := errors.Join(store.Leases().Release(ctx, lease), store.Plans().SetLimit(ctx, repo.PlanLimit{Namespace: "shop", AtOnce: 0})); err != nil {
		t.Fatal(err)
	}
	says(plan, "because of the limit of 0")
	child := plan
	for range 4 {
		child = must[repo.Plan](t)(store.Plans().Use(ctx, "refund", repo.UseAction{ParentID: child})).ID
	}
	says(plan, child.String())
}

// TestAssets: all files together are small, and every colour of text can be read on every ground.
func TestAssets(t *testing.T) {
	t.Parallel()
	size := int64(0)
	err := fs.WalkDir(os.DirFS("."), "page", func(_ string, entry fs.DirEntry, err error) error {
		if info, e := entry.Info(); e == nil && !entry.IsDir() {
			size += info.Size()
		}
		return err
	})
	if err != nil || size == 0 || size > 500_000 {
		t.Errorf("the files have %d bytes, %v", size, err)
	}
	style := string(must[[]byte](t)(os.ReadFile("page/assets/style.css")))
	parts := strings.SplitN(style, "@media (prefers-color-scheme: dark)", 2)
	for name, part := range map[string]string{"light": parts[0], "dark": strings.SplitN(parts[1], "}", 2)[0]} {
		colours := map[string]float64{}
		for _, found := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]+)`).FindAllStringSubmatch(part, -1) {
			colours[found[1]] = luminance(found[2])
		}
		for _, ink := range []string{"ink", "soft", "accent", "user", "tool", "system", "bad", "good", "wait"} {
			for _, ground := range []string{"paper", "card", "tint"} {
				high, low := max(colours[ink], colours[ground]), min(colours[ink], colours[ground])
				if ratio := (high + 0.05) / (low + 0.05); ratio < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f", name, ink, ground, ratio)
				}
			}
		}
	}
}

// luminance is the relative luminance of a colour (WCAG 2).
func luminance(hex string) (sum float64) {
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		c := float64(n) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}
