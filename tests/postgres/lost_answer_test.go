package postgres

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
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
				store, other := pgtest.OpenStore(t, lossy, agentstore.Options{MaxConns: 1}), pgtest.OpenStore(t, direct, agentstore.Options{})
				for piece, lost := int32(1), true; lost; piece++ {
					id := pgtest.NewSession(t, other)
					network.Lose(piece, false)
					err := test.write(t.Context(), store, id)
					lost = network.Stop()
					time.Sleep(50 * time.Millisecond) // the server may still be working
					written := test.written(other.Sessions().Get(t.Context(), id))
					if written != (err == nil) && !errors.Is(err, repo.ErrUnknownOutcome) {
						t.Errorf("the answer to piece %d lost: %v; written: %v", piece, err, written)
					}
				}
			})
		}
	}
}

// If an append's answer was lost, and its session is then locked for longer than the
// lock timeout, the error does not say that nothing was written.
func TestLockTimeoutAfterALostAnswer(t *testing.T) {
	t.Parallel()
	for range 20 { // until the append's answer is lost, and the lock comes before the second attempt
		direct := pgtest.NewDatabase(t)
		u, err := url.Parse(direct)
		if err != nil {
			t.Fatal(err)
		}
		network := pgtest.NewLosing(t, u.Host)
		u.Host = network.Addr
		// One connection, which does not wait for rows.
		store := pgtest.OpenStore(t, u.String(), agentstore.Options{MaxConns: 1, LockTimeout: 100 * time.Millisecond})
		holder := pgtest.NewPool(t, direct)
		id := pgtest.NewSession(t, store)
		if _, err := store.Sessions().Append(t.Context(), id, user("prepares the statement")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // until that is announced
		network.Left.Store(1)
		appended := make(chan error, 1)
		go func() {
			_, err := store.Sessions().Append(t.Context(), id, user("written"))
			appended <- err
		}()
		for !network.Lost.Load() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond) // until the server has committed
		release := hold(t, holder, id)
		err = <-appended
		release()
		if err == nil {
			continue // the second attempt was first
		}
		session, read := store.Sessions().Get(t.Context(), id)
		if read != nil {
			t.Fatal(read)
		}
		if session.MessageCount == 1 {
			continue // another answer was lost
		}
		if !errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("%v, but %d messages are stored", err, session.MessageCount)
		}
		return
	}
	t.Fatal("the second attempt came before the lock each time")
}
