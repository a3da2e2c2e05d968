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

func TestCostOf(t *testing.T) {
	for units, want := range map[float64]repo.Cost{
		0:          0,
		1:          repo.CostUnit,
		-2.5:       -2_500_000_000,
		0.0000015:  1500,
		0.1:        100_000_000,
		0.3:        300_000_000,
		1e-10:      0,
		0.6e-9:     1,
		-0.6e-9:    -1,
		9223372036: 9223372036 * repo.CostUnit,
	} {
		if got, err := repo.CostOf(units); err != nil || got != want {
			t.Errorf("%v is %d, %v, want %d", units, got, err, want)
		}
	}
	for _, units := range []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 9223372036.9, -9223372037, 1e10,
	} {
		_, err := repo.CostOf(units)
		wantInvalid(t, err, "cost", "is not an amount")
	}
}

// A float64 of the same steps would be 1.4999999999….
func TestCostAddsUpExactly(t *testing.T) {
	step, err := repo.CostOf(0.0000015)
	if err != nil {
		t.Fatal(err)
	}
	var total repo.Cost
	for range 1_000_000 {
		total += step
	}
	if total.String() != "1.5" || total.Units() != 1.5 {
		t.Errorf("the total is %s", total)
	}
}
