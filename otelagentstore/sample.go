package otelagentstore

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// The samples are of all that the stores have: one process of all takes them, while it has a lease.
const (
	sampleEvery = 15 * time.Second
	sampleTTL   = 3 * sampleEvery
	// maxPages bounds what is read for one sample: the stages of so many namespaces. Each count is bounded, too.
	maxPages    = 10
	maxUnsealed = 10_001
)

var sampler = repo.LeaseKey{Kind: "otelagentstore", Name: "sampler"}

// sample is what the database had. A part that could not be read is nil.
type sample struct {
	at             time.Time
	plans          map[repo.Stage]int64
	unsealed, idle *int64
	oldest         map[string]float64 // in seconds
}

// Sample counts plans, audit entries and what retention has to delete, and looks for old snapshots, every 15 seconds,
// for the metrics of Watch. It returns when ctx ends. Of all processes that call it one is elected, by a lease. What
// the role may not read has no metric. Of several stores, at least one, it adds up what they have; the first one has
// the lease.
func (o *Observer) Sample(ctx context.Context, stores ...*agentstore.Store) {
	owner := repo.NewID().String()
	leases := stores[0].Leases()
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		lease, err := leases.Acquire(ctx, repo.NewLease{Key: sampler, Owner: owner, TTL: sampleTTL})
		if err == nil {
			bounded, cancel := context.WithTimeout(ctx, sampleEvery)
			o.sampled.Store(o.take(bounded, stores))
			cancel()
		} else {
			o.sampled.Store(nil)
		}
		select {
		case <-ctx.Done():
			o.sampled.Store(nil)
			if err == nil { // so that another process goes on at once
				bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				_ = leases.Release(bounded, lease)
				cancel()
			}
			return
		case <-ticker.C:
		}
	}
}

// take takes a sample of each store, and adds them up.
func (o *Observer) take(ctx context.Context, stores []*agentstore.Store) (all *sample) {
	for _, store := range stores {
		if one := o.takeOne(ctx, store); all == nil {
			all = one
		} else {
			all.add(one)
		}
	}
	return all
}

// add adds the sample of another store. What could not be read of one is of none.
func (s *sample) add(other *sample) {
	if s.plans == nil || other.plans == nil {
		s.plans = nil
	} else {
		for stage, n := range other.plans {
			s.plans[stage] += n
		}
	}
	sum := func(a, b *int64) *int64 {
		if a == nil || b == nil {
			return nil
		}
		return new(*a + *b)
	}
	s.unsealed, s.idle = sum(s.unsealed, other.unsealed), sum(s.idle, other.idle)
	for of, seconds := range s.oldest {
		if longer, has := other.oldest[of]; has {
			s.oldest[of] = max(seconds, longer)
		} else {
			delete(s.oldest, of)
		}
	}
}

func (o *Observer) takeOne(ctx context.Context, store *agentstore.Store) *sample {
	s := &sample{at: time.Now(), oldest: map[string]float64{}}
	since := func(of string, then time.Time) {
		s.oldest[of] = 0
		if !then.IsZero() {
			s.oldest[of] = max(0, time.Since(then).Seconds())
		}
	}
	var oldest time.Time
	s.plans = map[repo.Stage]int64{}
	page := repo.Page{Limit: repo.MaxPageSize}
	for range maxPages {
		counts, err := store.Plans().Counts(ctx, "", page)
		if err != nil {
			s.plans = nil
			break
		}
		for _, c := range counts.Items {
			s.plans[c.Stage] += int64(c.Count)
			if !c.Oldest.IsZero() && (oldest.IsZero() || c.Oldest.Before(oldest)) {
				oldest = c.Oldest
			}
		}
		if page.After = counts.Next; page.After == "" {
			break
		}
	}
	if s.plans != nil {
		since("plan", oldest)
	}
	if health, err := store.Health(ctx); err == nil {
		oldest = time.Time{}
		for _, h := range health.Holders {
			if !h.Since.IsZero() && (oldest.IsZero() || h.Since.Before(oldest)) {
				oldest = h.Since
			}
		}
		since("snapshot", oldest)
	}
	if waiting, err := store.AuditLog().Waiting(ctx, maxUnsealed); err == nil {
		s.unsealed, s.oldest["entry"] = &waiting.Entries, waiting.Age.Seconds()
	}
	if o.options.Retention != nil {
		idle := make(map[string]time.Time, len(o.options.Retention))
		for namespace, age := range o.options.Retention {
			idle[cmp.Or(namespace, repo.DefaultNamespace)] = s.at.Add(-age)
		}
		if sessions, longest, err := store.Removal().Idle(ctx, idle); err == nil {
			s.idle, s.oldest["session"] = &sessions, longest.Seconds()
		}
	}
	return s
}

func (s *sample) observe(to metric.Observer, i *instruments) {
	for stage, n := range s.plans {
		to.ObserveInt64(i.plans, n, metric.WithAttributes(attribute.String("phase", string(stage.Phase)),
			attribute.String("state", string(stage.State))))
	}
	for of, seconds := range s.oldest {
		to.ObserveFloat64(i.oldest, seconds, metric.WithAttributes(attribute.String("of", of)))
	}
	if s.unsealed != nil {
		to.ObserveInt64(i.unsealed, *s.unsealed)
	}
	if s.idle != nil {
		to.ObserveInt64(i.idle, *s.idle)
	}
}
