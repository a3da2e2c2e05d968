package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A lock timeout applies wherever it is set, even on a pool of one connection, which
// waits for no row.
func TestLockTimeoutOfSettings(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, databaseURL string) *agentstore.Store{
		"the URL's": func(t *testing.T, databaseURL string) *agentstore.Store {
			t.Helper()
			// short: the session stays held
			return pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "lock_timeout", "50ms"), agentstore.Options{MaxConns: 1})
		},
		"the database's": func(t *testing.T, databaseURL string) *agentstore.Store {
			t.Helper()
			// short: the session stays held
			pgtest.Exec(t, pgtest.NewPool(t, databaseURL), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = 50', current_database()); END $$`)
			return pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1})
		},
		"the caller's": func(t *testing.T, databaseURL string) *agentstore.Store {
			t.Helper()
			return pgtest.OpenPool(t, pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) {
				c.MaxConns = 1
				c.ConnConfig.RuntimeParams["lock_timeout"] = "0.05s" // short: the session stays held
			}), agentstore.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			others := pgtest.NewPool(t, databaseURL)
			id := pgtest.NewSession(t, pgtest.OpenPool(t, others, agentstore.Options{}))
			store := open(t, databaseURL)
			defer hold(t, others, id)()
			if _, err := store.Sessions().Append(await.Context(t), id, user("x")); !errors.Is(err, repo.ErrContention) {
				t.Errorf("an append to a held session: %v", err)
			}
		})
	}
}

// It applies to what waits in short attempts, too: turns whose scope is being created, and
// appends to streams. Without one they wait as long as their contexts, whose errors they
// then return.
func TestLockTimeoutOfAttempts(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 8} {
		for _, timeout := range []time.Duration{0, 50 * time.Millisecond} {
			t.Run(fmt.Sprintf("%d connections, %v", connections, timeout), func(t *testing.T) {
				t.Parallel()
				databaseURL := pgtest.NewDatabase(t)
				other := pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", "other"), agentstore.Options{})
				// short: the rows stay locked
				store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections, LockTimeout: timeout})
				conn := pgtest.Connect(t, databaseURL)
				ids, stream := newSessions(t, other, 2), openStream(t, other, "a")
				turn := repo.Turn{State: []repo.StateChange{plusOne("fresh", "n")}}
				if err := other.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
					if _, err := tx.State().Change(ctx, turn.State); err != nil {
						return err
					}
					if _, err := tx.Streams().Append(ctx, stream, []byte("x")); err != nil {
						return err
					}
					for name, operation := range map[string]func(ctx context.Context) error{
						"AppendTurn": func(ctx context.Context) error {
							_, err := store.Sessions().AppendTurn(ctx, inSession(ids[0], turn))
							return err
						},
						"Streams.Append": func(ctx context.Context) error {
							_, err := store.Streams().Append(ctx, stream, []byte("y"))
							return err
						},
					} {
						want, waits, ended := repo.ErrContention, awaitsRow(t, store, conn), make(chan error, 1)
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						go func() { ended <- operation(ctx) }()
						if timeout == 0 {
							want = context.Canceled
							waits()
							cancel()
						}
						if err := await.Value(t, name, ended); !errors.Is(err, want) {
							t.Errorf("%s gave %v, want %v", name, err, want)
						}
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
