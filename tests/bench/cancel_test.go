package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// A plan is cancelled elsewhere while Work does it: the time from before that call until the function's context has ended.
func BenchmarkCancel(b *testing.B) {
	p := newPlans(b).(plans)
	ctx, cancel := context.WithCancel(b.Context())
	begun, stopped, ended := make(chan repo.ID), make(chan time.Time), make(chan error, 1)
	go func() {
		ended <- repo.Work(ctx, p.store, repo.Claim{Owner: "worker"}, func(ctx context.Context, claimed repo.ClaimedPlan) error {
			begun <- claimed.Plan.ID
			<-ctx.Done()
			stopped <- time.Now()
			return ctx.Err()
		})
	}()
	var times []time.Duration
	for range b.N {
		p.add(b)
		id, at := <-begun, time.Now()
		if _, err := p.elsewhere.Plans().Transition(b.Context(), id, repo.TransitionCancel, repo.Cause{Reason: "stop"}); err != nil {
			b.Fatal(err)
		}
		times = append(times, (<-stopped).Sub(at))
	}
	b.StopTimer()
	reportTimes(b, "", times)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
}
