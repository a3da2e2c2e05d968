package budget

import (
	"cmp"

	"github.com/seed-df90f812/agentstore/repo"
)

// Amount is what a call costs, or may cost at most. Neither part is negative.
type Amount struct {
	Cost   repo.Cost `json:"cost,omitempty"`
	Tokens int64     `json:"tokens,omitempty"`
}

func (a Amount) of(unit Unit) int64 {
	if unit == Money {
		return int64(a.Cost)
	}
	return a.Tokens
}

func (a Amount) check(field string) error {
	return invalidIf(a.Cost < 0 || a.Tokens < 0, field, "is negative")
}

// Prices has the caller's prices.
type Prices struct {
	// Price returns what a call of a model with so many tokens costs; false: it does not know the model.
	Price func(model string, input, output int64) (repo.Cost, bool)
	// AllowUnknown lets a model without a price cost nothing. Its tokens are counted.
	AllowUnknown bool
}

// Amount returns what a call of a model with so many tokens costs. With the largest numbers of tokens that the call can
// have, it is the amount to reserve. Errors: InvalidError, of the field "model" if it has no price.
func (p Prices) Amount(model string, input, output int64) (Amount, error) {
	amount, known := Amount{Tokens: input + output}, false
	if p.Price != nil {
		amount.Cost, known = p.Price(model, input, output)
	}
	if !known {
		amount.Cost = 0
	}
	return amount, cmp.Or(
		invalidIf(input < 0 || output < 0 || amount.Tokens < 0, "tokens", "are negative or too many"), // of 64 bits
		invalidIf(!known && !p.AllowUnknown, "model", "has no price"),
		invalidIf(amount.Cost < 0, "price", "is negative"),
	)
}
