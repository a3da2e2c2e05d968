package otelagentstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/otelagentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// world is an observer whose spans are kept in memory, and whose metrics are scraped.
type world struct {
	*otelagentstore.Observer
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
	scrape func() string
}

func newWorld(t *testing.T, options otelagentstore.Options) *world {
	t.Helper()
	w := &world{spans: tracetest.NewInMemoryExporter()}
	traces := sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.spans))
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	options.TracerProvider, options.MeterProvider = traces, metric.NewMeterProvider(metric.WithReader(reader))
	w.tracer = traces.Tracer("test")
	if w.Observer, err = otelagentstore.New(options); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	w.scrape = func() string {
		answer, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status, err, string(text))
		}
		return string(text)
	}
	return w
}

// named returns the spans with a name.
func (w *world) named(name string) (found []tracetest.SpanStub) {
	for _, span := range w.spans.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

func attributes(span tracetest.SpanStub) map[string]string {
	values := map[string]string{}
	for _, a := range span.Attributes {
		values[string(a.Key)] = a.Value.String()
	}
	return values
}

// open returns a store on the server of AGENTSTORE_TEST_DATABASE_URL, in a schema of its own, or without one in memory.
func open(t *testing.T, w *world) (store *agentstore.Store, groups bool) {
	t.Helper()
	url, schema := os.Getenv("AGENTSTORE_TEST_DATABASE_URL"), "otel_"+strings.ReplaceAll(repo.NewID().String(), "-", "")
	if url == "" {
		url = "memory://" + schema
	}
	store, err := agentstore.Open(t.Context(), url, agentstore.Options{Observer: w.Observer, Schema: schema, Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if store.Pool() != nil {
			_, _ = store.Pool().Exec(context.Background(), "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
		}
		_ = store.Close()
	})
	return store, store.Pool() != nil
}

func user(content string) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: content}
}

// An append's span is in its caller's trace, with events for wait and commit. The names are those of the conventions.
func TestSpans(t *testing.T) {
	w := newWorld(t, otelagentstore.Options{Conversations: true})
	store, groups := open(t, w)
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, caller := w.tracer.Start(t.Context(), "caller")
	if _, err := store.Sessions().Append(ctx, session.ID, user("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Get(ctx, repo.NewID()); !errors.Is(err, repo.ErrNotFound) {
		t.Fatal(err)
	}
	if err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().LastMessages(ctx, session.ID, 1)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	caller.End()
	appends := w.named("agentstore.append")
	if len(appends) != 1 || appends[0].Parent.SpanID() != caller.SpanContext().SpanID() || appends[0].SpanKind != trace.SpanKindClient {
		t.Fatalf("they are %+v", appends)
	}
	got := attributes(appends[0])
	if got["db.system.name"] != "postgresql" || got["db.operation.name"] != "append" || got["gen_ai.conversation.id"] != session.ID.String() {
		t.Errorf("its attributes are %v", got)
	}
	if groups {
		if events := appends[0].Events; len(events) != 2 || events[0].Name != "wait" || events[1].Name != "commit" {
			t.Errorf("its events are %+v", events)
		}
		// It ends after its writes are answered.
		await.For(t, "the group's span", func() bool { return len(w.named("agentstore.group")) > 0 })
		if group := w.named("agentstore.group"); len(group) != 1 || group[0].SpanContext.TraceID() != caller.SpanContext().TraceID() {
			t.Errorf("its group is %+v", group)
		}
	}
	if get := attributes(w.named("agentstore.get")[0]); get["error.type"] != "not_found" {
		t.Errorf("its attributes are %v", get)
	}
	in, of := w.named("agentstore.in_tx")[0], w.named("agentstore.last_messages")[0]
	if of.Parent.SpanID() != in.SpanContext.SpanID() {
		t.Error("what is in the transaction is not below it")
	}
}

// The span of a group has links to the callers that are sampled, and there is none without these.
func TestGroupLinks(t *testing.T) {
	w := newWorld(t, otelagentstore.Options{})
	var callers []context.Context
	var spans []trace.Span
	for i := range 3 {
		ctx, span := w.tracer.Start(t.Context(), fmt.Sprint(i))
		callers, spans = append(callers, ctx), append(spans, span)
	}
	callers = append(callers, t.Context())
	group := observe.Group{Kind: "append", Size: 4, Callers: slices.Values(callers), Begun: time.Now()}
	w.EndGroup(w.BeginGroup(context.Background(), group), group, observe.Result{Error: "contention", SQLState: "55P03"})
	found := w.named("agentstore.group")
	if len(found) != 1 || len(found[0].Links) != 3 || found[0].Parent.SpanID() != spans[0].SpanContext().SpanID() {
		t.Fatalf("it is %+v", found)
	}
	for i, link := range found[0].Links {
		if link.SpanContext.SpanID() != spans[i].SpanContext().SpanID() {
			t.Errorf("link %d leads elsewhere", i)
		}
	}
	if got := attributes(found[0]); got["error.type"] != "contention" || got["db.response.status_code"] != "55P03" || got["db.operation.batch.size"] != "4" {
		t.Errorf("its attributes are %v", got)
	}
	group.Callers = slices.Values(callers[3:])
	if ctx := w.BeginGroup(context.Background(), group); trace.SpanFromContext(ctx).IsRecording() {
		t.Error("a group without a sampled caller has a span")
	}
}

var series = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{([^}]*)\})? `)

// The metrics are scraped as text. Tenants add no series, and the dashboard asks for what there is.
func TestMetrics(t *testing.T) {
	// Retention is of every tenant, and all of them are idle by now, or none ever.
	w := newWorld(t, otelagentstore.Options{Retention: map[string]time.Duration{"tenant0": time.Hour, "": time.Hour, "tenant1": -time.Hour}})
	store, groups := open(t, w)
	stop, err := w.Watch(store)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	work := func(tenant string) {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: tenant, Key: tenant, Owner: tenant})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Sessions().Append(t.Context(), session.ID, user("x")); err != nil {
			t.Fatal(err)
		}
	}
	work("tenant0")
	_, _ = store.Sessions().Get(t.Context(), repo.NewID())
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Plans().Use(t.Context(), "a", repo.UseAction{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Sample(ctx, store) })
	defer running.Wait()
	defer cancel()
	await.For(t, "a sample", func() bool { return strings.Contains(w.scrape(), "agentstore_retention_backlog") })
	before := series.FindAllString(w.scrape(), -1)
	for i := range 200 {
		work(fmt.Sprint("tenant", i+1))
	}
	text := w.scrape()
	if after := series.FindAllString(text, -1); len(after) != len(before) {
		t.Errorf("200 tenants made %d series of %d", len(after), len(before))
	}
	if strings.Contains(text, "tenant") {
		t.Error("a label has a tenant's name")
	}
	exposed := map[string]bool{}
	for _, found := range series.FindAllStringSubmatch(text, -1) {
		exposed[found[1]] = true
	}
	names := regexp.MustCompile(`_(bucket|sum|count)$`)
	instruments := map[string]bool{}
	for name := range exposed {
		if strings.HasPrefix(name, "agentstore_") || strings.HasPrefix(name, "db_") {
			instruments[strings.TrimSuffix(names.ReplaceAllString(name, ""), "_total")] = true
		}
	}
	if len(instruments) > 14 {
		t.Errorf("there are %d instruments: %v", len(instruments), instruments)
	}
	if !groups {
		return // in memory nothing is grouped, so that not all are exposed
	}
	dashboard, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(dashboard, &board); err != nil || len(board.Panels) < 8 {
		t.Fatalf("%d panels, %v", len(board.Panels), err)
	}
	asked := regexp.MustCompile(`\b(?:agentstore|db)_[a-z_]+`)
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			for _, name := range asked.FindAllString(target.Expr, -1) {
				if label := name == "db_operation_name" || name == "db_client_connection_state"; !label && !exposed[name] {
					t.Errorf("panel %q asks for %s, which is not exposed", panel.Title, name)
				}
			}
		}
	}
}

// A sample of several stores has what all of them have.
func TestSampleOfStores(t *testing.T) {
	w := newWorld(t, otelagentstore.Options{})
	var stores []*agentstore.Store
	for i := range 3 {
		store, err := agentstore.Open(t.Context(), "memory://"+t.Name(), agentstore.Options{Schema: fmt.Sprint("shard", i), Observer: w})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		stores = append(stores, store)
	}
	stop, err := w.Watch(stores...)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for i := range 6 {
		view := stores[i%3].In(fmt.Sprint("tenant", i))
		if _, err := view.Actions().Create(t.Context(), repo.NewAction{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		if _, err := view.Plans().Use(t.Context(), "a", repo.UseAction{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Sample(ctx, stores...) })
	defer running.Wait()
	defer cancel()
	queued := regexp.MustCompile(`(?m)^agentstore_plans\{.*state="queued".*\} 6$`)
	await.For(t, "the plans of all stores", func() bool { return queued.MatchString(w.scrape()) })
}
