package plans

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// before calls a function before a statement is sent, once.
type before struct {
	statement string
	do        func()
}

func (b *before) see(sql string) {
	if do := b.do; do != nil && strings.HasPrefix(sql, "-- name: "+b.statement+" ") {
		b.do = nil
		do()
	}
}

func (b *before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	b.see(data.SQL)
	return ctx
}

func (*before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart: a single statement that is a transaction is sent in a batch, after
// its isolation level.
func (b *before) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		b.see(query.SQL)
	}
	return ctx
}

func (*before) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*before) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// hooked returns a store that calls a function before one of its statements.
func hooked(t *testing.T, databaseURL string, hook *before) *agentstore.Store {
	t.Helper()
	pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer = hook })
	return pgtest.OpenPool(t, pool, agentstore.Options{})
}

// If two callers move a plan to the same stage, with a transition for which being
// there already is no error, both succeed.
func TestTwoMovesToOneStage(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"PlanTransition", inTransaction} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			other := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			plan, err := other.Plans().Use(t.Context(), newAction(t, other), repo.UseAction{})
			if err != nil {
				t.Fatal(err)
			}
			move := func(step repo.Transition) {
				if plan, err = other.Plans().Transition(t.Context(), plan.ID, step, repo.Cause{}); err != nil {
					t.Errorf("%s: %v", step, err)
				}
			}
			move(repo.TransitionStart)
			move(repo.TransitionComplete)
			raced := false
			store := hooked(t, databaseURL, &before{statement: statement, do: func() {
				raced = true
				move(repo.TransitionExecute)
			}})
			got, err := moveBy(t, store, statement, plan.ID, repo.TransitionExecute, repo.Cause{})
			if err != nil || !raced || got.Version != plan.Version || got.Stage != plan.Stage {
				t.Errorf("raced: %t, %v at version %d, %v", raced, got.Stage, got.Version, err)
			}
		})
	}
}

// inTransaction is the statement that is sent before PlanTransition in a caller's transaction.
const inTransaction = "PlanLock"

// moveBy makes a transition that sends a statement.
func moveBy(
	t *testing.T, store *agentstore.Store, statement string, id repo.ID, transition repo.Transition, cause repo.Cause,
) (plan repo.Plan, err error) {
	t.Helper()
	if statement != inTransaction {
		return store.Plans().Transition(t.Context(), id, transition, cause)
	}
	err = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) (err error) {
		plan, err = tx.Plans().Transition(ctx, id, transition, cause)
		return err
	})
	return plan, err
}

// Between reading and moving, a plan may have left its stage and returned to it:
// failed, resumed and started by another caller. A caller that gives a version then
// moves nothing.
func TestStaleVersion(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	other := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	action := newAction(t, other)
	for statement, transition := range map[string]repo.Transition{
		"PlanTransition": repo.TransitionComplete, "PlanCancel": repo.TransitionCancel,
		inTransaction: repo.TransitionComplete,
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			hook := &before{statement: statement}
			store := hooked(t, databaseURL, hook)
			// A child, because Cancel locks the root of the tree, which then cannot
			// be moved.
			root, err := other.Plans().Use(t.Context(), action, repo.UseAction{})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := other.Plans().Use(t.Context(), action, repo.UseAction{ParentID: root.ID})
			if err != nil {
				t.Fatal(err)
			}
			move := func(step repo.Transition) {
				t.Helper()
				if plan, err = other.Plans().Transition(t.Context(), plan.ID, step, repo.Cause{Reason: "meanwhile"}); err != nil {
					t.Errorf("%s: %v", step, err)
				}
			}
			move(repo.TransitionStart)
			known := plan
			raced := false
			hook.do = func() {
				raced = true
				for _, step := range []repo.Transition{repo.TransitionFail, repo.TransitionResume, repo.TransitionStart} {
					move(step)
				}
			}
			_, err = moveBy(t, store, statement, known.ID, transition, repo.Cause{Version: known.Version, Reason: "late"})
			if _, refused := errors.AsType[*repo.TransitionConflictError](err); !refused {
				t.Errorf("the plan was moved, or: %v", err)
			}
			if !raced || plan.Stage != known.Stage || plan.Version != known.Version+3 {
				t.Fatalf("the plan was not moved meanwhile: %+v", plan)
			}
			now, err := other.Plans().Get(t.Context(), known.ID)
			if err != nil || now.Version != plan.Version || now.Stage != plan.Stage {
				t.Errorf("the plan is at %v, version %d: %v", now.Stage, now.Version, err)
			}
		})
	}
}
