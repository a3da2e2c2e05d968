package repo

import (
	"strconv"
	"strings"
)

// Cost is money in billionths (1e-9) of the caller's unit, up to 9.2e9 units.
type Cost int64

// CostUnit is one unit of the currency: 3 * CostUnit is 3.00.
const CostUnit Cost = 1_000_000_000

// Units returns the amount in units, rounded to a float64.
func (c Cost) Units() float64 { return float64(c) / float64(CostUnit) }

// String returns the exact amount in units, such as "0.0000015".
func (c Cost) String() string {
	sign, abs := "", uint64(c)
	if c < 0 {
		sign, abs = "-", -abs
	}
	whole := strconv.FormatUint(abs/uint64(CostUnit), 10)
	rest := abs % uint64(CostUnit)
	if rest == 0 {
		return sign + whole
	}
	digits := strconv.FormatUint(rest+uint64(CostUnit), 10)[1:]
	return sign + whole + "." + strings.TrimRight(digits, "0")
}
