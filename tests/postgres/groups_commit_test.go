package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A commit can fail after its statement was answered: deferred constraints are
// checked then. The operation then fails, however its statement was sent.
func TestErrorsOfCommits(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 8})
	id, ctx := pgtest.NewSession(t, store), t.Context()
	pgtest.Exec(t, store.Pool(), `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'refused at the commit' USING ERRCODE = '23514', CONSTRAINT = 'deferred_check'; END $$`)
	for _, table := range []string{"sessions", "messages", "session_plans", "audit_holds"} {
		pgtest.Exec(t, store.Pool(), "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON "+table+
			" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()")
	}
	release := hold(t, store.Pool(), id) // the append waits alone, in a batch
	waiting := make(chan error, 1)
	go func() {
		_, err := store.Sessions().Append(ctx, id, user("behind a lock"))
		waiting <- err
	}()
	awaitLockWait(t, store.Pool())
	release()
	if err := <-waiting; !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("an append that waited: %v", err)
	}
	_, err := store.Sessions().Append(ctx, id, user("one"))
	if !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("an append: %v", err)
	}
	if _, err := store.Sessions().Append(ctx, id, user("one"), user("two")); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("a joined append: %v", err)
	}
	if _, err := store.Sessions().Create(ctx, repo.NewSession{}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("a session: %v", err)
	}
	if err := store.AuditLog().Hold(ctx, auditlog.Hold{SessionID: id, Reason: "x"}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("a hold: %v", err)
	}
	session, err := store.Sessions().Get(ctx, id)
	if err != nil || session.MessageCount != 0 {
		t.Errorf("%d messages are stored, %v", session.MessageCount, err)
	}
}

// A transaction that was aborted by a conflict is retried up to the limit. One that
// failed for another reason is not.
func TestInTxIsRunAgain(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	for _, test := range []struct {
		gives []error
		runs  int
		want  error
	}{
		{[]error{repo.ErrContention, repo.ErrContention, nil}, 3, nil},
		{[]error{repo.ErrContention, repo.ErrContention, repo.ErrContention, repo.ErrContention, repo.ErrContention, nil}, 5, repo.ErrContention},
		{[]error{repo.ErrConflict, nil}, 1, repo.ErrConflict},
		{[]error{repo.ErrUnavailable, nil}, 1, repo.ErrUnavailable},
	} {
		runs := 0
		err := store.InTx(t.Context(), func(context.Context, repo.Repositories) error {
			runs++
			return test.gives[runs-1]
		})
		if runs != test.runs || !errors.Is(err, test.want) {
			t.Errorf("%v: %d runs, %v", test.gives, runs, err)
		}
	}
}

// failingOnce makes the first statement with a given text fail before it reaches the
// server.
type failingOnce struct {
	failing
	done bool
}

func (f *failingOnce) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if f.done || data.SQL != f.text {
		return ctx
	}
	f.done = true
	return f.failing.TraceQueryStart(ctx, conn, data)
}

// Failing to begin a transaction is harmless: it is retried.
func TestBeginIsTriedAgain(t *testing.T) {
	t.Parallel()
	tracer := &failingOnce{failing: failing{"begin isolation level read committed"}}
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 1, Tracer: tracer})
	err := store.InTx(t.Context(), func(context.Context, repo.Repositories) error { return nil })
	if err != nil || !tracer.done {
		t.Errorf("%v, failed once: %t", err, tracer.done)
	}
}

// A commit whose answer does not arrive may have been carried out.
func TestUnansweredCommit(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewDatabase(t)
	network, through := newDelay(t, direct)
	store, other := pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 1}), pgtest.OpenStore(t, direct, agentstore.Options{})
	id := repo.NewID()
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().Create(ctx, repo.NewSession{ID: id})
		network.armed.Store(true)
		return err
	})
	close(network.release)
	await.For(t, "the commit has arrived, which the test is about", func() bool {
		_, err := other.Sessions().Get(t.Context(), id)
		return err == nil
	})
	if !errors.Is(err, repo.ErrUnknownOutcome) {
		t.Errorf("%v, but it is written; want %v", err, repo.ErrUnknownOutcome)
	}
}

// An operation of several statements that failed in a caller's transaction leaves
// nothing behind if the caller continues.
func TestFailedOperationLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	f, ctx := newFamily(t, store), t.Context()
	// The cancellation of the root fails halfway.
	pgtest.Exec(t, store.Pool(), `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '23514', CONSTRAINT = 'own_check'; END $$`)
	pgtest.Exec(t, store.Pool(), `CREATE TRIGGER refuse BEFORE INSERT ON plan_history FOR EACH ROW EXECUTE FUNCTION refuse()`)
	tx, err := store.Pool().Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	bound := postgres.Bind(tx)
	if _, err := bound.Plans().Transition(ctx, f.root, repo.TransitionCancel, repo.Cause{Reason: "x"}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("%v, want %v", err, repo.ErrInvalid)
	}
	if _, err := bound.Sessions().Create(ctx, repo.NewSession{}); err != nil {
		t.Errorf("the transaction cannot continue: %v", err)
	}
}
