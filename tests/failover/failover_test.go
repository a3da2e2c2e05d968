package failover

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// recoveryBound is how long the store may take to find the new primary after its
// promotion: the connection attempts of a few retries.
const recoveryBound = 5 * time.Second

// Guarantee: Servers and roles: A failover with synchronous replication loses no acknowledged message.
func TestKilledPrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	store := pgtest.OpenStore(t, p.url, agentstore.Options{MaxConns: 16})
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	w := startWriters(ctx, store, pgtest.NewSession(t, store), 16)
	defer w.running.Wait()
	defer w.stop.Store(true)
	w.await(t, 200, 10*time.Second)

	p.primary.Stop(t, syscall.SIGKILL)
	awaitFailure(t, w) // the store's retries cannot hide the failure
	before, promoted := w.count(), time.Now()
	p.replica.Promote(t)
	w.await(t, before+200, recoveryBound)
	recovery := time.Since(promoted)
	w.end(t)

	if got, want := w.inspect(t), (findings{stored: len(w.acknowledged)}); got != want {
		t.Errorf("%d acknowledged, found %+v", len(w.acknowledged), got)
	}
	t.Logf("%d acknowledged, %d of them before; %d attempts failed; 200 more acknowledged within %s of the order to promote",
		len(w.acknowledged), before, w.failed, recovery.Round(time.Millisecond))
}

// With an asynchronous replica that is behind, acknowledged messages are lost. The
// harness finds that.
func TestAsynchronousReplicaLoses(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	store := pgtest.OpenStore(t, p.url, agentstore.Options{MaxConns: 16})
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	session := pgtest.NewSession(t, store)
	w := startWriters(ctx, store, session, 4)
	defer w.running.Wait()
	defer w.stop.Store(true)
	w.await(t, 50, 10*time.Second)
	p.replica.Stop(t, syscall.SIGINT)
	w.await(t, w.count()+100, 10*time.Second)
	w.end(t)

	p.primary.Stop(t, syscall.SIGKILL)
	p.replica.Start(t)
	p.replica.Promote(t)
	awaitAnswer(t, func() error {
		_, err := store.Sessions().Get(t.Context(), session)
		return err
	})
	if got := w.inspect(t); got.lost == 0 {
		t.Errorf("%d acknowledged, found %+v: the harness does not catch a loss", len(w.acknowledged), got)
	}
}

// A server that becomes read-only under the store's connections, as in a planned
// switch-over, leaves them open and answers each write with SQLSTATE 25006. The store
// drops them and finds the server that accepts writes.
// Guarantee: Servers and roles: If a server becomes read-only, the store finds the one that accepts writes.
func TestPrimaryBecomesReadOnly(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	store := pgtest.OpenStore(t, p.url, agentstore.Options{MaxConns: 16})
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	session := pgtest.NewSession(t, store)
	w := startWriters(ctx, store, session, 16)
	defer w.running.Wait()
	defer w.stop.Store(true)
	w.await(t, 200, 10*time.Second)

	pgtest.Exec(t, pgtest.Connect(t, p.primary.URL("postgres")), "ALTER SYSTEM SET default_transaction_read_only = on")
	pgtest.Exec(t, pgtest.Connect(t, p.primary.URL("postgres")), "SELECT pg_reload_conf()")
	// When one transaction cannot write, the last that could have ended.
	awaitFailure(t, w)
	p.replica.Promote(t)
	w.await(t, w.count()+200, recoveryBound)
	w.end(t)
	if got, want := w.inspect(t), (findings{stored: len(w.acknowledged)}); got != want {
		t.Errorf("%d acknowledged, found %+v", len(w.acknowledged), got)
	}
	// Transactions of several calls find it, too.
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := tx.Sessions().Append(ctx, session, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
		return err
	})
	if err != nil {
		t.Errorf("InTx: %v", err)
	}
}

// Transactions find a read-only server, too. The first one fails, and the next one is
// on the other server, however many connections to the old one were idle.
func TestInTxOnReadOnlyServer(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	store := pgtest.OpenStore(t, p.url, agentstore.Options{MaxConns: 16})
	session := pgtest.NewSession(t, store)
	var idle []*pgxpool.Conn
	for range 8 { // more than the attempts of an operation
		conn, err := store.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	for _, conn := range idle {
		conn.Release()
	}
	appendInTx := func() error {
		return store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			_, err := tx.Sessions().Append(ctx, session, repo.NewMessage{Role: repo.RoleUser, Content: "x"})
			return err
		})
	}
	if err := appendInTx(); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, pgtest.Connect(t, p.primary.URL("postgres")), "ALTER SYSTEM SET default_transaction_read_only = on")
	pgtest.Exec(t, pgtest.Connect(t, p.primary.URL("postgres")), "SELECT pg_reload_conf()")
	p.replica.Promote(t)
	if err := appendInTx(); !errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("on the read-only server: %v", err)
	}
	if err := appendInTx(); err != nil {
		t.Errorf("the next transaction: %v", err)
	}
}

func awaitAnswer(t *testing.T, operation func() error) {
	t.Helper()
	for started := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := operation()
		if err == nil {
			return
		}
		if time.Since(started) > recoveryBound {
			t.Fatalf("after %s still: %v", recoveryBound, err)
		}
	}
}

func awaitFailure(t *testing.T, w *writers) {
	t.Helper()
	await.For(t, "a writer has failed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.failed > 0
	})
}
