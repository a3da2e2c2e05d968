package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{9, 1, 5}, Spread{5, 1, 9}},
		{[]float64{4, 1, 2, 9}, Spread{3, 1, 9}},
	} {
		if got := spreadOf(test.values); got != test.want {
			t.Errorf("%v: %v, not %v", test.values, got, test.want)
		}
	}
	values := []float64{2, 1}
	spreadOf(values)
	if !slices.Equal(values, []float64{2, 1}) {
		t.Error("the caller's values were sorted")
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	s := sample{}
	if s.percentile(0.5) != 0 || s.rate() != 0 {
		t.Error("nothing gives something")
	}
	for i := range 100 {
		s.latencies = append(s.latencies, time.Duration(100-i))
	}
	for part, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := s.percentile(part); got != want {
			t.Errorf("%v: %d, not %d", part, got, want)
		}
	}
}

func TestSamplesAddUp(t *testing.T) {
	t.Parallel()
	one := sample{operations: 1, rows: 10, took: time.Second, latencies: []time.Duration{1}}
	after, beside := one, one
	after.add(one)
	if after.rate() != 10 || len(after.latencies) != 2 || after.operations != 2 {
		t.Errorf("one after the other: %+v", after)
	}
	beside.beside(one)
	if beside.rate() != 20 || beside.took != time.Second {
		t.Errorf("at the same time: %+v", beside)
	}
}

// Each ratio is within one round: a machine that is slow for a whole round does not
// change it.
func TestGoalComparesWithinRounds(t *testing.T) {
	t.Parallel()
	round := func(rows int, p50 time.Duration) sample {
		return sample{operations: 1, rows: rows, took: time.Second, latencies: []time.Duration{p50}}
	}
	measurements := []Measurement{
		measure("ours", 0, []sample{round(200, 10), round(20, 100), round(400, 5)}),
		measure("theirs", 0, []sample{round(100, 10), round(10, 100), round(100, 10)}),
	}
	for _, test := range []struct {
		goal    goal
		value   float64
		reached bool
	}{
		{goal{subject: "ours", baseline: "theirs", figure: 2}, 2, true},
		{goal{subject: "ours", baseline: "theirs", figure: 2.1}, 2, false},
		{goal{subject: "ours", baseline: "theirs", latency: true, figure: 1}, 1, true},
		{goal{subject: "ours", baseline: "theirs", latency: true, figure: 0.9}, 1, false},
		{goal{subject: "ours", figure: 200}, 200, true},
		{goal{subject: "ours", figure: 201}, 200, false},
	} {
		figure := test.goal.judge("name", "title", measurements)
		if math.Abs(figure.Value.Median-test.value) > 1e-9 || figure.Reached != test.reached {
			t.Errorf("%+v: %+v", test.goal, figure)
		}
	}
	if measurements[0].rates[0] != 200 {
		t.Error("judging changed what was measured")
	}
}

func TestDrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := drive(t.Context(), 3, time.Second, func(context.Context, int) (int, error) {
			time.Sleep(300 * time.Millisecond)
			return 5, nil
		})
		// Operations that have begun are finished: four of 300 ms each.
		if err != nil || s.operations != 12 || s.rows != 60 || s.took != 1200*time.Millisecond || s.percentile(1) != 300*time.Millisecond {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestDriveStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	var calls atomic.Int64
	_, err := drive(t.Context(), 4, time.Hour, func(ctx context.Context, writer int) (int, error) {
		calls.Add(1)
		if writer == 0 {
			return 0, failure
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if !errors.Is(err, failure) || calls.Load() > 4 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}
}
