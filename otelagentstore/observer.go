// Package otelagentstore makes OpenTelemetry's traces and metrics of what a store does. It is for
// services that export them; README.md says how. The names of spans and metrics are stable.
package otelagentstore

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-df90f812/agentstore/observe"
)

// Options configure an Observer. The zero value is the default.
type Options struct {
	// TracerProvider and MeterProvider: nil means OpenTelemetry's global one.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	// Conversations puts the id of the session into spans, as gen_ai.conversation.id.
	Conversations bool
	// Retention is the retention.Policy.Sessions that the service runs: older sessions are its backlog. Nil: no metric.
	Retention map[string]time.Duration
	// System is db.system.name. Empty: "postgresql".
	System string
}

// Observer is an observe.Observer, for agentstore.Options. New makes one, for all stores of a program.
type Observer struct {
	options Options
	tracer  trace.Tracer
	meter   metric.Meter
	*instruments
}

var _ observe.Observer = (*Observer)(nil)

const scope = "github.com/seed-df90f812/agentstore/otelagentstore"

// New returns an Observer. Its errors are the MeterProvider's.
func New(options Options) (*Observer, error) {
	if options.TracerProvider == nil {
		options.TracerProvider = otel.GetTracerProvider()
	}
	if options.MeterProvider == nil {
		options.MeterProvider = otel.GetMeterProvider()
	}
	if options.System == "" {
		options.System = "postgresql"
	}
	o := &Observer{
		options: options, tracer: options.TracerProvider.Tracer(scope),
		meter: options.MeterProvider.Meter(scope),
	}
	var err error
	o.instruments, err = newInstruments(o.meter, options.System)
	return o, err
}

// lasts reports whether an operation waits for what others do, for hours: it has no span and no
// duration.
func lasts(name string) bool {
	switch name {
	case "follow", "streams.follow", "streams.follow_session", "leases.await":
		return true
	}
	return false
}

// Begin implements observe.Observer.
func (o *Observer) Begin(ctx context.Context, op observe.Operation) context.Context {
	if lasts(op.Name) {
		return ctx
	}
	ctx, span := o.tracer.Start(ctx, "agentstore."+op.Name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(op.Begun))
	if !span.IsRecording() {
		return ctx
	}
	span.SetAttributes(attribute.String("db.system.name", o.options.System),
		attribute.String("db.operation.name", op.Name))
	if op.InTx {
		span.SetAttributes(attribute.Bool("agentstore.in_tx", true))
	}
	if o.options.Conversations && !op.Session.IsZero() {
		span.SetAttributes(attribute.String("gen_ai.conversation.id", op.Session.String()))
	}
	return ctx
}

// End implements observe.Observer.
func (o *Observer) End(ctx context.Context, op observe.Operation, result observe.Result) {
	if lasts(op.Name) {
		return
	}
	o.duration.record(ctx, time.Since(op.Begun).Seconds(), op.Name, result.Error)
	end(trace.SpanFromContext(ctx), result)
}

func end(span trace.Span, result observe.Result) {
	if result.Error != "" && span.IsRecording() {
		span.SetAttributes(attribute.String("error.type", result.Error))
		if result.SQLState != "" {
			span.SetAttributes(attribute.String("db.response.status_code", result.SQLState))
		}
		span.SetStatus(codes.Error, result.Error)
	}
	span.End()
}

// Write implements observe.Observer.
func (o *Observer) Write(ctx context.Context, w observe.Write) {
	o.wait.record(ctx, w.Wait.Seconds(), w.Kind, "")
	if w.Commit > 0 {
		o.commit.record(ctx, w.Commit.Seconds(), w.Kind, w.Result.Error)
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	done := time.Now()
	span.AddEvent("wait", trace.WithTimestamp(done.Add(-w.Commit)),
		trace.WithAttributes(attribute.Float64("agentstore.wait", w.Wait.Seconds())))
	span.AddEvent("commit", trace.WithTimestamp(done), trace.WithAttributes(
		attribute.Float64("agentstore.commit", w.Commit.Seconds()), attribute.Int("agentstore.group", w.Group),
		attribute.Int("agentstore.attempts", w.Attempts), attribute.String("error.type", w.Result.Error)))
}

// maxLinks is as many as OpenTelemetry keeps by default.
const maxLinks = 128

// BeginGroup implements observe.Observer. The group has a span if one of its callers has a sampled
// span. It is in the trace of the first of them, and has links to the others.
func (o *Observer) BeginGroup(ctx context.Context, g observe.Group) context.Context {
	var first trace.SpanContext
	var links []trace.Link
	for caller := range g.Callers {
		of := trace.SpanContextFromContext(caller)
		switch {
		case !of.IsSampled() || len(links) == maxLinks:
		case !first.IsValid():
			first = of
			fallthrough
		default:
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	if !first.IsValid() {
		return ctx
	}
	ctx, _ = o.tracer.Start(trace.ContextWithSpanContext(ctx, first), "agentstore.group", trace.WithLinks(links...),
		trace.WithTimestamp(g.Begun),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("db.system.name", o.options.System), attribute.String("db.operation.name", "group"),
			attribute.String("agentstore.kind", g.Kind), attribute.Int("db.operation.batch.size", g.Size),
			attribute.Bool("agentstore.waits", g.Waits)))
	return ctx
}

// EndGroup implements observe.Observer.
func (o *Observer) EndGroup(ctx context.Context, g observe.Group, result observe.Result) {
	o.size.record(ctx, float64(g.Size), g.Kind, "")
	end(trace.SpanFromContext(ctx), result)
}
