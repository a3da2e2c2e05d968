package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func streamOf(t *testing.T, r repo.Repositories, sessionID repo.ID) repo.Stream {
	t.Helper()
	stream, err := r.Streams().Open(t.Context(), repo.NewStream{Key: repo.NewID().String(), Owner: "writer", Session: sessionID, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// Streams of a session are found by other processes, whatever happens to their connections, also
// if they are not announced.
//
// Guarantee: Streams: A follower of a session gets each of its streams, from any process.
func TestStreamsOfSessionOtherProcess(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	writer := process(t, databaseURL)
	reader := process(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "reader" })
	sessionID := pgtest.NewSession(t, writer)
	next, stop := iter.Pull2(reader.Streams().FollowSession(await.Context(t), sessionID))
	defer stop()
	wants := func(want repo.Stream) {
		t.Helper()
		if stream, err, _ := next(); err != nil || stream.ID != want.ID || stream.Session != sessionID {
			t.Fatalf("got %+v, %v, want %s", stream, err, want.ID)
		}
	}
	wants(streamOf(t, writer, sessionID))
	for range 5 {
		streamOf(t, writer, pgtest.NewSession(t, writer))
		wants(streamOf(t, writer, sessionID))
		pgtest.Exec(t, conn, "SELECT pg_terminate_backend(pid) "+ofReader)
		var unannounced repo.Stream
		if err := pgx.BeginFunc(t.Context(), writer.Pool(), func(tx pgx.Tx) error {
			unannounced = streamOf(t, postgres.Bind(tx), sessionID)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		wants(unannounced)
	}
}

// A stream is opened while its session is being deleted: when that is committed, the session is not found.
func TestStreamOpenedBesideADeletion(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	duringItsWait(t, store, func(tx repo.Repositories) error {
		_, err := tx.Sessions().Delete(t.Context(), id)
		return err
	}, func() error {
		_, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "k", Owner: "writer", Session: id})
		if missing, is := errors.AsType[*repo.NotFoundError](err); !is || missing.ID != id {
			t.Errorf("the stream was opened with %v", err)
		}
		return nil
	})
}

// A session is deleted while others open streams of it and add parts: no stream of it lives, in
// callers' transactions of any level. Its parts are removed later, and not by the deletion.
//
// Guarantee: Streams: Streams go with their session, even when opened during its deletion.
func TestStreamsGoWithTheirSession(t *testing.T) {
	t.Parallel()
	live := func(t *testing.T, store *agentstore.Store, remove func(ctx context.Context, id repo.ID) error) (live int) {
		t.Helper()
		for range pgtest.Choose(50, 10) {
			id := pgtest.NewSession(t, store)
			ctx, cancel := context.WithCancel(t.Context())
			var writing sync.WaitGroup
			for writer := range 4 {
				writing.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						stream, err := store.Streams().Open(ctx, repo.NewStream{Key: fmt.Sprint(id, writer, n), Owner: "writer", Session: id})
						if err != nil {
							return
						}
						if _, err = store.Streams().Append(ctx, stream, []byte("x")); err != nil {
							return
						}
					}
				})
			}
			await.For(t, "some streams", func() bool {
				list, err := store.Streams().List(t.Context(), id, repo.Page{})
				return err == nil && len(list.Items) > 4
			})
			err := remove(t.Context(), id)
			for errors.Is(err, repo.ErrContention) {
				err = remove(t.Context(), id)
			}
			cancel()
			writing.Wait()
			if err != nil {
				t.Fatal(err)
			}
			live += pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM streams WHERE key LIKE $1 || '%' AND expires_at > 'epoch'", id.String())
		}
		return live
	}
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 12})
	if streams := live(t, store, func(ctx context.Context, id repo.ID) error {
		_, err := store.Sessions().Delete(ctx, id)
		return err
	}); streams > 0 {
		t.Errorf("%d streams live", streams)
	}
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		if streams := live(t, store, func(ctx context.Context, id repo.ID) error {
			return postgres.Translate(ctx, pgx.BeginTxFunc(ctx, store.Pool(), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				_, err := postgres.Bind(tx).Sessions().Delete(ctx, id)
				return err
			}))
		}); streams > 0 {
			t.Errorf("%s: %d streams live", level, streams)
		}
	}
	id := pgtest.NewSession(t, store)
	stream := streamOf(t, store, id)
	addPart(t, store, &stream)
	const parts = "SELECT count(*) FROM stream_parts WHERE stream_id = $1"
	if err := pgx.BeginFunc(t.Context(), store.Pool(), func(tx pgx.Tx) error {
		if _, err := postgres.Bind(tx).Sessions().Delete(t.Context(), id); err != nil {
			return err
		}
		if left := pgtest.Value[int](t, tx, parts, [16]byte(stream.ID)); left != 1 {
			t.Error("the deletion removes parts, however many and large")
		}
		return pgx.ErrTxClosed
	}); !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	await.For(t, "the store removes what is left", func() bool {
		return pgtest.Value[int](t, store.Pool(), parts, [16]byte(stream.ID)) == 0
	})

	naive := pgtest.NewStore(t, agentstore.Options{MaxConns: 12})
	pgtest.Exec(t, naive.Pool(), "DROP TRIGGER streams_orphan ON streams")
	if streams := live(t, naive, func(ctx context.Context, id repo.ID) error {
		_, err := naive.Sessions().Delete(ctx, id)
		return err
	}); streams == 0 {
		t.Error("without the trigger none lives: this test finds nothing")
	}
}

// At the levels above read committed, a writer that begins again does not do so at a sequence that
// has a part which its snapshot does not show.
//
// Guarantee: Streams: Readers are told of a new attempt, once.
func TestStreamRestartedWithAnOldSnapshot(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store, pool := process(t, databaseURL), pgtest.NewPool(t, databaseURL)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		stream := openStream(t, store, string(level))
		addPart(t, store, &stream)
		for _, old := range []bool{true, false} {
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			bound := postgres.Bind(tx)
			if _, err := bound.Streams().Get(t.Context(), stream.Key); err != nil { // the snapshot
				t.Fatal(err)
			}
			if old {
				addPart(t, store, &stream)
			}
			taken, err := bound.Streams().Open(t.Context(), repo.NewStream{Key: stream.Key, Owner: "other", Restart: true})
			if old && !errors.Is(err, repo.ErrContention) || !old && (err != nil || taken.Next != stream.Next+1) {
				t.Errorf("%s: opened at %d after %d: %v", level, taken.Next, stream.Next, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A call of Open whose answer was lost begins again once.
func TestStreamRestartedTwice(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	stream := openStream(t, store, "a")
	addPart(t, store, &stream)
	var restarted repo.Stream
	for range 3 {
		var err error
		if restarted, err = store.Streams().Open(t.Context(), repo.NewStream{Key: "a", Owner: "other", Restart: true}); err != nil {
			t.Fatal(err)
		}
	}
	if restarted.Next != 2 {
		t.Errorf("the next sequence is %d, want 2", restarted.Next)
	}
}
