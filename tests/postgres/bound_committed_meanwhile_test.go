package postgres

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// duringItsWait runs an operation that waits for a transaction. The transaction makes
// its change first, and commits while the operation waits.
func duringItsWait(t *testing.T, store *agentstore.Store, change func(tx repo.Repositories) error, operation func() error) {
	t.Helper()
	tx, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	if err := change(postgres.Bind(tx)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- operation() }()
	awaitLockWait(t, store.Pool())
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// beforeStatement calls a function once, before the first statement with a given name
// is sent.
type beforeStatement struct {
	name string
	once sync.Once
	run  func()
}

func (b *beforeStatement) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "-- name: "+b.name+" ") {
		b.once.Do(b.run)
	}
	return ctx
}

func (*beforeStatement) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (b *beforeStatement) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		b.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: query.SQL})
	}
	return ctx
}

func (*beforeStatement) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*beforeStatement) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// A plan is created from its action as it is at that moment, even if the action
// changed after it was read.
func TestUseOfAnActionThatChanges(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	other := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	action, err := other.Actions().Create(t.Context(), repo.NewAction{
		Name: "a", ActionDefinition: repo.ActionDefinition{Description: "before", Reusable: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	change := &beforeStatement{name: "PlanCreate", run: func() {
		if _, err := other.Actions().Update(t.Context(), "a", action.Version, repo.ActionDefinition{Description: "after", Reusable: true}); err != nil {
			t.Error(err)
		}
	}}
	// Another name makes it a separate pool.
	store := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "traced"), agentstore.Options{Tracer: change})
	plan, err := store.Plans().Use(t.Context(), "a", repo.UseAction{})
	if err != nil || plan.Description != "after" {
		t.Errorf("the plan is described as %q, %v", plan.Description, err)
	}
}

// A tree is cancelled as it is when its plans are locked.
func TestCancelOfAChildThatMoves(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	f := newFamily(t, store)
	child, err := store.Plans().Use(t.Context(), f.action, repo.UseAction{ParentID: f.root})
	if err != nil {
		t.Fatal(err)
	}
	duringItsWait(t, store, func(tx repo.Repositories) error {
		_, err := tx.Plans().Transition(t.Context(), child.ID, repo.TransitionStart, repo.Cause{})
		return err
	}, func() error {
		_, err := store.Plans().Transition(t.Context(), f.root, repo.TransitionCancel, repo.Cause{Reason: "x"})
		return err
	})
	child, err = store.Plans().Get(t.Context(), child.ID)
	if err != nil || child.State != repo.PlanCancelled || child.Version != 3 {
		t.Errorf("the child is %s at version %d, %v", child.State, child.Version, err)
	}
}

// A time from a server whose clock was ahead makes no UpdatedAt go back, and is not
// used for messages.
func TestTimesAheadOfTheClock(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	pgtest.Exec(t, store.Pool(), "UPDATE sessions SET updated_at = now() + interval '1 hour' WHERE id = $1", id.String())
	ahead, err := store.Sessions().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Append(t.Context(), id, user("behind")); err != nil {
		t.Fatal(err)
	}
	if now, err := store.Sessions().Get(t.Context(), id); err != nil || now.UpdatedAt.Before(ahead.UpdatedAt) {
		t.Errorf("an append took UpdatedAt from %v to %v, %v", ahead.UpdatedAt, now.UpdatedAt, err)
	}

	var document bytes.Buffer
	if err := store.Sessions().Export(t.Context(), id, &document); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Import(t.Context(), &document, true); err != nil {
		t.Fatal(err)
	}
	messages, err := store.Sessions().Append(t.Context(), id, user("now"))
	if err != nil {
		t.Fatal(err)
	}
	if early := ahead.UpdatedAt.Add(-30 * time.Minute); !messages[0].CreatedAt.Before(early) {
		t.Errorf("after an import with later times a message has the time %v", messages[0].CreatedAt)
	}
}
