package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Two callers that append the same part at the same moment, as an attempt whose answer was lost and
// the next one do, store it once, and both are told so.
func TestSamePartAtOnce(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	a, b := process(t, databaseURL), process(t, databaseURL)
	stream := openStream(t, a, "a")
	for i := range 200 {
		at := stream
		at.Next = int64(i)
		part := []byte(fmt.Sprint("part ", i))
		var other error
		var beside sync.WaitGroup
		beside.Go(func() { _, other = b.Streams().Append(t.Context(), at, part) })
		_, err := a.Streams().Append(t.Context(), at, part)
		beside.Wait()
		if err != nil || other != nil {
			t.Fatalf("part %d: %v, %v", i, err, other)
		}
	}
}

// A writer that opens a stream beside appends learns of all its parts: its own first part is the
// next one.
func TestStreamOpenedBesideAppends(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	a, b := process(t, databaseURL), process(t, databaseURL)
	for i := range 50 {
		stream := openStream(t, a, "a")
		var beside sync.WaitGroup
		beside.Go(func() {
			for {
				next, err := a.Streams().Append(t.Context(), stream, []byte("x"))
				if err != nil {
					if _, fenced := errors.AsType[*repo.FencedError](err); !fenced {
						t.Error(err)
					}
					return
				}
				stream.Next = next
			}
		})
		time.Sleep(time.Duration(i) * 100 * time.Microsecond) // pace: the other one appends meanwhile
		taken := openStream(t, b, "a")
		if _, err := b.Streams().Append(t.Context(), taken, []byte("y")); err != nil {
			t.Errorf("after it was opened at %d: %v", taken.Next, err)
		}
		beside.Wait()
	}
}

// A stream whose row a transaction holds delays no other, also where two processes store the same parts at
// the same moment.
func TestHeldStreamBesideSameParts(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	a, b := process(t, databaseURL), process(t, databaseURL)
	held := openStream(t, a, "held")
	streams := make([]repo.Stream, 16)
	for i := range streams {
		streams[i] = openStream(t, a, fmt.Sprint(i))
	}
	release := lock(t, pgtest.NewPool(t, databaseURL), "SELECT FROM streams WHERE key = 'held' FOR UPDATE")
	defer release()
	ctx := await.Context(t)
	for i := range int64(200) {
		waits, leave := context.WithCancel(ctx)
		var all, waiting sync.WaitGroup
		for _, stream := range streams {
			stream.Next = i
			for _, store := range []repo.Repositories{a, b} {
				all.Go(func() {
					if _, err := store.Streams().Append(ctx, stream, []byte(fmt.Sprint("part ", i))); err != nil {
						t.Errorf("part %d of %s: %v", i, stream.Key, err)
					}
				})
			}
		}
		waiting.Go(func() { _, _ = a.Streams().Append(waits, held, []byte("x")) })
		all.Wait()
		leave()
		waiting.Wait()
		if t.Failed() {
			return
		}
	}
}

// A writer that opens a stream in a transaction of a higher level learns of all its parts, too, or is
// told that its snapshot is too old.
func TestStreamOpenedWithAnOldSnapshot(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store, pool := process(t, databaseURL), pgtest.NewPool(t, databaseURL)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for _, first := range []bool{true, false} {
			stream := openStream(t, store, fmt.Sprint(level, first))
			if !first {
				addPart(t, store, &stream)
			}
			tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			bound := postgres.Bind(tx)
			if _, err := bound.Streams().Get(t.Context(), stream.Key); err != nil { // the snapshot
				t.Fatal(err)
			}
			addPart(t, store, &stream)
			taken, err := bound.Streams().Open(t.Context(), repo.NewStream{Key: stream.Key, Owner: "other", TTL: time.Hour})
			if err == nil && taken.Next != stream.Next || err != nil && !errors.Is(err, repo.ErrContention) {
				t.Errorf("%s: opened at %d, the next one is %d: %v", level, taken.Next, stream.Next, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			tx, err = pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			bound = postgres.Bind(tx)
			taken, err = bound.Streams().Open(t.Context(), repo.NewStream{Key: stream.Key, Owner: "other", TTL: time.Hour})
			if err != nil || taken.Next != stream.Next {
				t.Errorf("%s: with a new snapshot it is opened at %d: %v", level, taken.Next, err)
			}
			if next, err := bound.Streams().Append(t.Context(), taken, []byte("y")); err != nil || next != stream.Next+1 {
				t.Errorf("%s: %d, %v", level, next, err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Streams().Append(t.Context(), taken, []byte("y")); err != nil { // the same part
				t.Error(err)
			}
		}
	}
}
