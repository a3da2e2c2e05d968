package postgres

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A session is deleted in a transaction whose snapshot has its fork, or a fork's fork, which has been deleted since. Nothing stays.
func TestDeletionAfterItsFork(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	for _, level := range levels {
		for generations := 1; generations <= 3; generations++ {
			id := pgtest.NewSession(t, store)
			if _, err := store.Sessions().Append(t.Context(), id, texts("a", "b")...); err != nil {
				t.Fatal(err)
			}
			ids := []repo.ID{id}
			for range generations {
				fork, err := store.Sessions().Fork(t.Context(), ids[len(ids)-1], int64(len(ids)), repo.NewSession{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := store.Sessions().Append(t.Context(), fork.ID, texts("c")...); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, fork.ID)
			}
			err := pgx.BeginTxFunc(t.Context(), store.Pool(), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				pgtest.Value[int](t, tx, "SELECT count(*) FROM sessions")
				for _, fork := range ids[1:] {
					if _, err := store.Sessions().Delete(t.Context(), fork); err != nil {
						t.Error(err)
					}
				}
				_, err := postgres.Bind(tx).Sessions().Delete(t.Context(), id)
				return err
			})
			if errors.Is(err, repo.ErrContention) {
				_, err = store.Sessions().Delete(t.Context(), id)
			}
			if err != nil {
				t.Errorf("%s: %v", level, err)
			}
			wantLeft(t, store, leftRows)
		}
	}
}

// Guarantee: History: However forks, rewinds and deletions race, sessions keep their messages.
func TestFamilyRace(t *testing.T) {
	t.Parallel()
	stores := pools(t, 2)
	var mu sync.Mutex
	alive := []repo.ID{}
	want := map[repo.ID][]repo.ID{} // the messages of a session's transcript when it was made
	add := func(id repo.ID, transcript []repo.ID) {
		mu.Lock()
		defer mu.Unlock()
		alive, want[id] = append(alive, id), transcript
	}
	some := func() repo.ID {
		mu.Lock()
		defer mu.Unlock()
		if len(alive) == 0 {
			return repo.NewID()
		}
		return alive[rand.IntN(len(alive))]
	}
	var running sync.WaitGroup
	for w := range 8 {
		sessions, pool := stores[w%2].Sessions(), stores[w%2].Pool()
		running.Go(func() {
			for range pgtest.Choose(400, 60) {
				id := some()
				allowed := func(err error) {
					if pgError, is := errors.AsType[*pgconn.PgError](err); is && pgError.Code == "40001" { // at the commit of a transaction of ours
						return
					}
					if err != nil && !errors.Is(err, repo.ErrNotFound) && !errors.Is(err, repo.ErrContention) && !errors.Is(err, repo.ErrInvalid) {
						t.Error(err)
					}
				}
				switch rand.IntN(6) {
				case 0:
					created, err := sessions.Create(t.Context(), repo.NewSession{})
					if err != nil {
						t.Error(err)
						continue
					}
					stored, err := sessions.Append(t.Context(), created.ID, texts("a", "b", "c")...)
					if err != nil {
						t.Error(err)
						continue
					}
					add(created.ID, idsOf(stored))
				case 1, 2:
					all, err := sessions.MessagesFrom(t.Context(), id, 0, 1000)
					allowed(err)
					if len(all) == 0 {
						continue
					}
					at := rand.IntN(len(all))
					fork, err := sessions.Fork(t.Context(), id, all[at].Sequence, repo.NewSession{})
					allowed(err)
					if err == nil {
						add(fork.ID, idsOf(all[:at+1]))
					}
				case 3:
					after := rand.Int64N(4)
					_, err := sessions.AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &after, Messages: texts("x")})
					allowed(err)
				case 4:
					_, err := sessions.Append(t.Context(), id, texts("y", "z")...)
					allowed(err)
				default:
					mu.Lock()
					if len(alive) < 6 {
						mu.Unlock()
						continue
					}
					at := rand.IntN(len(alive))
					id = alive[at]
					alive = slices.Delete(alive, at, at+1)
					mu.Unlock()
					err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: levels[rand.IntN(3)]}, func(tx pgx.Tx) error {
						pgtest.Value[int](t, tx, "SELECT count(*) FROM sessions")
						time.Sleep(rand.N(10 * time.Millisecond)) // pace: others do something meanwhile
						_, err := postgres.Bind(tx).Sessions().Delete(t.Context(), id)
						return err
					})
					if allowed(err); err != nil {
						mu.Lock()
						alive = append(alive, id)
						mu.Unlock()
					}
				}
			}
		})
	}
	running.Wait()
	for _, id := range alive {
		snapshot, err := stores[0].Sessions().Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{id}, First: 10_000, Branches: true})
		if err != nil || snapshot.Sessions[0] == nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		has := map[repo.ID]bool{}
		sequences := map[int64]bool{-1: true}
		for _, m := range snapshot.Sessions[0].Messages {
			if has[m.ID], sequences[m.Sequence] = true, true; !sequences[m.Follows] {
				t.Errorf("%s: message %d follows %d, which is not there", id, m.Sequence, m.Follows)
			}
		}
		for _, m := range want[id] {
			if !has[m] {
				t.Errorf("%s: message %s is missing", id, m)
			}
		}
		for _, err := range stores[1].Sessions().Messages(t.Context(), id, 0) {
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	// What is stored of sessions that were deleted is what others have of them, and no more.
	wantLeft(t, stores[0], `SELECT count(*) FROM messages m WHERE NOT EXISTS (SELECT FROM session_counters c WHERE c.session_id = m.session_id)
		AND NOT EXISTS (
			SELECT FROM session_counters c JOIN session_branches b ON b.session_id = c.session_id, session_path(c.session_id, b.base - 1, NULL, NULL, NULL) AS p (owner, low, high)
			WHERE p.owner = m.session_id AND m.sequence BETWEEN p.low AND p.high)`)
	for _, id := range alive {
		if _, err := stores[0].Sessions().Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	wantLeft(t, stores[0], leftRows)
}

const leftRows = "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM session_branches) + (SELECT count(*) FROM session_remains)"

// wantLeft waits until what deletions have left is removed, and a count is zero.
func wantLeft(t *testing.T, store *agentstore.Store, count string) {
	t.Helper()
	await.For(t, "what is deleted to be gone", func() bool {
		if _, _, err := store.Sessions().RemoveDeleted(t.Context(), 0); err != nil {
			t.Error(err)
		}
		return pgtest.Value[int](t, store.Pool(), count) == 0
	})
}

func idsOf(messages []repo.Message) (ids []repo.ID) {
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// A trigger of the owner's that leaves out what says that a session has branches, or is a fork, makes the call an error.
// Without the row, messages of several branches would be read as one transcript.
func TestBranchesThatATriggerLeavesOut(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	s, ctx := store.Sessions(), t.Context()
	id := pgtest.NewSession(t, store)
	if _, err := s.Append(ctx, id, texts("a", "b", "c")...); err != nil {
		t.Fatal(err)
	}
	first := int64(0)
	edited, err := s.Fork(ctx, id, 2, repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AppendTurn(ctx, repo.Turn{SessionID: edited.ID, After: &first, Messages: texts("d")}); err != nil {
		t.Fatal(err)
	}
	var document bytes.Buffer
	if err := s.Export(ctx, edited.ID, &document); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(ctx, edited.ID); err != nil {
		t.Fatal(err)
	}
	trigger(t, databaseURL, "session_branches", "RETURN NULL;")
	ways := map[string]func(s repo.Sessions) error{
		"turn": func(s repo.Sessions) error {
			_, err := s.AppendTurn(ctx, repo.Turn{SessionID: id, After: &first, Messages: texts("d")})
			return err
		},
		"switch": func(s repo.Sessions) error {
			_, err := s.AppendTurn(ctx, repo.Turn{SessionID: id, After: &first})
			return err
		},
		"fork": func(s repo.Sessions) error { _, err := s.Fork(ctx, id, 1, repo.NewSession{}); return err },
	}
	for name, way := range ways {
		wantRefused(t, name, way(s))
		wantRefused(t, name+" in InTx", store.InTx(ctx, func(_ context.Context, tx repo.Repositories) error { return way(tx.Sessions()) }))
	}
	if _, err := s.Import(ctx, bytes.NewReader(document.Bytes()), true); err == nil {
		t.Error("a document was imported whose branches were left out")
	}
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "DROP TRIGGER owners ON session_branches")
	trigger(t, databaseURL, "messages", "IF NEW.sequence = 1 THEN RETURN NULL; END IF;")
	if _, err := s.Import(ctx, bytes.NewReader(document.Bytes()), true); err == nil {
		t.Error("a document was imported whose message was left out")
	}
	pgtest.Exec(t, conn, "DROP TRIGGER owners ON messages")
	// A switch that is not stored.
	pgtest.Exec(t, conn, `CREATE FUNCTION owners_switch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.follows IS NOT NULL THEN RETURN NULL; END IF; RETURN NEW; END $$;
		CREATE TRIGGER owners BEFORE UPDATE ON session_counters FOR EACH ROW EXECUTE FUNCTION owners_switch()`)
	wantRefused(t, "a switch that is left out", ways["switch"](s))
	pgtest.Exec(t, conn, "DROP TRIGGER owners ON session_counters")
	if messages, err := s.LastMessages(ctx, id, 10); err != nil || len(messages) != 3 {
		t.Errorf("%v, %v", messages, err)
	}
	if _, err := s.Import(ctx, bytes.NewReader(document.Bytes()), true); err != nil {
		t.Error(err)
	}
}
