package repo_test

import (
	"math"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func TestCostString(t *testing.T) {
	for cost, want := range map[repo.Cost]string{
		0:                         "0",
		1:                         "0.000000001",
		-1:                        "-0.000000001",
		1500:                      "0.0000015",
		100_000_000:               "0.1",
		3 * repo.CostUnit:         "3",
		-3 * repo.CostUnit:        "-3",
		10*repo.CostUnit + 10:     "10.00000001",
		1_234_567_890_123_456_789: "1234567890.123456789",
		math.MaxInt64:             "9223372036.854775807",
		math.MinInt64:             "-9223372036.854775808",
	} {
		if got := cost.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(cost), got, want)
		}
	}
}

// A float64 of the same steps would be 1.4999999999….
func TestCostAddsUpExactly(t *testing.T) {
	const step = 1500 * repo.CostUnit / 1_000_000_000
	var total repo.Cost
	for range 1_000_000 {
		total += step
	}
	if total.String() != "1.5" || total.Units() != 1.5 {
		t.Errorf("the total is %s", total)
	}
}
