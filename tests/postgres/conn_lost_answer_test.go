package postgres

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The answer to each piece of a write is lost, including that to the commit. What is
// written is never reported as not written, in each of the driver's modes.
// Guarantee: Faults: Whichever answer is lost, no error denies what was written.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	actor := "written"
	for name, test := range map[string]struct {
		write   func(ctx context.Context, store repo.Store, id repo.ID) error
		written func(session repo.Session, err error) bool
	}{
		"InTx": {
			func(ctx context.Context, store repo.Store, id repo.ID) error {
				return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
					_, err := tx.Sessions().Append(ctx, id, user("once"))
					return err
				})
			},
			func(session repo.Session, _ error) bool { return session.MessageCount > 0 },
		},
		"Delete": {
			func(ctx context.Context, store repo.Store, id repo.ID) error {
				_, err := store.Sessions().Delete(ctx, id)
				return err
			},
			func(_ repo.Session, err error) bool { return errors.Is(err, repo.ErrNotFound) },
		},
		"Update": {
			func(ctx context.Context, store repo.Store, id repo.ID) error {
				_, err := store.Sessions().Update(ctx, id, repo.SessionUpdate{Actor: &actor})
				return err
			},
			func(session repo.Session, _ error) bool { return session.Actor == actor },
		},
		"Append": {
			func(ctx context.Context, store repo.Store, id repo.ID) error {
				_, err := store.Sessions().Append(ctx, id, user("once"))
				return err
			},
			func(session repo.Session, _ error) bool { return session.MessageCount > 0 },
		},
	} {
		for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
			t.Run(name+" in "+mode, func(t *testing.T) {
				t.Parallel()
				direct := pgtest.NewDatabase(t)
				u, err := url.Parse(direct)
				if err != nil {
					t.Fatal(err)
				}
				network := pgtest.NewLosing(t, u.Host)
				u.Host = network.Addr
				lossy := pgtest.WithParameter(u.String(), "default_query_exec_mode", mode)
				store, other := openBreaking(t, lossy), pgtest.OpenStore(t, direct, agentstore.Options{})
				for piece, lost := int32(1), true; lost; piece++ {
					id := pgtest.NewSession(t, other)
					network.Lose(piece, false)
					err := test.write(t.Context(), store, id)
					lost = network.Stop()
					awaitDone(t, store, other.Pool())
					written := test.written(other.Sessions().Get(t.Context(), id))
					if written != (err == nil) && !errors.Is(err, repo.ErrUnknownOutcome) {
						t.Errorf("the answer to piece %d lost: %v; written: %v", piece, err, written)
					}
				}
			})
		}
	}
}

// openBreaking opens a store whose connections to the server break, and which has one at a time.
func openBreaking(t *testing.T, databaseURL string) *agentstore.Store {
	t.Helper()
	return pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "application_name", lossyName), agentstore.Options{MaxConns: 1})
}

// awaitDone waits until the server has done all that a lossy store has sent: whatever connection
// it came by, it has ended.
func awaitDone(t *testing.T, lossy *agentstore.Store, others pgtest.Database) {
	t.Helper()
	await.For(t, "the server has done what was sent", func() bool {
		lossy.Pool().Reset() // each time: the pool may have connected again since
		return pgtest.Value[int](t, others, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lossy'") == 0
	})
}

// If an append's answer was lost, and its session is then locked for longer than the
// lock timeout, the error does not say that nothing was written.
func TestLockTimeoutAfterALostAnswer(t *testing.T) {
	t.Parallel()
	await.For(t, "the answer that is lost is the append's", func() bool {
		direct := pgtest.NewDatabase(t)
		u, err := url.Parse(direct)
		if err != nil {
			t.Fatal(err)
		}
		network, locked := pgtest.NewLosing(t, u.Host), make(chan struct{})
		u.Host = network.Addr
		// One connection, which does not wait for rows. There is no other before the session is locked.
		store := pgtest.OpenPool(t, pgtest.NewPool(t, u.String(), func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.RuntimeParams["application_name"] = "lossy"
			c.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
				if network.Lost.Load() {
					<-locked
					config.RuntimeParams["lock_timeout"] = "100ms" // short: the session stays locked
				}
				return nil
			}
		}), agentstore.Options{})
		holder := pgtest.NewPool(t, direct)
		id := pgtest.NewSession(t, store)
		if _, err := store.Sessions().Append(t.Context(), id, user("prepares the statement")); err != nil {
			t.Fatal(err)
		}
		network.Left.Store(1)
		appended := make(chan error, 1)
		go func() {
			_, err := store.Sessions().Append(t.Context(), id, user("written"))
			appended <- err
		}()
		await.For(t, "an answer is lost", network.Lost.Load)
		awaitDone(t, store, holder)
		wasWritten := pgtest.Value[int](t, holder, "SELECT count(*) FROM messages") == 2
		release := hold(t, holder, id)
		close(locked)
		err = await.Value(t, "the append", appended)
		release()
		if wasWritten && !errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("%v, but it is stored", err)
		}
		return wasWritten
	})
}
