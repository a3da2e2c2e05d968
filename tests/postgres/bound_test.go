package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
)

// late is what each case of TestBoundSeesOthers has to work on.
type late struct {
	family
	session, child, message repo.ID
}

func (l late) transition(tx repo.Repositories, id repo.ID, transition repo.Transition) error {
	_, err := tx.Plans().Transition(context.Background(), id, transition, repo.Cause{Reason: "x"})
	return err
}

func (l late) move(tx repo.Repositories, id repo.ID, transitions ...repo.Transition) error {
	for _, transition := range transitions {
		if err := l.transition(tx, id, transition); err != nil {
			return err
		}
	}
	return nil
}

// applied is the way of a plan to its end.
var applied = []repo.Transition{
	repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute, repo.TransitionStart, repo.TransitionComplete,
	repo.TransitionApply, repo.TransitionStart, repo.TransitionComplete,
}

// A caller's transaction of a higher level sees the database as it was at its
// first statement. What is done in it beside what others did since is done as if
// it saw that, or the transaction is given up: it never succeeds on the strength of
// what is not so any more.
func TestBoundSeesOthers(t *testing.T) {
	t.Parallel()
	store := openStore(t, agentstore.Options{MaxConns: 4})
	type step func(l late, tx repo.Repositories) error
	ctx := t.Context()
	for name, test := range map[string]struct {
		prepare, first, second step
		// refused: the server sees by itself what was done, and says so.
		refused error
		// holds: the second step may succeed without having seen the first.
		holds func(t *testing.T, l late) bool
	}{
		"append after append": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, l.session, user("a"))
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, l.session, user("b"))
				return err
			},
		},
		"the same message twice": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, l.session, repo.NewMessage{ID: l.message, Role: repo.RoleUser, Content: "a"})
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, l.session, repo.NewMessage{ID: l.message, Role: repo.RoleUser, Content: "a"})
				return err
			},
		},
		"add usage after add usage": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().AddUsage(ctx, l.session, repo.NewUsage{InputTokens: 1})
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().AddUsage(ctx, l.session, repo.NewUsage{InputTokens: 1})
				return err
			},
		},
		"update after add usage": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().AddUsage(ctx, l.session, repo.NewUsage{Cost: 100})
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				budget := repo.Cost(1)
				_, err := tx.Sessions().Update(ctx, l.session, repo.SessionUpdate{Budget: &budget})
				return err
			},
		},
		"create a session twice": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().Create(ctx, repo.NewSession{ID: l.message})
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().Create(ctx, repo.NewSession{ID: l.message, Actor: "b"})
				return err
			},
		},
		"delete after append": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, l.session, user("a"))
				return err
			},
			second: func(l late, tx repo.Repositories) error { _, err := tx.Sessions().Delete(ctx, l.session); return err },
		},
		"delete after link": {
			first:  func(l late, tx repo.Repositories) error { return tx.Plans().Link(ctx, l.session, l.root) },
			second: func(l late, tx repo.Repositories) error { _, err := tx.Sessions().Delete(ctx, l.session); return err },
		},
		"append after delete": {
			first: func(l late, tx repo.Repositories) error { _, err := tx.Sessions().Delete(ctx, l.session); return err },
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, l.session, user("a"))
				return err
			},
		},
		"link after delete": {
			first:  func(l late, tx repo.Repositories) error { _, err := tx.Sessions().Delete(ctx, l.session); return err },
			second: func(l late, tx repo.Repositories) error { return tx.Plans().Link(ctx, l.session, l.root) },
		},
		"unlink after link": {
			first:  func(l late, tx repo.Repositories) error { return tx.Plans().Link(ctx, l.session, l.root) },
			second: func(l late, tx repo.Repositories) error { return tx.Plans().Unlink(ctx, l.session, l.root) },
		},
		"link after unlink": {
			prepare: func(l late, tx repo.Repositories) error { return tx.Plans().Link(ctx, l.session, l.root) },
			first:   func(l late, tx repo.Repositories) error { return tx.Plans().Unlink(ctx, l.session, l.root) },
			second:  func(l late, tx repo.Repositories) error { return tx.Plans().Link(ctx, l.session, l.root) },
			holds: func(t *testing.T, l late) bool {
				session, err := store.Sessions().Get(ctx, l.session)
				return err == nil && len(session.Plans) == 1
			},
		},
		"create an action twice": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Actions().Create(ctx, repo.NewAction{Name: l.action + "b"})
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Actions().Create(ctx, repo.NewAction{Name: l.action + "b", CreatedBy: "b"})
				return err
			},
		},
		"update after update": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Actions().Update(ctx, l.action, 1, repo.ActionDefinition{Reusable: true})
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Actions().Update(ctx, l.action, 1, repo.ActionDefinition{Reusable: true})
				return err
			},
		},
		"use after archive": {
			first: func(l late, tx repo.Repositories) error { _, err := tx.Actions().Archive(ctx, l.action); return err },
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action, repo.UseAction{})
				return err
			},
		},
		"use after update": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Actions().Update(ctx, l.action, 0, repo.ActionDefinition{Reusable: true, Description: "new"})
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action, repo.UseAction{})
				return err
			},
			holds: func(t *testing.T, l late) bool { // read committed sees it
				page, err := store.Plans().List(ctx, repo.PlanFilter{}, repo.Page{Limit: 1})
				return err == nil && page.Plans[0].Description == "new"
			},
		},
		"delete an action after use": {
			prepare: func(l late, tx repo.Repositories) error {
				_, err := tx.Actions().Create(ctx, repo.NewAction{Name: l.action + "b", ActionDefinition: repo.ActionDefinition{Reusable: true}})
				return err
			},
			refused: repo.ErrConflict,
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action+"b", repo.UseAction{})
				return err
			},
			second: func(l late, tx repo.Repositories) error { return tx.Actions().Delete(ctx, l.action+"b") },
		},
		"use a plan's id twice": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action, repo.UseAction{ID: l.message})
				return err
			},
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action, repo.UseAction{ID: l.message, Name: "b"})
				return err
			},
		},
		"use for a session after delete": {
			first: func(l late, tx repo.Repositories) error { _, err := tx.Sessions().Delete(ctx, l.session); return err },
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action, repo.UseAction{SessionID: l.session})
				return err
			},
		},
		"use below a plan that was applied": {
			first: func(l late, tx repo.Repositories) error { return l.move(tx, l.child, applied...) },
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action, repo.UseAction{ParentID: l.child})
				return err
			},
		},
		"use below a plan that was cancelled": {
			first: func(l late, tx repo.Repositories) error { return l.transition(tx, l.child, repo.TransitionCancel) },
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action, repo.UseAction{ParentID: l.child})
				return err
			},
		},
		"cancel after use below a child": {
			first: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Use(ctx, l.action, repo.UseAction{ParentID: l.child})
				return err
			},
			second: func(l late, tx repo.Repositories) error { return l.transition(tx, l.root, repo.TransitionCancel) },
			holds:  func(t *testing.T, l late) bool { return l.orphans(t) == 0 },
		},
		"cancel after a child's move": {
			first:  func(l late, tx repo.Repositories) error { return l.move(tx, l.child, applied...) },
			second: func(l late, tx repo.Repositories) error { return l.transition(tx, l.root, repo.TransitionCancel) },
			holds: func(t *testing.T, l late) bool {
				child, err := store.Plans().Get(ctx, l.child)
				return err == nil && child.State == repo.StateApplied
			},
		},
		"start after start": {
			first:  func(l late, tx repo.Repositories) error { return l.transition(tx, l.root, repo.TransitionStart) },
			second: func(l late, tx repo.Repositories) error { return l.transition(tx, l.root, repo.TransitionStart) },
		},
		"execute, where it is already, after revert": {
			prepare: func(l late, tx repo.Repositories) error {
				return l.move(tx, l.root, repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute)
			},
			first:  func(l late, tx repo.Repositories) error { return l.transition(tx, l.root, repo.TransitionRevert) },
			second: func(l late, tx repo.Repositories) error { return l.transition(tx, l.root, repo.TransitionExecute) },
		},
		"progress after complete": {
			prepare: func(l late, tx repo.Repositories) error { return l.transition(tx, l.root, repo.TransitionStart) },
			first:   func(l late, tx repo.Repositories) error { return l.transition(tx, l.root, repo.TransitionComplete) },
			second: func(l late, tx repo.Repositories) error {
				_, err := tx.Plans().Progress(ctx, l.root, repo.Progress{})
				return err
			},
		},
	} {
		for _, level := range levels {
			t.Run(name+"/"+string(level), func(t *testing.T) {
				l := late{family: newFamily(t, store), session: newSession(t, store), message: repo.NewID()}
				child, err := store.Plans().Use(ctx, l.action, repo.UseAction{ParentID: l.root})
				if err != nil {
					t.Fatal(err)
				}
				l.child = child.ID
				if test.prepare != nil {
					if err := test.prepare(l, store); err != nil {
						t.Fatal(err)
					}
				}
				err = l.beside(t, level,
					func(tx pgx.Tx) error { return test.first(l, postgres.Bind(tx)) },
					func(tx pgx.Tx) error { return test.second(l, postgres.Bind(tx)) })
				switch {
				case errors.Is(err, repo.ErrContention):
					if level == pgx.ReadCommitted {
						t.Errorf("given up at read committed: %v", err)
					}
				case err != nil && test.refused != nil && errors.Is(err, test.refused):
				case err != nil && level != pgx.ReadCommitted:
					t.Errorf("%v, want %v", err, repo.ErrContention)
				case err == nil && level != pgx.ReadCommitted && (test.holds == nil || !test.holds(t, l)):
					t.Error("it succeeded on what is not so any more")
				}
			})
		}
	}
}

// A link that is not there is not there after it was taken off, either.
func TestBoundUnlinkOfNothing(t *testing.T) {
	t.Parallel()
	store := openStore(t, agentstore.Options{MaxConns: 4})
	f, session := newFamily(t, store), newSession(t, store)
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
