package repotest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func stateRaceTests() []test {
	return []test{
		{"Keys", testStateRacingKeys},
		{"Increments", testStateRacingIncrements},
		{"Bounds", testStateRacingBounds},
		{"Versions", testStateRacingVersions},
		{"Conditions", testStateRacingConditions},
		{"Scopes", testStateRacingScopes},
		{"ReadIsOneMoment", testStateReadIsOneMoment},
		{"EraseAndChange", testStateEraseAndChange},
		{"DeleteAndChange", testStateDeleteAndChange},
		{"Tx", testStateTx},
		{"Contexts", testStateContexts},
	}
}

// Writers of different keys of one scope never lose one. The naive way, which the same
// writers also go, reads the whole map and writes it back, and loses some.
// Guarantee: State: Concurrent writers of different keys of a scope lose none.
func testStateRacingKeys(t *testing.T, store repo.Store) {
	ours := lostKeys(t, func(scope repo.Scope, key string) error {
		return second(store.State().Change(t.Context(), []repo.StateChange{set(scope, key, `1`)}))
	}, func(scope repo.Scope) map[string]json.RawMessage {
		found := map[string]json.RawMessage{}
		for _, value := range listState(t, store, scope, "", 100) {
			found[value.Key] = value.Value
		}
		return found
	})
	if ours != 0 {
		t.Errorf("%d acknowledged keys were lost", ours)
	}
	read := func(scope repo.Scope) map[string]json.RawMessage {
		whole := map[string]json.RawMessage{}
		if value, err := store.State().Get(t.Context(), scope, "map"); err == nil {
			if err := json.Unmarshal(value.Value, &whole); err != nil {
				t.Error(err)
			}
		}
		return whole
	}
	meet := meeting(t)
	naive := lostKeys(t, func(scope repo.Scope, key string) error {
		whole := read(scope)
		meet()
		whole[key] = json.RawMessage(`1`)
		value, err := json.Marshal(whole)
		if err != nil {
			return err
		}
		return second(store.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "map", Value: value}}))
	}, read)
	if naive == 0 {
		t.Error("the naive way lost no key: this test would not find a loss")
	}
}

// lostKeys returns how many of the keys that writers have written are not stored.
func lostKeys(t *testing.T, write func(scope repo.Scope, key string) error, stored func(scope repo.Scope) map[string]json.RawMessage) (lost int) {
	t.Helper()
	const writers, keys = 8, 50
	scope := shared()
	var mu sync.Mutex
	var acknowledged []string
	together(writers, func(writer int) {
		for i := range keys {
			key := fmt.Sprintf("%d/%d", writer, i)
			if err := write(scope, key); err != nil {
				t.Errorf("key %s: %v", key, err)
				return
			}
			mu.Lock()
			acknowledged = append(acknowledged, key)
			mu.Unlock()
		}
	})
	if len(acknowledged) != writers*keys {
		t.Errorf("%d changes were acknowledged", len(acknowledged))
	}
	found := stored(scope)
	for _, key := range acknowledged {
		if _, ok := found[key]; !ok {
			lost++
		}
	}
	return lost
}

// Guarantee: State: Concurrent increments add up.
func testStateRacingIncrements(t *testing.T, store repo.Store) {
	const goroutines, rounds = 64, 5
	scope := shared()
	together(goroutines, func(int) {
		for range rounds {
			if _, err := store.State().Change(t.Context(), []repo.StateChange{increment(scope, "n", 1), increment(scope, "twice", 2)}); err != nil {
				t.Error(err)
			}
		}
	})
	wantState(t, store, scope, map[string]string{"n": fmt.Sprint(goroutines * rounds), "twice": fmt.Sprint(2 * goroutines * rounds)})
	// The naive way: read, add, write.
	meet := meeting(t)
	together(goroutines, func(int) {
		for range rounds {
			n := 0
			if value, err := store.State().Get(t.Context(), scope, "naive"); err == nil {
				if err := json.Unmarshal(value.Value, &n); err != nil {
					t.Error(err)
				}
			}
			meet()
			if _, err := store.State().Change(t.Context(), []repo.StateChange{set(scope, "naive", fmt.Sprint(n+1))}); err != nil {
				t.Error(err)
			}
		}
	})
	if got := string(getState(t, store, scope, "naive").Value); got == fmt.Sprint(goroutines*rounds) {
		t.Error("the naive way lost no increment: this test would not find a loss")
	}
}

// Each call gets a version of its own, without gaps. A call that begins after another
// was acknowledged gets a higher one, and what a reader sees at a version is exactly
// what the calls up to it wrote.
// Guarantee: State: A scope's versions ascend in the order of commits.
func testStateRacingVersions(t *testing.T, store repo.Store) {
	const writers, rounds = 8, 25
	scope := shared()
	var mu sync.Mutex
	values := map[int64]string{}
	sights := watchScope(t, store, scope)
	together(writers, func(writer int) {
		var last int64
		for i := range rounds {
			value := fmt.Sprint(writer*1000 + i)
			versions, err := store.State().Change(t.Context(), []repo.StateChange{set(scope, "last", value)})
			if err != nil {
				t.Error(err)
				return
			}
			if versions[0].Version <= last {
				t.Errorf("version %d comes after %d", versions[0].Version, last)
			}
			last = versions[0].Version
			mu.Lock()
			values[last] = value
			mu.Unlock()
		}
	})
	seen := sights()
	if len(values) != writers*rounds {
		t.Fatalf("there are %d versions for %d changes", len(values), writers*rounds)
	}
	for i, s := range seen {
		if values[s.version] != s.value {
			t.Errorf("at version %d a reader saw %s, written was %s", s.version, s.value, values[s.version])
		}
		if i > 0 && s.version < seen[i-1].version {
			t.Errorf("a reader saw version %d after %d", s.version, seen[i-1].version)
		}
	}
}

// sight is what a reader saw of a scope.
type sight struct {
	version int64
	value   string
}

// watchScope reads a scope with one key until it is asked what it has seen.
func watchScope(t *testing.T, store repo.Store, scope repo.Scope) (seen func() []sight) {
	t.Helper()
	done := make(chan struct{})
	var reading sync.WaitGroup
	var sights []sight
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			state, err := store.State().Read(t.Context(), scope)
			if err != nil {
				t.Error(err)
				return
			}
			if len(state[0].Values) == 1 {
				sights = append(sights, sight{state[0].Version, string(state[0].Values[0].Value)})
			}
		}
	})
	return func() []sight {
		close(done)
		reading.Wait()
		return sights
	}
}

// Of several calls with one condition exactly one succeeds.
// Guarantee: State: Of several calls with one condition one succeeds.
func testStateRacingConditions(t *testing.T, store repo.Store) {
	scope := shared()
	for round := range 5 {
		_, scopeVersion := readState(t, store, scope)
		var keyVersion int64
		if round > 0 {
			keyVersion = getState(t, store, scope, "a").Version
		}
		for name, try := range map[string]func(worker int) error{
			"create": func(int) error {
				return second(store.State().Change(t.Context(), []repo.StateChange{ifVersion(set(scope, fmt.Sprint("new", round), `1`), 0)}))
			},
			"scope": func(int) error {
				return second(store.State().Change(t.Context(), []repo.StateChange{set(shared(), "x", `1`), set(scope, "c", `1`)},
					repo.ScopeVersion{Scope: scope, Version: scopeVersion}))
			},
			"key": func(int) error {
				return second(store.State().Change(t.Context(), []repo.StateChange{ifVersion(increment(scope, "a", 1), keyVersion)}))
			},
		} {
			if name == "scope" {
				_, scopeVersion = readState(t, store, scope)
			}
			var won, refused counter
			together(workers, func(worker int) {
				err := try(worker)
				if err == nil {
					won.add()
				} else if _, ok := errors.AsType[*repo.VersionConflictError](err); ok {
					refused.add()
				} else {
					t.Errorf("%s: %v", name, err)
				}
			})
			if won.get() != 1 || refused.get() != workers-1 {
				t.Errorf("%s: %d calls succeeded and %d were refused", name, won.get(), refused.get())
			}
		}
	}
	if got := string(getState(t, store, scope, "a").Value); got != "5" {
		t.Errorf("the value is %s, want 5", got)
	}
}

// Calls that change several scopes, named in any order, neither deadlock nor overlap: a
// sum over the scopes stays zero.
func testStateRacingScopes(t *testing.T, store repo.Store) {
	scopes := []repo.Scope{shared(), shared(), shared(), {SessionID: create(t, store.Sessions())}, {SessionID: create(t, store.Sessions())}}
	together(workers, func(worker int) {
		for i := range 6 {
			from, to := scopes[(worker+i)%len(scopes)], scopes[(worker+3*i+1)%len(scopes)]
			if from == to {
				continue
			}
			if _, err := store.State().Change(t.Context(), []repo.StateChange{increment(from, "n", -1), increment(to, "n", 1)}); err != nil {
				t.Error(err)
			}
		}
	})
	wantZeroSum(t, store, scopes)
}

func wantZeroSum(t *testing.T, r repo.Repositories, scopes []repo.Scope) {
	t.Helper()
	states, err := r.State().Read(t.Context(), scopes...)
	if err != nil {
		t.Error(err)
		return
	}
	sum := 0
	for _, state := range states {
		for _, value := range state.Values {
			n := 0
			if err := json.Unmarshal(value.Value, &n); err != nil {
				t.Error(err)
			}
			sum += n
		}
	}
	if sum != 0 {
		t.Errorf("the sum is %d", sum)
	}
}

// Scopes that are read together are those of one moment.
// Guarantee: State: Scopes that are read together are of one moment.
func testStateReadIsOneMoment(t *testing.T, store repo.Store) {
	scopes := []repo.Scope{shared(), shared()}
	done := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		defer close(done)
		for range 100 {
			if _, err := store.State().Change(t.Context(), []repo.StateChange{increment(scopes[0], "n", 1), increment(scopes[1], "n", -1)}); err != nil {
				t.Error(err)
			}
		}
	})
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		wantZeroSum(t, store, scopes)
	}
	writing.Wait()
}

// A change either is erased, or makes the scope again above every version that it had.
func testStateEraseAndChange(t *testing.T, store repo.Store) {
	scope := shared()
	var mu sync.Mutex
	seen := map[int64]bool{}
	var erased int64
	together(8, func(worker int) {
		for range 20 {
			if worker < 2 {
				keys, err := store.State().Erase(t.Context(), scope.Name)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				erased += keys
				mu.Unlock()
				continue
			}
			versions, err := store.State().Change(t.Context(), []repo.StateChange{set(scope, randomName(), `1`)})
			if err != nil {
				t.Error(err)
				continue
			}
			mu.Lock()
			if seen[versions[0].Version] {
				t.Errorf("version %d was there twice", versions[0].Version)
			}
			seen[versions[0].Version] = true
			mu.Unlock()
		}
	})
	left := len(listState(t, store, scope, "", 100))
	if int(erased)+left != len(seen) {
		t.Errorf("%d keys were written, %d erased, and %d are left", len(seen), erased, left)
	}
}

// The deletion counts every key that was acknowledged before it, and later changes find
// no session.
func testStateDeleteAndChange(t *testing.T, store repo.Store) {
	for range 8 {
		scope := repo.Scope{SessionID: create(t, store.Sessions())}
		var written counter
		var deleted repo.DeletedSession
		together(4, func(worker int) {
			if worker == 0 {
				for written.get() < 10 && !t.Failed() {
					tick()
				}
				var err error
				if deleted, err = store.Sessions().Delete(t.Context(), scope.SessionID); err != nil {
					t.Error(err)
				}
				return
			}
			for {
				if _, err := store.State().Change(t.Context(), []repo.StateChange{set(scope, randomName(), `1`)}); err != nil {
					wantNotFound(t, err, "session", scope.SessionID)
					return
				}
				written.add()
			}
		})
		if int(deleted.StateKeys) != written.get() {
			t.Errorf("%d keys were written, the deletion counted %d", written.get(), deleted.StateKeys)
		}
	}
}

// In a transaction, state is written with the rest or not at all, and the transaction
// sees what it wrote.
func testStateTx(t *testing.T, store repo.Store) {
	kept, doomed, fresh := shared(), shared(), shared()
	session := repo.Scope{SessionID: create(t, store.Sessions())}
	change(t, store, set(kept, "a", `1`), set(kept, "b", `1`))
	change(t, store, set(doomed, "a", `1`))
	change(t, store, set(session, "a", `1`))
	document := export(t, store.Sessions(), stateful(t, store).SessionID)
	for _, broken := range []error{errBroken, nil} {
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			if _, err := tx.State().Change(ctx, []repo.StateChange{increment(kept, "a", 1), unset(kept, "b"), set(fresh, "a", `1`)}); err != nil {
				return err
			}
			if _, err := tx.State().Change(ctx, []repo.StateChange{ifVersion(set(fresh, "a", `1`), 0)}); !errors.Is(err, repo.ErrConflict) {
				t.Errorf("in the transaction the condition gave %v", err)
			}
			if _, err := tx.State().Erase(ctx, doomed.Name); err != nil {
				return err
			}
			if _, err := tx.State().Change(ctx, []repo.StateChange{set(doomed, "again", `1`)}); err != nil {
				return err
			}
			if _, err := tx.Sessions().Delete(ctx, session.SessionID); err != nil {
				return err
			}
			wantState(t, tx, kept, map[string]string{"a": "2"})
			wantState(t, tx, doomed, map[string]string{"again": "1"})
			return broken
		})
		if !errors.Is(err, broken) {
			t.Fatalf("InTx: %v", err)
		}
		if broken != nil {
			wantState(t, store, kept, map[string]string{"a": "1", "b": "1"})
			wantState(t, store, fresh, map[string]string{})
			wantState(t, store, doomed, map[string]string{"a": "1"})
			wantState(t, store, session, map[string]string{"a": "1"})
		}
	}
	wantState(t, store, kept, map[string]string{"a": "2"})
	wantState(t, store, fresh, map[string]string{"a": "1"})
	wantState(t, store, doomed, map[string]string{"again": "1"})
	_, err := store.State().Read(t.Context(), session)
	wantNotFound(t, err, "session", session.SessionID)
	if _, err := store.Sessions().Import(t.Context(), bytes.NewReader(document), true); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("Import gave %v", err)
	}
}

// A context that has ended stops each operation before it begins.
func testStateContexts(t *testing.T, store repo.Store) {
	scope := shared()
	change(t, store, set(scope, "a", `1`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, run := range map[string]func() error{
		"Get":    func() error { return second(store.State().Get(ctx, scope, "a")) },
		"Read":   func() error { return second(store.State().Read(ctx, scope)) },
		"List":   func() error { return second(store.State().List(ctx, scope, "", repo.Page{})) },
		"Change": func() error { return second(store.State().Change(ctx, []repo.StateChange{set(scope, "b", `1`)})) },
		"Erase":  func() error { return second(store.State().Erase(ctx, scope.Name)) },
	} {
		if err := run(); !errors.Is(err, context.Canceled) || errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	wantState(t, store, scope, map[string]string{"a": "1"})
}
