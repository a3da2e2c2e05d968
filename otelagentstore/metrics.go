package otelagentstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-df90f812/agentstore"
)

// instruments are 14. The values of each label are a fixed set: names of operations and kinds, of
// errors, of stages.
type instruments struct {
	duration, wait, commit, size *histogram

	again, waited                   metric.Float64ObservableCounter
	waiting, followers, connections metric.Int64ObservableGauge
	plans, unsealed, idle           metric.Int64ObservableGauge
	lag, oldest                     metric.Float64ObservableGauge
	sampled                         atomic.Pointer[sample]
}

// seconds are the buckets' bounds.
var seconds = metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)

func newInstruments(meter metric.Meter, system string) (*instruments, error) {
	i := &instruments{}
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	newHistogram := func(name, unit, label, about string, options ...metric.Float64HistogramOption) *histogram {
		h, err := meter.Float64Histogram(name, append(options, metric.WithUnit(unit), metric.WithDescription(about))...)
		keep(err)
		return &histogram{to: h, label: label}
	}
	gauge := func(name, unit, about string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(about))
		keep(err)
		return g
	}
	age := func(name, about string) metric.Float64ObservableGauge {
		g, err := meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(about))
		keep(err)
		return g
	}
	counter := func(name, unit, about string) metric.Float64ObservableCounter {
		c, err := meter.Float64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(about))
		keep(err)
		return c
	}
	i.duration = newHistogram("db.client.operation.duration", "s", "db.operation.name", "How long operations take.",
		seconds)
	i.duration.system = system
	i.wait = newHistogram("agentstore.write.wait", "s", "kind", "How long writes wait until a group carries them.",
		seconds)
	i.commit = newHistogram("agentstore.write.commit", "s", "kind", "How long their groups then take.", seconds)
	i.size = newHistogram("agentstore.group.size", "{write}", "kind", "How many writes a group has.",
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048))
	i.again = counter("agentstore.retries", "{attempt}", "Further attempts of operations and groups.")
	i.waited = counter("agentstore.connection.wait", "s", "How long operations have waited for a connection.")
	i.waiting = gauge("agentstore.writes.waiting", "{write}",
		"Writes that no group carries; held: whose row is locked elsewhere.")
	i.followers = gauge("agentstore.followers", "{follower}",
		"Loops that follow, and calls that wait; behind: that catch up.")
	i.connections = gauge("db.client.connection.count", "{connection}", "Connections of the pool.")
	i.plans = gauge("agentstore.plans", "{plan}", "Plans by stage, in each namespace up to 10,001.")
	i.unsealed = gauge("agentstore.audit.unsealed", "{entry}", "Audit entries that are not sealed, up to 10,001.")
	i.idle = gauge("agentstore.retention.backlog", "{session}",
		"Sessions that are idle for longer than Options.Retention, of the first 10,001.")
	i.lag = age("agentstore.followers.lag", "How long a follower has not been given what there is.")
	i.oldest = age("agentstore.oldest", "How long the first one has waited: a plan that is due, a snapshot, an audit "+
		"entry to be sealed, a session to be deleted.")
	return i, errors.Join(errs...)
}

// histogram keeps its sets of attributes: making one costs more than a record.
type histogram struct {
	to            metric.Float64Histogram
	label, system string
	sets          sync.Map
}

func (h *histogram) record(ctx context.Context, value float64, name, failed string) {
	key := [2]string{name, failed}
	set, found := h.sets.Load(key)
	if !found {
		attributes := []attribute.KeyValue{attribute.String(h.label, name)}
		if h.system != "" {
			attributes = append(attributes, attribute.String("db.system.name", h.system))
		}
		if failed != "" {
			attributes = append(attributes, attribute.String("error.type", failed))
		}
		set, _ = h.sets.LoadOrStore(key, []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))})
	}
	h.to.Record(ctx, value, set.([]metric.RecordOption)...)
}

// Watch has the metrics tell of the pools, queues and followers of one or more stores together, and of what Sample
// finds, until stop is called. Watch one store of each pool, all in one call. Collecting them sends nothing to the
// database.
func (o *Observer) Watch(stores ...*agentstore.Store) (stop func(), err error) {
	watching, err := o.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		o.observe(to, stores)
		return nil
	}, o.again, o.waited, o.waiting, o.followers, o.connections, o.lag, o.plans, o.unsealed, o.idle, o.oldest)
	if err != nil {
		return nil, err
	}
	return func() { _ = watching.Unregister() }, nil
}

func (o *Observer) observe(to metric.Observer, stores []*agentstore.Store) {
	with := func(label, value string) metric.ObserveOption {
		return metric.WithAttributes(attribute.String(label, value))
	}
	stats := stores[0].Stats()
	for _, store := range stores[1:] {
		stats.Add(store.Stats())
	}
	to.ObserveFloat64(o.again, float64(stats.Again))
	to.ObserveFloat64(o.waited, stats.Pool.Waited.Seconds())
	to.ObserveInt64(o.connections, int64(stats.Pool.Acquired), with("db.client.connection.state", "used"))
	to.ObserveInt64(o.connections, int64(stats.Pool.Open-stats.Pool.Acquired), with("db.client.connection.state", "idle"))
	for _, c := range stats.Committers {
		kind := attribute.String("kind", c.Kind)
		to.ObserveInt64(o.waiting, int64(c.Waiting-c.Locked), metric.WithAttributes(kind,
			attribute.String("state", "queued")))
		to.ObserveInt64(o.waiting, int64(c.Locked), metric.WithAttributes(kind, attribute.String("state", "locked")))
	}
	f := stats.Followers
	to.ObserveFloat64(o.lag, f.Lag.Seconds())
	for of, n := range map[string]int{
		"sessions": f.Sessions, "streams": f.Streams, "claims": f.Claims, "leases": f.Leases,
		"behind": f.Behind,
	} {
		to.ObserveInt64(o.followers, int64(n), with("of", of))
	}
	if s := o.sampled.Load(); s != nil && time.Since(s.at) < sampleTTL {
		s.observe(to, o.instruments)
	}
}
