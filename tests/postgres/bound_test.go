package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// boundCase has the data for each case of TestBoundSeesOthers.
type boundCase struct {
	family
	session, child, message repo.ID
}

func (c boundCase) transition(tx repo.Repositories, id repo.ID, transition repo.Transition) error {
	_, err := tx.Plans().Transition(context.Background(), id, transition, repo.Cause{Reason: "x"})
	return err
}

func (c boundCase) move(tx repo.Repositories, id repo.ID, transitions ...repo.Transition) error {
	for _, transition := range transitions {
		if err := c.transition(tx, id, transition); err != nil {
			return err
		}
	}
	return nil
}

// scope is one that no other case has.
func (c boundCase) scope() repo.Scope { return repo.Scope{Name: c.session.String()} }

func (c boundCase) change(tx repo.Repositories, key string, ifVersion *int64) error {
	_, err := tx.State().Change(context.Background(), []repo.StateChange{{Scope: c.scope(), Key: key, Value: []byte(`1`), IfVersion: ifVersion}})
	return err
}

// applied are the transitions of a plan from its creation to its end.
var applied = []repo.Transition{
	repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute, repo.TransitionStart, repo.TransitionComplete,
	repo.TransitionApply, repo.TransitionStart, repo.TransitionComplete,
}

// A caller's transaction of a higher level sees the database as of its first
// statement. Operations in it take account of what others did since, or the
// transaction is aborted: no operation succeeds because of outdated data.
// Guarantee: Transactions: In a caller's transaction an operation sees others' commits, or fails.
func TestBoundSeesOthers(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	type step func(c boundCase, tx repo.Repositories) error
	ctx := t.Context()
	deletes := func(c boundCase, tx repo.Repositories) error { return second(tx.Sessions().Delete(ctx, c.session)) }
	uses := func(c boundCase, tx repo.Repositories) error {
		return second(tx.Plans().Use(ctx, c.action, repo.UseAction{}))
	}
	usesBelow := func(c boundCase, tx repo.Repositories) error {
		return second(tx.Plans().Use(ctx, c.action, repo.UseAction{ParentID: c.child}))
	}
	addsUsage := func(c boundCase, tx repo.Repositories) error {
		return second(tx.Sessions().AddUsage(ctx, c.session, repo.NewUsage{InputTokens: 1}))
	}
	usesKey := func(c boundCase, tx repo.Repositories) error {
		return second(tx.Plans().Use(ctx, c.action, repo.UseAction{Key: c.message.String()}))
	}
	usesSessionsKey := func(c boundCase, tx repo.Repositories) error {
		return second(tx.Plans().Use(ctx, c.action, repo.UseAction{Key: "k", SessionID: c.session}))
	}
	appends := func(c boundCase, tx repo.Repositories) error {
		return second(tx.Sessions().Append(ctx, c.session, user("a")))
	}
	appendsOnce := func(c boundCase, tx repo.Repositories) error {
		return second(tx.Sessions().Append(ctx, c.session, repo.NewMessage{ID: c.message, Role: repo.RoleUser, Content: "a"}))
	}
	updates := func(c boundCase, tx repo.Repositories) error {
		return second(tx.Actions().Update(ctx, c.action, 1, repo.ActionDefinition{Reusable: true}))
	}
	links := func(c boundCase, tx repo.Repositories) error { return tx.Plans().Link(ctx, c.session, c.root) }
	unlinks := func(c boundCase, tx repo.Repositories) error { return tx.Plans().Unlink(ctx, c.session, c.root) }
	changesA := func(c boundCase, tx repo.Repositories) error { return c.change(tx, "a", nil) }
	erase := func(c boundCase, tx repo.Repositories) error { return second(tx.State().Erase(ctx, c.scope().Name)) }
	// What was erased stays so, and the scope is a new one.
	onlyA := func(t *testing.T, c boundCase) bool {
		states, err := store.State().Read(ctx, c.scope())
		return err == nil && len(states[0].Values) == 1 && states[0].Values[0].Key == "a"
	}
	for name, test := range map[string]struct {
		prepare, first, second step
		// refused is the error if the server itself notices what was done.
		refused error
		// holds reports whether the result is correct although the second step did
		// not see the first.
		holds func(t *testing.T, c boundCase) bool
	}{
		"append after append": {
			first: appends,
			second: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, c.session, user("b"))
				return err
			},
		},
		"the same message twice": {
			first:  appendsOnce,
			second: appendsOnce,
		},
		"add usage after add usage": {
			first:  addsUsage,
			second: addsUsage,
		},
		"update after add usage": {
			first: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Sessions().AddUsage(ctx, c.session, repo.NewUsage{Cost: 100})
				return err
			},
			second: func(c boundCase, tx repo.Repositories) error {
				budget := repo.Cost(1)
				_, err := tx.Sessions().Update(ctx, c.session, repo.SessionUpdate{Budget: &budget})
				return err
			},
		},
		"create a session twice": {
			first: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Sessions().Create(ctx, repo.NewSession{ID: c.message})
				return err
			},
			second: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Sessions().Create(ctx, repo.NewSession{ID: c.message, Actor: "b"})
				return err
			},
		},
		"delete after append": {
			first:  appends,
			second: deletes,
		},
		"delete after link": {
			first:  links,
			second: deletes,
		},
		"append after delete": {
			first:  deletes,
			second: appends,
		},
		"link after delete": {
			first:  deletes,
			second: links,
		},
		"unlink after link": {
			first:  links,
			second: unlinks,
		},
		"link after unlink": {
			prepare: links,
			first:   unlinks,
			second:  links,
			holds: func(t *testing.T, c boundCase) bool {
				session, err := store.Sessions().Get(ctx, c.session)
				return err == nil && len(session.Plans) == 1
			},
		},
		"create an action twice": {
			first: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Actions().Create(ctx, repo.NewAction{Name: c.action + "b"})
				return err
			},
			second: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Actions().Create(ctx, repo.NewAction{Name: c.action + "b", CreatedBy: "b"})
				return err
			},
		},
		"update after update": {
			first:  updates,
			second: updates,
		},
		"use after archive": {
			first:  func(c boundCase, tx repo.Repositories) error { return second(tx.Actions().Archive(ctx, c.action)) },
			second: uses,
		},
		"use after update": {
			first: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Actions().Update(ctx, c.action, 0, repo.ActionDefinition{Reusable: true, Description: "new"})
				return err
			},
			second: uses,
			holds: func(t *testing.T, c boundCase) bool { // read committed sees the first step
				page, err := store.Plans().List(ctx, repo.PlanFilter{}, repo.Page{Limit: 1})
				return err == nil && page.Items[0].Description == "new"
			},
		},
		"delete an action after use": {
			prepare: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Actions().Create(ctx, repo.NewAction{Name: c.action + "b", ActionDefinition: repo.ActionDefinition{Reusable: true}})
				return err
			},
			refused: repo.ErrConflict,
			first: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, c.action+"b", repo.UseAction{})
				return err
			},
			second: func(c boundCase, tx repo.Repositories) error { return tx.Actions().Delete(ctx, c.action+"b") },
		},
		"use a key twice": {
			first:  usesKey,
			second: usesKey,
		},
		"use a session's key twice": {
			first:  usesSessionsKey,
			second: usesSessionsKey,
		},
		"use for a session after delete": {
			first: deletes,
			second: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, c.action, repo.UseAction{SessionID: c.session})
				return err
			},
		},
		"use below a plan that was applied": {
			first:  func(c boundCase, tx repo.Repositories) error { return c.move(tx, c.child, applied...) },
			second: usesBelow,
		},
		"use below a plan that was cancelled": {
			first:  func(c boundCase, tx repo.Repositories) error { return c.transition(tx, c.child, repo.TransitionCancel) },
			second: usesBelow,
		},
		"cancel after use below a child": {
			first:  usesBelow,
			second: func(c boundCase, tx repo.Repositories) error { return c.transition(tx, c.root, repo.TransitionCancel) },
			holds:  func(t *testing.T, c boundCase) bool { return c.orphans(t) == 0 },
		},
		"cancel after a child's move": {
			first:  func(c boundCase, tx repo.Repositories) error { return c.move(tx, c.child, applied...) },
			second: func(c boundCase, tx repo.Repositories) error { return c.transition(tx, c.root, repo.TransitionCancel) },
			holds: func(t *testing.T, c boundCase) bool {
				child, err := store.Plans().Get(ctx, c.child)
				return err == nil && child.State == repo.PlanApplied
			},
		},
		"start after start": {
			first:  func(c boundCase, tx repo.Repositories) error { return c.transition(tx, c.root, repo.TransitionStart) },
			second: func(c boundCase, tx repo.Repositories) error { return c.transition(tx, c.root, repo.TransitionStart) },
		},
		"execute, where it is already, after revert": {
			prepare: func(c boundCase, tx repo.Repositories) error {
				return c.move(tx, c.root, repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute)
			},
			first:  func(c boundCase, tx repo.Repositories) error { return c.transition(tx, c.root, repo.TransitionRevert) },
			second: func(c boundCase, tx repo.Repositories) error { return c.transition(tx, c.root, repo.TransitionExecute) },
		},
		"change a key after another": {
			prepare: func(c boundCase, tx repo.Repositories) error { return c.change(tx, "prepared", nil) },
			first:   changesA,
			second:  func(c boundCase, tx repo.Repositories) error { return c.change(tx, "b", nil) },
		},
		"make a scope twice": {
			first:  changesA,
			second: func(c boundCase, tx repo.Repositories) error { return c.change(tx, "b", nil) },
		},
		"set a key that must not exist": {
			first:   func(c boundCase, tx repo.Repositories) error { return c.change(tx, "a", new(int64)) },
			second:  func(c boundCase, tx repo.Repositories) error { return c.change(tx, "a", new(int64)) },
			refused: repo.ErrConflict,
		},
		"change under a condition on another scope": {
			first: changesA,
			second: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{SessionID: c.session}, Key: "a", Value: []byte(`1`)}}, repo.ScopeVersion{Scope: c.scope()})
				return err
			},
		},
		"change after erase": {
			prepare: func(c boundCase, tx repo.Repositories) error { return c.change(tx, "prepared", nil) },
			first:   erase,
			second:  changesA,
			holds:   onlyA,
		},
		// The scope's new row comes before the erased one's, which the late transaction still sees.
		"change after erase, in a free place": {
			prepare: func(c boundCase, tx repo.Repositories) error {
				before := repo.Scope{Name: "before " + c.scope().Name}
				_, err := tx.State().Change(ctx, []repo.StateChange{{Scope: before, Key: "x", Value: []byte(`1`)}})
				if err == nil {
					err = c.change(tx, "prepared", nil)
				}
				if err == nil {
					_, err = tx.State().Erase(ctx, before.Name)
				}
				pgtest.Exec(t, store.Pool(), "VACUUM state_scopes")
				return err
			},
			first:  erase,
			second: changesA,
			holds:  onlyA,
		},
		"erase after change": {
			prepare: func(c boundCase, tx repo.Repositories) error { return c.change(tx, "prepared", nil) },
			first:   changesA,
			second:  erase,
		},
		"change a session's state after delete": {
			first: deletes,
			second: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{SessionID: c.session}, Key: "a", Value: []byte(`1`)}})
				return err
			},
		},
		"progress after complete": {
			prepare: func(c boundCase, tx repo.Repositories) error { return c.transition(tx, c.root, repo.TransitionStart) },
			first: func(c boundCase, tx repo.Repositories) error {
				return c.transition(tx, c.root, repo.TransitionComplete)
			},
			second: func(c boundCase, tx repo.Repositories) error {
				_, err := tx.Plans().Progress(ctx, c.root, repo.Progress{})
				return err
			},
		},
	} {
		for _, level := range levels {
			t.Run(name+"/"+string(level), func(t *testing.T) {
				c := boundCase{family: newFamily(t, store), session: pgtest.NewSession(t, store), message: repo.NewID()}
				child, err := store.Plans().Use(ctx, c.action, repo.UseAction{ParentID: c.root})
				if err != nil {
					t.Fatal(err)
				}
				c.child = child.ID
				if test.prepare != nil {
					if err := test.prepare(c, store); err != nil {
						t.Fatal(err)
					}
				}
				err = c.beside(t, level,
					func(tx pgx.Tx) error { return test.first(c, postgres.Bind(tx)) },
					func(tx pgx.Tx) error { return test.second(c, postgres.Bind(tx)) })
				switch {
				case errors.Is(err, repo.ErrContention):
					if level == pgx.ReadCommitted {
						t.Errorf("failed at read committed: %v", err)
					}
				case err != nil && test.refused != nil && errors.Is(err, test.refused):
				case err != nil && level != pgx.ReadCommitted:
					t.Errorf("%v, want %v", err, repo.ErrContention)
				case err == nil && level != pgx.ReadCommitted && (test.holds == nil || !test.holds(t, c)):
					t.Error("it succeeded because of outdated data")
				}
			})
		}
	}
}

// Unlink succeeds, and leaves no link, whether or not there was one.
func TestBoundUnlinkOfNothing(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	f, session := newFamily(t, store), pgtest.NewSession(t, store)
	for _, level := range levels {
		for range 2 { // without a link, and with one
			if err := pgx.BeginTxFunc(t.Context(), store.Pool(), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				return postgres.Bind(tx).Plans().Unlink(t.Context(), session, f.root)
			}); err != nil {
				t.Errorf("%s: %v", level, err)
			}
			got, err := store.Sessions().Get(t.Context(), session)
			if err != nil || len(got.Plans) != 0 {
				t.Errorf("%s: %d links, %v", level, len(got.Plans), err)
			}
			if err := store.Plans().Link(t.Context(), session, f.root); err != nil {
				t.Fatal(err)
			}
		}
	}
}
