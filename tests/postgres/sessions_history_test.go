package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// pools opens stores on one database that share nothing, as those of several processes.
func pools(t *testing.T, count int) (stores []*agentstore.Store) {
	t.Helper()
	databaseURL := pgtest.NewDatabase(t)
	for range count {
		stores = append(stores, process(t, databaseURL))
	}
	return stores
}

func TestForkDeleteRace(t *testing.T) {
	t.Parallel()
	stores := pools(t, 3)
	conn := stores[0].Pool()
	for round := range pgtest.Choose(100, 12) {
		id := pgtest.NewSession(t, stores[0])
		if _, err := stores[0].Sessions().Append(t.Context(), id, texts("a", "b", "c")...); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		family := []repo.ID{id}
		var running sync.WaitGroup
		for w := range 8 {
			sessions := stores[w%len(stores)].Sessions()
			running.Go(func() {
				for range 5 {
					mu.Lock()
					at := rand.N(len(family))
					of := family[at]
					deletes := rand.N(3) == 0
					mu.Unlock()
					if deletes {
						if _, err := sessions.Delete(t.Context(), of); err != nil && !errors.Is(err, repo.ErrNotFound) {
							t.Error(err)
						}
						continue
					}
					fork, err := sessions.Fork(t.Context(), of, rand.Int64N(3), repo.NewSession{})
					if errors.Is(err, repo.ErrNotFound) {
						continue
					}
					if err != nil {
						t.Error(err)
						continue
					}
					if _, err := sessions.Append(t.Context(), fork.ID, texts("d")...); err != nil {
						t.Error(err)
					}
					mu.Lock()
					family = append(family, fork.ID)
					mu.Unlock()
				}
			})
		}
		running.Wait()
		for _, id := range family {
			messages, err := stores[round%3].Sessions().LastMessages(t.Context(), id, 10)
			if errors.Is(err, repo.ErrNotFound) {
				continue
			}
			if err != nil || len(messages) == 0 || messages[0].Follows != -1 || messages[0].Content != "a" {
				t.Errorf("a fork has %+v, %v", messages, err)
			}
		}
		for _, id := range family {
			if _, err := stores[0].Sessions().Delete(t.Context(), id); err != nil && !errors.Is(err, repo.ErrNotFound) {
				t.Error(err)
			}
		}
		if left := pgtest.Value[int](t, conn, "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM session_branches)"); left > 0 {
			t.Fatalf("%d rows are left", left)
		}
	}
}

func texts(contents ...string) (messages []repo.NewMessage) {
	for _, content := range contents {
		messages = append(messages, repo.NewMessage{Role: repo.RoleUser, Content: content})
	}
	return messages
}

// A deletion in a transaction whose snapshot is older than a fork, or than another deletion, does not delete what the fork has, nor
// leave what no session has.
func TestForkBesideSnapshot(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	pool := store.Pool()
	for _, level := range levels {
		id := pgtest.NewSession(t, store)
		if _, err := store.Sessions().Append(t.Context(), id, texts("a", "b")...); err != nil {
			t.Fatal(err)
		}
		first, err := store.Sessions().Fork(t.Context(), id, 0, repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		// deletes a session in a transaction, after what happens once it has its snapshot.
		deletes := func(id repo.ID, meanwhile func()) error {
			return pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				pgtest.Value[int](t, tx, "SELECT count(*) FROM sessions")
				meanwhile()
				_, err := postgres.Bind(tx).Sessions().Delete(t.Context(), id)
				return err
			})
		}
		var second repo.Session
		err = deletes(id, func() {
			if second, err = store.Sessions().Fork(t.Context(), id, 1, repo.NewSession{}); err != nil {
				t.Error(err)
			}
		})
		if level == pgx.ReadCommitted && err != nil || level != pgx.ReadCommitted && !errors.Is(err, repo.ErrContention) {
			t.Errorf("%s: %v", level, err)
		}
		if err != nil {
			if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if messages, err := store.Sessions().LastMessages(t.Context(), second.ID, 10); err != nil || len(messages) != 2 {
			t.Errorf("%s: the fork has %v, %v", level, messages, err)
		}
		err = deletes(second.ID, func() {
			if _, err := store.Sessions().Delete(t.Context(), first.ID); err != nil {
				t.Error(err)
			}
		})
		if errors.Is(err, repo.ErrContention) {
			_, err = store.Sessions().Delete(t.Context(), second.ID)
		}
		if err != nil {
			t.Errorf("%s: %v", level, err)
		}
		if left := pgtest.Value[int](t, pool, "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM session_branches)"); left > 0 {
			t.Errorf("%s: %d rows are left", level, left)
		}
	}
}

// Tokens are counted once, at the append, unless they were given.
func TestCountTokens(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"PostgreSQL": pgtest.NewDatabase(t), "memory": "memory://count-tokens"} {
		store := pgtest.OpenStore(t, url, agentstore.Options{
			CountTokens: func(m repo.NewMessage) int64 { return int64(len(m.Content)) }, TokenCounter: "bytes",
		})
		id := pgtest.NewSession(t, store)
		given := texts("abc", "de")
		given[1].Tokens, given[1].Counter = 7, "mine"
		stored, err := store.Sessions().Append(t.Context(), id, given...)
		if err != nil || stored[0].Tokens != 3 || stored[0].Counter != "bytes" || stored[1].Tokens != 7 || stored[1].Counter != "mine" {
			t.Errorf("%s: %+v, %v", name, stored, err)
		}
		err = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			added, err := tx.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, ID: "turn", Messages: texts("abcd")})
			if err == nil && added.Messages[0].Tokens != 4 {
				t.Errorf("%s: %+v", name, added.Messages)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := agentstore.Open(t.Context(), "memory://uncounted", agentstore.Options{TokenCounter: "x"})
	if !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("a counter without a function: %v", err)
	}
}
