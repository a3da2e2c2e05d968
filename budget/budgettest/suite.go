// Package budgettest tests package budget on a store.
package budgettest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
)

// Store is a store with nothing in it, and how its records become older.
type Store struct {
	repo.Store

	Elapse func(time.Duration)
}

// Run tests the package, each test on a store of its own.
func Run(t *testing.T, open func(*testing.T) Store) {
	for name, test := range map[string]func(*world){
		"Settle": testSettle, "AllOrNone": testAllOrNone, "Again": testAgain, "Excess": testExcess, "Lowered": testLowered,
		"Invalid": testInvalid, "Turns": testTurns, "TurnsAgain": testTurnsAgain, "LateTurns": testLateTurns,
		"Expired": testExpired, "ExpiredByRefusal": testExpiredByRefusal, "SameIDAgain": testSameIDAgain, "Forgotten": testForgotten,
		"Erased": testErased, "Find": testFind, "Foreign": testForeign, "InTx": testInTx, "Concurrent": testConcurrent,
		"Views": testViews, "Racing": testRacing, "Outlived": testOutlived, "Names": testNames,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, open(t)))
		})
	}
}

// world is a keeper on a store.
type world struct {
	*testing.T
	*budget.Keeper

	store Store
}

func newWorld(t *testing.T, store Store) *world {
	t.Helper()
	keeper, err := budget.New(store, budget.Options{ClockAge: 1}) // reads it each time: a test may move it
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, keeper, store}
}

const unit = int64(repo.CostUnit)

func money(name string, most int64) budget.Limit {
	return budget.Limit{Name: name, Unit: budget.Money, Period: budget.Ever, Max: most * unit}
}

func tokens(name string, most int64) budget.Limit {
	return budget.Limit{Name: name, Unit: budget.Tokens, Period: budget.Ever, Max: most}
}

func amount(units, count int64) budget.Amount {
	return budget.Amount{Cost: repo.Cost(units * unit), Tokens: count}
}

func used(units, count int64) budget.Use { return budget.Use{Amount: amount(units, count)} }

func (w *world) reserve(id string, most budget.Amount, limits ...budget.Limit) budget.Reservation {
	w.Helper()
	r, err := w.Reserve(w.Context(), budget.Request{ID: id, Limits: limits, Most: most, Life: time.Hour})
	if err != nil {
		w.Fatal(id, err)
	}
	return r
}

// refused checks that a reservation is refused by a limit.
func (w *world) refused(by budget.Limit, current, requested int64, id string, most budget.Amount, limits ...budget.Limit) {
	w.Helper()
	_, err := w.Reserve(w.Context(), budget.Request{ID: id, Limits: limits, Most: most, Life: time.Hour})
	w.exceeded(err, by, current, requested)
}

func (w *world) exceeded(err error, by budget.Limit, current, requested int64) {
	w.Helper()
	exceeded, is := errors.AsType[*budget.ExceededError](err)
	if !is || !errors.Is(err, repo.ErrLimit) || exceeded.Limit != by || exceeded.Err.Current != current || exceeded.Err.Requested != requested ||
		!exceeded.Until.IsZero() {
		w.Errorf("%v %+v: %+v is not exceeded by %d + %d", err, exceeded, by, current, requested)
	}
}

func (w *world) settle(r budget.Reservation, use budget.Use, want budget.Settled) {
	w.Helper()
	if settled, err := w.Settle(w.Context(), r, use); err != nil || settled != want {
		w.Errorf("%+v, %v; want %+v", settled, err, want)
	}
}

func (w *world) sweep(want int, names ...string) {
	w.Helper()
	if n, err := w.Sweep(w.Context(), names...); err != nil || n != want {
		w.Errorf("%d have expired, want %d: %v", n, want, err)
	}
}

func (w *world) hasUsed(limit budget.Limit, want int64) {
	w.Helper()
	if n, err := w.Used(w.Context(), limit); err != nil || n != want {
		w.Errorf("%+v: %d is used, want %d: %v", limit, n, want, err)
	}
}

// keys returns how many keys there are under a name.
func (w *world) keys(name, prefix string) int {
	w.Helper()
	page, err := w.store.State().List(w.Context(), repo.Scope{Name: budget.ScopeName(name)}, prefix, repo.Page{})
	if err != nil {
		w.Fatal(err)
	}
	return len(page.Values)
}

func testSettle(w *world) {
	limits := []budget.Limit{money("tenant/a", 10), tokens("tenant/a", 100), tokens("user/~b", 50)}
	r := w.reserve("1", amount(4, 40), limits...)
	for i, want := range []int64{4 * unit, 40, 40} {
		w.hasUsed(limits[i], want)
	}
	w.settle(r, used(1, 30), budget.Settled{})
	for i, want := range []int64{1 * unit, 30, 30} {
		w.hasUsed(limits[i], want)
	}
	w.settle(r, used(2, 99), budget.Settled{Repeated: true})
	if err := w.Release(w.Context(), r); err != nil {
		w.Error(err)
	}
	if err := w.Release(w.Context(), w.reserve("2", amount(9, 20), limits...)); err != nil {
		w.Error(err)
	}
	w.settle(w.reserve("3", budget.Amount{}, limits...), used(0, 0), budget.Settled{})
	for i, want := range []int64{1 * unit, 30, 30} {
		w.hasUsed(limits[i], want)
	}
	if n := w.keys("tenant/a", "held/") + w.keys("user/~b", "held/"); n != 0 {
		w.Errorf("%d records are left", n)
	}
}

func testAllOrNone(w *world) {
	tenant, user := money("tenant", 10), tokens("user", 50)
	w.reserve("1", amount(4, 40), tenant, user)
	w.refused(user, 40, 11, "2", amount(1, 11), tenant, user)
	w.refused(user, 40, 11, "2", amount(1, 11), user, tenant)
	w.hasUsed(tenant, 4*unit)
	w.reserve("2", amount(6, 10), tenant, user) // exactly
	w.refused(tenant, 10*unit, 1, "3", budget.Amount{Cost: 1}, user, tenant)
	w.refused(tokens("none", 0), 0, 1, "3", budget.Amount{Tokens: 1}, tokens("none", 0))
	w.reserve("3", budget.Amount{}, tokens("none", 0), tenant)
	for _, count := range []int64{math.MaxInt64, math.MaxInt64 - 49} { // with what is used it is no integer of 64 bits
		w.refused(user, 50, count, "4", amount(0, count), user)
	}
}

func testAgain(w *world) {
	tenant, user := money("tenant", 10), tokens("user", 50)
	first := w.reserve("1", amount(4, 40), tenant, user)
	if again := w.reserve("1", amount(4, 40), money("tenant", 5), user); text(again) != text(first) {
		w.Errorf("%+v again is %+v", first, again)
	}
	w.hasUsed(tenant, 4*unit)
	for _, other := range []budget.Request{
		{ID: "1", Limits: []budget.Limit{tenant, user}, Most: amount(4, 39), Life: time.Hour},
		{ID: "1", Limits: []budget.Limit{tenant, user}, Most: amount(4, 40), Life: time.Minute},
		{ID: "1", Limits: []budget.Limit{tenant}, Most: amount(4, 40), Life: time.Hour},
		{ID: "1", Limits: []budget.Limit{money("other", 10), user}, Most: amount(4, 40), Life: time.Hour},
	} {
		if _, err := w.Reserve(w.Context(), other); !errors.Is(err, repo.ErrConflict) {
			w.Errorf("%+v: %v", other, err)
		}
	}
	w.hasUsed(money("other", 10), 0)
	w.settle(first, used(4, 40), budget.Settled{})
	w.settle(w.reserve("1", amount(1, 1), tenant, user), used(1, 1), budget.Settled{})
	w.settle(first, used(4, 40), budget.Settled{Repeated: true})
	w.hasUsed(tenant, 5*unit)
}

// Ids and names that keys and JSON write otherwise, and the longest ones.
func testNames(w *world) {
	long := strings.Repeat("~", 500)
	for _, name := range []string{"/", "~", "a/b", "~1", "held/", "<&>", "\u2028", "\"\\", "𝔘", "../x", long[:255]} {
		var limits []budget.Limit
		for i := range 10 {
			limits = append(limits, tokens(fmt.Sprint(name, i), 10))
		}
		limits = append(limits, tokens(name, 10), tokens(long, 1000))
		r := w.reserve(name, amount(0, 1), limits...)
		if found, err := w.Find(w.Context(), name, name); err != nil || text(found) != text(r) {
			w.Errorf("%s %v, want %s", text(found), err, text(r))
		}
		w.store.Elapse(61 * time.Minute)
		w.sweep(1, name)
		w.settle(r, used(0, 2), budget.Settled{Late: true})
		w.hasUsed(limits[0], 2)
	}
	for _, name := range []string{"\x00", "\xff", long + "~"} {
		_, asName := w.Reserve(w.Context(), budget.Request{ID: "1", Limits: []budget.Limit{tokens(name, 10)}})
		_, asID := w.Reserve(w.Context(), budget.Request{ID: name, Limits: []budget.Limit{tokens("a", 10)}})
		if !errors.Is(asName, repo.ErrInvalid) || !errors.Is(asID, repo.ErrInvalid) {
			w.Errorf("%.9q: %v, %v", name, asName, asID)
		}
	}
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}

// More than was reserved is spent.
func testExcess(w *world) {
	tenant, user := money("tenant", 10), tokens("user", 50)
	r := w.reserve("1", amount(4, 40), tenant, user)
	_, err := w.Settle(w.Context(), r, used(1, 60))
	w.exceeded(err, user, 40, 20)
	w.hasUsed(tenant, 4*unit)
	w.settle(r, used(6, 50), budget.Settled{}) // which fits
	w.hasUsed(tenant, 6*unit)
	w.hasUsed(user, 50)
	r = w.reserve("2", amount(4, 0), tenant)
	_, err = w.Settle(w.Context(), r, used(5, 0))
	w.exceeded(err, tenant, 10*unit, unit)
	w.settle(r, budget.Use{Amount: amount(5, 0), Over: true}, budget.Settled{})
	w.hasUsed(tenant, 11*unit)
	w.refused(tenant, 11*unit, 1, "3", budget.Amount{Cost: 1}, tenant)
	w.reserve("3", budget.Amount{}, tenant)
}

// A limit is lowered below what is reserved: nothing more is reserved, and what is goes on.
func testLowered(w *world) {
	high, low := money("tenant", 10), money("tenant", 3)
	a, b := w.reserve("1", amount(4, 0), high), w.reserve("2", amount(4, 0), high)
	w.refused(low, 8*unit, 1, "3", budget.Amount{Cost: 1}, low)
	w.settle(a, used(3, 0), budget.Settled{})
	w.refused(low, 7*unit, 1, "3", budget.Amount{Cost: 1}, low)
	if err := w.Release(w.Context(), b); err != nil {
		w.Error(err)
	}
	w.refused(low, 3*unit, 1, "3", budget.Amount{Cost: 1}, low)
	w.reserve("3", amount(7, 0), high) // each call by its own
}

func testInvalid(w *world) {
	good := tokens("a", 1)
	limit := func(change func(*budget.Limit)) []budget.Limit {
		l := good
		change(&l)
		return []budget.Limit{l}
	}
	name := func(name string) []budget.Limit { return limit(func(l *budget.Limit) { l.Name = name }) }
	long := string(make([]byte, 1001))
	for field, requests := range map[string][]budget.Request{
		"id":   {{Limits: []budget.Limit{good}}, {ID: long[:256], Limits: []budget.Limit{good}}},
		"life": {{ID: "1", Limits: []budget.Limit{good}, Life: -1}, {ID: "1", Limits: []budget.Limit{good}, Life: budget.MaxLife + 1}},
		"most": {{ID: "1", Limits: []budget.Limit{good}, Most: budget.Amount{Tokens: -1}}, {ID: "1", Limits: []budget.Limit{good}, Most: budget.Amount{Cost: -1}}},
		"limits": {
			{ID: "1"},
			{ID: "1", Limits: []budget.Limit{good, tokens("a", 2)}},
			{ID: "1", Limits: make([]budget.Limit, 101)},
			{ID: "1", Limits: append(limit(func(l *budget.Limit) { l.Period = budget.Day }), limit(func(l *budget.Limit) { l.Period, l.Zone = budget.Day, "UTC" })...)},
		},
		"name":   {{ID: "1", Limits: name("")}, {ID: "1", Limits: name(long)}},
		"unit":   {{ID: "1", Limits: limit(func(l *budget.Limit) { l.Unit = "" })}},
		"period": {{ID: "1", Limits: limit(func(l *budget.Limit) { l.Period = "" })}},
		"max":    {{ID: "1", Limits: limit(func(l *budget.Limit) { l.Max = -1 })}},
		"zone": {
			{ID: "1", Limits: limit(func(l *budget.Limit) { l.Zone = "Europe/Berlin" })},
			{ID: "1", Limits: limit(func(l *budget.Limit) { l.Period, l.Zone = budget.Day, "Local" })},
			{ID: "1", Limits: limit(func(l *budget.Limit) { l.Period, l.Zone = budget.Day, "Europe/Nowhere" })},
		},
	} {
		for _, request := range requests {
			_, err := w.Reserve(w.Context(), request)
			if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != field {
				w.Errorf("%.200s: %v, want %s", fmt.Sprintf("%+v", request), err, field)
			}
		}
	}
	_, failed := w.Settle(w.Context(), budget.Reservation{}, used(1, 1))
	_, negative := w.Settle(w.Context(), w.reserve("1", budget.Amount{}, good), used(-1, 0))
	if !errors.Is(failed, repo.ErrInvalid) || !errors.Is(negative, repo.ErrInvalid) {
		w.Error(failed, negative)
	}
	for _, options := range []budget.Options{{ClockAge: -1}, {Keep: time.Hour}} {
		if _, err := budget.New(w.store, options); !errors.Is(err, repo.ErrInvalid) {
			w.Errorf("%+v: %v", options, err)
		}
	}
	if _, err := budget.New(nil, budget.Options{}); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
}

// Of many that reserve at once, exactly as many get through as the limit allows.
func testConcurrent(w *world) {
	limits := []budget.Limit{tokens("a", 100), tokens("b", 30)}
	var got, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 4 {
				own := []budget.Limit{limits[0], limits[1]}
				if i%2 == 0 { // in the other order
					own[0], own[1] = own[1], own[0]
				}
				r, err := w.Reserve(w.Context(), budget.Request{ID: fmt.Sprint(i, n), Limits: own, Most: amount(0, 1)})
				switch {
				case err == nil:
					got.Add(1)
					w.settle(r, used(0, 1), budget.Settled{})
				case errors.Is(err, repo.ErrLimit):
					refused.Add(1)
				default:
					w.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got.Load() != 30 || refused.Load() != 34 {
		w.Errorf("%d got through, %d were refused", got.Load(), refused.Load())
	}
	w.hasUsed(limits[0], 30)
	w.hasUsed(limits[1], 30)
}

// Views have budgets of their own.
func testViews(w *world) {
	views, are := w.store.Store.(interface {
		In(namespace string) repo.Store
	})
	if !are {
		w.Skip("the store has no views")
	}
	a, b := newWorld(w.T, Store{Store: views.In("a")}), newWorld(w.T, Store{Store: views.In("b")})
	limit := tokens("tenant", 10)
	r := a.reserve("1", amount(0, 10), limit)
	b.hasUsed(limit, 0)
	w.hasUsed(limit, 0)
	b.reserve("1", amount(0, 9), limit)
	a.refused(limit, 10, 1, "2", amount(0, 1), limit)
	if _, err := b.Find(b.Context(), "tenant", "2"); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
	other := a.reserve("2", amount(0, 1), tokens("other", 10))
	if settled, err := b.Settle(b.Context(), other, used(0, 1)); !errors.Is(err, repo.ErrNotFound) {
		w.Errorf("%+v, %v", settled, err)
	}
	a.settle(other, used(0, 1), budget.Settled{})
	a.settle(r, used(0, 1), budget.Settled{})
	a.hasUsed(limit, 1)
	b.hasUsed(limit, 9)
}
