package postgres

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// useToLose is a use of an action whose answers get lost.
type useToLose struct {
	action string
	repo.UseAction
}

// usesToLose make a use of each kind, of an action and in a namespace of its own.
func usesToLose(t *testing.T, store *agentstore.Store) map[string]func() useToLose {
	t.Helper()
	uses := map[string]func() useToLose{}
	for _, kind := range []string{"alone", "once", "of a session", "below a plan"} {
		for _, key := range []string{"", "k"} {
			uses[fmt.Sprintf("%s, key %q", kind, key)] = func() useToLose {
				use := useToLose{"n/" + repo.NewID().String(), repo.UseAction{Namespace: repo.NewID().String(), Key: key}}
				definition := repo.ActionDefinition{Reusable: kind != "once"}
				if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: use.action, ActionDefinition: definition}); err != nil {
					t.Fatal(err)
				}
				switch kind {
				case "of a session":
					use.SessionID = pgtest.NewSession(t, store)
				case "below a plan":
					use.ParentID = newFamily(t, store).root
				}
				return use
			}
		}
	}
	return uses
}

// check returns the plan that the use has made, if any. It may have made one, and must have
// archived an action that is not reusable with it.
func (u useToLose) check(t *testing.T, store repo.Store) (made repo.ID) {
	t.Helper()
	page, err := store.Plans().List(t.Context(), repo.PlanFilter{Namespace: u.Namespace}, repo.Page{})
	if err != nil || len(page.Items) > 1 {
		t.Fatalf("%d plans, %v", len(page.Items), err)
	}
	for _, plan := range page.Items {
		made = plan.ID
	}
	action, err := store.Actions().Get(t.Context(), u.action)
	if err != nil || action.Archived != (!made.IsZero() && !action.Reusable) {
		t.Errorf("the action is archived: %t, the plan %s, %v", action.Archived, made, err)
	}
	return made
}

// The answer to each piece of a use is lost. The store repeats what it sent, and finds the
// plan that it has made, by its id or by the use's key. Below a plan it says what it knows, and a
// use with a key can be repeated by its caller.
// Guarantee: Plans: A use whose answer is lost makes one plan at most.
func TestUseWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	store, other, network := openLossy(t, "cache_statement", agentstore.Options{})
	for name, newUse := range usesToLose(t, other) {
		found := 0
		for piece, lost := int32(1), true; lost; piece++ {
			use := newUse()
			awaitQuiet(store.Pool())
			network.Lose(piece, false)
			plan, err := store.Plans().Use(t.Context(), use.action, use.UseAction)
			lost = network.Stop()
			awaitArrived(t, store, other)
			made := use.check(t, other)
			switch {
			case err == nil && made == plan.ID:
				found++
			case lost && !use.ParentID.IsZero() && (errors.Is(err, repo.ErrUnknownOutcome) || errors.Is(err, repo.ErrUnavailable) && made.IsZero()):
			default:
				t.Errorf("%s, the answer to piece %d lost: %v, the plans %s and %s", name, piece, err, plan.ID, made)
			}
			if use.Key == "" {
				continue
			}
			again, err := other.Plans().Use(t.Context(), use.action, use.UseAction)
			if final := use.check(t, other); err != nil || again.ID != final || !made.IsZero() && made != final {
				t.Errorf("%s: repeated, it gave %s and %v, stored are %s and then %s", name, again.ID, err, made, final)
			}
		}
		if found < 2 {
			t.Errorf("%s: no lost answer was mended", name)
		}
	}
}

// The first attempt arrives when the second one has made the plan. It makes no other.
func TestUseWhoseFirstAttemptArrivesLate(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewDatabase(t)
	other := pgtest.OpenStore(t, direct, agentstore.Options{})
	for name, newUse := range usesToLose(t, other) {
		use := newUse()
		if !use.ParentID.IsZero() {
			continue // whose transaction cannot be committed late
		}
		t.Run(name, func(t *testing.T) {
			network, through := newDelay(t, direct)
			watch := &beforeStatement{name: "PlanCreate", run: func() {}}
			store := pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 1, Tracer: watch})
			if _, err := store.Plans().Use(t.Context(), newFamily(t, other).action, repo.UseAction{}); err != nil { // prepares the statement
				t.Fatal(err)
			}
			pid := pgtest.Value[int32](t, store.Pool(), "SELECT pg_backend_pid()")
			awaitQuiet(store.Pool())
			watch.once, watch.run = sync.Once{}, func() { network.armed.Store(true) }
			plan, err := store.Plans().Use(t.Context(), use.action, use.UseAction)
			if network.armed.Load() {
				t.Fatal("nothing was kept")
			}
			close(network.release)
			awaitEnd(t, other, pid)
			if made := use.check(t, other); err != nil || made != plan.ID {
				t.Errorf("%s, %v; stored is %s", plan.ID, err, made)
			}
		})
	}
}

// Of two uses with one key that are under way at once, the one that waits for the other finds
// its plan, and leaves its own action as it is.
func TestUseThatWaitsForAKey(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	for name, newUse := range usesToLose(t, store) {
		use := newUse()
		if use.Key == "" || !use.ParentID.IsZero() {
			continue
		}
		once := "n/" + repo.NewID().String()
		if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: once}); err != nil {
			t.Fatal(err)
		}
		var first, second repo.Plan
		duringItsWait(t, store, func(tx repo.Repositories) (err error) {
			first, err = tx.Plans().Use(t.Context(), use.action, use.UseAction)
			return err
		}, func() (err error) {
			_, err = store.Plans().Use(t.Context(), once, use.UseAction)
			if conflict, is := errors.AsType[*repo.ExistsError](err); !is || conflict.ID != first.ID {
				return fmt.Errorf("the use of another action gave %w", err)
			}
			second, err = store.Plans().Use(t.Context(), use.action, use.UseAction)
			return err
		})
		if made := use.check(t, store); made != first.ID || made != second.ID {
			t.Errorf("%s: %s was made, and then %s; stored is %s", name, first.ID, second.ID, made)
		}
		if action, err := store.Actions().Get(t.Context(), once); err != nil || action.Archived {
			t.Errorf("%s: the action of the use without a plan is archived: %t, %v", name, action.Archived, err)
		}
	}
}
