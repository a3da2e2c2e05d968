package pgbouncer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// documentedMode is the setting that docs/operations.md recommends for the URL.
const documentedMode = "exec"

func withMode(databaseURL, mode string) string {
	return pgtest.WithParameter(databaseURL, "default_query_exec_mode", mode)
}

func message(content string) repo.NewMessage {
	return repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: content}
}

func modes() []string { return []string{documentedMode, "simple_protocol"} }

func TestStore(t *testing.T) {
	t.Parallel()
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			store := pgtest.OpenStore(t, withMode(pgtest.NewBouncer(t, pgtest.NewDatabase(t), "transaction", 3), mode), agentstore.Options{MaxConns: 16})
			id := pgtest.NewSession(t, store)
			appendFromMany(t, store, id)
			appendInTx(t, store, id)
			exportAndImport(t, store, id)
		})
	}
}

// 16 goroutines share 3 connections of the server.
func appendFromMany(t *testing.T, store *agentstore.Store, id repo.ID) {
	const writers, each = 16, 25
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := store.Sessions().Append(t.Context(), id, message(fmt.Sprint(i))); err != nil {
					t.Error(err)
					return
				}
				if _, err := store.Sessions().Get(t.Context(), id); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := pgtest.CountDense(t, store, id); got != writers*each {
		t.Errorf("%d messages, want %d", got, writers*each)
	}
}

func appendInTx(t *testing.T, store *agentstore.Store, id repo.ID) {
	before := pgtest.CountDense(t, store, id)
	errMine := errors.New("mine")
	for _, outcome := range []error{nil, errMine} {
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			for range 3 {
				if _, err := tx.Sessions().Append(ctx, id, message("in a transaction")); err != nil {
					return err
				}
			}
			return outcome
		})
		if !errors.Is(err, outcome) {
			t.Errorf("InTx: %v", err)
		}
	}
	if got := pgtest.CountDense(t, store, id); got != before+3 {
		t.Errorf("%d messages, want %d", got, before+3)
	}
}

func exportAndImport(t *testing.T, store *agentstore.Store, id repo.ID) {
	var document bytes.Buffer
	if err := store.Sessions().Export(t.Context(), id, &document); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	exported := bytes.Clone(document.Bytes())
	if _, err := store.Sessions().Import(t.Context(), &document, true); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := store.Sessions().Export(t.Context(), id, &again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(exported, again.Bytes()) {
		t.Error("the imported session differs from the exported one")
	}
}

// Turns of many callers, some of them together, share few connections of the server, and
// lose nothing.
func TestTurns(t *testing.T) {
	t.Parallel()
	const writers, rounds = 12, 5
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			store := pgtest.OpenStore(t, withMode(pgtest.NewBouncer(t, pgtest.NewDatabase(t), "transaction", 3), mode), agentstore.Options{MaxConns: 16})
			ids := []repo.ID{pgtest.NewSession(t, store), pgtest.NewSession(t, store), pgtest.NewSession(t, store)}
			turn := func() repo.Turn {
				return repo.Turn{Messages: []repo.NewMessage{message("x")}, Usage: &repo.NewUsage{Cost: 1}, State: []repo.StateChange{
					{Scope: repo.Scope{Name: "app"}, Key: "n", Op: repo.StateIncrement, By: 1}, {Key: "n", Op: repo.StateIncrement, By: 1},
				}}
			}
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for range rounds {
						first, second := ids[w%3], ids[(w+1)%3]
						if _, err := store.Sessions().AppendTurn(t.Context(), inSession(first, turn())); err != nil {
							t.Error(err)
						}
						if _, err := store.Sessions().AppendTurn(t.Context(), inSession(second, turn())); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			const want = writers * rounds * 2
			var count, cost int64
			for _, id := range ids {
				count += pgtest.CountDense(t, store, id)
				session, err := store.Sessions().Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				cost += int64(session.Usage.Cost)
			}
			sum, err := store.State().Get(t.Context(), repo.Scope{Name: "app"}, "n")
			if err != nil || count != want || cost != want || string(sum.Value) != fmt.Sprint(want) {
				t.Errorf("%d messages, a cost of %d, a sum of %s, want %d: %v", count, cost, sum.Value, want, err)
			}
		})
	}
}

// The conformance suite passes with the documented setting.
// Guarantee: Servers and roles: The conformance suite passes behind PgBouncer in transaction mode.
func TestConformance(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	bounced := withMode(pgtest.NewBouncer(t, databaseURL, "transaction", 10), documentedMode)
	open := pgtest.Opener(t, bounced, agentstore.Options{MaxConns: 16})
	if pgtest.Full() {
		repotest.Run(t, open, pgtest.Elapse(databaseURL))
		return
	}
	repotest.Run(t, open, repotest.Only("Keys", "Append", "Turns", "Read", "Values", "Use", "State", "Claims", "Fences", "Audit", "Transactions"))
}

// Without the setting, statements are prepared in sessions that other clients get,
// and one of many fails; it must fail soon, and not hang. This shows that the pooler
// of these tests does share sessions, so that they can find errors.
func TestPreparedStatementsFail(t *testing.T) {
	t.Parallel()
	bounced := withMode(pgtest.NewBouncer(t, pgtest.NewDatabase(t), "transaction", 3), "cache_statement")
	ctx := await.Context(t)
	store, err := agentstore.Open(ctx, bounced, agentstore.Options{MaxConns: 16})
	if err == nil {
		defer func() { _ = store.Close() }()
		failures := make(chan error, 16)
		var wg sync.WaitGroup
		for range cap(failures) {
			wg.Go(func() {
				for range 500 {
					if _, err := store.Sessions().Get(ctx, repo.NewID()); !errors.Is(err, repo.ErrNotFound) {
						failures <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(failures)
		err = <-failures
	}
	if err == nil || ctx.Err() != nil {
		t.Fatalf("no failure in time: %v; this version of PgBouncer may keep prepared statements itself", err)
	}
	t.Logf("as expected: %v", err)
}

// Even if transactions are serializable by default, the store's are read committed
// behind the pooler: writers do not make each other fail, and the next client finds
// the server's connections unchanged.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			pool := pgtest.NewPool(t, databaseURL)
			pgtest.Exec(t, pool, fmt.Sprintf("ALTER DATABASE %s SET default_transaction_isolation = 'serializable'",
				pool.Config().ConnConfig.Database))
			bounced := withMode(pgtest.NewBouncer(t, databaseURL, "transaction", 6), mode)
			store := pgtest.OpenStore(t, bounced, agentstore.Options{MaxConns: 16})
			other := pgtest.OpenPool(t, pgtest.NewPool(t, bounced), agentstore.Options{})
			id := pgtest.NewSession(t, store)
			var wg sync.WaitGroup
			for w := range 16 {
				wg.Go(func() {
					s := []*agentstore.Store{store, other}[w%2]
					for range 25 {
						if _, err := s.Sessions().Append(t.Context(), id, message("x")); err != nil {
							t.Error(err)
							return
						}
						if _, err := s.Sessions().AddUsage(t.Context(), id, repo.NewUsage{InputTokens: 1}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			if got := pgtest.CountDense(t, store, id); got != 16*25 {
				t.Errorf("%d messages, want %d", got, 16*25)
			}
			for range 10 {
				var level string
				if err := store.Pool().QueryRow(t.Context(), "SELECT current_setting('transaction_isolation')").Scan(&level); err != nil || level != "serializable" {
					t.Errorf("the next one's transaction is %q: %v", level, err)
				}
			}
		})
	}
}

// inSession returns the turn as one of a session.
func inSession(id repo.ID, turn repo.Turn) repo.Turn {
	turn.SessionID = id
	return turn
}
