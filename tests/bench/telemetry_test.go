package bench

import (
	"context"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/otelagentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// discarded exports spans to nowhere.
type discarded struct{}

func (discarded) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discarded) Shutdown(context.Context) error                             { return nil }

// BenchmarkAppendObserved compares appends without telemetry to those of callers of whose traces 1 % are
// sampled, with metrics.
func BenchmarkAppendObserved(b *testing.B) {
	const sessions = 1000
	for _, writers := range []int{1, 16, 64} {
		for _, way := range []string{"without", "observed"} {
			b.Run(fmt.Sprintf("writers=%d/way=%s", writers, way), func(b *testing.B) {
				traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discarded{}), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(.01))))
				defer func() { _ = traces.Shutdown(context.WithoutCancel(b.Context())) }()
				metrics := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
				telemetry, err := otelagentstore.New(otelagentstore.Options{TracerProvider: traces, MeterProvider: metrics})
				if err != nil {
					b.Fatal(err)
				}
				var observer observe.Observer
				if way == "observed" {
					observer = telemetry
				}
				store, caller := pgtest.NewStore(b, agentstore.Options{Observer: observer}), traces.Tracer("bench")
				ids := newSessions(b, store, sessions)
				together(b, writers, func(i int) error {
					ctx, span := caller.Start(b.Context(), "request")
					defer span.End()
					_, err := store.Sessions().Append(ctx, ids[i%sessions], message())
					return err
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
			})
		}
	}
}
