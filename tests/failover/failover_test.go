package failover

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Guarantee: Servers and roles: A failover with synchronous replication loses no acknowledged message.
func TestKilledPrimary(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	store := pgtest.OpenStore(t, p.url, agentstore.Options{MaxConns: 16})
	w := startWriters(await.Context(t), store, pgtest.NewSession(t, store), 16)
	defer w.running.Wait()
	defer w.stop.Store(true)
	w.await(t, 200)

	p.primary.Stop(t, syscall.SIGKILL)
	awaitFailure(t, w) // the store's retries cannot hide the failure
	before := w.count()
	p.replica.Promote(t)
	w.await(t, before+200)
	w.end(t)

	if got, want := w.inspect(t), (findings{stored: len(w.acknowledged)}); got != want {
		t.Errorf("%d acknowledged, found %+v", len(w.acknowledged), got)
	}
	t.Logf("%d acknowledged, %d of them before; %d attempts failed",
		len(w.acknowledged), before, w.failed)
}

// With an asynchronous replica that is behind, acknowledged messages are lost. The
// harness finds that.
func TestAsynchronousReplicaLoses(t *testing.T) {
	t.Parallel()
	p := newPair(t, false)
	store := pgtest.OpenStore(t, p.url, agentstore.Options{MaxConns: 16})
	session := pgtest.NewSession(t, store)
	w := startWriters(await.Context(t), store, session, 4)
	defer w.running.Wait()
	defer w.stop.Store(true)
	w.await(t, 50)
	p.replica.Stop(t, syscall.SIGINT)
	w.await(t, w.count()+100)
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
	session := pgtest.NewSession(t, store)
	w := startWriters(await.Context(t), store, session, 16)
	defer w.running.Wait()
	defer w.stop.Store(true)
	w.await(t, 200)

	p.makeReadOnly(t)
	// When one transaction cannot write, the last that could have ended.
	awaitFailure(t, w)
	p.replica.Promote(t)
	w.await(t, w.count()+200)
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
	p.makeReadOnly(t)
	p.replica.Promote(t)
	if err := appendInTx(); !errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("on the read-only server: %v", err)
	}
	if err := appendInTx(); err != nil {
		t.Errorf("the next transaction: %v", err)
	}
}

// makeReadOnly makes the primary refuse writes. The server has told all its sessions when it gives new ones the setting.
func (p pair) makeReadOnly(t *testing.T) {
	t.Helper()
	conn := pgtest.Connect(t, p.primary.URL("postgres"))
	pgtest.Exec(t, conn, "ALTER SYSTEM SET default_transaction_read_only = on")
	pgtest.Exec(t, conn, "SELECT pg_reload_conf()")
	await.For(t, "the primary is read-only", func() bool {
		return pgtest.Value[string](t, pgtest.Connect(t, p.primary.URL("postgres")), "SHOW default_transaction_read_only") == "on"
	})
}

func awaitAnswer(t *testing.T, operation func() error) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Log(err)
		}
	}()
	await.For(t, "the server answers", func() bool { err = operation(); return err == nil })
}

func awaitFailure(t *testing.T, w *writers) {
	t.Helper()
	await.For(t, "a writer has failed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.failed > 0
	})
}
