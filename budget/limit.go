package budget

import (
	"cmp"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Unit is what a limit counts.
type Unit string

// The units. Money is counted as repo.Cost.
const (
	Money  Unit = "money"
	Tokens Unit = "tokens"
)

// Period is how long a limit counts, by the calendar of its zone, before it begins again.
type Period string

// The periods.
const (
	Ever  Period = "ever"
	Day   Period = "day"
	Month Period = "month"
)

// layouts write a time so that all moments of a period have one text, also of a day of 23 or 25 hours. Texts of later
// periods are greater.
var layouts = map[Period]string{Ever: "", Day: "2006-01-02", Month: "2006-01"}

// Limit bounds what is spent under a name. What was spent under a name, a unit, a period and a zone is one number, in
// each namespace: limits that differ in nothing but Max bound the same one, each call by its own Max.
type Limit struct {
	// Name says whose limit it is, such as repo.JoinKey("tenant", tenant). As a part of a key (repo.JoinKey) it has 1 to
	// MaxNameBytes bytes.
	Name   string `json:"name"`
	Unit   Unit   `json:"unit"`
	Period Period `json:"period"`
	// Zone has the days and months: a name of the time zone database, such as "Europe/Berlin". Empty: UTC.
	Zone string `json:"zone,omitempty"`
	Max  int64  `json:"max"` // in Unit, not negative; 0 allows nothing
}

// MaxNameBytes bounds the name of a limit.
const MaxNameBytes = 1000

// ScopeName returns the name of the shared scope of state that has all that is kept under a limit's name. To erase a
// person, give it to erase.Request.Scopes.
func ScopeName(name string) string { return repo.JoinKey("budget", name) }

func scopeOf(name string) repo.Scope { return repo.Scope{Name: ScopeName(name)} }

// normal returns the limit as it is stored.
func (l Limit) normal() (Limit, error) {
	if l.Zone == "UTC" {
		l.Zone = ""
	}
	_, periodic := layouts[l.Period]
	return l, cmp.Or(
		invalidIf(l.Name == "", "name", "is empty"),
		invalidIf(len(repo.JoinKey(l.Name)) > MaxNameBytes, "name", "is too long"),
		invalidIf(l.Unit != Money && l.Unit != Tokens, "unit", "is not money or tokens"),
		invalidIf(!periodic, "period", "is not ever, day or month"),
		invalidIf(l.Period == Ever && l.Zone != "", "zone", "is set, but the period has no calendar"),
		invalidIf(l.Max < 0, "max", "is negative"),
	)
}

// instance returns the text of the period at a time, and when that ends: the zero time if it never does. The zone of
// the machine is refused, since it differs from one process to another.
func (l Limit) instance(at time.Time) (instance string, until time.Time, err error) {
	layout := layouts[l.Period]
	zone, err := time.LoadLocation(l.Zone)
	if unknown := err != nil || l.Zone == "Local"; unknown || layout == "" {
		return "", until, invalidIf(unknown, "zone", "is not in the time zone database of this machine")
	}
	at = at.In(zone)
	year, month, day := at.Date()
	if l.Period == Month {
		month, day = month+1, 0
	}
	instance, until = at.Format(layout), time.Date(year, month, day+1, 0, 0, 0, 0, zone)
	for until.Format(layout) == instance { // a day may begin later than at midnight
		until = until.Add(time.Hour / 4)
	}
	return instance, until, nil
}

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
