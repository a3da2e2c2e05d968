package otelagentstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/otelagentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// A plan that a process makes in a trace is done hours later by another one, in a span with a link to that trace.
func TestWorkLinks(t *testing.T) {
	maker, worker := newWorld(t, otelagentstore.Options{}), newWorld(t, otelagentstore.Options{Conversations: true})
	store, _ := open(t, maker)
	later := openAs(t, worker, store)
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 3}}); err != nil {
		t.Fatal(err)
	}
	ctx, caller := maker.tracer.Start(t.Context(), "caller")
	made := map[string]string{} // the names of the spans, by plan
	keep := func(name string, plan *repo.Plan, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		made[plan.ID.String()] = name
	}
	use, err := store.Plans().Use(ctx, "a", repo.UseAction{})
	keep("agentstore.plans.use", &use, err)
	turn, err := store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: session.ID, Action: "a"})
	keep("agentstore.append_turn", turn.Plan, err)
	err = store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		use, err = tx.Plans().Use(ctx, "a", repo.UseAction{ParentID: use.ID})
		return err
	})
	keep("agentstore.plans.use", &use, err)
	use, err = store.Plans().Use(t.Context(), "a", repo.UseAction{Trace: "no trace at all"})
	keep("", &use, err)
	caller.End()

	ctx, stop := context.WithCancel(t.Context())
	done, snoozed := 0, false
	err = repo.Work(ctx, later, repo.Claim{Owner: "w", TTL: repo.MaxLeaseTTL}, worker.Work(func(_ context.Context, claimed repo.ClaimedPlan) error {
		if made[claimed.Plan.ID.String()] == "" && !snoozed {
			snoozed = true
			return repo.Snooze(0)
		}
		if done++; done == len(made) {
			stop()
		}
		return nil
	}))
	if !errors.Is(err, context.Canceled) || done != len(made) {
		t.Fatalf("%d plans were done: %v", done, err)
	}
	spans := worker.named("agentstore.work")
	if len(spans) < len(made) {
		t.Fatalf("%d spans", len(spans))
	}
	for _, span := range spans {
		got := attributes(span)
		name := made[got["agentstore.plan.id"]]
		if span.SpanKind != trace.SpanKindConsumer || got["agentstore.plan.phase"] != "strategize" || got["error.type"] != "" || span.Parent.IsValid() {
			t.Errorf("it is %+v", span)
		}
		if is := name == "agentstore.append_turn" || name == "agentstore.append_turns"; is != (got["gen_ai.conversation.id"] == session.ID.String()) {
			t.Errorf("the conversation of %q is %q", name, got["gen_ai.conversation.id"])
		}
		if name == "" {
			if len(span.Links) > 0 {
				t.Errorf("there are links of no trace: %+v", span.Links)
			}
			continue
		}
		if len(span.Links) != 1 || span.Links[0].SpanContext.TraceID() != caller.SpanContext().TraceID() || span.SpanContext.TraceID() == caller.SpanContext().TraceID() {
			t.Errorf("the links of %s are %+v", name, span.Links)
			continue
		}
		found := false
		for _, maker := range maker.named(name) {
			found = found || maker.SpanContext.SpanID() == span.Links[0].SpanContext.SpanID()
		}
		if !found {
			t.Errorf("the link leads to no span %s", name)
		}
	}
}

// openAs opens the store of another one again, as another process would.
func openAs(t *testing.T, w *world, of *agentstore.Store) repo.Store {
	t.Helper()
	if of.Pool() == nil {
		return of.In(repo.DefaultNamespace)
	}
	schema := strings.Trim(of.Pool().Config().ConnConfig.RuntimeParams["search_path"], `"`)
	store, err := agentstore.OpenPool(t.Context(), of.Pool(), agentstore.Options{Observer: w.Observer, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// What a trace's text is made of comes back; anything else is no link.
func TestLink(t *testing.T) {
	w := newWorld(t, otelagentstore.Options{})
	if text := w.Trace(t.Context()); text != "" {
		t.Errorf("the trace of none is %q", text)
	}
	ctx, span := w.tracer.Start(t.Context(), "caller")
	for _, test := range []struct{ state, want string }{
		{"", ""}, {"a=b c,d=e", "a=b c,d=e"}, {"a=" + strings.Repeat("x", 250) + ",b=" + strings.Repeat("y", 250), ""},
	} {
		state, err := trace.ParseTraceState(test.state)
		if err != nil {
			t.Fatal(err)
		}
		of := span.SpanContext().WithTraceState(state)
		link, is := otelagentstore.Link(repo.Plan{Trace: w.Trace(trace.ContextWithSpanContext(ctx, of))})
		got := link.SpanContext
		if !is || got.TraceID() != of.TraceID() || got.SpanID() != of.SpanID() || !got.IsSampled() || !got.IsRemote() || got.TraceState().String() != test.want {
			t.Errorf("of %q: %+v", test.state, got)
		}
	}
	valid := w.Trace(ctx)
	for _, text := range []string{
		"", " ", "x", valid[1:], valid + "0", strings.ToUpper(valid) + "g", " " + valid, "00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-01",
		"ff" + valid[2:], "00-\x00", strings.Repeat("9", 512),
	} {
		if link, is := otelagentstore.Link(repo.Plan{Trace: text}); is || link.SpanContext.IsValid() {
			t.Errorf("%q is a link to %+v", text, link.SpanContext)
		}
	}
	if link, is := otelagentstore.Link(repo.Plan{Trace: valid + " \xff,,="}); !is || link.SpanContext.TraceState().Len() > 0 {
		t.Errorf("with a state that is invalid: %+v", link)
	}
}

// A function that fails or panics leaves a span that says so.
func TestWorkFails(t *testing.T) {
	w := newWorld(t, otelagentstore.Options{})
	for want, do := range map[string]func() error{
		"":          func() error { return repo.Snooze(time.Second) },
		"not_found": func() error { return repo.Final(fmt.Errorf("read: %w", repo.ErrNotFound)) },
		"other":     func() error { panic("away") },
	} {
		w.spans.Reset()
		func() {
			defer func() { _ = recover() }()
			_ = w.Work(func(context.Context, repo.ClaimedPlan) error { return do() })(t.Context(), repo.ClaimedPlan{})
		}()
		if spans := w.named("agentstore.work"); len(spans) != 1 || attributes(spans[0])["error.type"] != want {
			t.Errorf("%q: %+v", want, spans)
		}
	}
}
