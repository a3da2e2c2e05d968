package repotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func beyond(scope repo.Scope, limit, current, requested int64) repo.LimitExceededError {
	return repo.LimitExceededError{Kind: "state", Scope: scope, Name: "n", Limit: limit, Current: current, Requested: requested}
}

// An increment that would pass its bound changes nothing. One that leads back to it, or no further away, is made.
func testStateBounds(t *testing.T, r repo.Repositories) {
	const least, most = math.MinInt64, math.MaxInt64
	for _, scope := range []repo.Scope{shared(), own(t, r)} {
		for _, c := range []struct {
			stored, by, atLeast, atMost int64
			limit                       any // the bound that is passed; nil: none
		}{
			{0, 5, least, 5, nil},
			{0, 6, least, 5, int64(5)},
			{5, 1, least, 5, int64(5)},
			{5, 0, 0, 5, nil},
			{5, 1, 5, 6, nil},
			{-5, -1, -5, 5, int64(-5)},
			{-4, -1, -5, 5, nil},
			{1, -2, 0, 9, int64(0)},
			// beyond the bound already
			{9, 1, least, 5, int64(5)},
			{9, 0, least, 5, nil},
			{9, -1, least, 5, nil},
			{9, -9, 0, 5, nil},
			{9, -10, 0, 5, int64(0)},
			{-9, -1, 0, 5, int64(0)},
			{-9, 1, 0, 5, nil},
			{-9, 14, 0, 5, nil},
			{-9, 15, 0, 5, int64(5)},
			{3, 1, 3, 3, int64(3)},
			{3, -1, 3, 3, int64(3)},
			// at the ends of the integers
			{most - 1, 1, least, most, nil},
			{most, 1, least, most, int64(most)}, // it is no integer of 64 bits, and so beyond each bound
			{most, 1, least, 5, int64(5)},
			{5, most, 0, 9, int64(9)},
			{-5, least, 0, 9, int64(0)},
			{most, least, least, most, nil},
			{most, least, 0, 5, int64(0)},
			{least, most, 0, 5, nil},
			{least, -1, 0, most, int64(0)},
			{least + 1, -1, least, least, nil},
		} {
			name := fmt.Sprintf("%d%+d in %d..%d", c.stored, c.by, c.atLeast, c.atMost)
			version := change(t, r, set(scope, "n", fmt.Sprint(c.stored)), set(scope, "beside", `1`))
			want := c.stored
			_, err := r.State().Change(t.Context(), []repo.StateChange{set(scope, "beside", `2`), within(increment(scope, "n", c.by), c.atLeast, c.atMost)})
			switch limit := c.limit.(type) {
			case nil:
				if want += c.by; err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case int64:
				wantBudgetExceeded(t, err, beyond(scope, limit, c.stored, c.by))
			}
			if values, at := readState(t, r, scope); values["n"] != fmt.Sprint(want) || (values["beside"] == "1") != (at == version) || (err != nil) != (at == version) {
				t.Errorf("%s: the state is %v at version %d after %d; %v", name, values, at, version, err)
			}
		}
	}
	// A missing key is 0, and one bound may be alone.
	scope := shared()
	_, err := r.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "n", Op: repo.StateIncrement, By: -1, AtLeast: ptr(int64(0))}})
	wantBudgetExceeded(t, err, beyond(scope, 0, 0, -1))
	change(t, r, repo.StateChange{Scope: scope, Key: "n", Op: repo.StateIncrement, By: 7, AtLeast: ptr(int64(100))})
	_, err = r.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "n", Op: repo.StateIncrement, By: 1, AtMost: ptr(int64(7))}})
	wantBudgetExceeded(t, err, beyond(scope, 7, 7, 1))
	wantState(t, r, scope, map[string]string{"n": "7"})
}

// A turn whose increment would pass its bound stores nothing. The same turn is stored once there is room, and then it is
// repeated, whatever the value is by then.
func testStateBoundsOfTurns(t *testing.T, r repo.Repositories) {
	id, scope := create(t, r.Sessions()), shared()
	turn := fullTurn(scope)
	turn.State[2] = within(increment(scope, "n", 3), 0, 3)
	turn.Open = &repo.NewStream{Key: randomName(), Owner: "w"}
	change(t, r, set(scope, "n", `1`), set(scope, "gone", `1`))
	before := recordedState(t, r, id)
	for range 2 {
		_, err := r.Sessions().AppendTurn(t.Context(), inSession(id, turn))
		wantBudgetExceeded(t, err, beyond(scope, 3, 1, 3))
		wantSame(t, "session", recordedState(t, r, id), before)
		wantState(t, r, scope, map[string]string{"n": "1", "gone": "1"})
	}
	_, err := r.Streams().Get(t.Context(), turn.Open.Key)
	_, _ = wantError[*repo.NotFoundError](t, err, repo.ErrNotFound)
	change(t, r, within(increment(scope, "n", -1), 0, 0))
	if addTurn(t, r, id, turn).Repeated {
		t.Error("a turn that was refused is repeated")
	}
	if got := string(getState(t, r, scope, "n").Value); got != "3" {
		t.Errorf("the value is %s", got)
	}
	if again := addTurn(t, r, id, turn); !again.Repeated {
		t.Error("at its bound the turn is not repeated")
	}
	// The own scope of the session
	_, err = r.Sessions().AppendTurn(t.Context(), repo.Turn{
		SessionID: id, Messages: users(1), State: []repo.StateChange{within(increment(repo.Scope{}, "n", 3), 0, 2)},
	})
	wantBudgetExceeded(t, err, beyond(repo.Scope{SessionID: id}, 2, 0, 3))
	_, err = r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, State: []repo.StateChange{within(increment(scope, "n", 3), 1, 0)}})
	wantInvalid(t, err, "state[0].at_most")
	wantCount(t, r.Sessions(), id, 2)
}

// Of many writers of one counter exactly as many succeed as its bound lets, by turns and by changes: the others get the
// error, and store nothing. A writer in a group with a refused one is not refused. The naive way, which looks first,
// passes the bound.
// Guarantee: State: Concurrent increments never pass their bound, and leave no room.
func testStateRacingBounds(t *testing.T, store repo.Store) {
	const goroutines, limit = 64, 20
	scope := shared()
	ids := make([]repo.ID, goroutines)
	for i := range ids {
		ids[i] = create(t, store.Sessions())
	}
	for name, c := range map[string]struct {
		by   int64
		turn bool
	}{"turns": {1, true}, "changes": {1, false}, "down": {-1, true}} {
		t.Run(name, func(t *testing.T) {
			scope, made := repo.Scope{Name: scope.Name + name}, &counter{}
			bounded := increment(scope, "n", c.by)
			start, end := int64(0), int64(limit)
			if bounded.AtMost = &end; c.by < 0 {
				start, end = limit, 0
				bounded.AtMost, bounded.AtLeast = nil, &end
			}
			change(t, store, set(scope, "n", fmt.Sprint(start)))
			together(goroutines, func(worker int) {
				id := ids[worker]
				err := changeBy(t, store, c.turn, id, bounded)
				if err == nil {
					made.add()
				} else {
					wantBudgetExceeded(t, err, beyond(scope, end, end, c.by))
				}
				if err := changeBy(t, store, c.turn, id, increment(scope, "free", 1)); err != nil {
					t.Errorf("beside refused ones: %v", err)
				}
			})
			wantState(t, store, scope, map[string]string{"n": fmt.Sprint(end), "free": fmt.Sprint(goroutines)})
			if made.get() != limit {
				t.Errorf("%d increments were made, want %d", made.get(), limit)
			}
			stored := 0
			for _, id := range ids {
				for _, m := range readAll(t, store.Sessions(), id) {
					if m.Content == scope.Name+"n" {
						stored++
					}
				}
			}
			if want := limit; c.turn && stored != want {
				t.Errorf("%d messages of turns with a bound are stored, want %d", stored, want)
			}
		})
	}
	// The naive way: read, compare, increment without a bound.
	meet := meeting(t)
	together(goroutines, func(int) {
		n := 0
		if value, err := store.State().Get(t.Context(), scope, "naive"); err == nil {
			if err := json.Unmarshal(value.Value, &n); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, repo.ErrNotFound) {
			t.Error(err)
		}
		meet()
		if n >= 1 {
			return
		}
		if _, err := store.State().Change(t.Context(), []repo.StateChange{increment(scope, "naive", 1)}); err != nil {
			t.Error(err)
		}
	})
	if got := string(getState(t, store, scope, "naive").Value); got == "1" {
		t.Error("the naive way did not pass the bound: this test would not find that")
	}
}

// changeBy makes a change, by a turn with a message or alone.
func changeBy(t *testing.T, store repo.Store, turn bool, id repo.ID, c repo.StateChange) error {
	if !turn {
		return second(store.State().Change(t.Context(), []repo.StateChange{c}))
	}
	return second(store.Sessions().AppendTurn(t.Context(), repo.Turn{
		SessionID: id, ID: randomName(), Messages: []repo.NewMessage{user(c.Scope.Name + c.Key)}, State: []repo.StateChange{c},
	}))
}
