package pgbouncer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// documentedMode is the setting that docs/operations.md tells users to put into
// the URL.
const documentedMode = "exec"

func withMode(t *testing.T, databaseURL, mode string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	query := u.Query()
	query.Set("default_query_exec_mode", mode)
	u.RawQuery = query.Encode()
	return u.String()
}

func openStore(t *testing.T, databaseURL string) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{MaxConns: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pgtest.CheckReturned(t, store.Pool())
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func newSession(t *testing.T, store repo.Repositories) repo.ID {
	t.Helper()
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	return session.ID
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
			store := openStore(t, withMode(t, pgtest.NewBouncer(t, pgtest.NewDatabase(t), "transaction", 3), mode))
			id := newSession(t, store)
			appendFromMany(t, store, id)
			appendInTx(t, store, id)
			exportAndImport(t, store, id)
		})
	}
}

// 16 goroutines on 3 connections of the server.
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
	if got := dense(t, store, id); got != writers*each {
		t.Errorf("%d messages, want %d", got, writers*each)
	}
}

// dense reads a session, whose sequences must be 0, 1, 2, …, and counts.
func dense(t *testing.T, store *agentstore.Store, id repo.ID) (next int64) {
	t.Helper()
	for message, err := range store.Sessions().Stream(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if message.Sequence != next {
			t.Fatalf("sequence %d after %d messages", message.Sequence, next)
		}
		next++
	}
	return next
}

func appendInTx(t *testing.T, store *agentstore.Store, id repo.ID) {
	before := dense(t, store, id)
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
	if got := dense(t, store, id); got != before+3 {
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
	if _, err := store.Sessions().Import(t.Context(), &document); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := store.Sessions().Export(t.Context(), id, &again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(exported, again.Bytes()) {
		t.Error("what was imported is not what was exported")
	}
}

// The conformance suite, with the documented setting.
func TestConformance(t *testing.T) {
	t.Parallel()
	bounced := withMode(t, pgtest.NewBouncer(t, pgtest.NewDatabase(t), "transaction", 10), documentedMode)
	openStore(t, bounced) // keeps the pool, which the subtests share
	repotest.Run(t, func(t *testing.T) repo.Store {
		store, err := agentstore.Open(t.Context(), bounced)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store
	})
}

// Without the setting statements are prepared in sessions that change hands, and
// some statement of many fails; it must fail soon, and not hang. This shows that
// the pooler of these tests does change hands: that they can catch it.
func TestPreparedStatementsFail(t *testing.T) {
	t.Parallel()
	bounced := withMode(t, pgtest.NewBouncer(t, pgtest.NewDatabase(t), "transaction", 3), "cache_statement")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
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

// Where transactions are serializable by default, the store's are read committed
// behind the pooler too: writers do not fail because of one another, and who gets
// the server's connections next finds them as they were.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, mode := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			pool := pgtest.NewPool(t, databaseURL)
			if _, err := pool.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET default_transaction_isolation = 'serializable'",
				pool.Config().ConnConfig.Database)); err != nil {
				t.Fatal(err)
			}
			bounced := withMode(t, pgtest.NewBouncer(t, databaseURL, "transaction", 6), mode)
			store := openStore(t, bounced)
			other, err := agentstore.OpenPool(t.Context(), pgtest.NewPool(t, bounced))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = other.Close() })
			id := newSession(t, store)
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
			if got := dense(t, store, id); got != 16*25 {
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
