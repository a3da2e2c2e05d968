package bench

import (
	"context"
	"slices"
	"time"
)

// sample is what one way did in one round: the number of operations and of rows,
// the total time, and the latency of each operation.
type sample struct {
	operations int
	rows       int
	took       time.Duration
	latencies  []time.Duration
}

// add adds another part of the same round.
func (s *sample) add(other sample) {
	s.operations += other.operations
	s.rows += other.rows
	s.took += other.took
	s.latencies = append(s.latencies, other.latencies...)
}

// beside adds what another process did at the same time.
func (s *sample) beside(other sample) {
	took := max(s.took, other.took)
	s.add(other)
	s.took = took
}

// rate returns rows per second.
func (s *sample) rate() float64 {
	if s.took <= 0 {
		return 0
	}
	return float64(s.rows) / s.took.Seconds()
}

// percentile returns the latency that the given part of the operations, 0 to 1, did
// not exceed (nearest rank), or zero without operations. It sorts the latencies.
func (s *sample) percentile(part float64) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	rank := int(part*float64(len(s.latencies))+0.999999) - 1
	return s.latencies[min(max(0, rank), len(s.latencies)-1)]
}

// operation does one thing for a writer, 0 and up, and returns the number of rows.
type operation func(ctx context.Context, writer int) (rows int, err error)

// drive has writers repeat an operation for a time. Operations that have begun are
// finished, and counted with the time that they took. The first error ends all.
func drive(ctx context.Context, writers int, duration time.Duration, do operation) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([]sample, writers)
	begin := time.Now()
	deadline := begin.Add(duration)
	_ = each(writers, func(writer int) error {
		part := sample{}
		defer func() { parts[writer] = part }()
		for now := time.Now(); now.Before(deadline) && ctx.Err() == nil; {
			rows, err := do(ctx, writer)
			if err != nil {
				cancel(err)
				return err
			}
			end := time.Now()
			part.operations++
			part.rows += rows
			part.latencies = append(part.latencies, end.Sub(now))
			now = end
		}
		return nil
	})
	total := sample{took: time.Since(begin)}
	for _, part := range parts {
		total.add(part)
	}
	return total, context.Cause(ctx)
}
