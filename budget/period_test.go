package budget_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

func at(t *testing.T, zone, text string) time.Time {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05", text, location)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// open returns a keeper on a store whose clock shows start. It reads that for each call.
func open(t *testing.T, start time.Time, options budget.Options) (*budget.Keeper, *memory.Clock, repo.Store) {
	t.Helper()
	clock := memory.NewClock(start)
	store := memory.NewWith(memory.Options{Clock: clock})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	options.ClockAge = 1
	keeper, err := budget.New(store, options)
	if err != nil {
		t.Fatal(err)
	}
	return keeper, clock, store
}

// had checks what was used in an instance of a period.
func had(t *testing.T, store repo.Store, instance, want string) {
	t.Helper()
	value, err := store.State().Get(t.Context(), repo.Scope{Name: budget.ScopeName("a")}, "used/tokens/"+instance)
	if got := string(value.Value); got != want || want != "" && err != nil {
		t.Errorf("%s: %q, want %q: %v", instance, got, want, err)
	}
}

func limit(period budget.Period, zone string) budget.Limit {
	return budget.Limit{Name: "a", Unit: budget.Tokens, Period: period, Zone: zone, Max: 10}
}

func reserve(t *testing.T, k *budget.Keeper, id string, limits ...budget.Limit) (budget.Reservation, error) {
	t.Helper()
	return k.Reserve(t.Context(), budget.Request{ID: id, Limits: limits, Most: budget.Amount{Tokens: 10}, Life: 2 * time.Hour})
}

func used(t *testing.T, k *budget.Keeper, l budget.Limit, want int64) {
	t.Helper()
	if n, err := k.Used(t.Context(), l); err != nil || n != want {
		t.Errorf("%+v: %d is used, want %d: %v", l, n, want, err)
	}
}

// A day has as many hours as its zone says, and begins when it does.
// Guarantee: Budgets: A day and a month end when their zone says, whatever the hours.
func TestPeriods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		period      budget.Period
		zone, begin string
		until       string // as UTC
		lasts       time.Duration
	}{
		"a day":                            {budget.Day, "", "2026-11-28 00:00:00", "2026-11-29 00:00:00", 24 * time.Hour},
		"a day of 23 hours":                {budget.Day, "Europe/Berlin", "2026-03-29 00:00:00", "2026-03-29 22:00:00", 23 * time.Hour},
		"a day of 25 hours":                {budget.Day, "Europe/Berlin", "2026-10-25 00:00:00", "2026-10-25 23:00:00", 25 * time.Hour},
		"a day that begins at 01:00":       {budget.Day, "Africa/Cairo", "2026-04-24 01:00:00", "2026-04-24 21:00:00", 23 * time.Hour},
		"the day before that":              {budget.Day, "Africa/Cairo", "2026-04-23 00:00:00", "2026-04-23 22:00:00", 24 * time.Hour},
		"a day that ends an hour twice":    {budget.Day, "Africa/Cairo", "2026-10-29 00:00:00", "2026-10-29 22:00:00", 25 * time.Hour},
		"before a day that was left out":   {budget.Day, "Pacific/Apia", "2011-12-29 00:00:00", "2011-12-30 10:00:00", 24 * time.Hour},
		"of a zone with quarters":          {budget.Day, "Asia/Kathmandu", "2026-11-28 00:00:00", "2026-11-28 18:15:00", 24 * time.Hour},
		"February":                         {budget.Month, "", "2026-02-01 00:00:00", "2026-03-01 00:00:00", 28 * 24 * time.Hour},
		"February of a leap year":          {budget.Month, "", "2028-02-01 00:00:00", "2028-03-01 00:00:00", 29 * 24 * time.Hour},
		"December":                         {budget.Month, "UTC", "2026-12-01 00:00:00", "2027-01-01 00:00:00", 31 * 24 * time.Hour},
		"a month with an hour less":        {budget.Month, "America/New_York", "2026-03-01 00:00:00", "2026-04-01 04:00:00", 31*24*time.Hour - time.Hour},
		"a month that begins behind UTC's": {budget.Month, "Pacific/Kiritimati", "2026-11-01 00:00:00", "2026-11-30 10:00:00", 30 * 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := at(t, c.zone, c.begin)
			k, clock, _ := open(t, begin, budget.Options{})
			l := limit(c.period, c.zone)
			r, err := reserve(t, k, "first", l)
			if err == nil {
				_, err = k.Settle(t.Context(), r, budget.Use{Amount: r.Most})
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []time.Duration{c.lasts / 2, c.lasts - c.lasts/2 - time.Minute} {
				clock.Advance(step)
				_, err := reserve(t, k, "second", l)
				exceeded, is := errors.AsType[*budget.ExceededError](err)
				if !is || !exceeded.Until.Equal(at(t, "UTC", c.until)) {
					t.Errorf("at %v: %v, until %+v", clock.Now(), err, exceeded)
				}
			}
			clock.Advance(time.Minute)
			if _, err := reserve(t, k, "third", l); err != nil {
				t.Errorf("at %v: %v", clock.Now(), err)
			}
		})
	}
}

// The period ends between the reservation and its settlement, or its end.
func TestPeriodEndsMeanwhile(t *testing.T) {
	t.Parallel()
	k, clock, store := open(t, at(t, "Europe/Berlin", "2026-11-30 23:59:00"), budget.Options{})
	day, month, ever := limit(budget.Day, "Europe/Berlin"), limit(budget.Month, "Europe/Berlin"), limit(budget.Ever, "")
	ever.Max = 100
	first, err := reserve(t, k, "first", day, month, ever)
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Minute)
	used(t, k, day, 0)
	if again, err := reserve(t, k, "first", day, month, ever); err != nil || again.Parts[0].Instance != "2026-11-30" {
		t.Errorf("%+v, %v", again, err)
	}
	second, err := reserve(t, k, "second", day, month, ever)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Settle(t.Context(), first, budget.Use{Amount: budget.Amount{Tokens: 4}}); err != nil {
		t.Error(err)
	}
	used(t, k, day, 10)
	used(t, k, month, 10)
	used(t, k, ever, 14)
	clock.Advance(24 * time.Hour)
	if n, err := k.Sweep(t.Context(), "a"); n != 1 || err != nil {
		t.Error(n, err)
	}
	used(t, k, day, 0)
	used(t, k, month, 0)
	if settled, err := k.Settle(t.Context(), second, budget.Use{Amount: budget.Amount{Tokens: 3}}); err != nil || !settled.Late {
		t.Errorf("%+v, %v", settled, err)
	}
	used(t, k, day, 0)
	used(t, k, month, 3)
	used(t, k, ever, 7)
	had(t, store, "day/Europe~1Berlin/2026-11-30", "4")
	had(t, store, "month/Europe~1Berlin/2026-11", "4")
	had(t, store, "day/Europe~1Berlin/2026-12-01", "3")
}

// This machine's clock is an hour off, or a day. The day is that of the database.
// Guarantee: Budgets: The day is the database's, also where the machine's clock is wrong.
func TestClockOfMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it is midnight of 2000-01-01 UTC on this machine
		for _, c := range []struct{ now, instance string }{
			{"1999-12-31 23:00:00", "1999-12-31"}, {"2000-01-01 01:00:00", "2000-01-01"}, {"2000-01-02 00:00:00", "2000-01-02"},
		} {
			k, _, _ := open(t, at(t, "UTC", c.now), budget.Options{})
			r, err := reserve(t, k, "id", limit(budget.Day, ""))
			if err != nil || r.Parts[0].Instance != c.instance {
				t.Errorf("at %s: %+v, %v", c.now, r, err)
			}
		}
	})
}

// The clock is read once a minute, and after the machine's has moved differently. In between what has passed here counts.
func TestClockIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := memory.NewClock(at(t, "UTC", "2026-11-28 23:59:30"))
		store := memory.NewWith(memory.Options{Clock: clock})
		k, err := budget.New(store, budget.Options{})
		if err != nil {
			t.Fatal(err)
		}
		day := func(id, want string) {
			t.Helper()
			r, err := reserve(t, k, id, limit(budget.Day, ""))
			if err != nil || r.Parts[0].Instance != want {
				t.Errorf("%s: %+v, %v", id, r, err)
			}
		}
		day("read", "2026-11-28")
		time.Sleep(31 * time.Second) // pace: of a bubble
		day("added", "2026-11-29")
		clock.Advance(40 * time.Hour) // which is not seen yet
		if r, _, err := k.Propose(t.Context(), budget.Request{ID: "not read", Limits: []budget.Limit{limit(budget.Day, "")}}); err != nil || r.Parts[0].Instance != "2026-11-29" {
			t.Errorf("%+v, %v", r, err)
		}
		time.Sleep(30 * time.Second) // pace: of a bubble
		day("read again", "2026-11-30")
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What was used in days and months long ago is removed, if the caller says so.
func TestKeep(t *testing.T) {
	t.Parallel()
	k, clock, store := open(t, at(t, "UTC", "2026-01-15 12:00:00"), budget.Options{Keep: budget.KeepAtLeast})
	r, err := reserve(t, k, "1", limit(budget.Day, ""), limit(budget.Month, ""), limit(budget.Ever, ""))
	if err == nil {
		_, err = k.Settle(t.Context(), r, budget.Use{Amount: r.Most})
	}
	if err != nil {
		t.Fatal(err)
	}
	check := func(after time.Duration, inDay, inMonth string) {
		t.Helper()
		clock.Advance(after)
		if _, err := k.Sweep(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		had(t, store, "day//2026-01-15", inDay)
		had(t, store, "month//2026-01", inMonth)
		had(t, store, "ever//", "10")
	}
	check(budget.KeepAtLeast, "10", "10")
	check(24*time.Hour, "", "10")
	check(15*24*time.Hour, "", "10")
	check(24*time.Hour, "", "")
}

func TestPrices(t *testing.T) {
	t.Parallel()
	price := func(model string, input, output int64) (repo.Cost, bool) {
		return repo.Cost(3*input + 15*output), model != "unknown"
	}
	for _, c := range []struct {
		prices        budget.Prices
		model         string
		input, output int64
		want          budget.Amount
		field         string
	}{
		{budget.Prices{Price: price}, "m", 100, 10, budget.Amount{Cost: 450, Tokens: 110}, ""},
		{budget.Prices{Price: price}, "unknown", 100, 10, budget.Amount{}, "model"},
		{budget.Prices{Price: price, AllowUnknown: true}, "unknown", 100, 10, budget.Amount{Tokens: 110}, ""},
		{budget.Prices{}, "m", 1, 1, budget.Amount{}, "model"},
		{budget.Prices{AllowUnknown: true}, "m", 1, 1, budget.Amount{Tokens: 2}, ""},
		{budget.Prices{Price: price}, "m", -1, 1, budget.Amount{}, "tokens"},
		{budget.Prices{Price: price}, "m", 1 << 62, 1 << 62, budget.Amount{}, "tokens"},
		{budget.Prices{Price: func(string, int64, int64) (repo.Cost, bool) { return -1, true }}, "m", 1, 1, budget.Amount{}, "price"},
	} {
		got, err := c.prices.Amount(c.model, c.input, c.output)
		if invalid, is := errors.AsType[*repo.InvalidError](err); is != (c.field != "") || is && invalid.Field != c.field || err == nil && got != c.want {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}
