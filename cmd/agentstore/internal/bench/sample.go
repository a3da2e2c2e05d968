package bench

import (
	"context"
	"slices"
	"sync"
	"time"
)

// sample is what one way did in one round: how many operations, how many rows
// they concerned, how long all took, and how long each.
type sample struct {
	operations int
	rows       int
	took       time.Duration
	latencies  []time.Duration
}

// add joins another part of the same round.
func (s *sample) add(other sample) {
	s.operations += other.operations
	s.rows += other.rows
	s.took += other.took
	s.latencies = append(s.latencies, other.latencies...)
}

// beside joins what another process did in the same time.
func (s *sample) beside(other sample) {
	took := max(s.took, other.took)
	s.add(other)
	s.took = took
}

// rate is rows per second.
func (s *sample) rate() float64 {
	if s.took <= 0 {
		return 0
	}
	return float64(s.rows) / s.took.Seconds()
}

// percentile is the latency that the given part of the operations, 0 to 1, did
// not pass: the nearest rank. It sorts the latencies. Zero: there was no operation.
func (s *sample) percentile(part float64) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	rank := int(part*float64(len(s.latencies))+0.999999) - 1
	return s.latencies[min(max(0, rank), len(s.latencies)-1)]
}

// operation does one thing for a writer, 0 and up, and returns the rows it
// concerned.
type operation func(ctx context.Context, writer int) (rows int, err error)

// drive has writers repeat an operation for a time. What has begun is finished,
// and counted with the time it took. The first error ends all.
func drive(ctx context.Context, writers int, duration time.Duration, do operation) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([]sample, writers)
	begin := time.Now()
	deadline := begin.Add(duration)
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			part := sample{}
			for now := time.Now(); now.Before(deadline) && ctx.Err() == nil; {
				rows, err := do(ctx, writer)
				if err != nil {
					cancel(err)
					break
				}
				end := time.Now()
				part.operations++
				part.rows += rows
				part.latencies = append(part.latencies, end.Sub(now))
				now = end
			}
			parts[writer] = part
		})
	}
	all.Wait()
	total := sample{took: time.Since(begin)}
	for _, part := range parts {
		total.add(part)
	}
	return total, context.Cause(ctx)
}
