package budgettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/budget"
	"github.com/seed-df90f812/agentstore/repo"
)

// A reservation whose process died comes back, and one that only was late counts.
func testExpired(w *world) {
	tenant, user := tokens("tenant", 10), tokens("user", 10)
	dead, late := w.reserve("dead", amount(0, 4), tenant, user), w.reserve("late", amount(0, 5), user, tenant)
	w.sweep(0, "tenant", "user")
	w.store.Elapse(59 * time.Minute)
	w.sweep(0, "tenant", "user")
	w.store.Elapse(2 * time.Minute)
	w.sweep(2, "tenant", "user")
	w.sweep(0, "tenant", "user")
	w.hasUsed(tenant, 0)
	w.hasUsed(user, 0)
	w.settle(late, used(0, 3), budget.Settled{Late: true})
	w.settle(late, used(0, 3), budget.Settled{Repeated: true})
	w.hasUsed(tenant, 3)
	w.hasUsed(user, 3)
	w.reserve("new", amount(0, 6), tenant)
	_, err := w.Settle(w.Context(), dead, used(0, 4))
	w.exceeded(err, tenant, 9, 4)
	w.hasUsed(user, 3)
	w.settle(dead, budget.Use{Amount: amount(0, 4), Over: true}, budget.Settled{Late: true})
	w.hasUsed(tenant, 13)
	w.hasUsed(user, 7)
	if n := w.keys("tenant", "expired/") + w.keys("user", ""); n != 1 {
		w.Errorf("%d keys are left", n)
	}
}

// A limit that refuses gives back what has expired, under all names of the reservation.
func testExpiredByRefusal(w *world) {
	tenant, user := tokens("tenant", 10), tokens("user", 10)
	w.reserve("dead", amount(0, 10), user, tenant)
	w.store.Elapse(61 * time.Minute)
	w.reserve("new", amount(0, 10), tenant)
	w.hasUsed(user, 0)
	w.refused(tenant, 10, 1, "more", amount(0, 1), tenant)
}

// The same id is reserved again after it has expired, and both calls were made.
func testSameIDAgain(w *world) {
	limit := tokens("tenant", 100)
	first := w.reserve("id", amount(0, 10), limit)
	w.store.Elapse(61 * time.Minute)
	w.sweep(1, "tenant")
	second := w.reserve("id", amount(0, 20), limit)
	w.settle(first, used(0, 7), budget.Settled{Late: true})
	w.hasUsed(limit, 27)
	w.settle(first, used(0, 7), budget.Settled{Repeated: true})
	w.settle(second, used(0, 15), budget.Settled{})
	w.settle(second, used(0, 15), budget.Settled{Repeated: true})
	w.settle(first, used(0, 7), budget.Settled{Repeated: true})
	w.hasUsed(limit, 22)
	// Both of two have expired.
	first = w.reserve("id", amount(0, 10), limit)
	w.store.Elapse(61 * time.Minute)
	w.sweep(1, "tenant")
	second = w.reserve("id", amount(0, 20), limit)
	w.store.Elapse(61 * time.Minute)
	w.sweep(1, "tenant")
	w.settle(first, used(0, 7), budget.Settled{Late: true})
	w.settle(second, used(0, 15), budget.Settled{Late: true})
	w.settle(first, used(0, 7), budget.Settled{Repeated: true})
	w.hasUsed(limit, 44)
}

// A call that is begun again after the life of its reservation, which was not given back yet, has a life of its own.
func testOutlived(w *world) {
	session, limit := w.session(), tokens("tenant", 10)
	dead := w.reserve("id", amount(0, 10), limit)
	w.store.Elapse(61 * time.Minute)
	again := w.reserve("id", amount(0, 10), limit)
	w.refused(limit, 10, 1, "other", amount(0, 1), limit)
	w.settle(again, used(0, 4), budget.Settled{})
	w.settle(dead, used(0, 3), budget.Settled{Late: true})
	w.hasUsed(limit, 7)
	w.reserve("id", amount(0, 3), limit)
	w.store.Elapse(61 * time.Minute)
	request := budget.Request{ID: "id", Limits: []budget.Limit{limit}, Most: amount(0, 2)}
	if _, _, err := w.ReserveTurn(w.Context(), turn(session, "question", "q"), request); err != nil {
		w.Error(err)
	}
	w.messages(session, 1)
	w.hasUsed(limit, 9)
}

// What has expired is remembered for a week, and a day. Afterwards it is unknown whether it was settled.
func testForgotten(w *world) {
	limit := tokens("tenant", 100)
	r := w.reserve("id", amount(0, 10), limit)
	w.store.Elapse(61 * time.Minute)
	w.sweep(1, "tenant")
	w.store.Elapse(8*24*time.Hour - time.Minute)
	w.sweep(0, "tenant")
	if w.keys("tenant", "expired/") != 1 {
		w.Error("it was forgotten too early")
	}
	w.store.Elapse(2 * time.Minute)
	w.sweep(0, "tenant")
	if w.keys("tenant", "expired/") != 0 {
		w.Error("it is not forgotten")
	}
	r.At = r.At.Add(-8 * 24 * time.Hour) // where the clock does not move
	if _, err := w.Settle(w.Context(), r, used(0, 1)); !errors.Is(err, repo.ErrGone) {
		w.Error(err)
	}
}

// A name that is erased between two steps forgets the reservation, and is not given back what it does not have.
func testErased(w *world) {
	tenant, user := tokens("tenant", 100), tokens("user", 100)
	both := func(id string) budget.Reservation { return w.reserve(id, amount(0, 10), tenant, user) }
	erase := func() {
		w.Helper()
		if _, err := w.store.State().Erase(w.Context(), budget.ScopeName("user")); err != nil {
			w.Error(err)
		}
	}
	settled, expired, made := both("settled"), both("expired"), both("made")
	erase()
	again := w.reserve("made", amount(0, 4), user)
	w.settle(settled, used(0, 3), budget.Settled{})
	w.settle(made, used(0, 5), budget.Settled{})
	w.hasUsed(user, 4)
	w.hasUsed(tenant, 18)
	if found, err := w.Find(w.Context(), "tenant", "expired"); err != nil || found.Parts[0].Version == 0 || found.Parts[1].Version != 0 {
		w.Errorf("%+v, %v", found, err)
	}
	w.store.Elapse(61 * time.Minute)
	w.sweep(2, "tenant", "user")
	w.hasUsed(user, 0)
	w.hasUsed(tenant, 8)
	w.settle(expired, used(0, 6), budget.Settled{Late: true})
	w.settle(again, used(0, 2), budget.Settled{Late: true})
	w.hasUsed(user, 2)
	w.hasUsed(tenant, 14)
}

// Another process settles what it finds, or was given.
func testFind(w *world) {
	tenant, user := tokens("tenant", 100), money("user", 100)
	first := w.reserve("1", amount(3, 10), tenant, user)
	other := newWorld(w.T, w.store)
	for _, name := range []string{"tenant", "user"} {
		if found, err := other.Find(w.Context(), name, "1"); err != nil || text(found) != text(first) {
			w.Errorf("%s %v, want %s", text(found), err, text(first))
		}
	}
	for _, q := range [][2]string{{"tenant", "2"}, {"nobody", "1"}, {"", "1"}, {"tenant", ""}} {
		if _, err := other.Find(w.Context(), q[0], q[1]); !errors.Is(err, repo.ErrNotFound) && !errors.Is(err, repo.ErrInvalid) {
			w.Error(q, err)
		}
	}
	var given budget.Reservation
	if err := json.Unmarshal([]byte(text(first)), &given); err != nil {
		w.Fatal(err)
	}
	other.settle(given, used(2, 9), budget.Settled{})
	w.settle(first, used(1, 8), budget.Settled{Repeated: true})
	w.hasUsed(tenant, 9)
	w.hasUsed(user, 2*unit)
	if _, err := other.Find(w.Context(), "user", "1"); !errors.Is(err, repo.ErrNotFound) {
		w.Error(err)
	}
}

// What others have written there does not end a sweep, and is not lost.
func testForeign(w *world) {
	scope := repo.Scope{Name: budget.ScopeName("tenant")}
	var changes []repo.StateChange
	for _, key := range []string{"held/x", "held/", "expired/y", "used/", "used/money", "used/money/decade/x/y", "a/b", "z"} {
		changes = append(changes, repo.StateChange{Scope: scope, Key: key, Value: []byte(`"text"`)})
	}
	if _, err := w.store.State().Change(w.Context(), changes); err != nil {
		w.Fatal(err)
	}
	w.reserve("1", amount(0, 1), tokens("tenant", 10))
	w.store.Elapse(61 * time.Minute)
	keeping, err := budget.New(w.store, budget.Options{Keep: budget.KeepAtLeast, ClockAge: 1})
	if err != nil {
		w.Fatal(err)
	}
	if n, err := keeping.Sweep(w.Context(), "tenant"); err != nil || n != 1 {
		w.Error(n, err)
	}
	if n := w.keys("tenant", ""); n != len(changes)+2 {
		w.Errorf("%d keys are left", n)
	}
	w.reserve("2", amount(0, 1), tokens("tenant", 10), tokens("user", 10))
	w.reserve("3", amount(0, 1), tokens("tenant", 10))
	if _, err := w.store.State().Change(w.Context(), []repo.StateChange{{Scope: repo.Scope{Name: budget.ScopeName("user")}, Key: "held/2", Value: []byte(`1`)}}); err != nil {
		w.Fatal(err)
	}
	w.store.Elapse(61 * time.Minute)
	w.sweep(1, "tenant", "user")
	if _, err := w.Find(w.Context(), "tenant", "x"); !errors.Is(err, repo.ErrConflict) {
		w.Error(err)
	}
}

// In a transaction of the caller's.
func testInTx(w *world) {
	limit := tokens("tenant", 10)
	reserve := func(id string, count int64) (budget.Reservation, error) {
		r, changes, err := w.Propose(w.Context(), budget.Request{ID: id, Limits: []budget.Limit{limit}, Most: amount(0, count)})
		if err != nil {
			w.Fatal(err)
		}
		return r, w.store.InTx(w.Context(), func(ctx context.Context, tx repo.Repositories) error {
			scopes, err := tx.State().Change(ctx, changes)
			r.Wrote(scopes)
			return err
		})
	}
	r, err := reserve("1", 6)
	if err != nil {
		w.Fatal(err)
	}
	var full *repo.LimitExceededError
	if _, err := reserve("2", 5); !errors.As(err, &full) {
		w.Error(err)
	}
	if _, err := reserve("1", 1); !errors.Is(err, repo.ErrConflict) {
		w.Error(err)
	}
	w.settle(r, used(0, 2), budget.Settled{})
	w.hasUsed(limit, 2)
	never, _, err := w.Propose(w.Context(), budget.Request{ID: "3", Limits: []budget.Limit{limit}})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.Settle(w.Context(), never, used(0, 2)); !errors.Is(err, repo.ErrInvalid) {
		w.Error(err)
	}
}

// Settlements, repetitions and sweeps of one reservation at the same time: it is counted once.
func testRacing(w *world) {
	tenant, user := tokens("tenant", 1000), tokens("user", 1000)
	for round := range 10 {
		r := w.reserve(fmt.Sprint(round), amount(0, 10), tenant, user)
		if round%2 == 1 {
			w.store.Elapse(61 * time.Minute)
		}
		var all sync.WaitGroup
		var counted atomic.Int64
		for i := range 6 {
			all.Go(func() {
				if i%3 == 2 {
					if _, err := w.Sweep(w.Context(), "user", "tenant"); err != nil {
						w.Error(err)
					}
					return
				}
				settled, err := w.Settle(w.Context(), r, used(0, 3))
				if err != nil {
					w.Error(err)
				}
				if !settled.Repeated {
					counted.Add(1)
				}
			})
		}
		all.Wait()
		if counted.Load() != 1 {
			w.Errorf("round %d: it was counted %d times", round, counted.Load())
		}
	}
	w.hasUsed(tenant, 30)
	w.hasUsed(user, 30)
}
