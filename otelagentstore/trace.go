package otelagentstore

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
)

// What W3C's Trace Context calls the two parts. The text of a plan has the first, and behind a space the
// second, if both have no more than maxTrace bytes.
const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
	maxTrace     = 512
)

var _ observe.Tracer = (*Observer)(nil)

// Trace implements observe.Tracer.
func (o *Observer) Trace(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	text := carrier[parentHeader]
	if state := carrier[stateHeader]; state != "" && len(text)+1+len(state) <= maxTrace {
		text += " " + state
	}
	return text
}

// Link returns a link to the operation that has made a plan, also if the caller of repo.Plans.Use or
// repo.Sessions.AppendTurn was another process. It returns false if the plan has no trace that is valid.
func Link(plan repo.Plan) (trace.Link, bool) {
	parent, state, _ := strings.Cut(plan.Trace, " ")
	carrier := propagation.MapCarrier{parentHeader: parent, stateHeader: state}
	made := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	return trace.Link{SpanContext: made}, made.IsValid()
}

// Work returns a function for repo.Work which does each plan in a span, agentstore.work, with the Link of
// the plan. The span is not in the trace that has made the plan, which may have ended hours ago.
func (o *Observer) Work(do func(context.Context, repo.ClaimedPlan) error) func(context.Context,
	repo.ClaimedPlan) error {
	return func(ctx context.Context, claimed repo.ClaimedPlan) (err error) {
		plan := claimed.Plan
		options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("agentstore.plan.id", plan.ID.String()), attribute.String("agentstore.plan.phase",
				string(plan.Phase)),
			attribute.Int("agentstore.plan.attempt", plan.Attempt))}
		if link, has := Link(plan); has { //nolint:contextcheck // it only reads a text
			options = append(options, trace.WithLinks(link))
		}
		if o.options.Conversations && !plan.SessionID.IsZero() {
			options = append(options, trace.WithAttributes(attribute.String("gen_ai.conversation.id", plan.SessionID.String())))
		}
		ctx, span := o.tracer.Start(ctx, "agentstore.work", options...)
		ended := observe.Result{Error: "other"} // if it panics
		defer func() { end(span, ended) }()
		err = do(ctx, claimed)
		if _, snoozed := errors.AsType[interface {
			error
			Snoozed() bool
		}](err); snoozed {
			span.SetAttributes(attribute.Bool("agentstore.snoozed", true))
			ended = observe.Result{}
		} else {
			ended = observe.ResultOf(err)
		}
		return err
	}
}
