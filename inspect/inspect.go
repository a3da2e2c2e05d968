// Package inspect serves pages that show what is in a store: sessions and their conversations as they grow, plans and
// why they wait, approvals, leases, streams, usage, the audit trail, and what slows the database down. It is for the
// operators of a service.
//
// The caller decides who may look (Options.Authorize); there is no default. Each view of contents leaves an entry in
// the audit trail. The pages work without scripts, and use only the contract of package repo.
package inspect

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/approval"
	"github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

// The types of the entries that an Inspector records, each with the viewer as its user.
const (
	EventViewed = "contents_viewed" // before contents are shown; the details have the page
	EventActed  = "inspector_acted" // together with what was done; the details have action, target and reason
)

// Access is what a viewer may see and do. The zero value is nothing.
type Access struct {
	Viewer string // the viewer's name, of 1 to repo.MaxNameBytes; required
	// Namespace is the tenant's, outside of which nothing is found. It needs a store with a method In, as this module's
	// stores have.
	Namespace     string
	AllNamespaces bool // instead of Namespace: everything, and the pages about the process and the database
	// Contents: messages, metadata, values of state, parts of streams, details of the audit trail, of approvals subjects,
	// texts and reasons, and of plans arguments, descriptions, errors and reasons. Otherwise only names, sizes and times
	// are shown.
	Contents bool
	Actions  bool // cancel and retry plans, release leases, hold sessions, and decide what the viewer is asked
}

// Options configure an Inspector. Only Authorize is required.
type Options struct {
	// Authorize says what a request may see. An error is answered with its status if it is a live.StatusError, and
	// otherwise with 403. It is asked for each request.
	Authorize func(*http.Request) (Access, error)
	// Redact removes from contents what must stay hidden from every viewer. Nil: secrets, as audit.Redactor does.
	Redact func(string) string
	// Approvals are the options with which the service decides. The viewer decides, under the viewer's name.
	Approvals approval.Options
	ReadOnly  bool // every action is refused, whatever Authorize says
	// Prefix is the path of the pages, such as "/inspect", of letters, digits and -._~, and not the name of a page.
	// Requests may have it or be stripped of it.
	Prefix string
	// Health returns what the page Health shows besides, by title: any structs, such as what the methods Health and Stats
	// of an agentstore.Store return. Nil: nothing.
	Health func(context.Context) (map[string]any, error)
	// Timeout bounds a page, and with it each of its statements. Zero: 5 s.
	Timeout time.Duration
	// AtOnce bounds the pages that are made at once, and so the connections that they use; others wait. Zero: 4.
	AtOnce int
	// Live bounds the conversations that are followed at once. A tenant, or a viewer of all, has a quarter at most. Zero:
	// 100.
	Live   int
	Logger *slog.Logger // logs what failed, and no contents; nil: nothing is logged
}

// Inspector serves the pages. It is safe for concurrent use.
type Inspector struct {
	store    repo.Store
	options  Options
	busy     chan struct{} // has the pages that are being made
	mux      *http.ServeMux
	feed     *live.Handler
	foreign  *http.CrossOriginProtection
	template *template.Template
}

//go:embed page
var files embed.FS

var _, _ = audit.RegisterEventType(EventViewed), audit.RegisterEventType(EventActed)

// routes returns what the inspector shows, by method and path.
func routes() map[string]func(*look) *page {
	return map[string]func(*look) *page{
		"GET /{$}":                               (*look).sessions,
		"GET /search":                            (*look).search,
		"GET /namespaces":                        (*look).namespaces,
		"GET /sessions":                          (*look).sessions,
		"GET /sessions/{id}":                     (*look).conversation,
		"GET /sessions/{id}/state":               (*look).state,
		"GET /sessions/{id}/messages/{sequence}": (*look).message,
		"GET /plans":                             (*look).plans,
		"GET /plans/{id}":                        (*look).plan,
		"GET /leases":                            (*look).leases,
		"GET /approvals":                         (*look).approvals,
		"GET /approval":                          (*look).approval,
		"GET /streams":                           (*look).streams,
		"GET /stream":                            (*look).stream,
		"GET /usage":                             (*look).usage,
		"GET /audit":                             (*look).audit,
		"GET /audit/{id}":                        (*look).entry,
		"GET /health":                            (*look).health,
		"GET /act":                               (*look).confirm,
		"POST /act":                              (*look).act,
	}
}

const notPrefix = "is not a path that begins with a slash, of letters, digits and -._~"

// Handler returns the pages of a store. Errors: InvalidError of the store, if it is nil, or the options.
func Handler(store repo.Store, options Options) (*Inspector, error) {
	o := options
	o.Prefix, o.Timeout, o.AtOnce, o.Live = strings.TrimRight(o.Prefix, "/"), cmp.Or(o.Timeout, 5*time.Second),
		cmp.Or(o.AtOnce, 4), cmp.Or(o.Live, 100)
	switch {
	case store == nil:
		return nil, &repo.InvalidError{Field: "store", Reason: "is nil"}
	case o.Authorize == nil:
		return nil, &repo.InvalidError{Field: "options.Authorize", Reason: "is nil: pass a function that admits viewers"}
	case o.Prefix != "" && (o.Prefix[0] != '/' || path.Clean(o.Prefix) != o.Prefix ||
		strings.Trim(o.Prefix, unreserved) != ""):
		return nil, &repo.InvalidError{Field: "options.Prefix", Reason: notPrefix}
	case o.Timeout < 0 || o.AtOnce < 0 || o.Live < 0:
		return nil, &repo.InvalidError{Field: "options", Reason: "has a bound that is negative"}
	}
	if o.Redact == nil {
		o.Redact = audit.NewRedactor(audit.RedactorOptions{}).Text
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	i := &Inspector{
		store: store, options: o, busy: make(chan struct{}, o.AtOnce), mux: http.NewServeMux(),
		foreign: http.NewCrossOriginProtection(),
	}
	var err error
	i.template, err = template.New("").Funcs(template.FuncMap{
		"prefix":  func() string { return o.Prefix },
		"visible": visible,
	}).ParseFS(files, "page/*.html")
	if err != nil {
		return nil, err
	}
	i.feed, err = live.New(store, live.Options{
		Authorize: i.mayFollow, Message: i.messageEvent, Part: partEvent,
		MaxDuration: 10 * time.Minute, MaxResponses: o.Live, MaxPerReader: max(1, o.Live/4), MaxEventBytes: maxEvent,
		Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	for pattern, build := range routes() {
		// The rest of an address behind such a prefix could be an address with the prefix.
		if name := strings.Split(pattern, "/")[1]; o.Prefix == "/"+name || o.Prefix == "/assets" {
			return nil, &repo.InvalidError{Field: "options.Prefix", Reason: "is the name of a page"}
		}
		i.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { i.show(w, r, build) })
	}
	assets, err := fs.Sub(files, "page")
	served := http.FileServerFS(assets)
	i.mux.HandleFunc("GET /assets/{name}", func(w http.ResponseWriter, r *http.Request) {
		if !fs.ValidPath(r.PathValue("name")) { // for which FileServerFS answers 500
			http.NotFound(w, r)
			return
		}
		served.ServeHTTP(w, r)
	})
	i.mux.Handle("GET /sessions/{id}/events", i.feed)
	return i, err
}

// Shutdown ends the responses that follow conversations, which would keep http.Server.Shutdown waiting: call it before
// that.
func (i *Inspector) Shutdown(ctx context.Context) error { return i.feed.Shutdown(ctx) }

// headers go with every answer: a page loads and runs only its own files, and may be neither cached nor framed.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src " +
		"'self'; form-action 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
	"Cache-Control":              "no-store",
	"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	"X-Robots-Tag": "noindex, nofollow",
}

// unreserved are the characters of a path that mean the same in an address, in a cookie and to a router, and to every
// browser.
const unreserved = "/-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

type lookKey struct{}

// ServeHTTP answers a request for a page: 403 if Authorize refuses it or gives no access, 404 for what does not exist
// or is another tenant's, 400 for an invalid argument, 503 if the database, or a place among AtOnce, is not to be had
// in time.
func (i *Inspector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	access, err := i.options.Authorize(r)
	status, is := errors.AsType[*live.StatusError](err)
	switch {
	case is && status.Status >= 400 && status.Status <= 599:
		for name, values := range status.Header {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		http.Error(w, cmp.Or(status.Public, http.StatusText(status.Status)), status.Status)
		return
	case i.foreign.Check(r) != nil:
		http.Error(w, "This request comes from another page.", http.StatusForbidden)
		return
	case err != nil, access.Viewer == "", len(access.Viewer) > repo.MaxNameBytes,
		access.AllNamespaces == (access.Namespace != ""):
		http.Error(w, "You may not look here.", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 256<<10)
	l := &look{Inspector: i, w: w, access: access, store: i.store}
	l.access.Actions = access.Actions && !i.options.ReadOnly
	l.namespace = cmp.Or(access.Namespace, r.FormValue("namespace"))
	l.chosen = l.namespace != "" && access.AllNamespaces
	if in, has := i.store.(views); has && l.namespace != "" {
		l.store = in.In(l.namespace)
	} else if !access.AllNamespaces {
		i.options.Logger.ErrorContext(r.Context(),
			"inspect: the store has no method In, so that it cannot be limited to a namespace")
		http.Error(w, "This store cannot be limited to a namespace.", http.StatusNotImplemented)
		return
	}
	l.namespace = cmp.Or(l.namespace, repo.DefaultNamespace)
	r = r.Clone(context.WithValue(r.Context(), lookKey{}, l))
	if rest, found := strings.CutPrefix(r.URL.Path, i.options.Prefix); found && (rest == "" || rest[0] == '/') {
		r.URL.Path, r.URL.RawPath = rest, ""
	}
	switch {
	case r.URL.Path == "":
		http.Redirect(w, r, i.options.Prefix+"/", http.StatusSeeOther)
	case strings.Contains(r.URL.Path, "//"), path.Clean(r.URL.Path) != strings.TrimSuffix(r.URL.Path, "/") &&
		r.URL.Path != "/":
		http.NotFound(w, r)
	default:
		i.mux.ServeHTTP(w, r)
	}
}

// look is a request for a page.
type look struct {
	*Inspector

	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context //nolint:containedctx // ends with the request
	access Access
	// store is what the viewer sees: of the namespace that the request names, if it does.
	store repo.Store
	// namespace is the namespace of lists, and chosen says that the request names it.
	namespace string
	chosen    bool
}

// views is a store that has stores of one namespace.
type views interface {
	In(namespace string) repo.Store
}

// in returns the store of the namespace of what is shown, whose leases and streams have names of their own.
func (l *look) in(namespace string) repo.Store {
	if in, has := l.Inspector.store.(views); has {
		return in.In(namespace)
	}
	return l.store
}

// failure is what a page ends with that cannot be made: see check.
type failure struct{ error }

// check ends the page with an error, if it is one, and ok returns what came without one. So the pages need not say it
// at each step.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func ok[T any](v T, err error) T {
	check(err)
	return v
}

// show makes a page and writes it, as a document or as JSON.
func (i *Inspector) show(w http.ResponseWriter, r *http.Request, build func(*look) *page) {
	ctx, cancel := context.WithTimeout(r.Context(), i.options.Timeout)
	defer cancel()
	l, _ := ctx.Value(lookKey{}).(*look)
	l.r, l.ctx = r, ctx
	p, err := l.attempt(build)
	status := http.StatusOK
	switch {
	case err != nil:
		status, p = i.failed(ctx, err)
	case p == nil:
		return // it was answered
	}
	i.write(w, l, status, p)
}

// attempt makes a page when there is a place for it.
func (l *look) attempt(build func(*look) *page) (p *page, err error) {
	select {
	case l.busy <- struct{}{}:
	case <-l.ctx.Done():
		return nil, l.ctx.Err()
	}
	defer func() {
		<-l.busy
		if ended := recover(); ended != nil {
			failed, is := ended.(failure)
			if !is {
				panic(ended)
			}
			err = failed.error
		}
	}()
	return build(l), nil
}

// failed returns the page of an error. Errors of the store have no contents. What is missing and what is another
// tenant's look alike.
func (i *Inspector) failed(ctx context.Context, err error) (int, *page) {
	status, text := http.StatusInternalServerError, "This failed."
	if i.options.Logger.Enabled(ctx, slog.LevelError) {
		text += " The log has the reason."
	}
	answer, is := errors.AsType[*live.StatusError](err)
	switch {
	case is:
		status, text = answer.Status, answer.Public
	case errors.Is(err, repo.ErrNotFound):
		status, text = http.StatusNotFound, "There is nothing here, or it is hidden from you."
	case errors.Is(err, repo.ErrInvalid):
		status, text = http.StatusBadRequest, err.Error()
	case errors.Is(err, repo.ErrConflict), errors.Is(err, repo.ErrLimit):
		status, text = http.StatusConflict, err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, repo.ErrUnavailable), errors.Is(err, repo.ErrContention):
		status, text = http.StatusServiceUnavailable, "The database does not answer in time. Try again in a moment."
	}
	if status >= http.StatusInternalServerError {
		i.options.Logger.ErrorContext(ctx, "inspect: page failed", "error", err)
	}
	return status, &page{Title: http.StatusText(status), Sections: []section{{Key: "error", Note: text}}}
}

// contents reports whether the contents of what is in a namespace are shown. If so, it has recorded that.
func (l *look) contents(namespace string, session, plan repo.ID) bool {
	l.namespace = namespace
	if l.access.Contents {
		check(l.store.Audit().Record(l.ctx, l.event(EventViewed, namespace, session, plan,
			map[string]string{"page": l.r.URL.Path})))
	}
	return l.access.Contents
}

func (l *look) event(kind, namespace string, session, plan repo.ID, details map[string]string) repo.AuditEntry {
	return repo.AuditEntry{
		Type: kind, Namespace: namespace, User: l.access.Viewer, SessionID: session, PlanID: plan,
		Details: ok(json.Marshal(details)),
	}
}

// id is the id in the path.
func (l *look) id() repo.ID { return ok(repo.ParseID(l.r.PathValue("id"))) }

// given is the id that a parameter has. Zero: none.
func (l *look) given(name string) (id repo.ID) {
	if text := l.r.FormValue(name); text != "" {
		id = ok(repo.ParseID(text))
	}
	return id
}

// url returns the address of a page with parameters, a name and a value each; parameters without a value are left out.
func (l *look) url(page string, parameters ...any) string {
	query := url.Values{}
	if l.chosen {
		query.Set("namespace", l.namespace)
	}
	for i := 0; i+1 < len(parameters); i += 2 {
		if value := fmt.Sprint(parameters[i+1]); value != "" {
			query.Set(fmt.Sprint(parameters[i]), value)
		}
	}
	if len(query) == 0 {
		return l.options.Prefix + page
	}
	return l.options.Prefix + page + "?" + query.Encode()
}

// pageSize is the number of rows of a page.
const pageSize = 50

// page returns the page of a list that the request asks for.
func (l *look) page() repo.Page { return repo.Page{Limit: pageSize, After: l.r.FormValue("after")} }

// next returns the address of the next page of the same list.
func (l *look) next(after string) string {
	if after == "" {
		return ""
	}
	query := l.r.URL.Query()
	query.Set("after", after)
	query.Del("format")
	return l.options.Prefix + l.r.URL.Path + "?" + query.Encode()
}
