package bench

import (
	"slices"
	"time"
)

// Spread is the median of the rounds' results, and their range.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// spreadOf accepts any number of values; none give zeros.
func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return Spread{Median: median, Low: sorted[0], High: sorted[len(sorted)-1]}
}

// Measurement is the result of one way of a workload over all rounds.
type Measurement struct {
	// Way is the name of the way, such as "agentstore" or "naive".
	Way string `json:"way"`
	// X is the position on a curve's axis, such as the number of writers. Zero
	// outside of curves.
	X float64 `json:"x,omitzero"`
	// Rate is rows per second.
	Rate Spread `json:"rate"`
	// P50 and P99 are the latency of one operation in milliseconds: the median
	// over the rounds of each round's percentile.
	P50 Spread `json:"p50_ms"`
	P99 Spread `json:"p99_ms"`
	// Operations is the number of operations in all rounds.
	Operations int `json:"operations"`

	rates, p50s, p99s []float64 // by round
}

func measure(way string, x float64, rounds []sample) Measurement {
	m := Measurement{Way: way, X: x}
	for i := range rounds {
		m.Operations += rounds[i].operations
		m.rates = append(m.rates, rounds[i].rate())
		m.p50s = append(m.p50s, milliseconds(rounds[i].percentile(0.50)))
		m.p99s = append(m.p99s, milliseconds(rounds[i].percentile(0.99)))
	}
	m.Rate, m.P50, m.P99 = spreadOf(m.rates), spreadOf(m.p50s), spreadOf(m.p99s)
	return m
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// goal is a figure that should be reached.
type goal struct {
	subject, baseline string // ways; without a baseline the figure is no ratio
	latency           bool   // of latencies, at most; else of rates, at least
	tail              bool   // of p99 latencies; else of p50
	figure            float64
}

// Figure is a goal with what was measured.
type Figure struct {
	Workload string `json:"workload"`
	Title    string `json:"title"`
	// Subject is compared with Baseline; without one, Value is rows per second.
	Subject  string `json:"subject"`
	Baseline string `json:"baseline,omitempty"`
	// Latency means that latencies are compared, of which less is better.
	Latency bool `json:"latency"`
	// Tail means the 99th percentile instead of the median.
	Tail bool `json:"tail,omitzero"`
	// Goal is the figure that should be reached.
	Goal float64 `json:"goal"`
	// Value is the median of the rounds' ratios. The two ways of a round run next
	// to each other, so that other load on the machine affects both.
	Value   Spread `json:"value"`
	Reached bool   `json:"reached"`
}

func (g goal) judge(workload, title string, measurements []Measurement) Figure {
	figure := Figure{
		Workload: workload, Title: title, Subject: g.subject, Baseline: g.baseline,
		Latency: g.latency, Tail: g.tail, Goal: g.figure,
	}
	find := func(way string) Measurement {
		i := slices.IndexFunc(measurements, func(m Measurement) bool { return m.Way == way })
		return measurements[i]
	}
	values := func(m Measurement) []float64 {
		switch {
		case g.tail:
			return m.p99s
		case g.latency:
			return m.p50s
		default:
			return m.rates
		}
	}
	ratios := slices.Clone(values(find(g.subject)))
	if g.baseline != "" {
		for i, base := range values(find(g.baseline)) {
			if base > 0 {
				ratios[i] /= base
			}
		}
	}
	figure.Value = spreadOf(ratios)
	figure.Reached = figure.Value.Median >= g.figure
	if g.latency {
		figure.Reached = figure.Value.Median <= g.figure
	}
	return figure
}
